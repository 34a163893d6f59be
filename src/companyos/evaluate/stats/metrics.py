"""Metrics: what a run of a suite comes to, as numbers with intervals. `docs/metrics.md` defines each."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import Any, Protocol

import msgspec

from companyos.chaos import DIALS
from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.doses import Curve, curves
from companyos.evaluate.stats.groups import grouped
from companyos.evaluate.stats.intervals import Estimate, Row, difference, mean, share
from companyos.families import family
from companyos.families.kit.case import Trouble

ENDING, WAY, NONE = "ending", "way", "none"  # what a twin changes


class PairLike(Protocol):
    """Two tasks that differ in one cause, and what that changes."""

    @property
    def task(self) -> str: ...
    @property
    def twin(self) -> str: ...
    @property
    def relevance(self) -> str: ...
    @property
    def cause(self) -> str: ...


class SuiteLike(Protocol):
    """A frozen list of tasks, and which of them are pairs."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def hash(self) -> str: ...
    @property
    def tasks(self) -> Sequence[str]: ...
    @property
    def pairs(self) -> Sequence[PairLike]: ...


class Both(msgspec.Struct, frozen=True):
    """One trial of a task beside the same trial of its twin."""

    task: Outcome
    twin: Outcome
    relevance: str
    cause: str

    @property
    def passed(self) -> bool:
        return self.task.success and self.twin.success

    @property
    def differs(self) -> bool:
        return self.task.choice != self.twin.choice


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """The numbers of some episodes, by name; one that there was nothing to count for is missing."""

    tasks: int
    episodes: int
    numbers: dict[str, Estimate]
    curves: dict[str, Curve] = {}  # by what was dosed: `all` dials, or one


class Results(msgspec.Struct, frozen=True):
    """What `results.json` holds: it follows from the calls alone."""

    suite: str
    version: int
    hash: str
    tasks: int  # of the suite, played or not
    trials: int  # the most of any task
    overall: Block
    families: dict[str, Block]
    endings: dict[str, Block]  # by the right one
    dials: dict[str, Block]  # the tasks that a dial struck, and the pairs that differ in a trouble on it
    causes: dict[str, Block]  # the pairs that differ in it, each an episode


