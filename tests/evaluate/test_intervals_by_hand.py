"""Intervals of few clusters, computed by hand with Student's quantiles from printed tables."""

import math

import pytest

from companyos.evaluate.stats.intervals import (
    ClusteredRatio,
    Estimate,
    Row,
    clustered_ratio,
    difference,
    mean,
    quantile,
    share,
)

T1, T2 = 12.706205, 4.302653  # Student's quantiles of 97.5 % for 1 and 2 degrees of freedom


def bounds(found: Estimate | None) -> tuple[float, float]:
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    return found.low, found.high


def of(found: ClusteredRatio | None) -> ClusteredRatio:
    assert found is not None
    return found


def rows(**clusters: float) -> list[Row]:
    """One row for each cluster, with denominator 1."""
    return [(name, value, 1.0) for name, value in clusters.items()]


def test_a_mean_of_three_clusters_has_students_interval() -> None:
    # 1, 2, 6: the mean is 3, the sample variance ((-2)² + (-1)² + 3²) / 2 = 7, the variance of the mean 7 / 3.
    half = T2 * math.sqrt(7 / 3)
    assert bounds(mean(rows(a=1, b=2, c=6))) == pytest.approx((3 - half, 3 + half), rel=1e-5)


def test_a_share_of_two_clusters_has_wilsons_interval_with_students_quantile() -> None:
    # One of two won. The variance of 1/2 is (2 * (1/4)²) * 2/1 = 1/4, as much as of one draw: n = 1.
    # Wilson with n = 1, p = 1/2: 1/2 ± t * sqrt(1/4 + t²/4) / (1 + t²) = 1/2 ± t / (2 * sqrt(1 + t²)).
    half = T1 / (2 * math.sqrt(1 + T1 * T1))
    assert bounds(share(rows(a=1, b=0))) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-5)


def test_the_interval_of_a_share_of_three_clusters_is_asymmetric() -> None:
    # Two of three won: p = 2/3, variance ((1/9)² + (1/9)² + (2/9)²) * 3/2 = 1/9, n = (2/9) / (1/9) = 2.
    p, n = 2 / 3, 2.0
    middle = 1 + T2 * T2 / n
    centre = (p + T2 * T2 / (2 * n)) / middle
    half = T2 * math.sqrt(p * (1 - p) / n + T2 * T2 / (4 * n * n)) / middle
    assert bounds(share(rows(a=1, b=1, c=0))) == pytest.approx((centre - half, centre + half), rel=1e-5)


def test_where_all_clusters_fare_alike_each_counts_for_one_draw() -> None:
    # Three of three won: Wilson's lower bound with n = 3 is 1 / (1 + t²/n), and the upper one is 1.
    assert bounds(share(rows(a=1, b=1, c=1))) == pytest.approx((1 / (1 + T2 * T2 / 3), 1.0), rel=1e-5)
    assert bounds(share(rows(a=0, b=0, c=0))) == pytest.approx((0.0, T2 * T2 / 3 / (1 + T2 * T2 / 3)), rel=1e-5)


def test_several_rows_of_a_cluster_that_all_fare_alike_are_one_draw() -> None:
    assert bounds(share(rows(a=1, b=1, c=1) * 4)) == pytest.approx(bounds(share(rows(a=1, b=1, c=1))))


def test_a_cluster_is_weighted_by_its_size() -> None:
    # Cluster a won 1 of 2, b won 1 of 1: 2/3 in all. a influences by (1 - 4/3) / 3 = -1/9, b by (1 - 2/3) / 3 = 1/9.
    uneven = [("a", 1.0, 1.0), ("a", 0.0, 1.0), ("b", 1.0, 1.0)]
    found = of(clustered_ratio(uneven))
    assert found.value == pytest.approx(2 / 3)
    assert found.influences == pytest.approx({"a": -1 / 9, "b": 1 / 9})
    assert found.n == 3
    half = T1 * math.sqrt(2 / 81 * 2)
    assert bounds(mean(uneven)) == pytest.approx((2 / 3 - half, 2 / 3 + half), rel=1e-5)


