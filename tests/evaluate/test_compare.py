"""Comparison: paired by task, with its noise floor and the difference that it can detect."""

from random import Random

import msgspec
import pytest

from companyos.evaluate.stats.compare import CANNOT_TELL, FIRST_BETTER, MIN_SEEDS, SECOND_BETTER, compare, resolvable
from tests.evaluate.helpers import outcome


def test_only_tasks_that_both_played_are_compared() -> None:
    ours = [outcome(seed, seed % 2 == 0) for seed in range(10)]
    theirs = [outcome(seed) for seed in range(2, 14)]
    found = compare(ours, theirs)
    assert found is not None
    assert (found.tasks, found.unpaired) == (8, 6)
    assert found.success_difference.value == 0.5
    assert found.return_difference.value == 10
    assert found.families["vendor_onboarding"] == found.success_difference


def test_the_json_of_a_comparison_keeps_its_published_keys() -> None:
    found = compare([outcome(0), outcome(1)], [outcome(0), outcome(1)])
    assert {"success", "score", "total", "resolves"} <= msgspec.to_builtins(found).keys()


@pytest.mark.parametrize(("seeds", "verdict"), [(MIN_SEEDS - 1, CANNOT_TELL), (MIN_SEEDS, SECOND_BETTER)])
def test_few_seeds_cannot_tell_which_run_is_better_however_much_they_differ(seeds: int, verdict: str) -> None:
    lost, won = ([outcome(seed, success) for seed in range(seeds)] for success in (False, True))
    found, back = compare(lost, won), compare(won, lost)
    assert found is not None
    assert back is not None
    assert (found.seeds, found.verdict) == (seeds, verdict)
    assert back.verdict == {CANNOT_TELL: CANNOT_TELL, SECOND_BETTER: FIRST_BETTER}[verdict]


def test_a_difference_whose_interval_contains_0_cannot_tell() -> None:
    found = compare([outcome(seed, seed < 50) for seed in range(100)], [outcome(seed, seed >= 49) for seed in range(100)])
    assert found is not None
    assert found.success_difference.value > 0
    assert found.verdict == CANNOT_TELL


def test_runs_without_tasks_in_common_are_not_compared() -> None:
    assert compare([outcome(0), outcome(1)], [outcome(2), outcome(3)]) is None
    assert compare([outcome(0)], [outcome(0)]) is None


def test_without_a_difference_no_number_of_tasks_is_computed() -> None:
    same = [outcome(seed, seed % 2 == 0) for seed in range(40)]
    found = compare(same, same)
    assert found is not None
    assert (found.success_difference.value, found.needed) == (0, None)
    assert found.noise_floor is None


def test_runs_that_win_the_same_tasks_have_a_narrower_interval() -> None:
    ours = [outcome(seed, seed < 50) for seed in range(100)]
    near = [outcome(seed, seed < 58) for seed in range(100)]  # wins all that the first one wins
    far = [outcome(seed, seed >= 42) for seed in range(100)]  # as good, on other tasks
    paired, apart = compare(ours, near), compare(ours, far)
    assert paired is not None
    assert apart is not None
    assert paired.success_difference.value == apart.success_difference.value == pytest.approx(0.08)
    assert (paired.success_difference.low or 0) > 0 > (apart.success_difference.low or 0)
    assert paired.smallest_detectable < apart.smallest_detectable
    assert (paired.needed or 0) < 100 < (apart.needed or 0)


def test_two_runs_of_one_agent_stay_within_the_noise_floor() -> None:
    draw, within, runs = Random(2), 0, 400
    for _ in range(runs):
        ease = [draw.betavariate(0.5, 0.5) for _ in range(30)]
        ours, theirs = (
            [outcome(seed, draw.random() < e, trial=trial) for seed, e in enumerate(ease) for trial in range(4)]
            for _ in "ab"
        )
        found = compare(ours, theirs)
        assert found is not None
        assert found.noise_floor is not None
        within += abs(found.success_difference.value) <= found.noise_floor
    assert abs(within / runs - 0.95) <= 3 * (0.95 * 0.05 / runs) ** 0.5  # by more it would be off by itself


def test_240_tasks_detect_the_differences_that_the_docs_say() -> None:
    assert 0.08 <= resolvable(240, 0.5, 0.6) <= resolvable(240, 0.5, 0.3) <= 0.11
    assert resolvable(240, 0.5, 0.3, trials=4, trial_correlation=0.5) < resolvable(240, 0.5, 0.3)
    assert resolvable(960, 0.5, 0.3) == pytest.approx(resolvable(240, 0.5, 0.3) / 2)
