"""Tables that many worlds share read-only, with indexes: a query costs the same in a small and in a large company."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from companyos.core.world.listing import Key, Order, sort_key
from companyos.core.world.record import Record, fingerprint, search_text

_MAX_QUERIES = 4096  # cached queries of one table, bounded because agents can search for anything
_GRAM = 3  # letters of the pieces of text that the search index knows


# How a shared table is built again in another process: a function that returns the tables by type, its arguments, a type.
Source = tuple[Callable[..., Mapping[type[Record], "SharedTable"]], tuple[Any, ...], type[Record]]


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

    def search(self, order: Order, query: str) -> tuple[str, ...]:
        """Return the ids of the records whose search text contains every word of the query, in order."""
        return self._remembered(("search", order, query), lambda: self._found(order, query.lower().split()))

    def with_prefix(self, prefix: str) -> tuple[str, ...]:
        """Return the ids that begin with this text, sorted."""
        return self._remembered(("prefix", prefix), lambda: self._prefixed(prefix))

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

    def sort_key(self, order: Order) -> Callable[[Record], Key]:
        """Return the function that gives the sort key of a record of this table."""
        return lambda record: sort_key(order, record, self.positions[record.id])

    def __reduce__(self) -> tuple[Callable[..., "SharedTable"], tuple[Any, ...]]:
        return (_from_source, self._source) if self._source else (SharedTable, (tuple(self.rows.values()),))

    # -- indexes ---------------------------------------------------------------------------------------------------

    @cached_property
    def _groups(self) -> dict[tuple[Order, tuple[str, ...]], dict[tuple[Any, ...], tuple[str, ...]]]:
        """The ids by order, by the names of some fields, and by the values of these fields."""
        return {}

    def _group(self, order: Order, fields: tuple[str, ...]) -> dict[tuple[Any, ...], tuple[str, ...]]:
        """Return the ids in order, grouped by the values of some fields."""
        if not fields:
            return {(): tuple(record.id for record in sorted(self.rows.values(), key=self.sort_key(order)))}
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
        found = [self.rows[ids[p]] for p in candidates if all(word in texts[p] for word in words)]
        return tuple(record.id for record in sorted(found, key=self.sort_key(order)))

    def _prefixed(self, prefix: str) -> tuple[str, ...]:
        ids = self.list_ids("id")
        start = bisect_left(ids, prefix)
        end = start
        while end < len(ids) and ids[end].startswith(prefix):
            end += 1
        return ids[start:end]

    def _remembered(self, query: tuple[Any, ...], answer: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
        """Return the cached answer to a query, or compute and cache it."""
        ids = self._lists.get(query)
        if ids is None:
            if len(self._lists) >= _MAX_QUERIES:
                self._lists.clear()
            ids = self._lists[query] = answer()
        return ids


def _from_source(
    build: Callable[..., Mapping[type[Record], SharedTable]], arguments: tuple[Any, ...], kind: Any
) -> SharedTable:
    """Return the shared table that a source describes."""
    return build(*arguments)[kind]


NO_RECORDS = SharedTable()  # of a table that shares nothing
