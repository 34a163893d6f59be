"""Comparison: two runs on the same tasks, by how much they differ, and how sure that is."""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean, variance

import msgspec

from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.groups import grouped
from companyos.evaluate.stats.intervals import LEVEL, Estimate, Row, difference, quantile, share

POWER = 0.8  # how likely a difference is to be found that is said to be resolved
_FAR = NormalDist().inv_cdf((1 + LEVEL) / 2) + NormalDist().inv_cdf(POWER)


class Comparison(msgspec.Struct, frozen=True):
    """What two runs have in common and in what they differ; differences are the second's number less the first's."""

    tasks: int  # that both played
    unpaired: int  # that only one of them did
    ours: Estimate
    theirs: Estimate
    success: Estimate
    score: Estimate
    total: Estimate
    families: dict[str, Estimate]  # of success
    noise_floor: float | None  # two runs of one and the same agent stay within this, in 95 of 100 cases; None: one trial
    resolves: float  # the least difference in success that so many tasks find in four of five cases
    needed: int | None  # so many tasks would find the difference that was seen; None where there was none


def compare(ours: Iterable[Outcome], theirs: Iterable[Outcome]) -> Comparison | None:
    """Compares two runs, task by task; None where they have fewer than two seeds in common."""
    first, second = (grouped(run, lambda one: one.task_id) for run in (ours, theirs))
    shared = sorted(first.keys() & second.keys())
    pairs = [(first[task], second[task]) for task in shared]
    clusters = {before[0].cluster for before, _ in pairs}
    if len(clusters) < 2:
        return None
    success = _difference(pairs, "success")
    one, other = (_known(share(_rows(side, "success"))) for side in zip(*pairs, strict=True))
    width = (success.high or 0.0) - (success.low or 0.0)  # with two clusters there is an interval
    resolves = _FAR * width / (2 * quantile(len(clusters) - 1))
    return Comparison(
        tasks=len(shared),
        unpaired=len(first.keys() ^ second.keys()),
        ours=one,
        theirs=other,
        success=success,
        score=_difference(pairs, "score"),
        total=_difference(pairs, "total", bounded=False),
        families={
            name: _difference(some, "success") for name, some in sorted(grouped(pairs, lambda p: p[0][0].family).items())
        },
        noise_floor=_noise(pairs),
        resolves=round(resolves, 6),
        needed=math.ceil(len(shared) * (resolves / success.value) ** 2) if success.value else None,
    )


def resolvable(tasks: int, success: float, together: float, trials: int = 1, steady: float = 0.0) -> float:
    """The least difference in success between two agents about as good as each other that so many tasks find.

    `together` is the correlation of what the two reach on a task; `steady` that of two trials of one agent on one task.
    """
    of_one = success * (1 - success) * (steady + (1 - steady) / trials)
    return _FAR * math.sqrt(2 * of_one * (1 - together) / tasks)


Pairing = tuple[list[Outcome], list[Outcome]]  # the trials of one task, by each


def _difference(pairs: Sequence[Pairing], field: str, bounded: bool = True) -> Estimate:
    ours, theirs = zip(*pairs, strict=True)
    return _known(difference(_rows(theirs, field), _rows(ours, field), bounded))


def _known(found: Estimate | None) -> Estimate:
    assert found is not None, "there are pairs"
    return found.rounded()


def _rows(side: Iterable[list[Outcome]], field: str) -> list[Row]:
    return [(trials[0].cluster, fmean(getattr(one, field) for one in trials), 1.0) for trials in side]


def _noise(pairs: Sequence[Pairing]) -> float | None:
    """From how trials of one task vary, for as many trials as there were."""
    if any(len(trials) < 2 for pair in pairs for trials in pair):
        return None
    moved = math.fsum(variance(float(one.success) for one in trials) / len(trials) for pair in pairs for trials in pair)
    return round(NormalDist().inv_cdf((1 + LEVEL) / 2) * math.sqrt(moved) / len(pairs), 6)
