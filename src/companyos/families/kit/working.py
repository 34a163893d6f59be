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

MAX_LINE_LENGTH = 60  # characters
PERCENT = 100  # the only number that working lines may use without a source
_COMPARISONS = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_OPERATIONS = {"+": add, "*": mul}


def compare(left: Any, operator: str, right: Any, yes: str, no: str) -> Worked[bool]:
    """Compare two values, write the comparison down and return whether it holds.

    An operand is a value, or a pair of a name and a value. `yes` and `no` are what the line says at its end. The line shows
    the relation that holds, not the operator: `5675 < 6695: enough` although the operator was `>`.
    """
    holds = bool(_COMPARISONS[operator](_value(left), _value(right)))
    relation = _relation(_value(left), _value(right), ordered=operator not in ("==", "!="))
    yield Working(f"{_text(left)} {relation} {_text(right)}: {yes if holds else no}")
    return holds


def weigh(left: Any, right: Any, verdict: str) -> Worked[None]:
    """Write down how two values are related, and a verdict on them that the caller has reached."""
    yield Working(f"{_text(left)} {_relation(_value(left), _value(right))} {_text(right)}: {verdict}")


def check(fact: Any, holds: bool, yes: str, no: str) -> Worked[bool]:
    """Write down a fact and the text `yes` or `no`, as `holds` says: `T-9 cancelled: not live`. Return `holds`.

    A fact is a value, or a tuple of names and values.
    """
    yield Working(f"{_text(fact)}: {yes if holds else no}")
    return holds


def note(fact: Any, conclusion: str) -> Worked[None]:
    """Write down a fact (a value, or a tuple of names and values) and what follows from it."""
    yield Working(f"{_text(fact)}: {conclusion}")


def compute(left: int, operator: str, right: int) -> Worked[int]:
    """Add or multiply two numbers and write it down: `130 * 12 = 1560`."""
    result: int = _OPERATIONS[operator](left, right)
    yield Working(f"{left} {operator} {right} = {result}")
    return result


def total(numbers: Iterable[int]) -> Worked[int]:
    """Return the sum of numbers, with one line for each addition."""
    result, *others = numbers
    for number in others:
        result = yield from compute(result, "+", number)
    return result


def days(earlier: str, later: str) -> Worked[int]:
    """Count the days from one date or stamp to another, month by month: `2026-01-15 to 2026-03-10 = 16 + 28 + 10 = 54`."""
    begin, end = date.fromisoformat(earlier[:10]), date.fromisoformat(later[:10])
    between = (end - begin).days
    parts = _by_month(begin, end)
    steps = f"{' + '.join(map(str, parts))} = " if len(parts) > 1 else ""
    line = f"{begin} to {end} = {steps}{between}"
    yield Working(line if len(line) <= MAX_LINE_LENGTH else f"{begin} to {end} = {between}")
    return between


def _by_month(begin: date, end: date) -> list[int]:
    """Return the number of days between two dates, split by calendar month."""
    parts = []
    year, month, day = begin.year, begin.month, begin.day
    while (year, month) < (end.year, end.month):
        parts.append(monthrange(year, month)[1] - day)
        year, month, day = year + month // 12, month % 12 + 1, 0  # the last day of `month` is day 0 of the next month
    return [*parts, end.day - day]


def _relation(left: Any, right: Any, ordered: bool = True) -> str:
    """Return the sign between two values. Values that are not `ordered` are only equal or not equal."""
    if left == right:
        return "="
    if not ordered:
        return "!="
    return "<" if left < right else ">"


def _value(operand: Any) -> Any:
    """Return the value of an operand, which may be a pair of a name and a value."""
    return operand[1] if isinstance(operand, tuple) else operand


def _text(operand: Any) -> str:
    """Return a value, or a tuple of names and values, as a working line shows it."""
    if isinstance(operand, tuple):
        return " ".join(map(_text, operand))
    return "none" if operand in (None, "") else str(operand)
