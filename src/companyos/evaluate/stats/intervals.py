"""Confidence intervals: how much a number would change if other tasks had been drawn.

Seeds are what is drawn at random, so everything that comes from one seed (its twins, doses, weathers and trials) is one
cluster. The variance is the cluster-robust (sandwich) variance of a ratio of sums. It is computed by formula, not by
resampling, so it is the same on every machine.
"""

import math
from collections.abc import Callable, Iterable
from statistics import NormalDist

import msgspec

from companyos.core.groups import grouped
from companyos.core.wilson import wilson_interval

Row = tuple[str, float, float]  # cluster, numerator, denominator
LEVEL = 0.95
_NOTHING = 1e-15  # a variance below this is a rounding error


class Estimate(msgspec.Struct, frozen=True):
    """A number with its 95 % interval. `n` is the denominator. With fewer than two clusters there is no interval."""

    value: float
    low: float | None
    high: float | None
    n: int

    def rounded(self) -> "Estimate":
        """Round to six digits, so that no file depends on the last bit of a machine's arithmetic."""
        low, high = (None if bound is None else round(bound, 6) for bound in (self.low, self.high))
        return Estimate(round(self.value, 6), low, high, self.n)


class ClusteredRatio(msgspec.Struct, frozen=True):
    """A ratio of sums over clusters, and the influence of each cluster on it."""

    value: float
    influences: dict[str, float]
    n: int

    @property
    def variance(self) -> float:
        return self.covariance(self)

    @property
    def quantile(self) -> float:
        return quantile(len(self.influences) - 1)

    def covariance(self, other: "ClusteredRatio") -> float:
        """The covariance of two ratios over the same draw of clusters. A cluster that only one of them has adds nothing."""
        count = len(self.influences.keys() | other.influences.keys())
        shared = math.fsum(
            own * other.influences[name] for name, own in sorted(self.influences.items()) if name in other.influences
        )
        return shared * count / (count - 1)


def clustered_ratio(rows: Iterable[Row]) -> ClusteredRatio | None:
    """The sum of all numerators over the sum of all denominators; None if that is 0."""
    clusters = grouped(rows, lambda row: row[0])
    parts = {cluster: math.fsum(part for _, part, _ in some) for cluster, some in clusters.items()}
    sizes = {cluster: math.fsum(size for _, _, size in some) for cluster, some in clusters.items()}
    size = math.fsum(sizes.values())
    if not size:
        return None
    value = math.fsum(parts.values()) / size
    return ClusteredRatio(value, {c: (parts[c] - value * sizes[c]) / size for c in parts}, round(size))


def share(rows: Iterable[Row]) -> Estimate | None:
    """Estimate a number in [0, 1]. Its interval is Wilson's, for the number of independent draws that has this variance."""
    return _estimate(rows, _wilson)


def mean(rows: Iterable[Row]) -> Estimate | None:
    """Estimate a number without bounds. Its interval is Student's."""
    return _estimate(rows, _student)


def _estimate(rows: Iterable[Row], interval: Callable[[ClusteredRatio], tuple[float, float]]) -> Estimate | None:
    ratio = clustered_ratio(rows)
    if ratio is None:
        return None
    low, high = interval(ratio) if len(ratio.influences) > 1 else (None, None)
    return Estimate(ratio.value, low, high, ratio.n)


def _wilson(ratio: ClusteredRatio) -> tuple[float, float]:
    value, variance = ratio.value, ratio.variance
    # If all clusters have the same value, their variance says nothing, and each one counts as one draw.
    draws = value * (1 - value) / variance if variance > _NOTHING else len(ratio.influences)
    return wilson_interval(value, draws, ratio.quantile)


def _student(ratio: ClusteredRatio) -> tuple[float, float]:
    half = ratio.quantile * math.sqrt(ratio.variance)
    return ratio.value - half, ratio.value + half


def difference(ours: Iterable[Row], theirs: Iterable[Row], bounded: bool = True) -> Estimate | None:
    """Estimate the first number minus the second. The two may share clusters.

    The two intervals are combined by the method of variance estimates recovery (MOVER; for shares, Newcombe's method). So a
    difference of numbers near 0 or 1 has an interval that is as asymmetric as theirs.
    """
    ours, theirs = list(ours), list(theirs)
    estimate = share if bounded else mean
    one, other = estimate(ours), estimate(theirs)
    left, right = clustered_ratio(ours), clustered_ratio(theirs)
    if one is None or other is None or left is None or right is None:
        return None
    value, n = one.value - other.value, min(one.n, other.n)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Estimate(value, None, None, n)
    both = math.sqrt(left.variance * right.variance)
    correlation = left.covariance(right) / both if both > _NOTHING else 0.0
    below = _recovered(one.value - one.low, other.high - other.value, correlation)
    above = _recovered(one.high - one.value, other.value - other.low, correlation)
    return Estimate(value, value - below, value + above, n)


def _recovered(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * correlation * one * other + other * other))


def quantile(freedom: int, level: float = LEVEL) -> float:
    """Student's two-sided quantile. Exact for 1 and 2 degrees of freedom; a series expansion for more."""
    tail = (1 + level) / 2
    if freedom == 1:
        return math.tan(math.pi * (tail - 0.5))
    if freedom == 2:
        return (2 * tail - 1) * math.sqrt(2 / (4 * tail * (1 - tail)))
    z = NormalDist().inv_cdf(tail)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(freedom) ** power for power, term in enumerate(terms))
