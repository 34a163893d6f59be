"""The benchmark runs and reports every row. No test checks a speed, because machines differ."""

import json
import math
import sys

import pytest

from companyos.bench import speed as bench
from companyos.bench.growth import growth
from companyos.bench.speed import Measurement

STEPS = ["step, both", "step, expert", "step, random", "step, both, first play", "step and its text, both"]
STEPS += ["step, both, size small", "step, both, size large"]


def test_a_tiny_run_reports_every_row_with_finite_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(rounds=1, episodes=2)
    *table, line = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    rows = report["rows"]
    assert [row["what"] for row in rows] == [
        *STEPS,
        "step, Taxi",
        *STEPS,
        "reset, new seed",
        "reset, new seed, size small",
        "reset, new seed, size large",
        "reset, known task",
        "fork in mid-episode",
        "import",
        "large imports with it",
        "memory of an episode",
        "memory of a fork",
    ]
    assert all(math.isfinite(row[key]) and row[key] >= 0 for row in rows for key in ("value", "low", "high"))
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    assert all(row["value"] > 0 for row in rows if row["unit"] in ("× Taxi", "/s"))
    assert all(any(row["what"] in shown for shown in table) for row in rows)


def test_importing_the_package_imports_no_large_package() -> None:
    [_, unwanted] = bench._imports(rounds=1)
    assert unwanted.value == 0


def test_without_gymnasium_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ValueError, match=r'pip install "\.\[bench\]" in a checkout') as caught:
        bench.main(rounds=1, episodes=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("rounds", "episodes"), [(0, 1), (1, 0)])
def test_rounds_and_episodes_must_be_at_least_1(rounds: int, episodes: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        bench.measure(rounds, episodes)


@pytest.mark.parametrize(
    ("value", "more_is_better", "verdict"),
    [
        (0.5, False, "goal"),
        (1.5, False, "ok"),
        (2.5, False, "missed"),
        (2.5, True, "goal"),
        (1.5, True, "ok"),
        (0.5, True, "missed"),
    ],
)
def test_a_verdict_says_which_mark_was_reached(value: float, more_is_better: bool, verdict: str) -> None:
    floor, goal = (1.0, 2.0) if more_is_better else (2.0, 1.0)
    assert Measurement("speed", "", value, value, value, floor, goal, more_is_better).verdict == verdict


def test_a_row_without_limits_has_no_verdict() -> None:
    assert Measurement("speed", "", 1.0, 1.0, 1.0).verdict == ""


def test_costs_are_measured_in_companies_of_growing_size() -> None:
    points = growth(rounds=1)
    assert [point.records for point in points] == sorted(point.records for point in points)
    assert points[0].records < 200 < 16_000 < points[-1].records
    assert all(min(point.step, point.search, point.reset) > 0 for point in points)
