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

# What changes on a twin (the field `relevance`): the right ending, only the way to the same ending, or neither.
ENDING, WAY, SAME_WORK = "ending", "way", "none"


class PairLike(Protocol):
    """A task and its twin, which differ in one cause. In a suite, the right ending of both may be the same.

    `relevance` says what the different cause changes: `ENDING`, `WAY` or `SAME_WORK`.
    """

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
    ordered = sorted(outcomes, key=lambda outcome: (outcome.task_id, outcome.trial))
    pairs = list(_pairs(suite, ordered))
    results = Results(
        suite=suite.name,
        version=suite.version,
        hash=suite.hash,
        tasks=len(suite.tasks),
        trials=max((len(trials) for trials in grouped(ordered, _task).values()), default=0),
        overall=_group_summary(ordered, pairs),
        families=_group_summaries(ordered, pairs, lambda outcome: [outcome.family]),
        endings=_group_summaries(ordered, pairs, lambda outcome: [outcome.right]),
        dials={
            name: _dial_summary(name, ordered, pairs) for name in DIALS if any(name in outcome.struck for outcome in ordered)
        },
        causes={
            cause: GroupSummary(
                tasks=len({pair.task.task_id for pair in with_cause}),
                episodes=len(with_cause),
                numbers=_rounded(_pair_numbers(with_cause, [])),
            )
            for cause, with_cause in sorted(grouped(pairs, lambda pair: f"{pair.task.family}.{pair.cause}").items())
        },
    )
    plain: dict[str, Any] = msgspec.to_builtins(results)
    return plain


def _pairs(suite: SuiteLike, outcomes: Sequence[Outcome]) -> Iterator[PairOutcome]:
    """The pairs of the suite of which both tasks were played, once for each trial."""
    trials = grouped(outcomes, _task)
    for pair in sorted(suite.pairs, key=lambda pair: (pair.task, pair.twin)):
        for task_outcome, twin_outcome in zip(trials.get(pair.task, ()), trials.get(pair.twin, ()), strict=False):
            yield PairOutcome(task_outcome, twin_outcome, pair.relevance, pair.cause)


def _group_summaries(
    outcomes: Sequence[Outcome], pairs: Sequence[PairOutcome], groups_of: Callable[[Outcome], Iterable[str]]
) -> dict[str, GroupSummary]:
    """Summarise the episodes of each group. `groups_of` names the groups of an outcome."""
    names = sorted({name for outcome in outcomes for name in groups_of(outcome)})
    return {
        name: _group_summary(
            [outcome for outcome in outcomes if name in groups_of(outcome)],
            [pair for pair in pairs if name in groups_of(pair.task)],
        )
        for name in names
    }


def _dial_summary(dial: str, outcomes: Sequence[Outcome], pairs: Sequence[PairOutcome]) -> GroupSummary:
    """The episodes in which a dial caused trouble, and by how much their success is below that of all others."""
    struck = [outcome for outcome in outcomes if dial in outcome.struck]
    others = [outcome for outcome in outcomes if dial not in outcome.struck]
    summary = _group_summary(struck, [pair for pair in pairs if _dial_of(pair) == dial], with_curves=False)
    lost = difference(_successes(others), _successes(struck))
    return msgspec.structs.replace(summary, numbers=summary.numbers | _rounded({"success_lost": lost}))


def _dial_of(pair: PairOutcome) -> str | None:
    """The dial whose trouble differs between the two tasks; None if a fact differs."""
    changed = next(cause.annotation for cause in family(pair.task.family).specs() if cause.name == pair.cause)
    return changed.dial if isinstance(changed, Trouble) else None


def _group_summary(outcomes: Sequence[Outcome], pairs: Sequence[PairOutcome], with_curves: bool = True) -> GroupSummary:
    numbers = {**_episode_numbers(outcomes), **_repeated_numbers(outcomes), **_pair_numbers(pairs, outcomes)}
    by_dial = curves(outcomes) if with_curves else {}
    return GroupSummary(len(grouped(outcomes, _task)), len(outcomes), _rounded(numbers), by_dial)


def _rounded(numbers: dict[str, Estimate | None]) -> dict[str, Estimate]:
    return {name: number.rounded() for name, number in numbers.items() if number is not None}


# -- metrics of single episodes ----------------------------------------------------------------------------------------


