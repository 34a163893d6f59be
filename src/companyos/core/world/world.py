"""World: all records, now; written only through `put`, journaled, forked in microseconds."""

from bisect import insort
from collections.abc import Callable, Iterable
from typing import TypeVar

from companyos.core.errors import Refused
from companyos.core.world.journal import Change
from companyos.core.world.record import Record, fingerprint, fingerprint_of_name, search_text, searched_alike
from companyos.core.world.streams import Streams

R = TypeVar("R", bound=Record)
Handler = Callable[["World", str], None]
Appointment = tuple[int, int, str, str]  # minute, serial, kind, record id

_HANDLERS: dict[str, Handler] = {}
_MOST_FOUND = 128  # searches of one table: an agent may ask for whatever it makes up
_BITS = (1 << 128) - 1
_CLOCK = fingerprint_of_name("clock")
_SERIAL = fingerprint_of_name("serial")


def on(kind: str) -> Callable[[Handler], Handler]:
    """Registers what happens when an appointment of this kind falls due. Appointments are data, never closures."""

    def register(handler: Handler) -> Handler:
        if kind in _HANDLERS:
            raise RuntimeError(f"two handlers for appointments of kind {kind!r}")
        _HANDLERS[kind] = handler
        return handler

    return register


class Table:
    """Records by id, with what was worked out of each: its fingerprint and the text that searches look at.

    Both are worked out when asked for, and go with a copy of the table. So does what searches found, which holds until one
    of those texts changes: the forks of a task ask much the same, and most writes touch no such text.
    """

    __slots__ = ("found", "latest", "order", "prints", "rows", "texts", "unread")

    def __init__(self) -> None:
        self.rows: dict[str, Record] = {}
        self.prints: dict[str, int] | None = None
        self.texts: dict[str, str] = {}
        self.unread: list[str] = []  # written since the texts were last looked at
        self.found: dict[str, list[str]] = {}  # ids by query
        self.order: tuple[str, ...] = ()  # of the ids, once somebody asked
        self.latest: tuple[str, ...] = ()  # the ids by date, likewise

    def copy(self) -> "Table":
        twin = Table.__new__(Table)
        twin.rows = self.rows.copy()
        twin.prints = None if self.prints is None else self.prints.copy()
        twin.texts = self.texts  # which nobody writes to
        twin.unread = self.unread.copy()
        twin.found = self.found
        twin.order = self.order
        twin.latest = self.latest
        return twin

    def write(self, key: str, record: Record) -> int:
        """Writes a record; gives by how much that changes the sum of the fingerprints."""
        before = self.rows.get(key)
        self.rows[key] = record
        if record.searched and (before is None or not searched_alike(before, record)):
            self.unread.append(key)
            self.found = {}  # a new one: who shares the old one has the old texts
        prints = self.prints
        if prints is None:
            return 0
        now = fingerprint(record)
        grown = now - prints.get(key, 0)
        prints[key] = now
        return grown

    def take_prints(self) -> int:
        """Works out the fingerprints, if that has not been done; gives by how much that changes their sum."""
        if self.prints is not None:
            return 0
        self.prints = {key: fingerprint(record) for key, record in self.rows.items()}
        return sum(self.prints.values())

    def index(self) -> dict[str, str]:
        if self.unread:
            self.texts = self.texts | {key: search_text(self.rows[key]) for key in self.unread}
            self.unread = []
        return self.texts

    def in_order(self) -> tuple[str, ...]:
        """The ids, sorted. None is ever taken away: so as many are the same."""
        if len(self.order) != len(self.rows):
            self.order = tuple(sorted(self.rows))
        return self.order

    def latest_first(self) -> tuple[str, ...]:
        """The ids, by a date that never changes: those made last come first, of one minute in the order of the rows."""
        if len(self.latest) != len(self.rows):
            rows = self.rows
            self.latest = tuple(sorted(rows, key=lambda key: getattr(rows[key], rows[key].dated), reverse=True))
        return self.latest

    def search(self, query: str) -> list[Record]:
        keys = self.found.get(query)
        if keys is None:
            texts = self.index()
            keys = list(texts)  # in the order of the rows
            for word in query.lower().split():
                keys = [key for key in keys if word in texts[key]]
            if len(self.found) >= _MOST_FOUND:
                self.found = {}
            self.found[query] = keys
        return list(map(self.rows.__getitem__, keys))


