"""Record: a frozen row with an id, how it is shown, and its fingerprint."""

from collections.abc import Callable, Sequence
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
def _deep_fields(kind: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(kind).items() if get_origin(hint) in (tuple, dict))


def _plain(value: Any) -> Any:
    """A field that holds others, as JSON has it, and as a copy: nobody may reach into a record."""
    value = msgspec.to_builtins(value)
    return list(value) if type(value) is tuple else value


def _has_minute_mark(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return MINUTE in marks or any(_has_minute_mark(part) for part in getattr(hint, "__args__", ()))


def search_text(record: Record) -> str:
    """What a search looks at."""
    return " ".join([record.id, *[getattr(record, name) or "" for name in record.searched]]).lower()


def same_text(one: Record, other: Record) -> bool:
    """Whether a search would find the same in both."""
    get = _searched(type(one))
    return bool(get(one) == get(other))


@cache
def _searched(kind: type[Record]) -> Callable[[Record], Any]:
    return attrgetter("id", *kind.searched)


def view(record: Record) -> dict[str, Any]:
    """The record as an actor sees it: plain values, moments as dates, tuples as lists (a reply equals its transcript)."""
    shown, unset, spread = _view_plan(type(record))
    line = shown(record)
    for name, default in unset:
        if getattr(record, name) != default:
            line[name] = shown_value(record, name)
    if spread:
        line.update(line.pop(spread))
    return line


@cache
def _view_plan(
    kind: type[Record],
) -> tuple[Callable[[Record], dict[str, Any]], list[tuple[str, Any]], str]:
    """What of a record shows always, what only where it differs from its default, and what is spread."""
    always, unset = [], []
    for field in msgspec.structs.fields(kind)[1:]:
        if field.required:
            always.append(field.name)
        else:
            unset.append((field.name, field.default if field.default is not msgspec.NODEFAULT else field.default_factory()))
    return _line_maker(kind, tuple(always)), unset, kind.spread


def row(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    """The record on one line: its id and these fields."""
    return _line_maker(type(record), names)(record)


def rows(records: Sequence[Record], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Records of one kind, a line each."""
    return list(map(_line_maker(type(records[0]), names), records)) if records else []


@cache
def _line_maker(kind: type[Record], names: tuple[str, ...]) -> Callable[[Record], dict[str, Any]]:
    """A function that writes a record on one line, made from its field names: lists are most of what actors read."""
    moments, deep = _minute_fields(kind), _deep_fields(kind)

    def source(name: str) -> str:
        if name in moments:
            return f"None if record.{name} is None else stamp(record.{name})"
        return f"plain(record.{name})" if name in deep else f"record.{name}"

    items = ", ".join(f"{name!r}: {source(name)}" for name in ("id", *names))
    made: Callable[[Record], dict[str, Any]] = eval(f"lambda record: {{{items}}}", {"stamp": stamp, "plain": _plain})
    return made


@cache
def shown_fields(kind: type[Record]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


def shown_value(record: Record, name: str) -> Any:
    """One field as an actor sees it."""
    return row(record, (name,))[name]


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