def _episode_numbers(outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    """Each number is estimated from rows of three: a cluster (the seed of the task), a numerator and a denominator."""
    successes = [outcome for outcome in outcomes if outcome.success]
    raised = any(outcome.raised for outcome in outcomes)  # only a user's agent can raise; for others there is no such number
    return {
        "success": share(_successes(outcomes)),
        "score": share((outcome.cluster, outcome.score, 1.0) for outcome in outcomes),
        "return": mean((outcome.cluster, outcome.total, 1.0) for outcome in outcomes),
        "efficiency": share((outcome.cluster, min(1.0, outcome.par / outcome.steps), 1.0) for outcome in successes),
        "invalid_calls": share((outcome.cluster, outcome.invalid, outcome.steps) for outcome in outcomes),
        "refused_calls": share((outcome.cluster, outcome.refused, outcome.steps) for outcome in outcomes),
        # calls to an app that had an open milestone; waits are left out, because they only let time pass
        "routing": share((outcome.cluster, outcome.routed, outcome.steps - outcome.waits) for outcome in outcomes),
        "recovery": share((outcome.cluster, outcome.recovered, outcome.faults) for outcome in outcomes if outcome.faults),
        "success_after_fault": share(_successes(outcome for outcome in outcomes if outcome.faults)),
        "damage": share((outcome.cluster, bool(outcome.damage), 1.0) for outcome in outcomes),
        "agent_raised": share((outcome.cluster, bool(outcome.raised), 1.0) for outcome in outcomes) if raised else None,
        # Here the agent refuses: it closes the ticket as impossible. In `refused_calls`, the company refuses a call.
        "refusal_precision": share(
            (outcome.cluster, outcome.impossible, 1.0) for outcome in outcomes if outcome.called_impossible
        ),
        "refusal_recall": share(
            (outcome.cluster, outcome.called_impossible, 1.0) for outcome in outcomes if outcome.impossible
        ),
        "tokens": mean((outcome.cluster, outcome.tokens, 1.0) for outcome in outcomes if outcome.tokens is not None),
        "cost": mean((outcome.cluster, outcome.cost, 1.0) for outcome in outcomes if outcome.cost is not None),
        "seconds": mean((outcome.cluster, outcome.seconds, 1.0) for outcome in outcomes if outcome.seconds is not None),
    }


def _successes(outcomes: Iterable[Outcome]) -> Iterator[Row]:
    return ((outcome.cluster, outcome.success, 1.0) for outcome in outcomes)


# -- metrics of repeated episodes --------------------------------------------------------------------------------------


def _repeated_numbers(outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    """`pass^k`: the probability that k trials of one task all succeed; `weather_pass^k`: the same for k weathers.

    The weathers of a task have the same facts and doses; chaos strikes differently in each.
    """
    trials = list(grouped(outcomes, _task).values())
    by_facts = grouped(outcomes, lambda outcome: (*_key_without_weather(outcome), outcome.trial)).values()
    weathers = [group for group in by_facts if len(group) > 1]
    return {
        **{f"pass^{k}": share(_all_succeeded(k, trials)) for k in range(2, max(map(len, trials), default=1) + 1)},
        **{
            f"weather_pass^{k}": share(_all_succeeded(k, weathers)) for k in range(2, max(map(len, weathers), default=1) + 1)
        },
    }


def _all_succeeded(k: int, groups: Iterable[Sequence[Outcome]]) -> Iterator[Row]:
    """For each group with at least k members: the share of its k-subsets in which all succeeded, an unbiased estimate."""
    for group in groups:
        if len(group) >= k:
            yield group[0].cluster, comb(sum(outcome.success for outcome in group), k) / comb(len(group), k), 1.0


# -- metrics of pairs --------------------------------------------------------------------------------------------------


def _pair_numbers(pairs: Sequence[PairOutcome], outcomes: Sequence[Outcome]) -> dict[str, Estimate | None]:
    other_ending, same_ending = _by_relevance(pairs, ENDING), _by_relevance(pairs, WAY, SAME_WORK)
    numbers = {
        "pair_pass": share(_passed(other_ending)),
        "pair_pass_way": share(_passed(_by_relevance(pairs, WAY))),
        "pair_pass_none": share(_passed(_by_relevance(pairs, SAME_WORK))),
        # how often the agent's decisions differ on pairs with different right endings, and on pairs with the same one
        "differs_ending": share(_decision_changed(other_ending)),
        "differs_other": share(_decision_changed(same_ending)),
        "causal_sensitivity": difference(_decision_changed(other_ending), _decision_changed(same_ending)),
    }
    # how often they differ in two trials of one task
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
        for first, second in combinations(trials, 2):
            yield first.cluster, first.choice != second.choice, 1.0


def _task(outcome: Outcome) -> str:
    return outcome.task_id


def _key_without_weather(outcome: Outcome) -> tuple[object, ...]:
    """What all weathers of a task have in common: family, split and seed (the key), doses and overridden causes (`do`)."""
    task = TaskId.parse(outcome.task_id)
    return task.key, task.doses, task.do