def test_rows_of_one_cluster_count_like_their_sum() -> None:
    split = [("a", 1.0, 1.0), ("a", 2.0, 1.0), ("b", 4.0, 1.0), ("b", 5.0, 1.0)]
    whole = [("a", 3.0, 2.0), ("b", 9.0, 2.0)]
    assert bounds(mean(split)) == pytest.approx(bounds(mean(whole)))


def test_a_difference_on_the_same_clusters_is_the_paired_one() -> None:
    # 3, 5, 10 against 1, 4, 4: the differences are 2, 1, 6, of mean 3 and sample variance 7, as above.
    half = T2 * math.sqrt(7 / 3)
    found = difference(rows(a=3, b=5, c=10), rows(a=1, b=4, c=4), bounded=False)
    assert found is not None
    assert found.value == pytest.approx(3)
    assert found.n == 3
    assert bounds(found) == pytest.approx((3 - half, 3 + half), rel=1e-5)


def test_a_difference_over_other_clusters_adds_both_variances() -> None:
    # 1, 2, 6 against 10, 11, 15 elsewhere: each has variance 7 / 3, and nothing is shared.
    half = T2 * math.sqrt(2 * 7 / 3)
    found = difference(rows(a=1, b=2, c=6), rows(d=10, e=11, f=15), bounded=False)
    assert bounds(found) == pytest.approx((-9 - half, -9 + half), rel=1e-5)


def test_the_interval_of_a_difference_of_shares_is_as_asymmetric_as_theirs() -> None:
    # Newcombe: below = sqrt((p1 - low1)² + (high2 - p2)²), above = sqrt((high1 - p1)² + (p2 - low2)²), nothing shared.
    ours, theirs = rows(a=1, b=1, c=0), rows(d=0, e=0, f=1)
    (low1, high1), (low2, high2) = bounds(share(ours)), bounds(share(theirs))
    below, above = math.hypot(2 / 3 - low1, high2 - 1 / 3), math.hypot(high1 - 2 / 3, 1 / 3 - low2)
    assert bounds(difference(ours, theirs)) == pytest.approx((1 / 3 - below, 1 / 3 + above), rel=1e-5)


def test_covariance_counts_the_clusters_that_either_number_has() -> None:
    # Pulls of 1, 2, 6: -2/3, -1/3, 1. Of 4, 0 over b and c: 1, -1. Shared: b and c. Clusters in all: 3.
    ours, theirs = of(clustered_ratio(rows(a=1, b=2, c=6))), of(clustered_ratio(rows(b=4, c=0)))
    assert ours.covariance(theirs) == theirs.covariance(ours) == pytest.approx((-1 / 3 - 1) * 3 / 2)
    assert ours.variance == pytest.approx(7 / 3)


def test_one_cluster_has_a_number_and_no_interval_on_either_side_of_a_difference() -> None:
    alone, several = rows(a=1), rows(a=1, b=0)
    for ours, theirs in ((alone, several), (several, alone), (alone, alone)):
        found = difference(ours, theirs)
        assert found is not None
        assert (found.low, found.high) == (None, None)
    assert difference(several, []) is None
    assert difference([], several) is None


@pytest.mark.parametrize(
    ("freedom", "level", "table"),
    [
        (1, 0.95, 12.7062),
        (2, 0.95, 4.3027),
        (3, 0.95, 3.1824),
        (4, 0.95, 2.7764),
        (9, 0.95, 2.2622),
        (30, 0.95, 2.0423),
        (1, 0.5, 1.0),
        (2, 0.9, 2.92),
        (30, 0.99, 2.75),
    ],
)
def test_students_quantile_is_that_of_the_tables(freedom: int, level: float, table: float) -> None:
    assert quantile(freedom, level) == pytest.approx(table, rel=0.002)


def test_an_estimate_is_rounded_in_all_its_numbers() -> None:
    assert Estimate(1 / 3, 2 / 3, None, 7).rounded() == Estimate(0.333333, 0.666667, None, 7)
