"""Conditions: tests of named facts, which the pieces of a rulebook combine."""

from typing import Literal

from msgspec import Struct

from companyos.rules.names import CheckName, FactName

Value = bool | int | str  # of a fact. A day is a text such as `2026-03-09`, so that days compare as texts do.
Comparison = Literal["is", "is_not", "below", "at_most", "above", "at_least"]


class Holds(Struct, frozen=True, tag_field="condition", tag="holds", omit_defaults=True):
    """A comparison of a fact with a value. `than="@name"` stands for the value of another fact, or of a limit."""

    fact: FactName
    op: Comparison = "is"
    than: Value = True


class Applies(Struct, frozen=True, tag_field="condition", tag="applies", omit_defaults=True):
    """A condition on the result of another check, whether or not that check comes first."""

    check: CheckName
    holds: bool = True


class AnyOf(Struct, frozen=True, tag_field="condition", tag="any_of"):
    """At least one of several tests holds. It is the last condition of its piece, so that `and` and `or` are clear."""

    tests: tuple[Holds, ...]


Condition = Holds | Applies | AnyOf
Conditions = tuple[Condition, ...]  # all of them have to hold


def compare(left: Value, op: Comparison, right: Value) -> bool:
    """Return the result of a comparison. Numbers compare with numbers, and texts with texts."""
    if op == "is":
        return left == right
    if op == "is_not":
        return left != right
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right) in _SIGNS[op]
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right) in _SIGNS[op]
    raise TypeError(f"{left!r} and {right!r} have no order")


_SIGNS: dict[str, tuple[int, ...]] = {"below": (-1,), "at_most": (-1, 0), "above": (1,), "at_least": (0, 1)}


def comparison_text(test: Holds) -> str:
    """Return a comparison in short form, such as `amount above 3000`."""
    than = str(test.than).lower() if isinstance(test.than, bool) else test.than
    return f"{test.fact} {test.op} {than}"


def operand_name(than: Value) -> str | None:
    """Return the name that `@name` stands for, or None if it is a plain value."""
    return than[1:] if isinstance(than, str) and than.startswith("@") else None


def names_in(conditions: Conditions) -> list[str]:
    """Return the names of the facts and numbers that conditions mention. `check:name` is the result of another check."""
    names: list[str] = []
    for condition in conditions:
        if isinstance(condition, Applies):
            names.append(f"check:{condition.check}")
            continue
        for test in condition.tests if isinstance(condition, AnyOf) else (condition,):
            other = operand_name(test.than)
            names += [test.fact] if other is None else [test.fact, other]
    return names
