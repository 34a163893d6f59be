"""The state of a simulated company: all records, written only through `put`, with a journal, events and a digest."""

from bisect import insort
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from companyos.core.errors import Refused
from companyos.core.world.journal import Change
from companyos.core.world.listing import Listing, Order
from companyos.core.world.record import Record, fingerprint, fingerprint_of_name
from companyos.core.world.shared import SharedTable, Test
from companyos.core.world.streams import Streams
from companyos.core.world.table import Table

R = TypeVar("R", bound=Record)
Handler = Callable[["World", str], None]
Appointment = tuple[int, int, str, str]  # a scheduled event: minute, serial number, kind, and the id of its record

_HANDLERS: dict[str, Handler] = {}
_EMPTY = Table()  # of all types of which a world has no record
_MASK_128 = (1 << 128) - 1  # keeps the lowest 128 bits of a number
# What each minute of the clock, and each appointment made so far, adds to the sum behind the digest.
_CLOCK = fingerprint_of_name("clock")
_SERIAL = fingerprint_of_name("serial")


def on(kind: str) -> Callable[[Handler], Handler]:
    """Register the handler that runs when an appointment of this kind is due.

    Appointments name their handler by kind, so that they stay data: a world can be forked, hashed and pickled.
    """

    def register(handler: Handler) -> Handler:
        if kind in _HANDLERS:
            raise RuntimeError(f"two handlers for appointments of kind {kind!r}")
        _HANDLERS[kind] = handler
        return handler

    return register


