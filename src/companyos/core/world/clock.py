"""Clock: simulated minutes, counted from a Monday, and how they are written."""

from datetime import date, timedelta
from functools import lru_cache
from typing import Annotated

from companyos.core.world.remembered import remembered

HOUR = 60
DAY = 24 * HOUR
FIRST_DAY = date(2026, 1, 5)  # a Monday, so that `minute // DAY % 7` is the day of the week

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")  # strftime would follow the machine's language


class _MinuteMark:
    """Marks a field that holds minutes and is shown as a date."""


MINUTE = _MinuteMark()
Minute = Annotated[int, MINUTE]


@lru_cache(maxsize=4096)
def _day_text(day: int) -> tuple[str, str]:
    on = FIRST_DAY + timedelta(days=day)
    return on.isoformat(), f"{_WEEKDAYS[on.weekday()]} {on.isoformat()}"


@remembered
def stamp(minute: int) -> str:
    """`2026-03-10 09:30`: how records write a moment."""
    day, rest = divmod(minute, DAY)
    return f"{_day_text(day)[0]} {rest // HOUR:02}:{rest % HOUR:02}"


@remembered
def clock_text(minute: int) -> str:
    """`Tue 2026-03-10 09:30`: how the wall clock shows it."""
    day, rest = divmod(minute, DAY)
    return f"{_day_text(day)[1]} {rest // HOUR:02}:{rest % HOUR:02}"
