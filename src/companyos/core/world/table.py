"""A table of a world: what the world itself has written, on top of the records that it shares with other worlds."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from operator import attrgetter
from typing import Any

from companyos.core.world.listing import Edit, Listing, Order, sort_key
from companyos.core.world.record import Record, fingerprint, search_text
from companyos.core.world.shared import NO_RECORDS, SharedTable, Test

_MAX_QUERIES = 128  # cached queries of one table, bounded because agents can search for anything


class Table:
    """Records of one type by id. Records of a world's own hide shared ones with the same id; nothing is ever removed.

    Copies share the listings until one side writes, because the forks of a task ask for almost the same things.
    """

    __slots__ = ("_listings", "_texts", "fingerprints", "rows", "shared")

    def __init__(self, shared: SharedTable = NO_RECORDS) -> None:
        self.shared = shared
        self.rows: dict[str, Record] = {}  # the world's own
        self.fingerprints: dict[str, int] | None = None  # of the own records, once computed
        # Search texts of own records by id, each with the record that it belongs to. All copies share them.
        self._texts: dict[str, tuple[Record, str]] = {}
        self._listings: dict[tuple[Any, ...], Listing[Any]] = {}  # cached answers to queries

    def copy(self) -> "Table":
        clone = Table.__new__(Table)
        clone.shared = self.shared
        clone.rows = self.rows.copy()
        clone.fingerprints = None if self.fingerprints is None else self.fingerprints.copy()
        clone._texts = self._texts
        clone._listings = self._listings
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.shared, self.rows, self.fingerprints)  # without the caches

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, key: str) -> Record | None:
        """Return a record, or None if there is none with this id."""
        record = self.rows.get(key)
        return self.shared.rows.get(key) if record is None else record

    def __len__(self) -> int:
        shared = self.shared.rows
        return len(shared) + (sum(key not in shared for key in self.rows) if shared else len(self.rows))

    def all(self) -> Iterable[Record]:
        """Return all records, in the order in which they were made. Slow in a large company: tools use a `Listing`."""
        return self.select("made") if self.shared.rows else self.rows.values()

    def select(self, order: Order, /, **equal: Any) -> Listing[Any]:
        """Return the records whose fields have these values, in order."""
        fields, values = tuple(equal), tuple(equal.values())
        listing = self._listings.get((order, fields, values))
        if listing is None:
            own: Iterable[Record] = self.rows.values()
            if fields:
                get, wanted = attrgetter(*fields), values if len(values) > 1 else values[0]
                own = [record for record in own if get(record) == wanted]
            shared_ids = self.shared.list_ids(order, fields, values)
            listing = self._remember((order, fields, values), self._edited(order, shared_ids, own))
        return listing

    def filter(self, order: Order, test: Test) -> Listing[Any]:
        """Return the records that pass a test, in order. `test` must not be a closure: results are cached by it."""
        listing = self._listings.get((order, test))
        if listing is None:
            own = [record for record in self.rows.values() if test(record)]
            listing = self._remember((order, test), self._edited(order, self.shared.filter(order, test), own))
        return listing

    def search(self, order: Order, query: str, test: Test | None = None) -> Listing[Any]:
        """Return the records whose search text contains every word of the query, in order, if they pass the test."""
        listing = self._listings.get((order, query, test))
        if listing is None:
            words, own = query.lower().split(), []
            for record in self.rows.values():
                text = self._text(record)
                if all(word in text for word in words) and (test is None or test(record)):
                    own.append(record)
            shared_ids = self.shared.search(order, query, test)
            listing = self._remember((order, query, test), self._edited(order, shared_ids, own))
        return listing

    def with_prefix(self, prefix: str) -> Listing[Any]:
        """Return the records whose id begins with this text, by id."""
        listing = self._listings.get((prefix,))
        if listing is None:
            own = [record for record in self.rows.values() if record.id.startswith(prefix)]
            listing = self._remember((prefix,), self._edited("id", self.shared.with_prefix(prefix), own))
        return listing

    def count_by(self, value_of: Callable[[Any], Hashable]) -> dict[Any, int]:
        """Count the records by a value. The values come in the order in which the first record with each was made.

        `value_of` is a function of a module, since the counts of the shared records are cached by it.
        """
        groups, shared, rows = self.shared.groups(value_of), self.shared.rows, self.rows
        counts = {value: len(ids) for value, ids in groups.items()}
        firsts = {value: ids[0] for value, ids in groups.items()}
        for key in rows:
            if key in shared:
                value = value_of(shared[key])
                counts[value] -= 1
                if firsts[value] == key:
                    firsts[value] = next((other for other in groups[value] if other not in rows), "")
        places = {value: self.shared.positions[first] for value, first in firsts.items() if first}
        for place, (key, record) in enumerate(rows.items(), len(shared)):
            value, place = value_of(record), self.shared.positions.get(key, place)
            counts[value] = counts.get(value, 0) + 1
            places[value] = min(place, places.get(value, place))
        return {value: counts[value] for value in sorted(places, key=places.__getitem__)}

    def _text(self, record: Record) -> str:
        """Return the search text of an own record. It is computed once for each version of a record."""
        known, text = self._texts.get(record.id, (None, ""))
        if known is not record:
            text = search_text(record)
            self._texts[record.id] = record, text
        return text

    def _edited(self, order: Order, shared_ids: tuple[str, ...], own: Iterable[Record]) -> Listing[Any]:
        """Return the shared records with these ids, without those that the world has written over, and own records."""
        shared, keys = self.shared, self.shared.sort_keys(order)
        edits = []
        if shared_ids:
            for key in self.rows:
                if key in shared.rows:
                    place = bisect_left(shared_ids, keys[key], key=keys.__getitem__)
                    if place < len(shared_ids) and shared_ids[place] == key:
                        edits.append(Edit(place, True))
        for number, record in enumerate(own, len(shared.rows)):
            key = sort_key(order, record, shared.positions.get(record.id, number))
            place = bisect_left(shared_ids, key, key=keys.__getitem__) if shared_ids else 0
            edits.append(Edit(place, False, key, record))
        return Listing(shared.rows, shared_ids, sorted(edits))

    def _remember(self, query: tuple[Any, ...], listing: Listing[Any]) -> Listing[Any]:
        """Cache the answer to a query until somebody writes to this table."""
        if len(self._listings) >= _MAX_QUERIES:
            self._listings = {}
        self._listings[query] = listing
        return listing

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, key: str, record: Record) -> int:
        """Write a record and return by how much the sum of the fingerprints grows."""
        self.rows[key] = record
        self._listings = {}  # a new dict, because copies of this table share the old one
        if self.fingerprints is None:
            return 0
        new = fingerprint(record)
        growth = new - (self.fingerprints.get(key) or self._shared_fingerprint(key))
        self.fingerprints[key] = new
        return growth

    def _shared_fingerprint(self, key: str) -> int:
        """Return the fingerprint of the shared record with this id, or 0."""
        return self.shared.fingerprints[key] if key in self.shared.rows else 0

    def compute_fingerprints(self) -> int:
        """Compute the fingerprints if that was not done before, and return by how much their sum grows."""
        if self.fingerprints is not None:
            return 0
        self.fingerprints = {key: fingerprint(record) for key, record in self.rows.items()}
        hidden = sum(map(self._shared_fingerprint, self.rows)) if self.shared.rows else 0
        return self.shared.sum_of_fingerprints + sum(self.fingerprints.values()) - hidden


def _restored(shared: SharedTable, rows: dict[str, Record], fingerprints: dict[str, int] | None) -> Table:
    """Return a table that was pickled, with empty caches."""
    table = Table(shared)
    table.rows, table.fingerprints = rows, fingerprints
    return table
