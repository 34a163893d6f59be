"""Laws: properties that every family must have, checked on some of its seeds.

Each law raises `LawBroken` with a message that names the task id and the cause. The tests run the laws on all registered
families. Authors of a plug-in can run them on their own family.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from companyos.agents.variants import HARMLESS, WRONG, Variation, play_variant
from companyos.assurance.prove import first_difference, first_irreversible, prove
from companyos.assurance.prove_many import blame
from companyos.assurance.twins import differences, footprint, same_ending, twin_tasks, weathers
from companyos.chaos import Chaos
from companyos.core.errors import LawBroken, Unsolvable
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.families import family, installed
from companyos.families.kit.case import Cause, Fact, Trouble
from companyos.families.kit.family import write_value

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST = 0.4  # largest share of a family's tasks that may have the same right ending


def solvable(name: str, seeds: Iterable[int], chaos: Chaos = 0.0, split: str = "train") -> None:
    """The expert solves every task within the budget, and uses only what it was told."""
    for seed in seeds:
        _proved(str(task_named(name, seed, chaos, split)))


def briefs_tell_nothing(name: str, seeds: Iterable[int]) -> None:
    """A changed cause does not change the brief, and the brief names its own family only."""
    for ours in _episodes(name, seeds):
        brief = ours.scene.brief
        named = [one.name for one in installed().values() if one.phrase in brief]
        if named != [name]:
            raise LawBroken(f"{ours.task_id}: the brief names {' and '.join(named) or 'no family'}: {brief!r}")
        for cause, value, other in twin_tasks(ours.task_id):
            theirs = make(other).scene.brief
            if theirs != brief:
                raise LawBroken(f"{_revealed(ours, cause, value)} by the brief: {brief!r}, but {theirs!r}")


def twins_look_alike(name: str, seeds: Iterable[int]) -> None:
    """A changed cause does not change a byte of the first observation."""
    for ours in _episodes(name, seeds):
        first = ours.reset()
        for cause, value, other in twin_tasks(ours.task_id):
            theirs = make(other).reset()
            if theirs != first or theirs.text.encode() != first.text.encode():
                raise LawBroken(
                    f"{_revealed(ours, cause, value)} by the first observation: {first.text!r}, but {theirs.text!r}"
                )


def causes_keep_to_their_footprint(name: str, seeds: Iterable[int]) -> None:
    """A cause changes only those records and fields of the start state that it declares."""
    for ours in _episodes(name, seeds):
        for cause, value, other in twin_tasks(ours.task_id):
            beyond = differences(ours.setting.world, make(other).setting.world) - footprint(ours.task_id, cause)
            if beyond:
                raise LawBroken(f"{_changed(ours, cause, value)} changes beyond its footprint {sorted(beyond)}")


def endings_part_in_time(name: str, seeds: Iterable[int]) -> None:
    """If a cause changes the right ending, a reply differs before the expert does anything irreversible."""
    for ours in _episodes(name, seeds):
        run_expert(ours)
        for cause, value, other in twin_tasks(ours.task_id):
            theirs = make(other)
            changed = [ticket for ticket, ending in _endings(ours).items() if _endings(theirs)[ticket] != ending]
            if not changed:
                continue
            run_expert(theirs)
            parted = first_difference(ours.turns, theirs.turns)
            for ticket in changed:
                if parted >= min(first_irreversible(env.turns, ticket) for env in (ours, theirs)):
                    raise LawBroken(f"{_changed(ours, cause, value)} changes the ending, but no reply differs in time")


def facts_decide(name: str, seeds: Iterable[int], more: Iterable[int] = ()) -> None:
    """Neither a trouble nor the dose changes the ending. Every fact can: in one of `seeds`, or in one of `more`."""
    idle = {cause.name for cause in family(name).specs() if isinstance(cause.annotation, Fact)}
    for seed in seeds:
        ours = make(name, seed=seed, chaos=0.5)
        for cause, value, other in twin_tasks(ours.task_id):
            if not same_ending(ours, make(other)):
                if not isinstance(cause.annotation, Fact):
                    raise LawBroken(f"{_changed(ours, cause, value)} changes the ending, though it is a trouble")
                idle.discard(cause.name)
        endings = {make(name, seed=seed, chaos=dose).setting.ending.name for dose in DOSES}
        if len(endings) > 1:
            raise LawBroken(f"{ours.task_id}: the ending depends on the dose: {sorted(endings)}")
    for seed in more:
        ours = make(name, seed=seed, chaos=0.5)
        twins = [(cause, other) for cause, _, other in twin_tasks(ours.task_id) if cause.name in idle]
        idle -= {cause.name for cause, other in twins if not same_ending(ours, make(other))}
    if idle:
        raise LawBroken(f"{name}: these facts do not change the ending in any of the seeds: {sorted(idle)}")


def weathers_differ_in_trouble(name: str, seeds: Iterable[int]) -> None:
    """Another weather (another draw of the troubles) keeps facts, ending and first observation, changes some trouble, and
    can be solved by the expert."""
    facts = [cause.name for cause in family(name).specs() if isinstance(cause.annotation, Fact)]
    same = True
    for seed in seeds:
        ours = make(name, seed=seed, chaos=0.5)
        for other in weathers(ours.task_id, 3)[1:]:
            theirs = make(other)
            causes, others = ours.setting.causes, theirs.setting.causes
            changed = [fact for fact in facts if getattr(causes, fact) != getattr(others, fact)]
            if changed or not same_ending(ours, theirs):
                raise LawBroken(f"{other}: the weather changes the facts {changed} or the ending")
            if theirs.reset() != ours.reset():
                raise LawBroken(f"{other}: the first observation reveals the weather")
            same = same and causes == others
            _proved(other)
    if same:
        raise LawBroken(f"{name}: another weather does not change a trouble in any of the seeds")


def is_large_enough(name: str) -> None:
    """A family has at least four facts, five troubles and four endings, and no ending is right too often."""
    specs = family(name).specs()
    for kind, least in ((Fact, 4), (Trouble, 5)):
        count = sum(isinstance(cause.annotation, kind) for cause in specs)
        if count < least:
            raise LawBroken(f"{name} has {count} causes of kind {kind.__name__}; it needs at least {least}")
    shares = Counter(make(name, seed=seed).setting.ending.name for seed in range(400))
    [(ending, most)] = shares.most_common(1)
    if len(shares) < 4 or most > MOST * shares.total():
        raise LawBroken(f"{name}: {len(shares)} endings; {ending} is right in {most / shares.total():.0%} of the tasks")


def harmless_variants_win(name: str, seeds: Iterable[int]) -> Counter[str]:
    """The expert wins with every harmless variation. Returns how often each one was played."""
    return _play(name, seeds, HARMLESS, True)


def wrong_variants_lose(name: str, seeds: Iterable[int]) -> Counter[str]:
    """The expert loses with every wrong variation. Returns how often each one was played."""
    return _play(name, seeds, WRONG, False)


def _play(name: str, seeds: Iterable[int], variants: Mapping[str, Variation], wins: bool) -> Counter[str]:
    played: Counter[str] = Counter()
    for ours in _episodes(name, seeds):
        for variant, variation in variants.items():
            won = play_variant(ours.fork(), variation, Streams(f"{ours.task_id}/{variant}"))
            if won is None:
                continue
            if won != wins:
                raise LawBroken(f"{ours.task_id}: the expert {'wins' if won else 'loses'} if it {variant}")
            played[variant] += 1
    return played


def _proved(task_id: str) -> None:
    try:
        prove(task_id)
    except Unsolvable as fault:
        raise LawBroken(f"{fault}; {blame(task_id)}") from fault


def _endings(env: CompanyEnv) -> dict[str, tuple[str, str]]:
    """Return ending and decider of the brief's ticket and of the tickets linked to it."""
    ending = env.setting.ending
    endings = {env.setting.case.ticket_id: ending} | {one.ticket_id: one.ending for one in ending.linked}
    return {ticket: (one.name, one.decider) for ticket, one in endings.items()}


def _episodes(name: str, seeds: Iterable[int]) -> Iterable[CompanyEnv]:
    """Return an episode for each seed, with a different dose from one seed to the next."""
    return (make(name, seed=seed, chaos=DOSES[seed % len(DOSES)]) for seed in seeds)


def _changed(ours: CompanyEnv, cause: Cause, value: str) -> str:
    was = write_value(getattr(ours.setting.causes, cause.name))
    return f"{ours.task_id}: the cause {cause.name}, from {was} to {value},"


def _revealed(ours: CompanyEnv, cause: Cause, value: str) -> str:
    was = write_value(getattr(ours.setting.causes, cause.name))
    return f"{ours.task_id}: the cause {cause.name}, {was} or {value}, is revealed"
