"""Simulated time: a number of minutes since midnight of a Monday, and its text forms."""

from datetime import date, timedelta
from functools import lru_cache
from typing import Annotated

from companyos.core.world.memo import memoized

HOUR = 60
DAY = 24 * HOUR
FIRST_DAY = date(2026, 1, 5)  # a Monday, so that `minute // DAY % 7` is the day of the week

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # strftime would depend on the locale


class _MinuteMark:
    """Marks a record field that holds a minute and is shown as a date and time."""


MINUTE = _MinuteMark()
Minute = Annotated[int, MINUTE]


@lru_cache(maxsize=4096)
def _day_texts(day: int) -> tuple[str, str]:
    """Return the date of a day without and with the day of the week: `2026-03-10` and `Tue 2026-03-10`."""
    day_date = FIRST_DAY + timedelta(days=day)
    return day_date.isoformat(), f"{_WEEKDAYS[day_date.weekday()]} {day_date.isoformat()}"


@memoized
def stamp(minute: int) -> str:
    """Return a minute as records show it: `2026-03-10 09:30`."""
    day, minute_of_day = divmod(minute, DAY)
    return f"{_day_texts(day)[0]} {minute_of_day // HOUR:02}:{minute_of_day % HOUR:02}"


@memoized
def clock_text(minute: int) -> str:
    """Return a minute as the clock of an observation shows it: `Tue 2026-03-10 09:30`."""
    day, minute_of_day = divmod(minute, DAY)
    return f"{_day_texts(day)[1]} {minute_of_day // HOUR:02}:{minute_of_day % HOUR:02}"
