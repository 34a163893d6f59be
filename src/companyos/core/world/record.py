"""Records: frozen rows with an id, the dicts in which actors see them, and their fingerprints for the digest."""

from collections.abc import Callable, Sequence
from functools import cache
from hashlib import blake2b
from itertools import compress
from operator import attrgetter, ne
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

import msgspec

from companyos.core.world.clock import MINUTE, stamp
from companyos.core.world.memo import memoized


class Record(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A row of a table. Actors always see its required fields, and an optional field only when it is not the default."""

    id: str

    pattern: ClassVar[str] = ""  # a regular expression that matches the ids of this type and of no other
    hidden: ClassVar[bool] = False  # whether actors can never see records of this type
    spread: ClassVar[str] = ""  # the name of a dict field whose items are shown like fields
    searched: ClassVar[tuple[str, ...]] = ()  # the text fields that a search looks at, in addition to the id
    dated: ClassVar[str] = ""  # the field with the minute of creation, which is never written again


@cache
def _minute_fields(kind: type[Record]) -> tuple[str, ...]:
    """Return the names of the fields that hold minutes."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(name for name, hint in hints.items() if _has_minute_mark(hint))


@cache
def _copies(kind: type[Record]) -> dict[str, str]:
    """Return a format string for each tuple or dict field: the expression that copies the field as plain JSON.

    For example, `"{}.copy()"` for `terms` of a policy. A reader of the copy cannot change the record.
    """
    copies = {}
    for name, hint in get_type_hints(kind).items():
        container, item_types = get_origin(hint), get_args(hint)
        if container is tuple:
            copies[name] = "list({})" if item_types[0] is str else "list(plain({}))"
        elif container is dict:
            copies[name] = "plain({})" if get_origin(item_types[1]) is dict else "{}.copy()"
    return copies


def _has_minute_mark(hint: Any) -> bool:
    """Tell whether a type hint, or a part of it as in `Minute | None`, is `Minute`."""
    marks = getattr(hint, "__metadata__", ())
    return MINUTE in marks or any(_has_minute_mark(part) for part in getattr(hint, "__args__", ()))


def search_text(record: Record) -> str:
    """Return the lower-case text in which a search looks for the words of a query."""
    return " ".join([record.id, *[getattr(record, name) or "" for name in record.searched]]).lower()


def view(record: Record) -> dict[str, Any]:
    """Return a record as actors see it: plain JSON values, with minutes as dates, so that a reply equals its transcript."""
    return _viewer(type(record))(record)


@cache
def _viewer(kind: type[Record]) -> Callable[[Record], dict[str, Any]]:
    """Return a function that shows records of a type: required fields always, others when they differ from the default."""
    fields = msgspec.structs.fields(kind)[1:]
    required = _row_function(kind, tuple(field.name for field in fields if field.required and field.name != kind.spread))
    optional = tuple(field for field in fields if not field.required)
    # The defaults are read from a record with empty required fields, because some are made by a factory.
    example = kind(**{field.name: "" for field in msgspec.structs.fields(kind) if field.required})
    defaults = tuple(getattr(example, field.name) for field in optional)
    names, spread = tuple(field.name for field in optional), kind.spread
    if not optional:
        return required if not spread else lambda record: {**required(record), **getattr(record, spread)}
    get = attrgetter(*names) if len(names) > 1 else lambda record: (getattr(record, names[0]),)

    def show(record: Record) -> dict[str, Any]:
        shown = required(record)
        if spread:
            shown.update(getattr(record, spread))
        values = get(record)
        if values != defaults:
            shown.update((name, shown_value(record, name)) for name in compress(names, map(ne, values, defaults)))
        return shown

    return show


def row(record: Record, names: tuple[str, ...]) -> dict[str, Any]:
    """Return a record's id and the named fields: one row of a list."""
    return _row_function(type(record), names)(record)


def rows(records: Sequence[Record], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return records of one type as the rows of a list."""
    return list(map(_row_function(type(records[0]), names), records)) if records else []


@cache
def _row_function(kind: type[Record], names: tuple[str, ...]) -> Callable[[Record], dict[str, Any]]:
    """Return a function that shows the named fields. It is compiled, because lists are most of what actors read."""
    function: Callable[[Record], dict[str, Any]] = _compiled(
        "{" + ", ".join(f"{name!r}: {_source(kind, name)}" for name in ("id", *names)) + "}"
    )
    return function


def _source(kind: type[Record], name: str) -> str:
    """Return the Python expression that shows one field of `record`."""
    if name in _minute_fields(kind):
        return f"None if record.{name} is None else stamp(record.{name})"
    return _copies(kind).get(name, "{}").format(f"record.{name}")


def _compiled(expression: str) -> Callable[[Record], Any]:
    """Return a function of a record that evaluates an expression. Generated code needs no loop over the fields."""
    function: Callable[[Record], Any] = eval(f"lambda record: {expression}", {"stamp": stamp, "plain": msgspec.to_builtins})
    return function


@cache
def shown_fields(kind: type[Record]) -> frozenset[str]:
    """Return the names of the fields of a record type, for fast lookups."""
    return frozenset(kind.__struct_fields__)


def shown_value(record: Record, name: str) -> Any:
    """Return one field of a record as actors see it."""
    return _field_function(type(record), name)(record)


@cache
def _field_function(kind: type[Record], name: str) -> Callable[[Record], Any]:
    return _compiled(_source(kind, name))


_encode = msgspec.msgpack.Encoder().encode


def fingerprint(record: Record) -> int:
    """Return a 128-bit hash of a record. The digest of a world is a sum that contains them."""
    hasher = _hasher_of(type(record)).copy()
    hasher.update(_encode(record))
    return int.from_bytes(hasher.digest(), "little")


@cache
def _hasher_of(kind: type[Record]) -> blake2b:
    """Return the hash function of a record type. It contains the type's name, so equal rows of two types differ."""
    return blake2b(digest_size=16, person=kind.__name__[:16].encode())


@memoized
def fingerprint_of_name(name: str) -> int:
    """Return a 128-bit hash of the name of a counter or scheduled event.

    The digest of a world adds this hash multiplied by the counter's value or by the event's minute.
    """
    return int.from_bytes(blake2b(name.encode(), digest_size=16, person=b"name").digest(), "little")