def summarise(suite: SuiteLike, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """All numbers of a run, as plain data in a fixed order."""
    ordered = sorted(outcomes, key=lambda one: (one.task_id, one.trial))
    pairs = list(_pairs(suite, ordered))
    found = Results(
        suite=suite.name,
        version=suite.version,
        hash=suite.hash,
        tasks=len(suite.tasks),
        trials=max((len(trials) for trials in grouped(ordered, _task).values()), default=0),
        overall=_block(ordered, pairs),
        families=_blocks(ordered, pairs, lambda one: [one.family]),
        endings=_blocks(ordered, pairs, lambda one: [one.right]),
        dials={name: _struck(name, ordered, pairs) for name in DIALS if any(name in one.struck for one in ordered)},
        causes={
            cause: Block(len({both.task.task_id for both in some}), len(some), _rounded(_pair_numbers(some, [])))
            for cause, some in sorted(grouped(pairs, lambda both: f"{both.task.family}.{both.cause}").items())
        },
    )
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


def _pairs(suite: SuiteLike, outcomes: Sequence[Outcome]) -> Iterator[Both]:
    trials = grouped(outcomes, _task)
    for pair in sorted(suite.pairs, key=lambda pair: (pair.task, pair.twin)):
        for one, other in zip(trials.get(pair.task, ()), trials.get(pair.twin, ()), strict=False):
            yield Both(one, other, pair.relevance, pair.cause)


def _blocks(outcomes: Sequence[Outcome], pairs: Sequence[Both], of: Callable[[Outcome], Iterable[str]]) -> dict[str, Block]:
    names = sorted({name for one in outcomes for name in of(one)})
    return {
        name: _block([one for one in outcomes if name in of(one)], [both for both in pairs if name in of(both.task)])
        for name in names
    }


def _struck(dial: str, outcomes: Sequence[Outcome], pairs: Sequence[Both]) -> Block:
    """The episodes that a dial brought trouble to, and what that cost beside those of the same suite that it spared."""
    hit = [one for one in outcomes if dial in one.struck]
    spared = [one for one in outcomes if dial not in one.struck]
    block = _block(hit, [both for both in pairs if _dial_of(both) == dial], dosed=False)
    lost = difference(_successes(spared), _successes(hit))
    return msgspec.structs.replace(block, numbers=block.numbers | _rounded({"success_lost": lost}))


def _dial_of(both: Both) -> str | None:
    mark = next(cause.mark for cause in family(both.task.family).specs() if cause.name == both.cause)
    return mark.dial if isinstance(mark, Trouble) else None


def _block(outcomes: Sequence[Outcome], pairs: Sequence[Both], dosed: bool = True) -> Block:
    numbers = {**_episode_numbers(outcomes), **_repeated_numbers(outcomes), **_pair_numbers(pairs, outcomes)}
    found = curves(outcomes) if dosed else {}
    return Block(len(grouped(outcomes, _task)), len(outcomes), _rounded(numbers), found)


def _rounded(numbers: dict[str, Estimate | None]) -> dict[str, Estimate]:
    return {name: number.rounded() for name, number in numbers.items() if number is not None}


# -- of single episodes ------------------------------------------------------------------------------------------------


def _episode_numbers(outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    won = [one for one in outcomes if one.success]
    return {
        "success": share(_successes(outcomes)),
        "score": share((one.cluster, one.score, 1.0) for one in outcomes),
        "return": mean((one.cluster, one.total, 1.0) for one in outcomes),
        "efficiency": share((one.cluster, min(1.0, one.par / one.steps), 1.0) for one in won),
        "invalid_calls": share((one.cluster, one.invalid, one.steps) for one in outcomes),
        "refused_calls": share((one.cluster, one.refused, one.steps) for one in outcomes),
        "routing": share((one.cluster, one.routed, one.steps - one.waits) for one in outcomes),
        "recovery": share((one.cluster, one.recovered, one.faults) for one in outcomes if one.faults),
        "success_after_fault": share(_successes(one for one in outcomes if one.faults)),
        "damage": share((one.cluster, bool(one.damage), 1.0) for one in outcomes),
        "refusal_precision": share((one.cluster, one.impossible, 1.0) for one in outcomes if one.called_impossible),
        "refusal_recall": share((one.cluster, one.called_impossible, 1.0) for one in outcomes if one.impossible),
        "tokens": mean((one.cluster, one.tokens, 1.0) for one in outcomes if one.tokens is not None),
        "cost": mean((one.cluster, one.cost, 1.0) for one in outcomes if one.cost is not None),
    }


def _successes(outcomes: Iterable[Outcome]) -> Iterator[Row]:
    return ((one.cluster, one.success, 1.0) for one in outcomes)


# -- of repeated ones --------------------------------------------------------------------------------------------------


def _repeated_numbers(outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    """pass^k: that k trials in a row succeed, of one task; and of the same facts in k weathers."""
    trials = list(grouped(outcomes, _task).values())
    skies = [sky for sky in grouped(outcomes, lambda one: (*_facts(one), one.trial)).values() if len(sky) > 1]
    return {
        **{f"pass^{k}": share(_all_of(k, trials)) for k in range(2, max(map(len, trials), default=1) + 1)},
        **{f"weather_pass^{k}": share(_all_of(k, skies)) for k in range(2, max(map(len, skies), default=1) + 1)},
    }


def _all_of(k: int, groups: Iterable[Sequence[Outcome]]) -> Iterator[Row]:
    """For each group with enough members, the share of its k-subsets that succeeded whole: the unbiased estimate."""
    for group in groups:
        if len(group) >= k:
            yield group[0].cluster, comb(sum(one.success for one in group), k) / comb(len(group), k), 1.0


# -- of pairs ----------------------------------------------------------------------------------------------------------


def _pair_numbers(pairs: Sequence[Both], outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    ending, others = _by_relevance(pairs, ENDING), _by_relevance(pairs, WAY, NONE)
    numbers = {
        "pair_pass": share(_passed(ending)),
        "pair_pass_way": share(_passed(_by_relevance(pairs, WAY))),
        "pair_pass_none": share(_passed(_by_relevance(pairs, NONE))),
        "differs_ending": share(_differing(ending)),
        "differs_other": share(_differing(others)),
        "causal_sensitivity": difference(_differing(ending), _differing(others)),
    }
    return numbers | {"differs_rerun": share(_reruns(outcomes))}


def _by_relevance(pairs: Sequence[Both], *relevances: str) -> list[Both]:
    return [both for both in pairs if both.relevance in relevances]


def _passed(pairs: Iterable[Both]) -> Iterator[Row]:
    return ((both.task.cluster, both.passed, 1.0) for both in pairs)


def _differing(pairs: Iterable[Both]) -> Iterator[Row]:
    return ((both.task.cluster, both.differs, 1.0) for both in pairs)


def _reruns(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """Two trials of one task, each two: whether the agent decided otherwise."""
    for trials in grouped(outcomes, _task).values():
        for one, other in combinations(trials, 2):
            yield one.cluster, one.choice != other.choice, 1.0


def _task(one: Outcome) -> str:
    return one.task_id


def _facts(one: Outcome) -> tuple[object, ...]:
    """What weathers of one another have in common."""
    task = TaskId.parse(one.task_id)
    return task.key, task.doses, task.do
