"""Record: a frozen row with an id, how it is shown, and its fingerprint."""

from functools import cache
from hashlib import blake2b
from typing import Any, ClassVar, get_origin, get_type_hints

import msgspec

from companyos.world.clock import MINUTE, stamp


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row. Fields with a default are left out of the view while they hold it; the others show even when empty."""

    id: str

    pattern: ClassVar[str] = ""  # a regular expression that this type's ids, and no other's, match in full
    hidden: ClassVar[bool] = False  # true for what no actor may look up
    spread: ClassVar[str] = ""  # a dict field whose items are shown as if they were fields


@cache
def _minute_fields(kind: type[Record]) -> tuple[str, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(name for name, hint in hints.items() if _has_minute_mark(hint))


@cache
def _list_fields(kind: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(kind).items() if get_origin(hint) is tuple)


def _has_minute_mark(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return MINUTE in marks or any(_has_minute_mark(part) for part in getattr(hint, "__args__", ()))


def view(record: Record) -> dict[str, Any]:
    """The record as an actor sees it: plain values, moments as dates."""
    shown: dict[str, Any] = msgspec.to_builtins(record)
    for name in _minute_fields(type(record)):
        minute = shown.get(name)
        if minute is not None:
            shown[name] = stamp(minute)
    for name in _list_fields(type(record)):
        if name in shown:  # a list, as JSON has it: a reply equals its own transcript
            shown[name] = list(shown[name])
    spread = record.spread
    if spread:
        shown.update(shown.pop(spread, {}))
    return shown


def row(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    """The record on one line: its id and these fields."""
    moments = _minute_fields(type(record))
    line: dict[str, Any] = {"id": record.id}
    for name in names:
        value = getattr(record, name)
        if name in moments and value is not None:
            value = stamp(value)
        elif type(value) is tuple:
            value = list(value)
        line[name] = value
    return line


_encode = msgspec.msgpack.Encoder().encode


def fingerprint(kind: str, content: Any) -> int:
    """128 bits that stand for one record, counter or appointment; worlds add them up."""
    return int.from_bytes(blake2b(_encode(content), digest_size=16, person=kind[:16].encode()).digest(), "little")
