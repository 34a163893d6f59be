"""Record: a frozen row with an id, how it is shown, and its fingerprint."""

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from itertools import compress
from operator import attrgetter, ne
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec

from companyos.core.world.clock import MINUTE, stamp
from companyos.core.world.remembered import remembered


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A row. Fields with a default are left out of the view while they hold it; the others show even when empty."""

    id: str

    pattern: ClassVar[str] = ""  # a regular expression that this type's ids, and no other's, match in full
    hidden: ClassVar[bool] = False  # true for what no actor may look up
    spread: ClassVar[str] = ""  # a dict field whose items are shown as if they were fields
    searched: ClassVar[tuple[str, ...]] = ()  # the text fields that a search looks at, beside the id
    dated: ClassVar[str] = ""  # the field that says since when there is such a record: nothing may write it again


@cache
def _minute_fields(kind: type[Record]) -> tuple[str, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(name for name, hint in hints.items() if _has_minute_mark(hint))


@cache
def _copies(kind: type[Record]) -> dict[str, str]:
    """How a field that holds others is written as JSON has it, and as a copy: nobody may reach into a record."""
    copies = {}
    for name, hint in get_type_hints(kind).items():
        shape, parts = get_origin(hint), get_args(hint)
        if shape is tuple:
            copies[name] = "list({})" if parts[0] is str else "list(plain({}))"
        elif shape is dict:
            copies[name] = "plain({})" if get_origin(parts[1]) is dict else "{}.copy()"
    return copies


def _has_minute_mark(hint: Any) -> bool:
    marks = getattr(hint, "__metadata__", ())
    return MINUTE in marks or any(_has_minute_mark(part) for part in getattr(hint, "__args__", ()))


def search_text(record: Record) -> str:
    """What a search looks at."""
    return " ".join([record.id, *[getattr(record, name) or "" for name in record.searched]]).lower()


def searched_alike(one: Record, other: Record) -> bool:
    """Whether a search that finds the one finds the other: two records of one kind and id."""
    get = _searched_fields(type(one))
    return bool(get(one) == get(other))


@cache
def _searched_fields(kind: type[Record]) -> Callable[[Record], Any]:
    return attrgetter(*kind.searched)


def view(record: Record) -> dict[str, Any]:
    """The record as an actor sees it: plain values, moments as dates, tuples as lists (a reply equals its transcript)."""
    return _viewer(type(record))(record)


@cache
def _viewer(kind: type[Record]) -> Callable[[Record], dict[str, Any]]:
    """A function that shows a whole record: some fields always, the others where they differ from their default."""
    fields = msgspec.structs.fields(kind)[1:]
    always = _line_maker(kind, tuple(field.name for field in fields if field.required and field.name != kind.spread))
    more = tuple(field for field in fields if not field.required)
    unset = kind(**{field.name: "" for field in msgspec.structs.fields(kind) if field.required})
    usual = tuple(getattr(unset, field.name) for field in more)
    names, spread = tuple(field.name for field in more), kind.spread
    if not more:
        return always if not spread else lambda record: {**always(record), **getattr(record, spread)}
    get = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)

    def show(record: Record) -> dict[str, Any]:
        line = always(record)
        if spread:
            line.update(getattr(record, spread))
        values = get(record)
        if values != usual:
            line.update((name, shown_value(record, name)) for name in compress(names, map(ne, values, usual)))
        return line

    return show


def row(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    """The record on one line: its id and these fields."""
    return _line_maker(type(record), names)(record)


def rows(records: Sequence[Record], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Records of one kind, a line each."""
    return list(map(_line_maker(type(records[0]), names), records)) if records else []


@cache
def _line_maker(kind: type[Record], names: tuple[str, ...]) -> Callable[[Record], dict[str, Any]]:
    """A function that writes a record on one line, made from its field names: lists are most of what actors read."""
    made: Callable[[Record], dict[str, Any]] = _compiled(
        "{" + ", ".join(f"{name!r}: {_source(kind, name)}" for name in ("id", *names)) + "}"
    )
    return made


def _source(kind: type[Record], name: str) -> str:
    """The expression that shows one field of a record."""
    if name in _minute_fields(kind):
        return f"None if record.{name} is None else stamp(record.{name})"
    return _copies(kind).get(name, "{}").format(f"record.{name}")


def _compiled(expression: str) -> Callable[[Record], Any]:
    made: Callable[[Record], Any] = eval(f"lambda record: {expression}", {"stamp": stamp, "plain": msgspec.to_builtins})
    return made


@cache
def shown_fields(kind: type[Record]) -> frozenset[str]:
    return frozenset(kind.__struct_fields__)


def shown_value(record: Record, name: str) -> Any:
    """One field as an actor sees it."""
    return _field_maker(type(record), name)(record)


@cache
def _field_maker(kind: type[Record], name: str) -> Callable[[Record], Any]:
    return _compiled(_source(kind, name))


_encode = msgspec.msgpack.Encoder().encode


def fingerprint(record: Record) -> int:
    """128 bits that stand for one record; worlds add them up."""
    hasher = _salted(type(record)).copy()
    hasher.update(_encode(record))
    return int.from_bytes(hasher.digest(), "little")


@cache
def _salted(kind: type[Record]) -> blake2b:
    return blake2b(digest_size=16, person=kind.__name__[:16].encode())


@remembered
def fingerprint_of_name(name: str) -> int:
    """128 bits that stand for a counter or an appointment, to be weighted with its value."""
    return int.from_bytes(blake2b(name.encode(), digest_size=16, person=b"name").digest(), "little")
