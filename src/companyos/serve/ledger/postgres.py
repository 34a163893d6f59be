"""PostgreSQL: the ledger in a database, shared by any number of machines."""

import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from companyos.core.calls import Call
from companyos.serve.errors import LedgerDown, ServeError, TurnTaken, UnknownSession
from companyos.serve.ledger.ledger import (
    MOST_EXPIRED,
    Entry,
    Header,
    IdTaken,
    Ledger,
    Row,
    decode_call,
    decode_header,
    encode,
)
from companyos.serve.ops.settings import BadSetting

Connection = psycopg.Connection[tuple[Any, ...]]

FORMAT = 2  # of the tables
PAUSE = 0.5  # seconds after a vain attempt to connect in which none is made, so that a queue of requests is answered soon
PATIENCE = 4.0  # seconds; a database that is silent for longer counts as gone, though its machine keeps the connection up
_LIMIT = "3s"  # which the database itself sets to waiting for a lock, and to a statement
# What holds unless the URL says otherwise: a peer that is silent for long is gone.
_CONNECTING: dict[str, Any] = {
    "connect_timeout": 3,
    "application_name": "companyos",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "tcp_user_timeout": 15_000,
}
_FURNISHING, _EXPIRING = 0x434F_5301, 0x434F_5302  # advisory locks

_SCHEMA = """
CREATE TABLE companyos_session (
    id text COLLATE "C" PRIMARY KEY, created double precision NOT NULL, header bytea NOT NULL, owner text NOT NULL
);
CREATE INDEX companyos_session_created ON companyos_session (created);
CREATE INDEX companyos_session_owner ON companyos_session (owner);
CREATE TABLE companyos_turn (
    session text COLLATE "C" NOT NULL REFERENCES companyos_session ON DELETE CASCADE,
    turn integer NOT NULL, at double precision NOT NULL, call bytea NOT NULL,
    PRIMARY KEY (session, turn)
);
CREATE TABLE companyos_format (format integer NOT NULL);
"""
# From format 1, which had the owner in the header alone.
_FROM_1 = """
ALTER TABLE companyos_session ADD COLUMN owner text NOT NULL DEFAULT '';
UPDATE companyos_session SET owner = convert_from(header, 'UTF8')::json ->> 'owner';
CREATE INDEX companyos_session_owner ON companyos_session (owner);
"""
_BEGIN = """
WITH opened AS (
    INSERT INTO companyos_session (id, created, header, owner)
    SELECT * FROM unnest(%b::text[], %b::float8[], %b::bytea[], %b::text[]) RETURNING id, created
)
INSERT INTO companyos_turn (session, turn, at, call)
SELECT opened.id, made.turn, opened.created, made.call FROM opened, unnest(%b::int[], %b::bytea[]) AS made (turn, call)
"""
# In one order everywhere, so that no two batches wait for each other.
_APPEND = """
INSERT INTO companyos_turn (session, turn, at, call)
SELECT * FROM unnest(%b::text[], %b::int[], %b::float8[], %b::bytea[]) AS row (session, turn, at, call)
ORDER BY session, turn
"""
_READ = """
SELECT s.header, t.call, t.at FROM companyos_session s LEFT JOIN companyos_turn t ON t.session = s.id
WHERE s.id = %b ORDER BY t.turn
"""
_LATER = """
SELECT t.call FROM companyos_session s LEFT JOIN companyos_turn t ON t.session = s.id AND t.turn > %b
WHERE s.id = %b ORDER BY t.turn
"""
_STANDS = """
SELECT session, turn, call FROM companyos_turn
JOIN unnest(%b::text[], %b::int[]) AS asked (session, turn) USING (session, turn)
"""
_OLD = "created < %b AND NOT EXISTS (SELECT FROM companyos_turn WHERE session = id AND at >= %b)"


