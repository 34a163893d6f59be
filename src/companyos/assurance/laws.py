"""Laws: properties that every family must have, checked on some of its seeds.

Each law raises `LawBroken` with a message that names the task id and the cause. The tests run the laws on all registered
families. Authors of a plug-in can run them on their own family.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from companyos.agents.variants import HARMLESS, WRONG, Variant, play_variant
from companyos.assurance.prove import first_difference, first_irreversible, prove
from companyos.assurance.prove_many import blame
from companyos.assurance.twins import beyond, differences, footprint, same_ending, same_orders, twin_tasks, weathers
from companyos.chaos import Chaos
from companyos.core.errors import LawBroken, Unsolvable
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.families import family, installed
from companyos.families.kit.case import Cause, Fact, Rule, Trouble
from companyos.families.kit.family import write_value
from companyos.rules.draw import WORDING

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
MAX_ENDING_SHARE = 0.4  # largest share of a family's tasks that may have the same right ending


def solvable(name: str, seeds: Iterable[int], chaos: Chaos = 0.0, split: str = "train") -> None:
    """The expert solves every task within the budget, and uses only what it was told."""
    for seed in seeds:
        _proved(str(task_named(name, seed, chaos, split)))


def briefs_tell_nothing(name: str, seeds: Iterable[int]) -> None:
    """A changed cause does not change the brief, and the brief names its own family only."""
    for env in _episodes(name, seeds):
        brief = env.scene.brief
        named = [family.name for family in installed().values() if family.phrase in brief]
        if named != [name]:
            raise LawBroken(f"{env.task_id}: the brief names {' and '.join(named) or 'no family'}: {brief!r}")
        for cause, value, twin_id in twin_tasks(env.task_id):
            twin_brief = make(twin_id).scene.brief
            if twin_brief != brief:
                raise LawBroken(f"{_revealed(env, cause, value)} by the brief: {brief!r}, but {twin_brief!r}")


def twins_look_alike(name: str, seeds: Iterable[int]) -> None:
    """A changed cause does not change a byte of the first observation."""
    for env in _episodes(name, seeds):
        obs = env.reset()
        for cause, value, twin_id in twin_tasks(env.task_id):
            twin_obs = make(twin_id).reset()
            if twin_obs != obs or twin_obs.text.encode() != obs.text.encode():
                raise LawBroken(
                    f"{_revealed(env, cause, value)} by the first observation: {obs.text!r}, but {twin_obs.text!r}"
                )


def causes_keep_to_their_footprint(name: str, seeds: Iterable[int]) -> None:
    """A cause changes only those records and fields of the start state that it declares."""
    for env in _episodes(name, seeds):
        for cause, value, twin_id in twin_tasks(env.task_id):
            found = differences(env.setting.world, make(twin_id).setting.world)
            if more := beyond(found, footprint(env.task_id, cause)):
                raise LawBroken(f"{_changed(env, cause, value)} changes beyond its footprint {sorted(more)}")


def endings_part_in_time(name: str, seeds: Iterable[int]) -> None:
    """If a cause changes the right ending, a reply differs before the expert does anything irreversible."""
    for env in _episodes(name, seeds):
        run_expert(env)
        for cause, value, twin_id in twin_tasks(env.task_id):
            twin_env = make(twin_id)
            changed = [ticket for ticket, ending in _endings(env).items() if _endings(twin_env)[ticket] != ending]
            if not changed:
                continue
            run_expert(twin_env)
            differs = first_difference(env.turns, twin_env.turns)
            for ticket in changed:
                if differs >= min(first_irreversible(solved.turns, ticket) for solved in (env, twin_env)):
                    raise LawBroken(f"{_changed(env, cause, value)} changes the ending, but no reply differs in time")


def facts_decide(name: str, seeds: Iterable[int], more_seeds: Iterable[int] = ()) -> None:
    """Neither a trouble nor the dose changes the ending. Every fact changes the ending in one of `seeds` or `more_seeds`.

    The same holds for every slot of a rulebook, except that for the words in which it is written.
    """
    undecisive = {cause.name for cause in family(name).specs() if not isinstance(cause.annotation, Trouble)} - {WORDING.name}
    for seed in seeds:
        env = make(name, seed=seed, chaos=0.5)
        for cause, value, twin_id in twin_tasks(env.task_id):
            if not same_orders(env, make(twin_id)):
                if isinstance(cause.annotation, Trouble):
                    raise LawBroken(f"{_changed(env, cause, value)} changes the ending, though it is a trouble")
                undecisive.discard(cause.name)
        endings = {make(name, seed=seed, chaos=dose).setting.ending.name for dose in DOSES}
        if len(endings) > 1:
            raise LawBroken(f"{env.task_id}: the ending depends on the dose: {sorted(endings)}")
    for seed in more_seeds:
        if not undecisive:
            break
        env = make(name, seed=seed, chaos=0.5)
        twins = [(cause, twin_id) for cause, _, twin_id in twin_tasks(env.task_id) if cause.name in undecisive]
        undecisive -= {cause.name for cause, twin_id in twins if not same_orders(env, make(twin_id))}
    if undecisive:
        raise LawBroken(f"{name}: these facts do not change the ending in any of the seeds: {sorted(undecisive)}")


def weathers_differ_in_trouble(name: str, seeds: Iterable[int]) -> None:
    """Another weather (another draw of the troubles) keeps facts, ending and first observation, changes some trouble, and
    can be solved by the expert."""
    facts = [cause.name for cause in family(name).specs() if isinstance(cause.annotation, Fact | Rule)]
    no_trouble_changed = True
    for seed in seeds:
        env = make(name, seed=seed, chaos=0.5)
        for other_id in weathers(env.task_id, 3)[1:]:
            other_env = make(other_id)
            causes, other_causes = env.setting.causes, other_env.setting.causes
            changed = [fact for fact in facts if getattr(causes, fact) != getattr(other_causes, fact)]
            if changed or not same_ending(env, other_env):
                raise LawBroken(f"{other_id}: the weather changes the facts {changed} or the ending")
            if other_env.reset() != env.reset():
                raise LawBroken(f"{other_id}: the first observation reveals the weather")
            no_trouble_changed = no_trouble_changed and causes == other_causes
            _proved(other_id)
    if no_trouble_changed:
        raise LawBroken(f"{name}: another weather does not change a trouble in any of the seeds")


def is_large_enough(name: str) -> None:
    """A family has at least four facts, five troubles and four endings, and no ending is right too often."""
    specs = family(name).specs()
    for kind, minimum in ((Fact, 4), (Trouble, 5)):
        count = sum(isinstance(cause.annotation, kind) for cause in specs)
        if count < minimum:
            raise LawBroken(f"{name} has {count} causes of kind {kind.__name__}; it needs at least {minimum}")
    tasks_by_ending = Counter(make(name, seed=seed).setting.ending.name for seed in range(400))
    [(ending, count)] = tasks_by_ending.most_common(1)
    if len(tasks_by_ending) < 4 or count > MAX_ENDING_SHARE * tasks_by_ending.total():
        share = count / tasks_by_ending.total()
        raise LawBroken(f"{name}: {len(tasks_by_ending)} endings; {ending} is right in {share:.0%} of the tasks")


def harmless_variants_win(name: str, seeds: Iterable[int]) -> Counter[str]:
    """The expert wins with every harmless variant. Returns how often each one was played."""
    return _play(name, seeds, HARMLESS, must_win=True)


def wrong_variants_lose(name: str, seeds: Iterable[int]) -> Counter[str]:
    """The expert loses with every wrong variant. Returns how often each one was played."""
    return _play(name, seeds, WRONG, must_win=False)


def _play(name: str, seeds: Iterable[int], variants: Mapping[str, Variant], must_win: bool) -> Counter[str]:
    """Play every variant on every task where it applies, and return how often each one was played."""
    played: Counter[str] = Counter()
    for env in _episodes(name, seeds):
        for label, variant in variants.items():
            won = play_variant(env.fork(), variant, Streams(f"{env.task_id}/{label}"))
            if won is None:
                continue
            if won != must_win:
                raise LawBroken(f"{env.task_id}: the expert {'wins' if won else 'loses'} if it {label}")
            played[label] += 1
    return played


def _proved(task_id: str) -> None:
    """Prove a task. If that fails, name the causes without which it would succeed."""
    try:
        prove(task_id)
    except Unsolvable as failure:
        raise LawBroken(f"{failure}; {blame(task_id)}") from failure


def _endings(env: CompanyEnv) -> dict[str, tuple[str, str]]:
    """Return ending and decider of the brief's ticket and of the tickets linked to it."""
    ending = env.setting.ending
    endings = {env.setting.case.ticket_id: ending} | {linked.ticket_id: linked.ending for linked in ending.linked}
    return {ticket: (right.name, right.decider) for ticket, right in endings.items()}


def _episodes(name: str, seeds: Iterable[int]) -> Iterable[CompanyEnv]:
    """Return an episode for each seed, with a different dose from one seed to the next."""
    return (make(name, seed=seed, chaos=DOSES[seed % len(DOSES)]) for seed in seeds)


def _changed(env: CompanyEnv, cause: Cause, value: str) -> str:
    was = write_value(getattr(env.setting.causes, cause.name))
    return f"{env.task_id}: the cause {cause.name}, from {was} to {value},"


def _revealed(env: CompanyEnv, cause: Cause, value: str) -> str:
    was = write_value(getattr(env.setting.causes, cause.name))
    return f"{env.task_id}: the cause {cause.name}, {was} or {value}, is revealed"
