"""Dose-response: curves over the same tasks at each dose."""

from random import Random

import pytest

from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.doses import ALL, Curve, TaskDoses, curves, ec50
from tests.evaluate.helpers import outcome

DOSES = (0.0, 0.25, 0.5, 0.75, 1.0)


def at_doses(seed: int, wins: list[bool], letter: str = "") -> list[Outcome]:
    percents = [round(100 * dose) for dose in DOSES]
    return [outcome(seed, won, doses=f"{letter}{p}" if p else "0") for p, won in zip(percents, wins, strict=True)]


def curve(*rows: str) -> Curve:
    return curves([one for seed, row in enumerate(rows) for one in at_doses(seed, [sign == "+" for sign in row])])[ALL]


def test_the_area_is_the_mean_of_success_over_the_doses() -> None:
    found = curve("+++++", "++---")
    assert [number.value for number in found.doses.values()] == [1, 1, 0.5, 0.5, 0.5]
    assert found.area.value == (1 + (0.25 + 0.125)) / 2


def test_ec50_is_interpolated_linearly_between_two_doses() -> None:
    assert curve("++---", "+++--", "++---", "+++--").ec50.value == 0.5
    assert curve("+----", "+----").ec50.value == 0.125


def test_without_halving_or_without_success_at_dose_0_there_is_no_ec50() -> None:
    assert curve("+++++", "++++-", "+++++").ec50.text == "> 1"
    assert curve(*["-----"] * 9, "+----").ec50.text == "–"


def test_a_dial_that_was_dosed_alone_has_a_curve_of_its_own() -> None:
    stale = [one for seed in range(3) for one in at_doses(seed, [True, True, True, False, False], "s")]
    every = [one for seed in range(3) for one in at_doses(seed, [True] * 5)[1:]]
    found = curves([*stale, *every])
    assert set(found) == {ALL, "stale"}
    assert found["stale"].ec50.value == 0.625
    assert found[ALL].area.value == 1


def test_tasks_that_lack_a_dose_are_left_out() -> None:
    whole = [one for seed in range(2) for one in at_doses(seed, [True] * 5)]
    assert curves([*whole, *at_doses(9, [False] * 5)[:3]])[ALL].area.value == 1
    assert curves(at_doses(0, [True] * 5)[1:]) == {}


def test_without_dose_0_there_is_no_curve() -> None:
    assert curves([one for seed in range(3) for one in at_doses(seed, [True] * 5)[1:]]) == {}


def test_the_interval_of_an_ec50_contains_it_in_most_of_many_runs() -> None:
    draw, hits, runs = Random(3), 0, 400
    truth = [0.9, 0.75, 0.6, 0.3, 0.15]  # halved at 0.5 + 0.25 * 0.15 / 0.3
    for _ in range(runs):
        lines = []
        for seed in range(120):
            skill = draw.random()
            lines.append(TaskDoses(str(seed), {dose: float(skill < p) for dose, p in zip(DOSES, truth, strict=True)}))
        found = ec50(DOSES, lines)
        hits += (found.low or 0) - 0.005 <= 0.625 <= (found.high or 1) + 0.005
    assert 0.92 <= hits / runs <= 0.985


def test_an_open_interval_says_so() -> None:
    found = curve("+++++", "+++++", "+----", "+----").ec50
    assert found.value is not None
    assert found.high is None
    assert found.text.endswith("to > 1)")


def test_weathers_and_twins_of_a_seed_are_separate_tasks_of_a_curve() -> None:
    plain, weather, twin = (
        [
            outcome(0, won, doses=doses, **other)
            for doses, won in (("0", True), ("50", fares == "well"), ("100", fares == "well"))
        ]
        for fares, other in (("well", {}), ("badly", {"weather": 1}), ("badly", {"do": (("conflict", "1"),)}))
    )
    assert curves([*plain, *weather])[ALL].doses["0.5"].n == 2
    assert curves([*plain, *twin])[ALL].doses["0.5"].n == 2
    incomplete = [*plain, *weather[:2]]  # this weather was not played at dose 1, so there is one line, which is no curve
    assert curves(incomplete) == {}


def test_trials_of_a_task_are_averaged() -> None:
    twice = [one for trial in range(2) for one in at_doses(0, [True, trial == 0, False, False, False])]
    found = curves([*twice, *at_doses(1, [True, True, False, False, False])])[ALL]
    assert found.doses["0.25"].value == pytest.approx(0.75)
