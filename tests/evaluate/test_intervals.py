"""Intervals have the coverage that they promise: about 95 of 100 contain the true value."""

from collections.abc import Callable
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.evaluate.stats.intervals import Row, difference, mean, quantile, share
from tests.helpers import STEADY

AGENTS, TASKS = 1000, 240
Shape = Callable[[Random], tuple[float, float]]


def uneven(draw: Random) -> tuple[float, float]:
    """How hard tasks are for an agent: either nearly certain or nearly impossible, or all of similar difficulty."""
    return draw.uniform(0.3, 3), draw.uniform(0.3, 3)


def weak(draw: Random) -> tuple[float, float]:
    success, width = draw.uniform(0.02, 0.1), draw.uniform(0.3, 3)
    return success * width / (1 - success), width


def strong(draw: Random) -> tuple[float, float]:
    return weak(draw)[::-1]


def covered(played: Callable[[Random], tuple[float, float | None, float | None]]) -> float:
    """The share of simulated agents whose interval contains the true value."""
    draw, hits = Random(6), 0
    for _ in range(AGENTS):
        truth, low, high = played(draw)
        hits += (-inf if low is None else low) <= truth <= (inf if high is None else high)
    return hits / AGENTS


def wins(draw: Random, ease: float, count: int) -> list[float]:
    return [float(draw.random() < ease) for _ in range(count)]


@pytest.mark.parametrize("trials", [1, 4])
@pytest.mark.parametrize("shape", [uneven, weak, strong])
def test_success_over_tasks_of_unequal_difficulty_is_covered(shape: Shape, trials: int) -> None:
    def played(draw: Random) -> tuple[float, float | None, float | None]:
        a, b = shape(draw)
        rows = [(str(t), won, 1.0) for t in range(TASKS) for won in wins(draw, draw.betavariate(a, b), trials)]
        found = share(rows)
        assert found is not None
        return a / (a + b), found.low, found.high

    assert 0.93 <= covered(played) <= 0.97


@pytest.mark.parametrize("shape", [uneven, weak, strong])
def test_pair_pass_is_covered_though_the_pairs_of_a_seed_share_its_difficulty(shape: Shape) -> None:
    def played(draw: Random) -> tuple[float, float | None, float | None]:
        a, b = shape(draw)
        rows: list[Row] = []
        for seed in range(TASKS // 2):
            ease = draw.betavariate(a, b)
            rows += [(str(seed), min(wins(draw, ease, 2)), 1.0) for _ in range(2)]
        found = share(rows)
        assert found is not None
        return a * (a + 1) / ((a + b) * (a + b + 1)), found.low, found.high

    assert 0.93 <= covered(played) <= 0.97


def test_the_difference_of_two_agents_on_the_same_tasks_is_covered() -> None:
    def played(draw: Random) -> tuple[float, float | None, float | None]:
        a, b = uneven(draw)
        better = draw.uniform(0.5, 1)  # the second wins so much of what the first would win
        tasks = [draw.betavariate(a, b) for _ in range(TASKS)]
        ours, theirs = ([(str(n), wins(draw, e * f, 1)[0], 1.0) for n, e in enumerate(tasks)] for f in (1.0, better))
        found = difference(ours, theirs)
        assert found is not None
        return (1 - better) * a / (a + b), found.low, found.high

    assert 0.93 <= covered(played) <= 0.97


def test_counting_trials_as_independent_tasks_would_not_cover() -> None:
    def played(draw: Random) -> tuple[float, float | None, float | None]:
        a, b = 0.3, 0.3
        tasks = [wins(draw, draw.betavariate(a, b), 4) for _ in range(TASKS)]
        found = share((f"{t}/{n}", won, 1.0) for t, trials in enumerate(tasks) for n, won in enumerate(trials))
        assert found is not None
        return a / (a + b), found.low, found.high

    assert covered(played) < 0.85


def test_students_quantile_is_as_in_the_tables() -> None:
    tables = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 10: 2.228, 19: 2.093, 239: 1.970}
    assert {freedom: quantile(freedom) for freedom in tables} == pytest.approx(tables, abs=0.004)


rows = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 1), st.just(1.0)), min_size=1, max_size=40)


@STEADY
@given(rows, st.randoms(use_true_random=False))
def test_an_interval_contains_its_number_and_does_not_depend_on_the_order(found: list[Row], shuffler: Random) -> None:
    estimate, number = share(found), mean(found)
    assert estimate is not None
    assert number is not None
    if estimate.low is not None and estimate.high is not None:
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
    mixed = list(found)
    shuffler.shuffle(mixed)
    again = share(mixed)
    assert again is not None
    assert again.rounded() == estimate.rounded()


@STEADY
@given(rows)
def test_a_run_does_not_differ_from_itself(found: list[Row]) -> None:
    apart = difference(found, found)
    assert apart is not None
    assert apart.value == 0
    assert apart.low is None or apart.low <= 0 <= (apart.high or 0.0)


def test_nothing_to_count_has_no_number_and_one_seed_no_interval() -> None:
    assert share([]) is None
    alone = share([("a", 1.0, 1.0), ("a", 0.0, 1.0)])
    assert alone is not None
    assert (alone.value, alone.low, alone.high, alone.n) == (0.5, None, None, 2)


def test_who_never_fails_is_not_known_to_be_perfect() -> None:
    found = share((str(n), 1.0, 1.0) for n in range(240))
    assert found is not None
    assert found.high == 1
    assert 0.98 < (found.low or 0) < 0.99
