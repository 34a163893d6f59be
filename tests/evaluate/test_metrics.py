"""Metrics: each number follows its definition, computed by hand on a few outcomes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.twins import twins, weathers
from companyos.env import task_named
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.metrics import Results, summarise
from tests.evaluate.helpers import Pair, Suite, numbers, outcome, played
from tests.helpers import STEADY


def test_single_episodes_are_counted_as_they_came_out() -> None:
    found = numbers(
        [
            outcome(0, steps=40, faults=2, recovered=2),
            outcome(
                1, False, steps=10, invalid=1, refused=3, damage=("T-1 text",), faults=2, recovered=1, waits=5, routed=5
            ),
        ]
    )
    assert found["success"] == 0.5
    assert found["return"] == 5
    assert found["efficiency"] == 0.5
    assert found["invalid_calls"] == 1 / 50
    assert found["refused_calls"] == 3 / 50
    assert found["routing"] == pytest.approx(15 / 45, abs=1e-6)
    assert found["recovery"] == 0.75
    assert found["success_after_fault"] == 0.5
    assert found["damage"] == 0.5
    assert not {"tokens", "cost", "pair_pass", "pass^2"} & set(found)


def test_refusal_has_precision_and_recall() -> None:
    no, yes = "cannot_be_done/no_budget", "completed/all_checks_passed"
    said = [(no, no), (no, yes), (no, yes), (yes, no), (yes, yes)]
    found = numbers([outcome(seed, right=right, said=said) for seed, (right, said) in enumerate(said)])
    assert found["refusal_precision"] == 1 / 2
    assert found["refusal_recall"] == pytest.approx(1 / 3, abs=1e-6)


def test_pass_k_is_the_share_of_k_subsets_of_trials_that_all_succeeded() -> None:
    trials = [outcome(0, won, trial=number) for number, won in enumerate((True, True, True, False))]
    found = numbers([*trials, *(outcome(1, trial=number) for number in range(4))])
    assert found["pass^2"] == (3 / 6 + 1) / 2
    assert found["pass^4"] == 1 / 2


def test_weathers_are_distinguished_from_trials() -> None:
    found = numbers([outcome(0, weather=number, success=number < 2) for number in range(3)])
    assert found["weather_pass^2"] == pytest.approx(1 / 3, abs=1e-6)
    assert "pass^2" not in found


def test_weathers_of_two_doses_or_of_two_twins_are_not_pooled() -> None:
    mild = [outcome(0, doses="50", weather=number) for number in range(2)]
    harsh = [outcome(0, False, doses="100", weather=number) for number in range(2)]
    found = numbers([*mild, *harsh])
    assert found["weather_pass^2"] == 0.5  # pooled, it would be 1 of 6 pairs
    assert "weather_pass^3" not in found
    ours = [outcome(0, weather=number) for number in range(2)]
    twin = [outcome(0, False, do=(("conflict", "1"),), weather=number) for number in range(2)]
    found = numbers([*ours, *twin])
    assert found["weather_pass^2"] == 0.5
    assert "weather_pass^3" not in found


def test_weathers_of_two_trials_are_not_pooled() -> None:
    found = numbers([outcome(0, trial == 0, weather=number, trial=trial) for number in range(2) for trial in range(2)])
    assert found["weather_pass^2"] == 0.5
    assert found["pass^2"] == 0
    assert "weather_pass^3" not in found


def pair(seed: int, relevance: str, one: Outcome, other: Outcome) -> tuple[Pair, list[Outcome]]:
    twin = msgspec.structs.replace(other, task_id=f"{other.task_id}-conflict.{int(relevance == 'ending')}")
    return Pair(one.task_id, twin.task_id, relevance, "conflict"), [one, twin]


def test_pairs_are_passed_on_both_sides_or_not_at_all_and_sensitivity_is_a_difference_of_rates() -> None:
    kept, moved = "completed/all_checks_passed", "escalated/conflict_of_interest"
    made = [
        pair(0, "ending", outcome(0, said=kept), outcome(0, said=moved)),
        pair(1, "ending", outcome(1, said=kept), outcome(1, False, said=kept)),
        pair(2, "none", outcome(2, said=kept), outcome(2, said=kept)),
        pair(3, "way", outcome(3, said=kept), outcome(3, said=kept)),
        pair(4, "way", outcome(4, said=kept), outcome(4, False, said=moved)),
        pair(5, "none", outcome(5, said=kept), outcome(5, said=kept)),
    ]
    suite = Suite(pairs=tuple(one for one, _ in made))
    found = numbers([one for _, both in made for one in both], suite)
    assert found["pair_pass"] == 0.5
    assert found["pair_pass_way"] == 0.5
    assert found["pair_pass_none"] == 1
    assert found["differs_ending"] == 0.5
    assert found["differs_other"] == 0.25
    assert found["causal_sensitivity"] == 0.25


def test_an_inconsistent_agent_shows_in_its_reruns() -> None:
    said = ("completed/all_checks_passed", "completed/all_checks_passed", "declined/unused")
    found = numbers([outcome(0, said=text, trial=number) for number, text in enumerate(said)])
    assert found["differs_rerun"] == pytest.approx(2 / 3, abs=1e-6)


def test_a_dial_costs_the_difference_in_success_of_the_episodes_with_its_trouble() -> None:
    struck = [outcome(seed, seed < 2, struck=("stale",)) for seed in range(4)]
    spared = [outcome(seed, struck=("noise",)) for seed in range(4, 8)]
    dials = summarise(Suite(), [*struck, *spared])["dials"]
    assert dials["stale"]["numbers"]["success_lost"]["value"] == 0.5
    assert dials["noise"]["numbers"]["success_lost"]["value"] == -0.5
    assert list(dials) == ["stale", "noise"]


@STEADY
@given(st.permutations([outcome(seed, seed % 3 > 0, trial=trial) for seed in range(5) for trial in range(3)]))
def test_results_do_not_depend_on_the_order(mixed: list[Outcome]) -> None:
    assert msgspec.json.encode(summarise(Suite(), mixed)) == msgspec.json.encode(summarise(Suite(), sorted(mixed, key=str)))


def test_without_outcomes_there_are_no_numbers() -> None:
    found = summarise(Suite(), [])
    assert (found["overall"]["numbers"], found["trials"]) == ({}, 0)


def test_the_expert_is_sensitive_to_causes_and_to_nothing_else_and_a_blind_script_passes_no_pair() -> None:
    tasks = [str(task_named("license_renewal", seed, 0.5, "test")) for seed in range(2)]
    pairs = tuple(Pair(task, twin.task_id, twin.relevance, twin.cause) for task in tasks for twin in twins(task)[::3])
    every = dict.fromkeys([*tasks, *(pair.twin for pair in pairs)])
    suite = Suite(tasks=tuple(every), pairs=pairs)
    expert = summarise(suite, [played(task, "expert") for task in every])
    blind = summarise(suite, [played(task, "blind_script") for task in every])
    assert msgspec.convert(expert, Results).overall.numbers["causal_sensitivity"].value == 1
    assert expert["overall"]["numbers"]["pair_pass"]["value"] == 1
    assert blind["overall"]["numbers"]["pair_pass"]["value"] == 0
    assert set(expert["causes"]) == {f"license_renewal.{pair.cause}" for pair in pairs}


def test_weathers_of_a_task_are_passed_by_the_expert() -> None:
    tasks = weathers(str(task_named("vendor_onboarding", 3, 0.5)), 4)
    found = numbers([played(task, "expert") for task in tasks])
    assert found["weather_pass^4"] == 1