class PostgresLedger(Ledger):
    """Tables in the database that a URL names, made where there are none; `BadSetting` where that cannot be.

    What is committed survives whatever the database survives. A connection that was lost is made again by the next who
    asks. If it was lost in the middle of a commit nobody knows whether that was written: the asker hears `LedgerDown`,
    and finds out by reading. A database that is there and says nothing (its processes are stopped, its disk hangs) is
    given up after `PATIENCE`: a thread cuts the connection off.
    """

    quick = False

    def __init__(self, url: str) -> None:
        self._parameters = _CONNECTING | _parameters(url)
        self._connection: Connection | None = None
        self._vain = -PAUSE  # when connecting last failed, or an answer did not come in time
        self._asked: float | None = None  # when the request that is under way was made
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="ledger-watch", daemon=True).start()
        try:
            with ExitStack() as undo:
                undo.callback(self.close)
                self._furnish(self._connected())
                undo.pop_all()
        except psycopg.Error as error:
            reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
            raise BadSetting(f"cannot keep a ledger in PostgreSQL: {reason}") from None

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        ids, created = [header.session_id for header in headers], [header.created for header in headers]
        turns, texts = list(range(1, len(calls) + 1)), [encode(call) for call in calls]
        raw, owners = [encode(header) for header in headers], [header.owner for header in headers]
        try:
            with self._answering() as db:
                db.execute(_BEGIN, (ids, created, raw, owners, turns, texts))
        except psycopg.errors.UniqueViolation:
            raise IdTaken from None

    def read(self, session_id: str) -> Entry | None:
        with self._answering() as db:
            rows = db.execute(_READ, (session_id,), binary=True).fetchall()
        if not rows:
            return None
        header, calls = decode_header(rows[0][0]), tuple(decode_call(call) for _, call, _ in rows if call is not None)
        return Entry(header, calls, rows[-1][2] if calls else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._answering() as db:
            rows = db.execute(_LATER, (after, session_id), binary=True).fetchall()
        return tuple(decode_call(call) for (call,) in rows if call is not None) if rows else None

    def headers(self) -> list[Header]:
        with self._answering() as db:
            rows = db.execute("SELECT header FROM companyos_session ORDER BY created, id", binary=True)
            return [decode_header(raw) for (raw,) in rows]

    def newest(self, name: str) -> str | None:
        # A slash is what comes after a dot: a range of the primary key, whose letters go by their bytes.
        named = "SELECT id FROM companyos_session WHERE id > %s AND id < %s ORDER BY created DESC LIMIT 1"
        with self._answering() as db:
            found = _one(db, named, f"{name}.", f"{name}/")
        return None if found is None else str(found)

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        with self._answering() as db:
            try:
                db.execute(_APPEND, _columns(rows))
            except psycopg.IntegrityError:
                # Somebody was faster with one of them, which undid them all: once more, without those that cannot stand.
                return self._append_some(db, rows)
        return [None] * len(rows)

    def _append_some(self, db: Connection, rows: Sequence[Row]) -> list[ServeError | None]:
        with db.transaction():
            # Held from here on, so that none of them is removed in the middle of this.
            held = "SELECT id FROM companyos_session WHERE id = ANY(%b) ORDER BY id FOR KEY SHARE"
            known = {name for (name,) in db.execute(held, ([row.session_id for row in rows],))}
            candidates = [row for row in rows if row.session_id in known]
            appended = db.execute(f"{_APPEND} ON CONFLICT DO NOTHING RETURNING session, turn", _columns(candidates))
            mine = set(appended.fetchall())
            sessions, turns, *_ = _columns(candidates)
            stands = {(name, turn): call for name, turn, call in db.execute(_STANDS, (sessions, turns), binary=True)}
        return [
            UnknownSession() if row.session_id not in known
            else None if (row.session_id, row.turn) in mine
            else TurnTaken(row.turn, decode_call(stands[row.session_id, row.turn]))
            for row in rows
        ]  # fmt: skip

    def remove(self, session_id: str) -> None:
        with self._answering() as db:
            db.execute("DELETE FROM companyos_session WHERE id = %b", (session_id,))

    def expire(self, before: float) -> int:
        with self._answering() as db, db.transaction():
            if not _one(db, "SELECT pg_try_advisory_xact_lock(%s)", _EXPIRING):
                return 0  # another worker is at it
            # Held first and looked at again, since a step may have come in between; whoever is at work is left alone.
            held = f"SELECT id FROM companyos_session WHERE {_OLD} LIMIT {MOST_EXPIRED} FOR UPDATE SKIP LOCKED"
            ids = [name for (name,) in db.execute(held, (before, before))]
            old = f"DELETE FROM companyos_session WHERE id = ANY(%b) AND {_OLD}"
            return db.execute(old, (ids, before, before)).rowcount

    def count(self, owner: str) -> int:
        with self._answering() as db:
            return int(_one(db, "SELECT count(*) FROM companyos_session WHERE owner = %b", owner))

    def ping(self) -> None:
        with self._answering() as db:
            db.execute("SELECT FROM companyos_session LIMIT 1")

    def close(self) -> None:
        self._closed.set()
        self._hang_up()

    # -- the connection --------------------------------------------------------------------------------------------

    @contextmanager
    def _answering(self) -> Iterator[Connection]:
        try:
            with self._timed():
                yield self._connected()
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction) as error:
            self._hang_up()  # whatever it was, the next one begins afresh; after a failover, with the other machine
            raise LedgerDown from error

    @contextmanager
    def _timed(self) -> Iterator[None]:
        self._asked = time.monotonic()
        try:
            yield
        finally:
            self._asked = None

    def _watch(self) -> None:
        """Close the connection when an answer does not come in time. The waiting call then fails with a lost connection."""
        while not self._closed.wait(PATIENCE / 16):
            asked, connection = self._asked, self._connection
            if asked is not None and connection is not None and time.monotonic() - asked > PATIENCE:
                self._vain = time.monotonic()  # those who wait behind are answered at once
                with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
                    wire.shutdown(socket.SHUT_RDWR)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        """A connection that was alive a moment ago: one that broke while idle must cost nobody a step."""
        if self._connection is not None and _has_ended(self._connection):
            self._hang_up()
        if self._connection is None:
            if time.monotonic() < self._vain + PAUSE:
                raise psycopg.OperationalError("it did not answer a moment ago")
            try:
                self._connection = psycopg.connect(**self._parameters, autocommit=True)
            except psycopg.OperationalError:
                self._vain = time.monotonic()
                raise
            self._set_up(self._connection)
        return self._connection

    @staticmethod
    def _set_up(db: Connection) -> None:
        db.execute(
            "SELECT set_config(name, %s, false) FROM unnest(ARRAY['lock_timeout', 'statement_timeout']) name", [_LIMIT]
        )
        # Without it, what is acknowledged would not survive the death of the database's own processes.
        flushed = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        db.execute(flushed)

    def _furnish(self, db: Connection) -> None:
        if self._format(db) != FORMAT:
            with db.transaction():  # many may find it so at once: one furnishes, the others wait
                # Bringing many sessions up to date takes its time.
                db.execute("SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '10min', true)")
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_FURNISHING,))
                found = self._format(db)
                if found != FORMAT:
                    db.execute(_FROM_1 if found == 1 else _SCHEMA)
                    db.execute("DELETE FROM companyos_format")
                    db.execute("INSERT INTO companyos_format VALUES (%s)", (FORMAT,))

    @staticmethod
    def _format(db: Connection) -> int:
        """The format of what is there, 0 where nothing is; `BadSetting` where this version cannot read it."""
        # Not by `to_regclass`: that may answer from a cache which knows nothing of what others have just made.
        furnished = "SELECT FROM pg_tables WHERE tablename = 'companyos_format' AND schemaname = ANY(current_schemas(false))"
        found = _one(db, "SELECT format FROM companyos_format") if db.execute(furnished).fetchone() is not None else 0
        if found not in (0, 1, FORMAT):
            raise BadSetting(f"the database holds a ledger of format {found}; this version reads {FORMAT}")
        return int(found)


