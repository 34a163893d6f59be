"""Ids of tickets, register entries and policies. Their numbers are random, so an id tells nothing about its record.

Cases, everyday troubles and companies draw from numbers with different remainders, so they never use the same id.
"""

from collections.abc import Iterator
from functools import cache

from companyos.core.world import Draw

_MODULUS = 11
_LEAST, _END = 1100, 9900  # numbers of four digits
# The remainders, modulo 11, of the numbers that may be used ...
CASE = (0,)  # ... by a case
MORE_CASES = (3,)  # ... by further cases of the same task
EVERYDAY = (5,)  # ... by everyday troubles
COMPANY = (1, 2, 4, 6, 7, 8, 9, 10)  # ... by the company


def record_ids(prefix: str, draw: Draw, remainders: tuple[int, ...], count: int | None = None) -> Iterator[str]:
    """Yield ids such as `T-9262` in random order: `count` of them, or all there are."""
    numbers = _numbers(remainders)
    for number in draw.one_by_one(numbers, len(numbers) if count is None else count):
        yield f"{prefix}-{number}"


@cache
def _numbers(remainders: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(start + remainder for start in range(_LEAST, _END, _MODULUS) for remainder in remainders)
