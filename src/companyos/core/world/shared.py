"""Tables that many worlds share read-only, with indexes: a query costs the same in a small and in a large company."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from companyos.core.world.listing import Key, Order
from companyos.core.world.record import Record, fingerprint, search_text

_MAX_QUERIES = 4096  # cached queries of one table, bounded because agents can search for anything
_GRAM = 3  # letters of the pieces of text that the search index knows


# How a shared table is built again in another process: a function that returns the tables by type, its arguments, a type.
Source = tuple[Callable[..., Mapping[type[Record], "SharedTable"]], tuple[Any, ...], type[Record]]


Test = Callable[[Any], bool]  # whether a record belongs to a result


class Groups(NamedTuple):
    """Shared records by a value: their ids, how many there are, and the position of the first one."""

    ids: dict[Any, list[str]]
    counts: dict[Any, int]
    places: dict[Any, int]


class SharedTable:
    """Records of one type that nobody writes any more. Each index is built when it is first needed, and then kept.

    A table with a `source` is pickled as that source: an episode that moves to another process takes no records along.
    """

    def __init__(self, records: Iterable[Record] = (), source: Source | None = None) -> None:
        self.rows: Mapping[str, Record] = MappingProxyType({record.id: record for record in records})
        self._source = source
        self._lists: dict[tuple[Any, ...], tuple[str, ...]] = {}  # the ids of each query that somebody made

    def list_ids(self, order: Order, fields: tuple[str, ...] = (), values: tuple[Any, ...] = ()) -> tuple[str, ...]:
        """Return the ids of the records whose `fields` have these values, in order."""
        groups = self._groups.get((order, fields))
        if groups is None:
            groups = self._groups[order, fields] = self._group(order, fields)
        return groups.get(values, ())

    def search(self, order: Order, query: str, test: Test | None = None) -> tuple[str, ...]:
        """Return the ids of the records that pass the test and whose search text contains all words of the query."""
        ids = self._lists.get((order, query, test))
        if ids is None:
            found = self._found(order, query.lower().split())
            ids = self._remember((order, query, test), found if test is None else self._passing(found, test))
        return ids

    def with_prefix(self, prefix: str) -> tuple[str, ...]:
        """Return the ids that begin with this text, sorted."""
        ids = self._lists.get((prefix,))
        if ids is None:
            ids = self._remember((prefix,), self._prefixed(prefix))
        return ids

    def filter(self, order: Order, test: Test) -> tuple[str, ...]:
        """Return the ids of the records that pass a test, in order."""
        ids = self._lists.get((order, test))
        if ids is None:
            ids = self._remember((order, test), self._passing(self.list_ids(order), test))
        return ids

    def groups(self, value_of: Callable[[Any], Hashable]) -> "Groups":
        """Return the ids by a value of their records, in the order in which the records were made."""
        groups = self._groups_by_value.get(value_of)
        if groups is None:
            ids: dict[Any, list[str]] = {}
            for key, record in self.rows.items():
                ids.setdefault(value_of(record), []).append(key)
            counts = {value: len(keys) for value, keys in ids.items()}
            places = {value: self.positions[keys[0]] for value, keys in ids.items()}
            groups = self._groups_by_value[value_of] = Groups(ids, counts, places)
        return groups

    @cached_property
    def fingerprints(self) -> dict[str, int]:
        """The fingerprint of each record, by id."""
        return {key: fingerprint(record) for key, record in self.rows.items()}

    @cached_property
    def sum_of_fingerprints(self) -> int:
        return sum(self.fingerprints.values())

    @cached_property
    def positions(self) -> dict[str, int]:
        """The place of each record in the order in which they were made, by id."""
        return {key: position for position, key in enumerate(self.rows)}

    def sort_keys(self, order: Order) -> Mapping[str, Key]:
        """Return what an order sorts each record by, by id."""
        return self.positions if order == "made" else self._ids if order == "id" else self._dates

    def __reduce__(self) -> tuple[Callable[..., "SharedTable"], tuple[Any, ...]]:
        return (_from_source, self._source) if self._source else (SharedTable, (tuple(self.rows.values()),))

    # -- indexes ---------------------------------------------------------------------------------------------------

    @cached_property
    def _ids(self) -> dict[str, str]:
        return {key: key for key in self.rows}

    @cached_property
    def _dates(self) -> dict[str, Key]:
        """The sort keys of the order "newest"."""
        return {key: (-getattr(row, row.dated), place) for place, (key, row) in enumerate(self.rows.items())}

    @cached_property
    def _groups_by_value(self) -> dict[Callable[[Any], Hashable], "Groups"]:
        return {}

    @cached_property
    def _groups(self) -> dict[tuple[Order, tuple[str, ...]], dict[tuple[Any, ...], tuple[str, ...]]]:
        """The ids by order, by the names of some fields, and by the values of these fields."""
        return {}

    def _group(self, order: Order, fields: tuple[str, ...]) -> dict[tuple[Any, ...], tuple[str, ...]]:
        """Return the ids in order, grouped by the values of some fields."""
        if not fields:
            return {(): tuple(sorted(self.rows, key=self.sort_keys(order).__getitem__))}
        get = attrgetter(*fields)
        groups: dict[tuple[Any, ...], list[str]] = {}
        for key in self.list_ids(order):
            values = get(self.rows[key])
            groups.setdefault(values if len(fields) > 1 else (values,), []).append(key)
        return {values: tuple(keys) for values, keys in groups.items()}

    @cached_property
    def _texts(self) -> list[str]:
        """The search texts, in the order in which the records were made."""
        return [search_text(record) for record in self.rows.values()]

    @cached_property
    def _grams(self) -> dict[str, list[int]]:
        """The positions of the records whose search text contains a piece of three letters, by this piece."""
        grams: dict[str, list[int]] = {}
        for position, text in enumerate(self._texts):
            for gram in dict.fromkeys(text[i : i + _GRAM] for i in range(len(text) - _GRAM + 1)):
                grams.setdefault(gram, []).append(position)
        return grams

    def _found(self, order: Order, words: list[str]) -> tuple[str, ...]:
        """Return the ids of the records whose search text contains all words.

        The rarest piece of three letters of any word says which records can match at all; only those are looked at.
        """
        if not words:
            return self.list_ids(order)
        texts = self._texts
        grams = (word[i : i + _GRAM] for word in words for i in range(len(word) - _GRAM + 1))
        candidates: Sequence[int] = min((self._grams.get(gram, ()) for gram in grams), key=len, default=range(len(texts)))
        ids = self.list_ids("made")
        found = [ids[place] for place in candidates if all(word in texts[place] for word in words)]
        return tuple(found if order == "made" else sorted(found, key=self.sort_keys(order).__getitem__))

    def _prefixed(self, prefix: str) -> tuple[str, ...]:
        ids = self.list_ids("id")
        start = bisect_left(ids, prefix)
        end = start
        while end < len(ids) and ids[end].startswith(prefix):
            end += 1
        return ids[start:end]

    def _passing(self, ids: Iterable[str], test: Test) -> tuple[str, ...]:
        return tuple(key for key in ids if test(self.rows[key]))

    def _remember(self, query: tuple[Any, ...], ids: tuple[str, ...]) -> tuple[str, ...]:
        """Cache the answer to a query."""
        if len(self._lists) >= _MAX_QUERIES:
            self._lists.clear()
        self._lists[query] = ids
        return ids


def _from_source(
    build: Callable[..., Mapping[type[Record], SharedTable]], arguments: tuple[Any, ...], kind: Any
) -> SharedTable:
    """Return the shared table that a source describes."""
    return build(*arguments)[kind]


NO_RECORDS = SharedTable()  # of a table that shares nothing
