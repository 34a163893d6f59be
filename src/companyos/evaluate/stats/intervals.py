"""Intervals: how sure a number is, by how much it would have moved had other tasks been drawn.

What is drawn are seeds, so all that comes of one seed (its twins, doses, weathers and trials) is one cluster. The variance
is that of resampling clusters, worked out (the sandwich of a ratio of sums) rather than simulated: the same everywhere.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import NormalDist

import msgspec

Row = tuple[str, float, float]  # cluster, what was reached, of how much
LEVEL = 0.95
_NOTHING = 1e-15  # a variance that is none but for rounding


class Estimate(msgspec.Struct, frozen=True):
    """A number with its 95 % interval; `n` is how much was counted. With fewer than two clusters there is no interval."""

    value: float
    low: float | None
    high: float | None
    n: int

    def rounded(self) -> "Estimate":
        """To six digits, so that no file depends on a machine's last bit."""
        low, high = (None if bound is None else round(bound, 6) for bound in (self.low, self.high))
        return Estimate(round(self.value, 6), low, high, self.n)


class Leaning(msgspec.Struct, frozen=True):
    """A ratio of sums, and by how much each cluster leans on it."""

    value: float
    pulls: dict[str, float]
    n: int

    @property
    def variance(self) -> float:
        return self.covariance(self)

    @property
    def quantile(self) -> float:
        return quantile(len(self.pulls) - 1)

    def covariance(self, other: "Leaning") -> float:
        """Of two numbers over the same draw of clusters; a cluster that only one of them has moves only that one."""
        count = len(self.pulls.keys() | other.pulls.keys())
        shared = math.fsum(pull * other.pulls[name] for name, pull in sorted(self.pulls.items()) if name in other.pulls)
        return shared * count / (count - 1)


def leaning(rows: Iterable[Row]) -> Leaning | None:
    """The ratio of all that was reached to all there was; None where there was nothing."""
    reached: dict[str, list[float]] = defaultdict(list)
    whole: dict[str, list[float]] = defaultdict(list)
    for cluster, part, of in rows:
        reached[cluster].append(part)
        whole[cluster].append(of)
    parts = {cluster: math.fsum(numbers) for cluster, numbers in reached.items()}
    sizes = {cluster: math.fsum(numbers) for cluster, numbers in whole.items()}
    size = math.fsum(sizes.values())
    if not size:
        return None
    value = math.fsum(parts.values()) / size
    return Leaning(value, {c: (parts[c] - value * sizes[c]) / size for c in parts}, round(size))


def share(rows: Iterable[Row]) -> Estimate | None:
    """A number in [0, 1], by Wilson's interval for as many independent draws as would vary as much as these clusters do."""
    return _estimate(rows, _wilson)


def mean(rows: Iterable[Row]) -> Estimate | None:
    """A number without bounds, by Student's interval."""
    return _estimate(rows, _student)


def _estimate(rows: Iterable[Row], interval: Callable[[Leaning], tuple[float, float]]) -> Estimate | None:
    found = leaning(rows)
    if found is None:
        return None
    low, high = interval(found) if len(found.pulls) > 1 else (None, None)
    return Estimate(found.value, low, high, found.n)


def _wilson(found: Leaning) -> tuple[float, float]:
    value, variance, t = found.value, found.variance, found.quantile
    spread = value * (1 - value)
    # Where all fared alike there is nothing to tell by how clusters vary: each then counts for one draw.
    draws = spread / variance if variance > _NOTHING else len(found.pulls)
    middle = 1 + t * t / draws
    centre = (value + t * t / (2 * draws)) / middle
    half = t * math.sqrt(spread / draws + t * t / (4 * draws * draws)) / middle
    return max(0.0, min(value, centre - half)), min(1.0, max(value, centre + half))


def _student(found: Leaning) -> tuple[float, float]:
    half = found.quantile * math.sqrt(found.variance)
    return found.value - half, found.value + half


def difference(ours: Iterable[Row], theirs: Iterable[Row], bounded: bool = True) -> Estimate | None:
    """By how much the first number exceeds the second, whose clusters may be the same ones.

    The two intervals are put together by the method of variance estimates recovery (Newcombe's for shares): so a difference
    of numbers near 0 or 1 has an interval that is as lopsided as theirs.
    """
    ours, theirs = list(ours), list(theirs)
    estimate = share if bounded else mean
    one, other = estimate(ours), estimate(theirs)
    left, right = leaning(ours), leaning(theirs)
    if one is None or other is None or left is None or right is None:
        return None
    value, n = one.value - other.value, min(one.n, other.n)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Estimate(value, None, None, n)
    both = math.sqrt(left.variance * right.variance)
    together = left.covariance(right) / both if both > _NOTHING else 0.0
    below = _recovered(one.value - one.low, other.high - other.value, together)
    above = _recovered(one.high - one.value, other.value - other.low, together)
    return Estimate(value, value - below, value + above, n)


def _recovered(one: float, other: float, together: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * together * one * other + other * other))


def quantile(freedom: int, level: float = LEVEL) -> float:
    """Student's: between minus and plus this lies the level. Exact for 1 and 2 degrees of freedom, a series for more."""
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