def _parameters(url: str) -> dict[str, Any]:
    """What a URL says. What is wrong with one is not said: the driver's words would quote it, password and all."""
    try:
        found = conninfo_to_dict(url)
    except psycopg.Error:
        found = {"port": "unreadable"}
    # A sign that had to be written as %.. ends the password early; the rest of it would pass for an address.
    host, port, database = (str(found.get(name, "")) for name in ("host", "port", "dbname"))
    if "@" in host + database or (not port.replace(",", "").isdigit() and port):
        raise BadSetting(
            "the ledger's URL cannot be read; it is postgresql://user:password@host:port/database, special signs as %.."
        )
    return found


def _one(db: Connection, query: Any, *values: Any) -> Any:
    row = db.execute(query, values).fetchone()
    return row[0] if row else None


def _has_ended(db: Connection) -> bool:
    """Whether the other side has hung up. Nothing is asked: what it has said unasked is read."""
    if db.closed:
        return True
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(db.fileno(), selectors.EVENT_READ)
            while waiting.select(0):
                db.pgconn.consume_input()  # a notice, or the end
    except (psycopg.OperationalError, OSError):
        return True
    return False


def _columns(rows: Sequence[Row]) -> tuple[list[str], list[int], list[float], list[bytes]]:
    return (
        [row.session_id for row in rows],
        [row.turn for row in rows],
        [row.at for row in rows],
        [encode(row.call) for row in rows],
    )
