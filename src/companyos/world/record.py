"""Record: a frozen row with an id, how it is shown, and its fingerprint."""

from collections.abc import Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, ClassVar, get_origin, get_type_hints

import msgspec

from companyos.world.clock import MINUTE, stamp


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A row. Fields with a default are left out of the view while they hold it; the others show even when empty."""

    id: str

    pattern: ClassVar[str] = ""  # a regular expression that this type's ids, and no other's, match in full
    hidden: ClassVar[bool] = False  # true for what no actor may look up
    spread: ClassVar[str] = ""  # a dict field whose items are shown as if they were fields
    searched: ClassVar[tuple[str, ...]] = ()  # the text fields that a search looks at, beside the id


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


def search_text(record: Record) -> str:
    """What a search looks at."""
    return " ".join([record.id, *[getattr(record, name) or "" for name in record.searched]]).lower()


def same_text(one: Record, other: Record) -> bool:
    return all(getattr(one, name) is getattr(other, name) for name in one.searched)


def view(record: Record) -> dict[str, Any]:
    """The record as an actor sees it: plain values, moments as dates, tuples as lists (a reply equals its transcript)."""
    shown: dict[str, Any] = msgspec.to_builtins(record)
    moments, lists, spread = _view_plan(type(record))
    for name in moments:
        minute = shown.get(name)
        if minute is not None:
            shown[name] = stamp(minute)
    for name in lists:
        if name in shown:
            shown[name] = list(shown[name])
    if spread:
        shown.update(shown.pop(spread, {}))
    return shown


@cache
def _view_plan(kind: type[Record]) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    return _minute_fields(kind), _list_fields(kind), kind.spread


def row(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    """The record on one line: its id and these fields."""
    keys, get, moments, lists = _plan(type(record), names)
    line = dict(zip(keys, get(record), strict=False))
    if moments or lists:
        _tidy(line, moments, lists)
    return line


def rows(records: Sequence[Record], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Records of one kind, a line each."""
    if not records:
        return []
    keys, get, moments, lists = _plan(type(records[0]), names)
    lines = [dict(zip(keys, values, strict=False)) for values in map(get, records)]
    if moments or lists:
        for line in lines:
            _tidy(line, moments, lists)
    return lines


def _tidy(line: dict[str, Any], moments: list[str], lists: list[str]) -> None:
    for name in moments:
        if line[name] is not None:
            line[name] = stamp(line[name])
    for name in lists:
        line[name] = list(line[name])


@cache
def _plan(kind: type[Record], names: tuple[str, ...]) -> tuple[tuple[str, ...], Any, list[str], list[str]]:
    """How to read these fields of a record: all at once, and which of them are moments or lists."""
    keys = ("id", *names)
    moments = [name for name in names if name in _minute_fields(kind)]
    return keys, attrgetter(*keys), moments, [name for name in names if name in _list_fields(kind)]


@cache
def shown_fields(kind: type[Record]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


def shown_value(record: Record, name: str) -> Any:
    """One field as an actor sees it."""
    value = getattr(record, name)
    return stamp(value) if value is not None and name in _minute_fields(type(record)) else value


_encode = msgspec.msgpack.Encoder().encode


def fingerprint(record: Record) -> int:
    """128 bits that stand for one record; worlds add them up."""
    hasher = _salted(type(record)).copy()
    hasher.update(_encode(record))
    return int.from_bytes(hasher.digest(), "little")


@cache
def _salted(kind: type[Record]) -> blake2b:
    return blake2b(digest_size=16, person=kind.__name__[:16].encode())


@lru_cache(maxsize=65536)
def fingerprint_of_name(name: str) -> int:
    """128 bits that stand for a counter or an appointment, to be weighted with its value."""
    return int.from_bytes(blake2b(name.encode(), digest_size=16, person=b"name").digest(), "little")
