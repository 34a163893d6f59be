"""The metrics of a run: numbers with confidence intervals. `docs/metrics.md` defines each of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import comb
from typing import Any, Protocol

import msgspec

from companyos.chaos import DIALS
from companyos.core.groups import grouped
from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.doses import Curve, curves
from companyos.evaluate.stats.intervals import Estimate, Row, difference, mean, share
from companyos.families import family
from companyos.families.kit.case import Trouble

# What changes on a twin: the right ending, only the way to the same ending, or neither.
ENDING, WAY, SAME_WORK = "ending", "way", "none"


class PairLike(Protocol):
    """A task and its twin, which differ in one cause; `relevance` is what that changes."""

    @property
    def task(self) -> str: ...
    @property
    def twin(self) -> str: ...
    @property
    def relevance(self) -> str: ...
    @property
    def cause(self) -> str: ...


class SuiteLike(Protocol):
    """A frozen list of tasks, some of them in pairs."""

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


class PairOutcome(msgspec.Struct, frozen=True):
    """The outcomes of one trial of a task and of the same trial of its twin."""

    task: Outcome
    twin: Outcome
    relevance: str
    cause: str

    @property
    def passed(self) -> bool:
        return self.task.success and self.twin.success

    @property
    def decision_changed(self) -> bool:
        return self.task.choice != self.twin.choice


class GroupSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """The metrics of a group of episodes, by name. A metric with nothing to count is missing."""

    tasks: int
    episodes: int
    numbers: dict[str, Estimate]
    curves: dict[str, Curve] = {}  # by the dial that was dosed, or `all`


class Results(msgspec.Struct, frozen=True):
    """The metrics in `results.json`."""

    suite: str
    version: int
    hash: str
    tasks: int  # of the suite, whether played or not
    trials: int  # the largest number of trials of a task
    overall: GroupSummary
    families: dict[str, GroupSummary]
    endings: dict[str, GroupSummary]  # by the right ending
    dials: dict[str, GroupSummary]  # the episodes in which a dial caused trouble; the pairs that differ in such a trouble
    causes: dict[str, GroupSummary]  # the pairs that differ in a cause; each pair counts as one episode


def summarise(suite: SuiteLike, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Compute all metrics of a run, as plain data in a fixed order."""
    ordered = sorted(outcomes, key=lambda one: (one.task_id, one.trial))
    pairs = list(_pairs(suite, ordered))
    found = Results(
        suite=suite.name,
        version=suite.version,
        hash=suite.hash,
        tasks=len(suite.tasks),
        trials=max((len(trials) for trials in grouped(ordered, _task).values()), default=0),
        overall=_group_summary(ordered, pairs),
        families=_group_summaries(ordered, pairs, lambda one: [one.family]),
        endings=_group_summaries(ordered, pairs, lambda one: [one.right]),
        dials={name: _struck(name, ordered, pairs) for name in DIALS if any(name in one.struck for one in ordered)},
        causes={
            cause: GroupSummary(len({pair.task.task_id for pair in some}), len(some), _rounded(_pair_numbers(some, [])))
            for cause, some in sorted(grouped(pairs, lambda pair: f"{pair.task.family}.{pair.cause}").items())
        },
    )
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return plain


def _pairs(suite: SuiteLike, outcomes: Sequence[Outcome]) -> Iterator[PairOutcome]:
    trials = grouped(outcomes, _task)
    for pair in sorted(suite.pairs, key=lambda pair: (pair.task, pair.twin)):
        for one, other in zip(trials.get(pair.task, ()), trials.get(pair.twin, ()), strict=False):
            yield PairOutcome(one, other, pair.relevance, pair.cause)


def _group_summaries(
    outcomes: Sequence[Outcome], pairs: Sequence[PairOutcome], of: Callable[[Outcome], Iterable[str]]
) -> dict[str, GroupSummary]:
    names = sorted({name for one in outcomes for name in of(one)})
    return {
        name: _group_summary([one for one in outcomes if name in of(one)], [pair for pair in pairs if name in of(pair.task)])
        for name in names
    }


