"""A table of a world: what the world itself has written, on top of the records that it shares with other worlds."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from companyos.core.world.listing import Key, Listing, Order, sort_key
from companyos.core.world.record import Record, fingerprint, same_search_text, search_text
from companyos.core.world.shared import NO_RECORDS, SharedTable

_MAX_QUERIES = 128  # cached queries of one table, bounded because agents can search for anything


class Table:
    """Records of one type by id. Records of a world's own hide shared ones with the same id; nothing is ever removed.

    Copies share the caches until one side writes, because the forks of a task ask for almost the same things.
    """

    __slots__ = ("_listings", "_stale_texts", "_texts", "fingerprints", "rows", "shared")

    def __init__(self, shared: SharedTable = NO_RECORDS) -> None:
        self.shared = shared
        self.rows: dict[str, Record] = {}  # the world's own
        self.fingerprints: dict[str, int] | None = None  # of the own records, once computed
        self._texts: dict[str, str] = {}  # search texts of the own records
        self._stale_texts: list[str] = []  # ids whose search text must be computed again
        self._listings: dict[tuple[Any, ...], Listing[Any]] = {}  # cached answers to queries

    def copy(self) -> "Table":
        clone = Table.__new__(Table)
        clone.shared = self.shared
        clone.rows = self.rows.copy()
        clone.fingerprints = None if self.fingerprints is None else self.fingerprints.copy()
        clone._texts = self._texts  # shared by copies, since it is replaced and never changed
        clone._stale_texts = self._stale_texts.copy()
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
            get = attrgetter(*fields) if fields else None
            wanted = values if len(values) > 1 else values[0] if values else None
            listing = self._remember(
                (order, fields, values),
                order,
                self.shared.list_ids(order, fields, values),
                (lambda record: get(record) == wanted) if get else (lambda record: True),
            )
        return listing

    def search(self, order: Order, query: str) -> Listing[Any]:
        """Return the records whose search text contains every word of the query, in order."""
        listing = self._listings.get((order, query))
        if listing is None:
            words, texts = query.lower().split(), self.index()

            def matches(record: Record) -> bool:
                known = record.searched and self.rows.get(record.id) is record
                text = texts[record.id] if known else search_text(record)
                return all(word in text for word in words)

            listing = self._remember((order, query), order, self.shared.search(order, query), matches)
        return listing

    def with_prefix(self, prefix: str) -> Listing[Any]:
        """Return the records whose id begins with this text, by id."""
        listing = self._listings.get((prefix,))
        if listing is None:
            ids = self.shared.with_prefix(prefix)
            listing = self._remember((prefix,), "id", ids, lambda record: record.id.startswith(prefix))
        return listing

    def _remember(
        self, query: tuple[Any, ...], order: Order, shared_ids: tuple[str, ...], matches: Callable[[Record], bool]
    ) -> Listing[Any]:
        """Make the answer to a query, and cache it until somebody writes to this table."""
        shared = self.shared
        hidden = frozenset(key for key in self.rows if key in shared.rows and matches(shared.rows[key]))
        own: list[tuple[Key, Record]] = []
        for position, record in enumerate(self.rows.values(), len(shared.rows)):
            if matches(record):
                own.append((sort_key(order, record, shared.positions.get(record.id, position)), record))
        own.sort(key=lambda pair: pair[0])
        listing = Listing(shared.rows, shared_ids, hidden, own, shared.sort_key(order))
        if len(self._listings) >= _MAX_QUERIES:
            self._listings = {}
        self._listings[query] = listing
        return listing

    # -- writing ---------------------------------------------------------------------------------------------------

    def write(self, key: str, record: Record) -> int:
        """Write a record and return by how much the sum of the fingerprints grows."""
        before = self.rows.get(key)
        self.rows[key] = record
        self._listings = {}  # a new dict, because copies of this table share the old one
        if record.searched and (before is None or not same_search_text(before, record)):
            self._stale_texts.append(key)
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

    def index(self) -> dict[str, str]:
        """Return the search texts of the own records by id, up to date."""
        if self._stale_texts:
            self._texts = self._texts | {key: search_text(self.rows[key]) for key in self._stale_texts}
            self._stale_texts = []
        return self._texts


def _restored(shared: SharedTable, rows: dict[str, Record], fingerprints: dict[str, int] | None) -> Table:
    """Return a table that was pickled, with empty caches."""
    table = Table(shared)
    table.rows, table.fingerprints = rows, fingerprints
    table._stale_texts = [key for key, record in rows.items() if record.searched]
    return table