class World:
    """Tables of frozen records that change only through `put`. Forks share a table until one side writes to it.

    Below the tables lie records that many worlds share: `shared` has them by type. A write never touches them.
    """

    __slots__ = (
        "_agenda",
        "_counters",
        "_has_fingerprints",
        "_owned",
        "_serial",
        "_sum",
        "_tables",
        "actor",
        "journal",
        "now",
        "revision",
        "seats",
        "streams",
        "why",
    )  # fmt: skip

    def __init__(
        self,
        streams: Streams,
        now: int,
        kinds: Iterable[type[Record]],
        shared: Mapping[type[Record], SharedTable] | None = None,
    ) -> None:
        self.streams = streams
        self.now = now
        self.actor = ""  # the handle of the person who acts now, for the journal
        self.why = ""  # the tool or the kind of appointment that writes now, for the journal
        self.revision = 0  # grows with every write and read mark: milestones are evaluated only then
        self.seats: tuple[str, ...] = ()  # handles of the people whom agents play, sorted; all others are simulated
        self.journal: list[Change] = []
        own = {kind: Table(table) for kind, table in shared.items()} if shared else {}
        self._tables: dict[type[Record], Table] = {kind: own.get(kind, _EMPTY) for kind in kinds}
        self._owned = set(own)  # types whose table no other world shares
        self._agenda: list[Appointment] = []
        self._serial = 0
        self._counters: dict[str, int] = {}
        self._sum = 0  # of the hashes of counters, appointments and, once computed, records: see `digest`
        self._has_fingerprints = False  # whether `_sum` contains those of all records

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, kind: type[R], id: str) -> R:
        """Return a record that must exist. A KeyError is a bug of the caller."""
        table = self._tables[kind]
        record = table.rows.get(id)
        return table.shared.rows[id] if record is None else record  # type: ignore[return-value]

    def find(self, kind: type[R], id: str) -> R:
        """Return a record that an actor asked for. Raises `Refused` if it does not exist."""
        record = self._tables[kind].get(id)
        if record is None:
            raise Refused("not_found", f"there is no {kind.__name__.lower()} {id!r}")
        return record  # type: ignore[return-value]

    def peek(self, kind: type[R], id: str) -> R | None:
        """Return a record, or None if it does not exist."""
        return self._tables[kind].get(id)  # type: ignore[return-value]

    def all(self, kind: type[R]) -> Iterable[R]:
        """Return all records of a type, in the order in which they were made. Tools use `select`, which is faster."""
        return self._tables[kind].all()  # type: ignore[return-value]

    def own(self, kind: type[R]) -> Mapping[str, R]:
        """Return the records of a type, by id, that this world does not share with other worlds of its company."""
        return self._tables[kind].rows  # type: ignore[return-value]

    def select(self, kind: type[R], order: Order, /, **equal: Any) -> Listing[R]:
        """Return the records of a type whose fields have these values, in order."""
        return self._tables[kind].select(order, **equal)

    def filter(self, kind: type[R], order: Order, test: Test) -> Listing[R]:
        """Return the records of a type that pass a test, in order. `test` is a function of a module, not a closure."""
        return self._tables[kind].filter(order, test)

    def search(self, kind: type[R], query: str, order: Order = "made", test: Test | None = None) -> Listing[R]:
        """Return the records whose searched fields contain every word of the query, in order, if they pass the test."""
        return self._tables[kind].search(order, query, test)

    def with_prefix(self, kind: type[R], prefix: str) -> Listing[R]:
        """Return the records whose id begins with this text, by id."""
        return self._tables[kind].with_prefix(prefix)

    def count_by(self, kind: type[Record], value_of: Callable[[Any], Hashable]) -> dict[Any, int]:
        """Count records by a value, in the order in which the first record with each value was made.

        `value_of` is a function of a module, not a closure: the counts of shared records are cached by it.
        """
        return self._tables[kind].count_by(value_of)

    def count(self, kind: type[Record]) -> int:
        return len(self._tables[kind])

    def kinds(self) -> Iterable[type[Record]]:
        return self._tables

    def lookup(self, id: str, type_name: str = "") -> Record | None:
        """Return the record with this id if actors may see it, else None. `type_name`: only a record of this type."""
        for kind, table in self._tables.items():
            if kind.hidden or (type_name and type_name != kind.__name__):
                continue
            record = table.get(id)
            if record is not None:
                return record
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def put_at_start(self, record: R) -> R:
        """Write a record of the start state. It is not journaled: the task id already determines it."""
        table = self._own(type(record))
        if self._has_fingerprints:
            self._sum += _growth(table.get(record.id), record)
        table.write(record)
        return record

    def put(self, record: R) -> R:
        """Write a record and journal it. The only way to write; writing an equal record does nothing."""
        kind, key = type(record), record.id
        table = self._tables[kind] if kind in self._owned else self._own(kind)
        before = table.get(key)
        if before == record:
            return record
        table.write(record)
        if self._has_fingerprints:
            self._sum += _growth(before, record)
        self.revision += 1
        self.journal.append(Change(self.now, self.actor, self.why, before, record))
        return record

    def _own(self, kind: type[Record]) -> Table:
        """Return the table of a type, copied first if a fork shares it."""
        table = self._tables[kind]
        if kind not in self._owned:
            self._owned.add(kind)
            table = self._tables[kind] = table.copy()
        return table

    # -- counters --------------------------------------------------------------------------------------------------

    def counter(self, key: str) -> int:
        """Return the value of a counter, that is, of a named number. A counter that was never set is 0."""
        return self._counters.get(key, 0)

    def set_read_mark(self, key: str, value: int) -> None:
        """Set a counter that records what somebody has read. Milestones may depend on it."""
        if self._counters.get(key) != value:
            self.revision += 1
            self.set_counter(key, value)

    def set_counter(self, key: str, value: int) -> int:
        """Set a counter and return its value. Counters are part of the digest, but not of the journal."""
        self._sum += fingerprint_of_name(key) * (value - self._counters.get(key, 0))
        self._counters[key] = value
        return value

    def count_up(self, key: str) -> int:
        """Add one to a counter and return its new value."""
        self._counters[key] = number = self._counters.get(key, 0) + 1
        self._sum += fingerprint_of_name(key)
        return number

    # -- time ------------------------------------------------------------------------------------------------------

    def schedule(self, minute: int, kind: str, record_id: str) -> None:
        """Schedule an appointment. A KeyError for an unknown kind is a bug of the caller."""
        _HANDLERS[kind]
        self._serial += 1
        appointment = (minute, self._serial, kind, record_id)
        insort(self._agenda, appointment)
        self._sum += _weight(appointment) + _SERIAL

    def advance(self, minutes: int, stop_counter: str = "", stop_above: int = 0) -> None:
        """Let time pass and run the appointments that become due.

        If `stop_counter` names a counter, time stops as soon as its value is greater than `stop_above`.
        """
        end = self.now + minutes
        if stop_counter or (self._agenda and self._agenda[0][0] <= end):
            self._run_agenda(end, stop_counter, stop_above)
        else:
            self.now = end

    def _run_agenda(self, end: int, stop_counter: str, stop_above: int) -> None:
        agenda, counters = self._agenda, self._counters
        actor, why = self.actor, self.why
        while not (stop_counter and counters.get(stop_counter, 0) > stop_above):
            if not agenda or agenda[0][0] > end:
                self.now = end
                break
            appointment = agenda.pop(0)
            self._sum -= _weight(appointment)
            minute, _, kind, record_id = appointment
            self.now = max(self.now, minute)
            self.actor, self.why = "", kind
            _HANDLERS[kind](self, record_id)
        self.actor, self.why = actor, why

    # -- copies and digests ----------------------------------------------------------------------------------------

    def fork(self) -> "World":
        """Return an independent copy. Tables are shared until one side writes to them."""
        clone = World.__new__(World)
        clone.streams = self.streams
        clone.now = self.now
        clone.actor = self.actor
        clone.why = self.why
        clone.revision = self.revision
        clone.seats = self.seats
        clone.journal = self.journal.copy()
        clone._tables = self._tables.copy()
        clone._owned = set()
        clone._agenda = self._agenda.copy()
        clone._serial = self._serial
        clone._counters = self._counters.copy()
        clone._sum = self._sum
        clone._has_fingerprints = self._has_fingerprints
        self._owned = set()
        return clone

    def digest_of_rest(self) -> int:
        """Return the part of the digest's sum that comes from counters and appointments, computed from scratch."""
        counters = sum(fingerprint_of_name(key) * value for key, value in self._counters.items())
        return counters + sum(map(_weight, self._agenda)) + _SERIAL * self._serial

    def digest(self) -> str:
        """Return 128 bits in hex that stand for the whole state. Equal states have equal digests, however they arose.

        The digest is a sum of hashes, so each write only adds the difference.
        """
        if not self._has_fingerprints:
            self._sum += sum(table.sum_of_fingerprints() for table in self._tables.values())
            self._has_fingerprints = True
        return ((self._sum + _CLOCK * self.now) & _MASK_128).to_bytes(16, "big").hex()


def _growth(before: Record | None, after: Record) -> int:
    """Return what a write adds to the digest's sum."""
    return fingerprint(after) - (0 if before is None else fingerprint(before))


def _weight(appointment: Appointment) -> int:
    """Return what an appointment adds to the digest's sum."""
    minute, serial, kind, record_id = appointment
    return fingerprint_of_name(f"{kind}/{record_id}/{serial}") * (minute + 1)