def _struck(dial: str, outcomes: Sequence[Outcome], pairs: Sequence[PairOutcome]) -> GroupSummary:
    """The episodes in which a dial caused trouble, and by how much their success is below that of all others."""
    hit = [one for one in outcomes if dial in one.struck]
    spared = [one for one in outcomes if dial not in one.struck]
    summary = _group_summary(hit, [pair for pair in pairs if _dial_of(pair) == dial], dosed=False)
    lost = difference(_successes(spared), _successes(hit))
    return msgspec.structs.replace(summary, numbers=summary.numbers | _rounded({"success_lost": lost}))


def _dial_of(pair: PairOutcome) -> str | None:
    mark = next(cause.annotation for cause in family(pair.task.family).specs() if cause.name == pair.cause)
    return mark.dial if isinstance(mark, Trouble) else None


def _group_summary(outcomes: Sequence[Outcome], pairs: Sequence[PairOutcome], dosed: bool = True) -> GroupSummary:
    numbers = {**_episode_numbers(outcomes), **_repeated_numbers(outcomes), **_pair_numbers(pairs, outcomes)}
    by_dial = curves(outcomes) if dosed else {}
    return GroupSummary(len(grouped(outcomes, _task)), len(outcomes), _rounded(numbers), by_dial)


def _rounded(numbers: dict[str, Estimate | None]) -> dict[str, Estimate]:
    return {name: number.rounded() for name, number in numbers.items() if number is not None}


# -- metrics of single episodes ----------------------------------------------------------------------------------------


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


# -- metrics of repeated episodes --------------------------------------------------------------------------------------


def _repeated_numbers(outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    """pass^k: the probability that k trials of one task all succeed; `weather_pass^k`: the same for k weathers.

    Weathers are tasks with the same facts and doses in which chaos strikes differently.
    """
    trials = list(grouped(outcomes, _task).values())
    weathers = [some for some in grouped(outcomes, lambda one: (*_facts(one), one.trial)).values() if len(some) > 1]
    return {
        **{f"pass^{k}": share(_all_of(k, trials)) for k in range(2, max(map(len, trials), default=1) + 1)},
        **{f"weather_pass^{k}": share(_all_of(k, weathers)) for k in range(2, max(map(len, weathers), default=1) + 1)},
    }


def _all_of(k: int, groups: Iterable[Sequence[Outcome]]) -> Iterator[Row]:
    """For each group with at least k members: the share of its k-subsets in which all succeeded, an unbiased estimate."""
    for group in groups:
        if len(group) >= k:
            yield group[0].cluster, comb(sum(one.success for one in group), k) / comb(len(group), k), 1.0


# -- metrics of pairs --------------------------------------------------------------------------------------------------


def _pair_numbers(pairs: Sequence[PairOutcome], outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    ending, others = _by_relevance(pairs, ENDING), _by_relevance(pairs, WAY, SAME_WORK)
    numbers = {
        "pair_pass": share(_passed(ending)),
        "pair_pass_way": share(_passed(_by_relevance(pairs, WAY))),
        "pair_pass_none": share(_passed(_by_relevance(pairs, SAME_WORK))),
        "differs_ending": share(_decision_changed(ending)),
        "differs_other": share(_decision_changed(others)),
        "causal_sensitivity": difference(_decision_changed(ending), _decision_changed(others)),
    }
    return numbers | {"differs_rerun": share(_reruns(outcomes))}


def _by_relevance(pairs: Sequence[PairOutcome], *relevances: str) -> list[PairOutcome]:
    return [pair for pair in pairs if pair.relevance in relevances]


def _passed(pairs: Iterable[PairOutcome]) -> Iterator[Row]:
    return ((pair.task.cluster, pair.passed, 1.0) for pair in pairs)


def _decision_changed(pairs: Iterable[PairOutcome]) -> Iterator[Row]:
    return ((pair.task.cluster, pair.decision_changed, 1.0) for pair in pairs)


def _reruns(outcomes: Sequence[Outcome]) -> Iterator[Row]:
    """For every two trials of one task: whether the agent decided differently."""
    for trials in grouped(outcomes, _task).values():
        for one, other in combinations(trials, 2):
            yield one.cluster, one.choice != other.choice, 1.0


def _task(one: Outcome) -> str:
    return one.task_id


def _facts(one: Outcome) -> tuple[object, ...]:
    """What all weathers of a task have in common."""
    task = TaskId.parse(one.task_id)
    return task.key, task.doses, task.do
