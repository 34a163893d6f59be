"""Confidence intervals: how much a number would change if other tasks had been drawn.

Seeds are what is drawn at random, so all episodes that come from one seed (its twins, doses, trials, and repetitions in
which chaos strikes differently) are one cluster. The variance is the cluster-robust (sandwich) variance of a ratio of sums.
It is computed by formula, not by resampling, so it is the same on every machine.
"""

import math
from collections.abc import Callable, Iterable
from statistics import NormalDist

import msgspec

from companyos.core.groups import grouped
from companyos.core.wilson import wilson_interval

Row = tuple[str, float, float]  # cluster, numerator, denominator
LEVEL = 0.95
_ROUNDING_ERROR = 1e-15  # a variance up to this is taken for 0


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
    """A ratio of sums over clusters, and the influence of each cluster on it (by how much it moves the ratio)."""

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
            influence * other.influences[cluster]
            for cluster, influence in sorted(self.influences.items())
            if cluster in other.influences
        )
        return shared * count / (count - 1)


def clustered_ratio(rows: Iterable[Row]) -> ClusteredRatio | None:
    """The sum of all numerators over the sum of all denominators; None if the denominators sum to 0."""
    clusters = grouped(rows, lambda row: row[0])
    numerators = {name: math.fsum(numerator for _, numerator, _ in members) for name, members in clusters.items()}
    denominators = {name: math.fsum(denominator for _, _, denominator in members) for name, members in clusters.items()}
    total = math.fsum(denominators.values())
    if not total:
        return None
    value = math.fsum(numerators.values()) / total
    influences = {name: (numerators[name] - value * denominators[name]) / total for name in clusters}
    return ClusteredRatio(value, influences, round(total))


def share(rows: Iterable[Row]) -> Estimate | None:
    """Estimate a number in [0, 1], with Wilson's interval.

    The interval takes the effective sample size: the number of independent draws that would give the same variance.
    """
    return _estimate(rows, _wilson)


def mean(rows: Iterable[Row]) -> Estimate | None:
    """Estimate a number without bounds, with Student's t interval."""
    return _estimate(rows, _student)


def _estimate(rows: Iterable[Row], interval: Callable[[ClusteredRatio], tuple[float, float]]) -> Estimate | None:
    ratio = clustered_ratio(rows)
    if ratio is None:
        return None
    low, high = interval(ratio) if len(ratio.influences) > 1 else (None, None)
    return Estimate(ratio.value, low, high, ratio.n)


def _wilson(ratio: ClusteredRatio) -> tuple[float, float]:
    value, variance = ratio.value, ratio.variance
    # If all clusters have the same value, their variance says nothing, and each one counts as one observation.
    sample_size = value * (1 - value) / variance if variance > _ROUNDING_ERROR else len(ratio.influences)
    return wilson_interval(value, sample_size, ratio.quantile)


def _student(ratio: ClusteredRatio) -> tuple[float, float]:
    margin = ratio.quantile * math.sqrt(ratio.variance)
    return ratio.value - margin, ratio.value + margin


def difference(first_rows: Iterable[Row], second_rows: Iterable[Row], bounded: bool = True) -> Estimate | None:
    """Estimate the number of the first rows minus that of the second. The two may share clusters.

    The two intervals are combined by the method of variance estimates recovery (MOVER; for shares, Newcombe's method). So if
    they are asymmetric, as near 0 or 1, the interval of the difference is asymmetric, too.
    """
    first_rows, second_rows = list(first_rows), list(second_rows)
    estimate = share if bounded else mean
    first, second = estimate(first_rows), estimate(second_rows)
    first_ratio, second_ratio = clustered_ratio(first_rows), clustered_ratio(second_rows)
    if first is None or second is None or first_ratio is None or second_ratio is None:
        return None
    value, n = first.value - second.value, min(first.n, second.n)
    if first.low is None or first.high is None or second.low is None or second.high is None:
        return Estimate(value, None, None, n)
    standard_errors = math.sqrt(first_ratio.variance * second_ratio.variance)  # their product
    correlation = first_ratio.covariance(second_ratio) / standard_errors if standard_errors > _ROUNDING_ERROR else 0.0
    below = _combined_margin(first.value - first.low, second.high - second.value, correlation)
    above = _combined_margin(first.high - first.value, second.value - second.low, correlation)
    return Estimate(value, value - below, value + above, n)


def _combined_margin(first: float, second: float, correlation: float) -> float:
    """The margin of error of a difference, from the margins of its two numbers."""
    return math.sqrt(max(0.0, first * first - 2 * correlation * first * second + second * second))


def quantile(freedom: int, level: float = LEVEL) -> float:
    """The two-sided quantile of Student's t distribution with `freedom` degrees of freedom.

    Exact for 1 and 2 degrees of freedom; for more, the Cornish-Fisher series around the normal quantile `z`.
    """
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
