"""Tests of simulated time and its text forms."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st

from companyos.core.world import DAY, HOUR, clock_text, stamp
from tests.helpers import STEADY

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
minutes = st.integers(0, 3000 * DAY)


def test_time_begins_on_a_monday_at_midnight() -> None:
    assert stamp(0) == "2026-01-05 00:00"
    assert clock_text(0) == "Mon 2026-01-05 00:00"


def test_a_day_has_24_hours_and_a_week_seven_days() -> None:
    assert clock_text(DAY - 1) == "Mon 2026-01-05 23:59"
    assert clock_text(DAY + 9 * HOUR + 30) == "Tue 2026-01-06 09:30"
    assert clock_text(7 * DAY) == "Mon 2026-01-12 00:00"


@STEADY
@given(minutes, minutes)
def test_stamps_sort_as_the_moments_do(one: int, other: int) -> None:
    assert (stamp(one) < stamp(other)) == (one < other)


@STEADY
@given(minutes)
def test_both_forms_name_a_real_moment_and_the_same_one(minute: int) -> None:
    moment = datetime.strptime(stamp(minute), "%Y-%m-%d %H:%M")  # noqa: DTZ007  (simulated time has no zone)
    assert (moment - datetime(2026, 1, 5)).total_seconds() == minute * 60  # noqa: DTZ001
    assert clock_text(minute) == f"{WEEKDAYS[moment.weekday()]} {stamp(minute)}"
