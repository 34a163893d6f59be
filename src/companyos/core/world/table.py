"""A table of a world: what the world itself has written, on top of the records that it shares with other worlds."""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import Any

from companyos.core.world.listing import Edit, Listing, Order, sort_key
from companyos.core.world.record import Record, fingerprint, search_text
from companyos.core.world.shared import NO_RECORDS, SharedTable, Test

_MAX_QUERIES = 128  # cached queries of one table, bounded because agents can search for anything


class Table:
    """Records of one type by id. Records of a world's own hide shared ones with the same id; nothing is ever removed.

    Copies share the listings until one side writes, because the forks of a task ask for almost the same things.
    """

    __slots__ = ("_listings", "rows", "shared")

    def __init__(self, shared: SharedTable = NO_RECORDS, rows: Iterable[tuple[str, Record]] = ()) -> None:
        self.shared = shared
        self.rows: dict[str, Record] = dict(rows)  # the world's own
        self._listings: dict[tuple[Any, ...], Listing[Any]] = {}  # cached answers to queries

    def copy(self) -> "Table":
        clone = Table.__new__(Table)
        clone.shared = self.shared
        clone.rows = self.rows.copy()
        clone._listings = self._listings
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return Table, (self.shared, tuple(self.rows.items()))  # without the cache

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
        query = order, tuple(equal), tuple(equal.values())
        listing = self._listings.get(query)
        if listing is None:
            own: Iterable[Record] = self.rows.values()
            for field, value in equal.items():
                own = [record for record in own if getattr(record, field) == value]
            listing = self._listing(query, order, self.shared.list_ids(*query), own)
        return listing

    def filter(self, order: Order, test: Test) -> Listing[Any]:
        """Return the records that pass a test, in order. `test` must not be a closure: results are cached by it."""
        listing = self._listings.get((order, test))
        if listing is None:
            own = [record for record in self.rows.values() if test(record)]
            listing = self._listing((order, test), order, self.shared.filter(order, test), own)
        return listing

    def search(self, order: Order, query: str, test: Test | None = None) -> Listing[Any]:
        """Return the records whose search text contains every word of the query, in order, if they pass the test."""
        listing = self._listings.get((order, query, test))
        if listing is None:
            own = [(search_text(record), record) for record in self.rows.values()]
            for word in query.lower().split():
                own = [(text, record) for text, record in own if word in text]
            found = [record for _, record in own if test is None or test(record)]
            listing = self._listing((order, query, test), order, self.shared.search(order, query, test), found)
        return listing

    def with_prefix(self, prefix: str) -> Listing[Any]:
        """Return the records whose id begins with this text, by id."""
        listing = self._listings.get((prefix,))
        if listing is None:
            own = [record for key, record in self.rows.items() if key.startswith(prefix)]
            listing = self._listing((prefix,), "id", self.shared.with_prefix(prefix), own)
        return listing

    def count_by(self, value_of: Callable[[Any], Hashable]) -> dict[Any, int]:
        """Count the records by a value. The values come in the order in which the first record with each was made.

        `value_of` is a function of a module, since the counts of the shared records are cached by it.
        """
        groups, shared, rows = self.shared.groups(value_of), self.shared.rows, self.rows
        counts, places = groups.counts.copy(), groups.places.copy()
        for key in rows:
            if key in shared:
                value = value_of(shared[key])
                counts[value] -= 1
                if places.get(value) == self.shared.positions[key]:
                    places.pop(value)
                    others = (self.shared.positions[other] for other in groups.ids[value] if other not in rows)
                    places.update((value, place) for place in islice(others, 1))
        for new_place, (key, record) in enumerate(rows.items(), len(shared)):
            value, place = value_of(record), self.shared.positions.get(key, new_place)
            counts[value] = counts.get(value, 0) + 1
            places[value] = min(place, places.get(value, place))
        return {value: counts[value] for value in sorted(places, key=places.__getitem__)}

    def _listing(
        self, query: tuple[Any, ...], order: Order, shared_ids: tuple[str, ...], own: Iterable[Record]
    ) -> Listing[Any]:
        """Return shared records, without those that the world has written over, and own ones. Cached until a write."""
        shared, positions = self.shared, self.shared.positions
        edits: list[Edit] = []
        if shared_ids:
            key_of = shared.sort_keys(order).__getitem__
            for hidden in [own_id for own_id in self.rows if own_id in shared.rows]:
                place = bisect_left(shared_ids, key_of(hidden), key=key_of)
                if place < len(shared_ids) and shared_ids[place] == hidden:
                    edits.append((place, True, None, None))
            for number, record in enumerate(own, len(positions)):
                key = sort_key(order, record, positions.get(record.id, number))
                edits.append((bisect_left(shared_ids, key, key=key_of), False, key, record))
        else:
            for number, record in enumerate(own, len(positions)):
                edits.append((0, False, sort_key(order, record, positions.get(record.id, number)), record))
        edits.sort()
        if len(self._listings) >= _MAX_QUERIES:
            self._listings = {}
        listing = self._listings[query] = Listing(shared.rows, shared_ids, edits)
        return listing

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, record: Record) -> None:
        self.rows[record.id] = record
        self._listings = {}  # a new dict, because copies of this table share the old one

    def sum_of_fingerprints(self) -> int:
        """Return the sum over all records, computed from scratch for own ones."""
        hidden = sum(self.shared.fingerprints[key] for key in self.rows if key in self.shared.rows)
        return self.shared.sum_of_fingerprints + sum(map(fingerprint, self.rows.values())) - hidden
