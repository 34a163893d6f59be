"""Selects the tasks of each suite. Seeds are taken in order, or drawn from two public strings; the result never changes."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from itertools import count, islice
from typing import TypeVar

import msgspec

from companyos.assurance.twins import do, relevance
from companyos.core.groups import grouped
from companyos.core.task import TaskId
from companyos.core.world import Streams
from companyos.data.splits import CHAOS
from companyos.env import CompanyEnv, run_expert, task_named
from companyos.evaluate.suites.suite import Pair, Suite, beacon_name, suite_of
from companyos.families import FAMILIES, SHORT_FAMILIES, family, setting
from companyos.families.kit.case import Fact, Trouble
from companyos.families.kit.family import write_value

T = TypeVar("T")
LONG = tuple(name for name in FAMILIES if name not in SHORT_FAMILIES)  # the families of long tasks
DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)
QUOTAS = {"ending": 20, "way": 10, "none": 10}  # pairs per family, by what the changed cause alters
_MOST = 2000  # candidate seeds per family; if these do not suffice, the family has a defect

# Each suite starts at a different seed, so that suites share no tasks.
_CORE, _TWINS, _CHAOS, _IMPOSSIBLE, _ATTACK, _LONG = (1000 * number for number in range(6))


def smoke(families: Sequence[str]) -> Suite:
    return suite_of("smoke", (t for name in families for t in _by_ending(_tasks(name, split="validation"), 2)))


def core(families: Sequence[str]) -> Suite:
    return suite_of("core", (t for name in families for t in _by_ending(_tasks(name, _CORE), 20)))


def twins(families: Sequence[str]) -> Suite:
    pairs = (pair for name in families for pair in _twin_pairs(_tasks(name, _TWINS), QUOTAS))
    return suite_of("twins", pairs=pairs)


def chaos(families: Sequence[str]) -> Suite:
    seeds = [TaskId.parse(t) for name in families for t in _by_ending(_tasks(name, _CHAOS), 10)]
    return suite_of("chaos", (str(task_named(t.family, t.seed, dose, t.split)) for t in seeds for dose in DOSES))


def impossible(families: Sequence[str]) -> Suite:
    """Tasks that cannot be done, each with the first twin that can be done."""
    found = (islice(filter(None, map(_doable, _tasks(name, _IMPOSSIBLE))), 10) for name in families)
    return suite_of("impossible", pairs=(pair for pairs in found for pair in pairs))


def attack(families: Sequence[str]) -> Suite:
    """Tasks with a prompt injection, at each possible place in turn, each with the twin that has none."""
    tasks = ((number, t) for name in families for number, t in enumerate(_by_ending(_tasks(name, _ATTACK), 10)))
    return suite_of("attack", pairs=(_attacked(t, number) for number, t in tasks))


def long(families: Sequence[str]) -> Suite:
    return suite_of("long", (t for name in families for t in _by_ending(_tasks(name, _LONG), 48)))


def beacon_suite(commit: str, beacon: str, families: Sequence[str] = SHORT_FAMILIES) -> Suite:
    """Pairs that nobody could know before two strings were public.

    `commit` is the hash of the agent, published first; `beacon` is a random string that was published later.
    """
    title = beacon_name(commit, beacon)
    quotas = {kind: quota // 2 for kind, quota in QUOTAS.items()}
    streams = Streams(title)
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


def _tasks(name: str, first: int = 0, split: str = "test") -> Iterator[str]:
    return (str(task_named(name, first + n, CHAOS, split)) for n in range(_MOST))


def _drawn(name: str, streams: Streams) -> Iterator[str]:
    """Tasks of a family, with seeds drawn from the whole range."""
    for number in range(_MOST):
        draw = streams.at("seed", name, number)
        yield str(task_named(name, draw.between(0, 999_999) * 1_000_000 + draw.between(0, 999_999), CHAOS, "test"))


def in_turn(candidates: Iterable[T], kind: Callable[[T], Hashable], size: int) -> list[T]:
    """Choose `size` candidates, one of each kind in turn. The chosen ones keep their order."""
    every = list(candidates)
    kinds = grouped(range(len(every)), lambda number: kind(every[number])).values()
    rounds = (some[n] for n in count() for some in kinds if n < len(some))
    return [every[number] for number in sorted(islice(rounds, min(size, len(every))))]


def _by_ending(tasks: Iterator[str], size: int) -> list[str]:
    return in_turn(islice(tasks, 6 * size), lambda task_id: setting(TaskId.parse(task_id)).ending.name, size)


# -- pairs -------------------------------------------------------------------------------------------------------------


class _Candidate(msgspec.Struct, frozen=True):
    pair: Pair
    ending: str
    par: int


def _twin_pairs(tasks: Iterator[str], quotas: dict[str, int]) -> list[Pair]:
    """Pairs of one family, with a quota for each relevance. Endings, and short and long tasks, take turns in each."""
    found: dict[str, list[_Candidate]] = {kind: [] for kind in quotas}
    while any(len(found[kind]) < 2 * quota for kind, quota in quotas.items()):
        candidate = _candidate(next(tasks))
        found[candidate.pair.relevance].append(candidate)
    pars = sorted(candidate.par for candidates in found.values() for candidate in candidates)
    middle = pars[len(pars) // 2]
    return [
        candidate.pair
        for kind, quota in quotas.items()
        for candidate in in_turn(found[kind], lambda one: (one.ending, one.par > middle), quota)
    ]


def _candidate(task_id: str) -> _Candidate:
    """A task with one of its twins. The task id is the random seed of the choice."""
    task = TaskId.parse(task_id)
    ours = CompanyEnv(task, "sparse")
    run_expert(ours)
    draw = Streams(task_id).at("twin")
    cause = draw.pick(family(task.family).specs())
    value = draw.pick([value for value in cause.alternatives if value != getattr(ours.setting.causes, cause.name)])
    twin = do(task_id, **{cause.name: value})
    return _Candidate(Pair(task_id, twin, relevance(ours, twin), cause.name), ours.setting.ending.name, ours.step_count)


def _doable(task_id: str) -> Pair | None:
    """Pair an impossible task with a twin that can be completed; None if no single fact makes that difference."""
    task = TaskId.parse(task_id)
    ours = setting(task)
    if ours.ending.resolution != "cannot_be_done":
        return None
    for cause in family(task.family).specs():
        for value in cause.alternatives if isinstance(cause.annotation, Fact) else ():
            if value != getattr(ours.causes, cause.name):
                twin = do(task_id, **{cause.name: value})
                if setting(TaskId.parse(twin)).ending.resolution == "completed":
                    return Pair(task_id, twin, "ending", cause.name)
    return None


@cache
def _injection_cause(name: str) -> tuple[str, Sequence[str]]:
    """The cause that places prompt injections in a family, and its levels; the first level places none."""
    marks = [
        cause
        for cause in family(name).specs()
        if isinstance(cause.annotation, Trouble) and cause.annotation.dial == "hostile_text"
    ]
    return marks[0].name, [write_value(value) for value in marks[0].alternatives]


def _attacked(task_id: str, number: int) -> Pair:
    cause, (calm, *levels) = _injection_cause(TaskId.parse(task_id).family)
    hostile, benign = do(task_id, **{cause: levels[number % len(levels)]}), do(task_id, **{cause: calm})
    ours = CompanyEnv(TaskId.parse(hostile), "sparse")
    run_expert(ours)
    return Pair(hostile, benign, relevance(ours, benign), cause)
