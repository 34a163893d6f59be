"""Compares two runs on the same tasks: by how much they differ, and how certain that is."""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean, variance

import msgspec

from companyos.core.groups import grouped
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.intervals import LEVEL, Estimate, Row, difference, quantile, share

MIN_SEEDS = 20  # with fewer, intervals over seeds are not reliable, and no run is called better
POWER = 0.8  # the probability with which a comparison detects a difference of size `smallest_detectable`
_JSON_KEYS = {  # the names of these fields in `companyos compare --json`
    "first_success": "ours",
    "second_success": "theirs",
    "success_difference": "success",
    "score_difference": "score",
    "return_difference": "total",
    "smallest_detectable": "resolves",
}
# A difference of this many standard errors is detected with probability `POWER`.
_DETECTABLE_ERRORS = NormalDist().inv_cdf((1 + LEVEL) / 2) + NormalDist().inv_cdf(POWER)
FIRST_BETTER, SECOND_BETTER, CANNOT_TELL = "first is better", "second is better", "cannot tell"


class Comparison(msgspec.Struct, frozen=True, rename=_JSON_KEYS):
    """How two runs differ. Every difference is the second run's number minus the first one's."""

    verdict: str  # `FIRST_BETTER`, `SECOND_BETTER` or `CANNOT_TELL`
    tasks: int  # played by both
    seeds: int  # of these tasks
    unpaired: int  # tasks that only one of them played
    first_success: Estimate
    second_success: Estimate
    success_difference: Estimate
    score_difference: Estimate
    return_difference: Estimate
    families: dict[str, Estimate]  # the difference in success by family
    noise_floor: float | None  # two runs of one agent differ by less in 95 % of cases; None if a task had one trial
    smallest_detectable: float  # difference in success that this many tasks detect with probability `POWER`
    needed: int | None  # how many tasks would detect a difference as large as this one; None if it is 0


def compare(first: Iterable[Outcome], second: Iterable[Outcome]) -> Comparison | None:
    """Compare two runs task by task. None if they have fewer than two seeds in common."""
    first_tasks, second_tasks = (grouped(run, lambda outcome: outcome.task_id) for run in (first, second))
    shared = sorted(first_tasks.keys() & second_tasks.keys())
    pairs = [(first_tasks[task], second_tasks[task]) for task in shared]
    clusters = {trials[0].cluster for trials, _ in pairs}
    if len(clusters) < 2:
        return None
    success = _difference(pairs, "success")
    first_success, second_success = (_known(share(_rows(tasks, "success"))) for tasks in zip(*pairs, strict=True))
    width = (success.high or 0.0) - (success.low or 0.0)  # two clusters or more always give an interval
    detectable = _DETECTABLE_ERRORS * width / (2 * quantile(len(clusters) - 1))
    return Comparison(
        verdict=_verdict(success, len(clusters)),
        tasks=len(shared),
        seeds=len(clusters),
        unpaired=len(first_tasks.keys() ^ second_tasks.keys()),
        first_success=first_success,
        second_success=second_success,
        success_difference=success,
        score_difference=_difference(pairs, "score"),
        return_difference=_difference(pairs, "total", bounded=False),
        families={
            name: _difference(pairs_of_family, "success")
            for name, pairs_of_family in sorted(grouped(pairs, lambda pair: pair[0][0].family).items())
        },
        noise_floor=_noise_floor(pairs),
        smallest_detectable=round(detectable, 6),
        needed=math.ceil(len(shared) * (detectable / success.value) ** 2) if success.value else None,
    )


def _verdict(difference_of_success: Estimate, seeds: int) -> str:
    """Name the better run, if there are enough seeds and the interval of the difference does not contain 0."""
    low, high = difference_of_success.low, difference_of_success.high
    if seeds < MIN_SEEDS or low is None or high is None or low <= 0 <= high:
        return CANNOT_TELL
    return SECOND_BETTER if low > 0 else FIRST_BETTER


def resolvable(tasks: int, success: float, correlation: float, trials: int = 1, trial_correlation: float = 0.0) -> float:
    """The smallest difference in success between two similar agents that this many tasks detect with probability `POWER`.

    `correlation` is that of the two agents' successes on a task, `trial_correlation` that of two trials of one agent.
    """
    variance = success * (1 - success) * (trial_correlation + (1 - trial_correlation) / trials)
    return _DETECTABLE_ERRORS * math.sqrt(2 * variance * (1 - correlation) / tasks)


Pairing = tuple[list[Outcome], list[Outcome]]  # the trials of one task in the first run, and in the second


def _difference(pairs: Sequence[Pairing], field: str, bounded: bool = True) -> Estimate:
    """The mean of a field of the outcomes in the second run, minus that in the first."""
    first, second = zip(*pairs, strict=True)
    return _known(difference(_rows(second, field), _rows(first, field), bounded))


def _known(estimate: Estimate | None) -> Estimate:
    """Round an estimate of which the caller knows that it exists."""
    assert estimate is not None, "there are pairs"
    return estimate.rounded()


def _rows(tasks: Iterable[list[Outcome]], field: str) -> list[Row]:
    """The mean of a field over the trials of each task."""
    return [(trials[0].cluster, fmean(getattr(outcome, field) for outcome in trials), 1.0) for trials in tasks]


def _noise_floor(pairs: Sequence[Pairing]) -> float | None:
    """The noise floor, from how much the trials of one task vary."""
    if any(len(trials) < 2 for pair in pairs for trials in pair):
        return None
    variance_sum = math.fsum(
        variance(float(outcome.success) for outcome in trials) / len(trials) for pair in pairs for trials in pair
    )
    return round(NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(variance_sum) / len(pairs), 6)
