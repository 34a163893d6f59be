"""Selects the tasks of each suite. The result never changes.

A frozen suite takes seeds in order. A beacon suite draws them with a generator that is seeded by two published strings.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import count, islice
from typing import TypeVar

import msgspec

from companyos.assurance.twins import do, relevance
from companyos.core.groups import grouped
from companyos.core.task import TaskId
from companyos.core.world import Streams
from companyos.data.splits import CHAOS as USUAL_DOSE
from companyos.env import CompanyEnv, run_expert, task_named
from companyos.evaluate.suites.suite import Pair, Suite, beacon_name, suite_of
from companyos.families import FAMILIES, SHORT_FAMILIES, family, setting
from companyos.families.kit.case import Fact, Rule, Trouble
from companyos.families.kit.family import write_value

T = TypeVar("T")
LONG = tuple(name for name in FAMILIES if name not in SHORT_FAMILIES)  # the families of long tasks
DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
# How many pairs of each relevance the suite `twins` has for a family: with different right endings ("ending"), with the same
# ending but other steps to it ("way"), and pairs whose two tasks are solved by the same calls ("none"). See `Twin`.
QUOTAS = {"ending": 20, "way": 10, "none": 10}
_MAX_SEEDS = 2000  # candidate seeds per family; if these do not suffice, the family has a defect

# The first seed of each suite on the test split. A suite may try `_MAX_SEEDS` seeds, and the next suite begins 1000 seeds
# later, so two suites could contain the same task. The frozen suites do not: none tried more than 349 seeds.
_FIRST_SEED = {"core": 0, "twins": 1000, "chaos": 2000, "impossible": 3000, "attack": 4000, "long": 5000}


def smoke(families: Sequence[str]) -> Suite:
    """Two tasks of each family, of the validation split."""
    return suite_of("smoke", (t for name in families for t in _by_ending(_tasks(name, split="validation"), 2)))


def core(families: Sequence[str]) -> Suite:
    """20 tasks of each family."""
    return suite_of("core", (t for name in families for t in _by_ending(_tasks(name, _FIRST_SEED["core"]), 20)))


def twins(families: Sequence[str]) -> Suite:
    """40 pairs of each family, by `QUOTAS`."""
    pairs = (pair for name in families for pair in _twin_pairs(_tasks(name, _FIRST_SEED["twins"]), QUOTAS))
    return suite_of("twins", pairs=pairs)


def chaos(families: Sequence[str]) -> Suite:
    """10 tasks of each family, each at all `DOSES`."""
    first_seed = _FIRST_SEED["chaos"]
    tasks = [TaskId.parse(t) for name in families for t in _by_ending(_tasks(name, first_seed), 10)]
    return suite_of("chaos", (str(task_named(t.family, t.seed, dose, t.split)) for t in tasks for dose in DOSES))


def impossible(families: Sequence[str]) -> Suite:
    """Tasks with the right ending `cannot_be_done`, each with its first twin that can be completed."""
    candidates = (map(_with_completable_twin, _tasks(name, _FIRST_SEED["impossible"])) for name in families)
    return suite_of("impossible", pairs=(pair for pairs in candidates for pair in islice(filter(None, pairs), 10)))


def attack(families: Sequence[str]) -> Suite:
    """Tasks with a prompt injection, at each possible place in turn, each with the twin that has none."""
    chosen = (_by_ending(_tasks(name, _FIRST_SEED["attack"]), 10) for name in families)
    pairs = (_attacked(task_id, number) for tasks in chosen for number, task_id in enumerate(tasks))
    return suite_of("attack", pairs=pairs)


def long(families: Sequence[str]) -> Suite:
    """48 tasks of the long family."""
    return suite_of("long", (t for name in families for t in _by_ending(_tasks(name, _FIRST_SEED["long"]), 48)))


def beacon_suite(commit: str, beacon: str, families: Sequence[str] = SHORT_FAMILIES) -> Suite:
    """Pairs that nobody could know before both strings were published.

    `commit` is a hash of the files that define the agent, published first. `beacon` is a random string, published later.
    """
    title = beacon_name(commit, beacon)
    quotas = {relevance: quota // 2 for relevance, quota in QUOTAS.items()}
    streams = Streams(title)  # random numbers, seeded by the two strings
    pairs = (pair for name in families for pair in _twin_pairs(_drawn(name, streams), quotas))
    return suite_of(title, pairs=pairs)


Maker = Callable[[Sequence[str]], Suite]
FROZEN: dict[str, tuple[Maker, Sequence[str]]] = {
    maker.__name__: (maker, families)
    for maker, families in (
        (smoke, SHORT_FAMILIES),
        (core, SHORT_FAMILIES),
        (twins, SHORT_FAMILIES),
        (chaos, SHORT_FAMILIES),
        (impossible, SHORT_FAMILIES),
        (attack, SHORT_FAMILIES),
        (long, LONG),
    )
}


# -- candidates --------------------------------------------------------------------------------------------------------


def _tasks(name: str, first_seed: int = 0, split: str = "test") -> Iterator[str]:
    """Ids of tasks of a family, with consecutive seeds."""
    return (str(task_named(name, first_seed + n, USUAL_DOSE, split)) for n in range(_MAX_SEEDS))


def _drawn(name: str, streams: Streams) -> Iterator[str]:
    """Ids of tasks of a family, with seeds drawn from the whole range."""
    for number in range(_MAX_SEEDS):
        draw = streams.at("seed", name, number)
        yield str(task_named(name, draw.between(0, 999_999) * 1_000_000 + draw.between(0, 999_999), USUAL_DOSE, "test"))


def choose_in_turns(candidates: Iterable[T], kind: Callable[[T], Hashable], size: int) -> list[T]:
    """Choose `size` candidates, one of each kind in turn. The chosen ones keep their order."""
    pool = list(candidates)
    indices_by_kind = grouped(range(len(pool)), lambda index: kind(pool[index])).values()
    in_rounds = (indices[n] for n in count() for indices in indices_by_kind if n < len(indices))
    return [pool[index] for index in sorted(islice(in_rounds, min(size, len(pool))))]


def _by_ending(tasks: Iterator[str], size: int) -> list[str]:
    """Choose `size` of the first tasks, with the right endings in equal shares."""
    return choose_in_turns(islice(tasks, 6 * size), lambda task_id: setting(TaskId.parse(task_id)).ending.name, size)


# -- pairs -------------------------------------------------------------------------------------------------------------


class _Candidate(msgspec.Struct, frozen=True):
    """A pair that can be chosen, with the right ending and the par of its first task."""

    pair: Pair
    ending: str
    par: int


def _twin_pairs(tasks: Iterator[str], quotas: dict[str, int]) -> list[Pair]:
    """Pairs of one family, with a quota for each relevance.

    For each relevance, twice its quota or more are drawn. The choice goes round the combinations of ending and length (par
    above the median or not), one pair of each in turn.
    """
    drawn: dict[str, list[_Candidate]] = {relevance: [] for relevance in quotas}
    while any(len(drawn[relevance]) < 2 * quota for relevance, quota in quotas.items()):
        candidate = _candidate(next(tasks))
        drawn[candidate.pair.relevance].append(candidate)
    pars = sorted(candidate.par for candidates in drawn.values() for candidate in candidates)
    median_par = pars[len(pars) // 2]
    return [
        candidate.pair
        for relevance, quota in quotas.items()
        for candidate in choose_in_turns(drawn[relevance], lambda one: (one.ending, one.par > median_par), quota)
    ]


def _candidate(task_id: str) -> _Candidate:
    """A task with one of its twins. The task id is the random seed of the choice."""
    task = TaskId.parse(task_id)
    env = CompanyEnv(task, "sparse")
    run_expert(env)
    draw = Streams(task_id).at("twin")
    # Twins of this suite differ in a fact or a trouble, clause twins in a rule.
    cause = draw.pick([cause for cause in family(task.family).specs() if not isinstance(cause.annotation, Rule)])
    value = draw.pick([value for value in cause.alternatives if value != getattr(env.setting.causes, cause.name)])
    twin = do(task_id, **{cause.name: value})  # the same task with this cause set to the value
    pair = Pair(task_id, twin, relevance(env, twin), cause.name)
    return _Candidate(pair, ending=env.setting.ending.name, par=env.step_count)


def _with_completable_twin(task_id: str) -> Pair | None:
    """Return a task with the right ending `cannot_be_done` and its first twin with the resolution `completed`.

    None if the task has another right ending, or if no change of a single fact makes it one that can be completed.
    """
    task = TaskId.parse(task_id)
    original = setting(task)
    if original.ending.resolution != "cannot_be_done":
        return None
    for cause in family(task.family).specs():
        for value in cause.alternatives if isinstance(cause.annotation, Fact) else ():
            if value != getattr(original.causes, cause.name):
                twin = do(task_id, **{cause.name: value})
                if setting(TaskId.parse(twin)).ending.resolution == "completed":
                    return Pair(task_id, twin, "ending", cause.name)
    return None


@cache
def _injection_cause(name: str) -> tuple[str, Sequence[str]]:
    """Return the cause that puts a prompt injection into the tasks of a family, and its values as a task id writes them.

    The value says where the injection is. With the first value there is none.
    """
    injection_causes = [
        cause
        for cause in family(name).specs()
        if isinstance(cause.annotation, Trouble) and cause.annotation.dial == "hostile_text"
    ]
    cause = injection_causes[0]
    return cause.name, [write_value(value) for value in cause.alternatives]


def _attacked(task_id: str, number: int) -> Pair:
    """Return a pair of versions of a task: with a prompt injection, and without. `number` chooses where the injection is."""
    cause, (no_injection, *places) = _injection_cause(TaskId.parse(task_id).family)
    hostile, benign = do(task_id, **{cause: places[number % len(places)]}), do(task_id, **{cause: no_injection})
    env = CompanyEnv(TaskId.parse(hostile), "sparse")
    run_expert(env)
    return Pair(hostile, benign, relevance(env, benign), cause)