class World:
    """Tables of frozen records behind one gate. Forks share tables until either side writes to one."""

    __slots__ = (
        "_agenda",
        "_counters",
        "_owned",
        "_serial",
        "_settled",
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

    def __init__(self, streams: Streams, now: int, kinds: Iterable[type[Record]]) -> None:
        self.streams = streams
        self.now = now
        self.actor = ""  # who is acting, and through which tool or appointment: the journal's who and why
        self.why = ""
        self.revision = 0  # how often something was written, or marked as read: what milestones can depend on
        self.seats: tuple[str, ...] = ()  # the people who are played from outside, in the order of their handles
        self.journal: list[Change] = []
        self._tables: dict[type[Record], Table] = {kind: Table() for kind in kinds}
        self._owned = set(self._tables)  # tables that no other fork shares
        self._agenda: list[Appointment] = []
        self._serial = 0
        self._counters: dict[str, int] = {}
        self._sum = 0  # the digest's sum: counters and appointments, and the records of tables that have fingerprints
        self._settled = False  # whether all tables have them

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, kind: type[R], id: str) -> R:
        """A record that must be there; a KeyError here is our bug."""
        return self._tables[kind].rows[id]  # type: ignore[return-value]

    def find(self, kind: type[R], id: str) -> R:
        """A record that an actor asked for; refused when there is none."""
        record = self._tables[kind].rows.get(id)
        if record is None:
            raise Refused("not_found", f"there is no {kind.__name__.lower()} {id!r}")
        return record  # type: ignore[return-value]

    def peek(self, kind: type[R], id: str) -> R | None:
        return self._tables[kind].rows.get(id)  # type: ignore[return-value]

    def all(self, kind: type[R]) -> Iterable[R]:
        return self._tables[kind].rows.values()  # type: ignore[return-value]

    def ids(self, kind: type[Record]) -> tuple[str, ...]:
        """All ids of a kind, sorted."""
        return self._tables[kind].in_order()

    def latest(self, kind: type[R]) -> list[R]:
        """All records of a kind that is dated, the latest first."""
        table = self._tables[kind]
        return list(map(table.rows.__getitem__, table.latest_first()))  # type: ignore[arg-type]

    def search(self, kind: type[R], query: str) -> list[R]:
        """The records in whose searched fields every word of the query occurs."""
        return self._tables[kind].search(query)  # type: ignore[return-value]

    def count(self, kind: type[Record]) -> int:
        return len(self._tables[kind].rows)

    def kinds(self) -> Iterable[type[Record]]:
        return self._tables

    def lookup(self, id: str, named: str = "") -> Record | None:
        """Any record that actors may see, by id alone, or of the kind of this name: what a citation or a form points at."""
        for kind, table in self._tables.items():
            if id in table.rows and not kind.hidden and (not named or named == kind.__name__):
                return table.rows[id]
        return None

    # -- writing ---------------------------------------------------------------------------------------------------

    def furnish(self, record: R) -> R:
        """Puts a record of the start state: not journaled, since `(task id, calls)` already tells it."""
        self._sum += self._own(type(record)).write(record.id, record)
        return record

    def put(self, record: R) -> R:
        """The one write gate. Writing what already stands writes nothing."""
        kind, key = type(record), record.id
        table = self._tables[kind] if kind in self._owned else self._own(kind)
        before = table.rows.get(key)
        if before == record:
            return record
        self._sum += table.write(key, record)
        self.revision += 1
        self.journal.append(Change(self.now, self.actor, self.why, before, record))
        return record

    def _own(self, kind: type[Record]) -> Table:
        table = self._tables[kind]
        if kind not in self._owned:
            self._owned.add(kind)
            table = self._tables[kind] = table.copy()
        return table

    # -- counters --------------------------------------------------------------------------------------------------

    def counter(self, key: str) -> int:
        return self._counters.get(key, 0)

    def mark(self, key: str, value: int) -> None:
        """Sets a counter that says what somebody has read; goals may look at those."""
        if self._counters.get(key) != value:
            self.revision += 1
            self.tally(key, value)

    def tally(self, key: str, value: int) -> int:
        """Sets a counter: how many messages there are, which id comes next. Part of the state, not of the journal."""
        self._sum += fingerprint_of_name(key) * (value - self._counters.get(key, 0))
        self._counters[key] = value
        return value

    def count_up(self, key: str) -> int:
        """Counts one more; gives how many there are with it."""
        self._counters[key] = number = self._counters.get(key, 0) + 1
        self._sum += fingerprint_of_name(key)
        return number

    # -- time ------------------------------------------------------------------------------------------------------

    def schedule(self, minute: int, kind: str, record_id: str) -> None:
        """Makes an appointment; a KeyError for an unknown kind is our bug."""
        _HANDLERS[kind]
        self._serial += 1
        appointment = (minute, self._serial, kind, record_id)
        insort(self._agenda, appointment)
        self._sum += _weight(appointment) + _SERIAL

    def advance(self, minutes: int, news: str = "", known: int = 0) -> None:
        """Lets time pass, running what falls due, in order; stops early once the counter `news` is above what is known."""
        end = self.now + minutes
        if news or (self._agenda and self._agenda[0][0] <= end):
            self._run_agenda(end, news, known)
        else:
            self.now = end

    def _run_agenda(self, end: int, news: str, known: int) -> None:
        agenda, counters = self._agenda, self._counters
        actor, why = self.actor, self.why
        while not (news and counters.get(news, 0) > known):
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
        """An independent copy. Records are frozen and shared; tables are copied when either side first writes to one."""
        twin = World.__new__(World)
        twin.streams = self.streams
        twin.now = self.now
        twin.actor = self.actor
        twin.why = self.why
        twin.revision = self.revision
        twin.seats = self.seats
        twin.journal = self.journal.copy()
        twin._tables = self._tables.copy()
        twin._owned = set()
        twin._agenda = self._agenda.copy()
        twin._serial = self._serial
        twin._counters = self._counters.copy()
        twin._sum = self._sum
        twin._settled = self._settled
        self._owned = set()
        return twin

    def settle(self) -> None:
        """Works out, once for all forks to come, what they would each work out again: fingerprints and search texts."""
        self.digest()
        for table in self._tables.values():
            table.index()

    def digest_of_rest(self) -> int:
        """The part of the digest that is not in tables: counters and appointments."""
        counted = sum(fingerprint_of_name(key) * value for key, value in self._counters.items())
        return counted + sum(map(_weight, self._agenda)) + _SERIAL * self._serial

    def digest(self) -> str:
        """128 bits, in hex, for the whole state: equal states, equal digests, whichever way they were reached."""
        if not self._settled:
            self._sum += sum(table.take_prints() for table in self._tables.values())
            self._settled = True
        return ((self._sum + _CLOCK * self.now) & _BITS).to_bytes(16, "big").hex()


def _weight(appointment: Appointment) -> int:
    minute, serial, kind, record_id = appointment
    return fingerprint_of_name(f"{kind}/{record_id}/{serial}") * (minute + 1)
