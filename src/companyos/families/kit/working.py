"""Comparisons and sums that an expert makes and writes down as working lines, that is, lines of reasoning between calls.

A function here both computes a result and yields the line that shows it:

    if (yield from compare(("score", 61), "<", ("minimum", 65), "too low", "enough")):  # score 61 < minimum 65: too low

A line is ASCII and has at most 60 characters. Every number and id in it comes from a reply or from an earlier line.
"""

from calendar import monthrange
from collections.abc import Generator, Iterable
from datetime import date
from operator import add, eq, ge, gt, le, lt, mul, ne
from typing import Any, TypeVar

from companyos.core.calls import Reply, Working

T = TypeVar("T")
Worked = Generator[Working, Reply, T]  # yields working lines and returns a result

LONGEST = 60  # maximum length of a line
PERCENT = 100  # the only number that working lines may use without a source
_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_COMPUTE = {"+": add, "*": mul}


def compare(left: Any, operator: str, right: Any, yes: str, no: str) -> Worked[bool]:
    """Compare two values and write it down. An operand is a value, or a pair of its name and its value.

    The line shows the relation that holds, not the operator: `5675 < 6695: enough` although the operator was `>`.
    """
    holds = bool(_COMPARE[operator](_value(left), _value(right)))
    relation = _relation(_value(left), _value(right), ordered=operator not in ("==", "!="))
    yield Working(f"{_text(left)} {relation} {_text(right)}: {yes if holds else no}")
    return holds


def weigh(left: Any, right: Any, verdict: str) -> Worked[None]:
    """Write down how two values are related, and a verdict on them that the caller has reached."""
    yield Working(f"{_text(left)} {_relation(_value(left), _value(right))} {_text(right)}: {verdict}")


def check(what: Any, holds: bool, yes: str, no: str) -> Worked[bool]:
    """Write down a value, or a pair of its name and value, and which of two verdicts holds: `T-9 cancelled: not live`."""
    yield Working(f"{_text(what)}: {yes if holds else no}")
    return holds


def note(what: Any, follows: str) -> Worked[None]:
    """Write down a value and what follows from it."""
    yield Working(f"{_text(what)}: {follows}")


def compute(left: int, operator: str, right: int) -> Worked[int]:
    """Add or multiply two numbers and write it down: `130 * 12 = 1560`."""
    result: int = _COMPUTE[operator](left, right)
    yield Working(f"{left} {operator} {right} = {result}")
    return result


def total(numbers: Iterable[int]) -> Worked[int]:
    """Add numbers up, one line for each addition."""
    first, *others = numbers
    for number in others:
        first = yield from compute(first, "+", number)
    return first


def days(earlier: str, later: str) -> Worked[int]:
    """Count the days from one date or stamp to another, month by month: `2026-01-15 to 2026-03-10 = 16 + 28 + 10 = 54`."""
    begin, end = date.fromisoformat(earlier[:10]), date.fromisoformat(later[:10])
    between = (end - begin).days
    parts = _by_month(begin, end)
    steps = f"{' + '.join(map(str, parts))} = " if len(parts) > 1 else ""
    line = f"{begin} to {end} = {steps}{between}"
    yield Working(line if len(line) <= LONGEST else f"{begin} to {end} = {between}")
    return between


def _by_month(begin: date, end: date) -> list[int]:
    """Return the number of days between two dates, split by calendar month."""
    parts = []
    year, month, day = begin.year, begin.month, begin.day
    while (year, month) < (end.year, end.month):
        parts.append(monthrange(year, month)[1] - day)
        year, month, day = year + month // 12, month % 12 + 1, 0
    return [*parts, end.day - day]


def _relation(left: Any, right: Any, ordered: bool = True) -> str:
    if left == right:
        return "="
    if not ordered:
        return "!="
    return "<" if left < right else ">"


def _value(operand: Any) -> Any:
    return operand[1] if isinstance(operand, tuple) else operand


def _text(operand: Any) -> str:
    if isinstance(operand, tuple):
        return " ".join(map(_text, operand))
    return "none" if operand in (None, "") else str(operand)
