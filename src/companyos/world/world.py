"""World: all records, now; written only through `put`, journaled, forked in microseconds."""

from bisect import insort
from collections.abc import Callable, Iterable
from typing import TypeVar, cast

from companyos.errors import Refused
from companyos.world.journal import Change
from companyos.world.record import Record, fingerprint
from companyos.world.streams import Streams

R = TypeVar("R", bound=Record)
Handler = Callable[["World", str], None]
Appointment = tuple[int, int, str, str]  # minute, serial, kind, record id

_HANDLERS: dict[str, Handler] = {}
_MODULUS = 1 << 128


def on(kind: str) -> Callable[[Handler], Handler]:
    """Registers what happens when an appointment of this kind falls due. Appointments are data, never closures."""

    def register(handler: Handler) -> Handler:
        if kind in _HANDLERS:
            raise RuntimeError(f"two handlers for appointments of kind {kind!r}")
        _HANDLERS[kind] = handler
        return handler

    return register


class World:
    """Tables of frozen records behind one gate. Forks share tables until either side writes to one."""

    __slots__ = (
        "_agenda", "_counters", "_owned", "_serial", "_sum", "_tables", "actor", "journal", "now", "seats", "streams",
        "versions", "why",
    )  # fmt: skip

    def __init__(self, streams: Streams, now: int, kinds: Iterable[type[Record]]) -> None:
        self.streams = streams
        self.now = now
        self.actor = ""  # who is acting, and through which tool or appointment: the journal's who and why
        self.why = ""
        self.seats: frozenset[str] = frozenset()  # the people who are played from outside
        self.journal: list[Change] = []
        self.versions = dict.fromkeys(kinds, 0)
        self._tables: dict[type[Record], dict[str, Record]] = {kind: {} for kind in self.versions}
        self._owned = set(self.versions)  # tables that no other fork shares
        self._agenda: list[Appointment] = []
        self._serial = 0
        self._counters: dict[str, int] = {}
        self._sum: int | None = None  # the digest's sum; None until somebody asks for the first one

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, kind: type[R], id: str) -> R:
        """A record that must be there; a KeyError here is our bug."""
        return cast("R", self._tables[kind][id])

    def find(self, kind: type[R], id: str) -> R:
        """A record that an actor asked for; refused when there is none."""
        record = self._tables[kind].get(id)
        if record is None:
            raise Refused("not_found", f"there is no {kind.__name__.lower()} {id!r}")
        return cast("R", record)

    def peek(self, kind: type[R], id: str) -> R | None:
        return cast("R | None", self._tables[kind].get(id))

    def all(self, kind: type[R]) -> Iterable[R]:
        return cast("Iterable[R]", self._tables[kind].values())

    def count(self, kind: type[Record]) -> int:
        return len(self._tables[kind])

    def kinds(self) -> Iterable[type[Record]]:
        return self._tables

    def lookup(self, id: str) -> Record | None:
        """Any record that actors may see, by id alone: what a citation points at."""
        for kind, table in self._tables.items():
            if not kind.hidden and id in table:
                return table[id]
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def furnish(self, record: R) -> R:
        """Puts a record of the start state: not journaled, since `(task id, calls)` already tells it."""
        self._own(type(record))[record.id] = record
        self._sum = None
        return record

    def put(self, record: R) -> R:
        """The one write gate. Writing what already stands writes nothing."""
        kind = type(record)
        table = self._own(kind)
        before = table.get(record.id)
        if before == record:
            return record
        table[record.id] = record
        self.versions[kind] += 1
        self.journal.append(Change(self.now, self.actor, self.why, before, record))
        if self._sum is not None:
            if before is not None:
                self._sum -= fingerprint(kind.__name__, before)
            self._sum += fingerprint(kind.__name__, record)
        return record

    def _own(self, kind: type[Record]) -> dict[str, Record]:
        if kind not in self._owned:
            self._owned.add(kind)
            self._tables[kind] = self._tables[kind].copy()
        return self._tables[kind]

    # -- counters --------------------------------------------------------------------------------------------------

    def counter(self, key: str) -> int:
        return self._counters.get(key, 0)

    def tally(self, key: str, value: int) -> int:
        """Sets a counter: how often a call was tried, which id comes next. Part of the state, not of the journal."""
        before = self._counters.get(key)
        self._counters[key] = value
        if self._sum is not None:
            if before is not None:
                self._sum -= fingerprint("counter", (key, before))
            self._sum += fingerprint("counter", (key, value))
        return value

    # -- time ------------------------------------------------------------------------------------------------------

    def schedule(self, minute: int, kind: str, record_id: str) -> None:
        """Makes an appointment; a KeyError for an unknown kind is our bug."""
        _HANDLERS[kind]
        self._serial += 1
        appointment = (minute, self._serial, kind, record_id)
        insort(self._agenda, appointment)
        if self._sum is not None:
            self._sum += fingerprint("agenda", appointment)

    def advance(self, minutes: int, until: Callable[[], bool] | None = None) -> None:
        """Lets time pass, running what falls due, in order; stops early once `until` holds."""
        end = self.now + minutes
        agenda = self._agenda
        if agenda and agenda[0][0] <= end:
            actor, why = self.actor, self.why
            while agenda and agenda[0][0] <= end and not (until and until()):
                appointment = agenda.pop(0)
                if self._sum is not None:
                    self._sum -= fingerprint("agenda", appointment)
                minute, _, kind, record_id = appointment
                self.now = max(self.now, minute)
                self.actor, self.why = "", kind
                _HANDLERS[kind](self, record_id)
            self.actor, self.why = actor, why
            if until and until():
                return
        self.now = end

    # -- copies and digests ----------------------------------------------------------------------------------------

    def fork(self) -> "World":
        """An independent copy. Records are frozen and shared; tables are copied when either side first writes to one."""
        twin = World.__new__(World)
        twin.streams = self.streams
        twin.now = self.now
        twin.actor = self.actor
        twin.why = self.why
        twin.seats = self.seats
        twin.journal = self.journal.copy()
        twin.versions = self.versions.copy()
        twin._tables = self._tables.copy()
        twin._owned = set()
        twin._agenda = self._agenda.copy()
        twin._serial = self._serial
        twin._counters = self._counters.copy()
        twin._sum = self._sum
        self._owned = set()
        return twin

    def digest_of_rest(self) -> int:
        """The part of the digest that is not in tables: counters and appointments."""
        return sum(fingerprint("counter", item) for item in self._counters.items()) + sum(
            fingerprint("agenda", appointment) for appointment in self._agenda
        )

    def digest(self) -> int:
        """128 bits for the whole state: equal states, equal digests, whichever way they were reached."""
        if self._sum is None:
            self._sum = self.digest_of_rest() + sum(
                fingerprint(kind.__name__, record) for kind, table in self._tables.items() for record in table.values()
            )
        return (self._sum + fingerprint("clock", (self.now, self._serial))) % _MODULUS
