"""A ledger in a PostgreSQL database, shared by any number of machines."""

import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from companyos.core.calls import Call
from companyos.serve.errors import LedgerDown, ServeError, TurnTaken, UnknownSession
from companyos.serve.ledger import postgres_sql as sql
from companyos.serve.ledger.ledger import (
    MAX_EXPIRED,
    ExamAttempt,
    Handle,
    IdTaken,
    Ledger,
    SessionHeader,
    StoredSession,
    TurnRow,
    decode_call,
    decode_header,
    encode,
)
from companyos.serve.ops.settings import BadSetting

Connection = psycopg.Connection[tuple[Any, ...]]

# Seconds after a failed attempt to connect before the next one. Until then operations fail at once instead of waiting.
RECONNECT_PAUSE = 0.5
ANSWER_TIMEOUT = 4.0  # seconds after which a silent database counts as gone, even if its machine keeps the connection up
_STATEMENT_TIMEOUT = "3s"  # for a statement, and for waiting for a lock; the database itself applies it
# Defaults for what the URL does not say. They make the driver notice a peer that is gone.
_CONNECTION_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 3,
    "application_name": "companyos",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "tcp_user_timeout": 15_000,
}
_CREATE_TABLES_LOCK, _EXPIRE_LOCK = 0x434F_5301, 0x434F_5302  # numbers of advisory locks


class PostgresLedger(Ledger):
    """A ledger in the database at a URL. Creates its tables if they are missing; `BadSetting` says why it cannot.

    A committed turn survives whatever the database survives. A lost connection is reopened by the next operation. If it was
    lost during a commit, it is unknown whether the turn was written: the operation fails with `LedgerDown`, and the client
    finds out by sending the turn again. A database that accepts requests and does not answer (its processes are stopped, its
    disk hangs) is given up after `ANSWER_TIMEOUT`: a thread closes the connection.
    """

    quick = False

    def __init__(self, url: str) -> None:
        self._parameters = _CONNECTION_DEFAULTS | _parameters(url)
        self._connection: Connection | None = None
        self._failed_at = -RECONNECT_PAUSE  # when connecting last failed, or an answer did not come in time
        self._asked_at: float | None = None  # when the current operation started
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="ledger-watch", daemon=True).start()
        try:
            with ExitStack() as undo:
                undo.callback(self.close)
                self._create_tables(self._connected())
                undo.pop_all()  # all went well, so the ledger stays open
        except psycopg.Error as error:
            reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
            raise BadSetting(f"cannot keep a ledger in PostgreSQL: {reason}") from None

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(
        self, headers: Sequence[SessionHeader], calls: Sequence[Call] = (), attempt: ExamAttempt | None = None
    ) -> None:
        ids, owners = [header.session_id for header in headers], [header.owner for header in headers]
        created, encoded = [header.created for header in headers], [encode(header) for header in headers]
        turns, encoded_calls = list(range(1, len(calls) + 1)), [encode(call) for call in calls]
        try:
            with self._database() as db, db.transaction() if attempt is not None else nullcontext():
                db.execute(sql.BEGIN, (ids, created, encoded, owners, turns, encoded_calls))
                if attempt is not None:
                    values = (attempt.attempt_id, attempt.session_id, attempt.owner)
                    db.execute("INSERT INTO companyos_attempt (id, session, owner) VALUES (%b, %b, %b)", values)
        except psycopg.errors.UniqueViolation:
            raise IdTaken from None

    def read(self, session_id: str) -> StoredSession | None:
        with self._database() as db:
            rows = db.execute(sql.READ, (session_id,), binary=True).fetchall()
        if not rows:
            return None
        header, calls = decode_header(rows[0][0]), tuple(decode_call(call) for _, call, _ in rows if call is not None)
        return StoredSession(header, calls, touched=rows[-1][2] if calls else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._database() as db:
            rows = db.execute(sql.LATER_CALLS, (after, session_id), binary=True).fetchall()
        return tuple(decode_call(call) for (call,) in rows if call is not None) if rows else None

    def headers(self) -> list[SessionHeader]:
        with self._database() as db:
            rows = db.execute("SELECT header FROM companyos_session ORDER BY created, id", binary=True)
            return [decode_header(raw) for (raw,) in rows]

    def newest(self, name: str) -> str | None:
        with self._database() as db:
            newest = _first_value(db, sql.NEWEST, f"{name}.", f"{name}/")
        return None if newest is None else str(newest)

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        with self._database() as db:
            try:
                db.execute(sql.APPEND, _columns(rows))
            except psycopg.IntegrityError:
                # One of the rows could not be written, which rolled all of them back. Try again without those.
                return self._append_valid_rows(db, rows)
        return [None] * len(rows)

    def _append_valid_rows(self, db: Connection, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        """Append the rows that can be written. Return None for each of these, and for the others why not."""
        with db.transaction():
            # Locked until the commit, so that none of the sessions is removed in between.
            lock = "SELECT id FROM companyos_session WHERE id = ANY(%b) ORDER BY id FOR KEY SHARE"
            known = {session_id for (session_id,) in db.execute(lock, ([row.session_id for row in rows],))}
            candidates = [row for row in rows if row.session_id in known]
            appended = db.execute(f"{sql.APPEND} ON CONFLICT DO NOTHING RETURNING session, turn", _columns(candidates))
            written = set(appended.fetchall())
            sessions, turns, *_ = _columns(candidates)
            stored = {
                (session_id, turn): call
                for session_id, turn, call in db.execute(sql.STORED_CALLS, (sessions, turns), binary=True)
            }
        return [
            UnknownSession() if row.session_id not in known
            else None if (row.session_id, row.turn) in written
            else TurnTaken(row.turn, decode_call(stored[row.session_id, row.turn]))
            for row in rows
        ]  # fmt: skip

    def remove(self, session_id: str) -> None:
        with self._database() as db:
            db.execute("DELETE FROM companyos_session WHERE id = %b", (session_id,))

    # -- handles and attempts --------------------------------------------------------------------------------------

    def handle(self, handle_id: str) -> Handle | None:
        with self._database() as db:
            query = "SELECT id, session, created, owner FROM companyos_handle WHERE id = %b"
            row = db.execute(query, (handle_id,)).fetchone()
        return None if row is None else Handle(*row)

    def put_handle(self, handle: Handle) -> None:
        with self._database() as db:
            db.execute(sql.PUT_HANDLE, (handle.handle_id, handle.session_id, handle.created, handle.owner))

    def remove_handle(self, handle_id: str) -> None:
        with self._database() as db:
            db.execute("DELETE FROM companyos_handle WHERE id = %b", (handle_id,))

    def attempts(self) -> list[ExamAttempt]:
        with self._database() as db:
            rows = db.execute("SELECT id, session, owner FROM companyos_attempt ORDER BY id").fetchall()
        return [ExamAttempt(*row) for row in rows]

    # -- housekeeping ----------------------------------------------------------------------------------------------

    def expire(self, before: float) -> int:
        with self._database() as db, db.transaction():
            if not _first_value(db, "SELECT pg_try_advisory_xact_lock(%s)", _EXPIRE_LOCK):
                return 0  # another worker is doing it
            # Rows are locked first and checked again, because a step may have come in between. Locked sessions, which are
            # in use, are skipped.
            lock = f"SELECT id FROM companyos_session WHERE {sql.SESSION_IS_OLD} LIMIT {MAX_EXPIRED} FOR UPDATE SKIP LOCKED"
            ids = [session_id for (session_id,) in db.execute(lock, (before, before))]
            delete = f"DELETE FROM companyos_session WHERE id = ANY(%b) AND {sql.SESSION_IS_OLD}"
            sessions = db.execute(delete, (ids, before, before)).rowcount
            limits = {"before": before, "room": MAX_EXPIRED - sessions}
            return sessions + db.execute(sql.EXPIRE_HANDLES, limits).rowcount

    def count(self, owner: str) -> int:
        with self._database() as db:
            row = db.execute(sql.COUNT, {"owner": owner}).fetchone()
        return int(row[0]) if row else 0

    def ping(self) -> None:
        with self._database() as db:
            db.execute("SELECT FROM companyos_session LIMIT 1")

    def close(self) -> None:
        self._closed.set()
        self._disconnect()

    # -- the connection --------------------------------------------------------------------------------------------

    @contextmanager
    def _database(self) -> Iterator[Connection]:
        """Yield the connection. A lost connection becomes `LedgerDown`."""
        try:
            with self._timed():
                yield self._connected()
        except (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction) as error:
            self._disconnect()  # the next operation connects again; after a failover, to the other machine
            raise LedgerDown from error

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Note when an operation starts, for the thread that watches for answers."""
        self._asked_at = time.monotonic()
        try:
            yield
        finally:
            self._asked_at = None

    def _watch(self) -> None:
        """Close the connection when an answer does not come in time. The waiting call then fails with a lost connection."""
        while not self._closed.wait(ANSWER_TIMEOUT / 16):
            asked_at, connection = self._asked_at, self._connection
            if asked_at is not None and connection is not None and time.monotonic() - asked_at > ANSWER_TIMEOUT:
                self._failed_at = time.monotonic()  # operations that wait behind this one fail at once
                with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
                    wire.shutdown(socket.SHUT_RDWR)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> Connection:
        """Return a connection that was alive a moment ago, so that one that broke while idle does not fail a step."""
        if self._connection is not None and _has_ended(self._connection):
            self._disconnect()
        if self._connection is None:
            if time.monotonic() < self._failed_at + RECONNECT_PAUSE:
                raise psycopg.OperationalError("it did not answer a moment ago")
            try:
                self._connection = psycopg.connect(**self._parameters, autocommit=True)
            except psycopg.OperationalError:
                self._failed_at = time.monotonic()
                raise
            self._set_up(self._connection)
        return self._connection

    @staticmethod
    def _set_up(db: Connection) -> None:
        """Set the timeouts of a new connection, and make sure that commits are flushed to disk."""
        db.execute(
            "SELECT set_config(name, %s, false) FROM unnest(ARRAY['lock_timeout', 'statement_timeout']) name",
            [_STATEMENT_TIMEOUT],
        )
        # Otherwise an acknowledged turn would not survive the death of the database processes.
        flush = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        db.execute(flush)

    def _create_tables(self, db: Connection) -> None:
        """Create the tables, or bring those of an older format up to date."""
        if self._format(db) != sql.FORMAT:
            with db.transaction():  # several servers may get here at once: the first does the work, the others wait
                # Upgrading a ledger with many sessions takes longer than the usual timeouts.
                db.execute("SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '10min', true)")
                db.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_TABLES_LOCK,))
                number = self._format(db)
                if number != sql.FORMAT:
                    db.execute(sql.UPGRADES[number])
                    db.execute("DELETE FROM companyos_format")
                    db.execute("INSERT INTO companyos_format VALUES (%s)", (sql.FORMAT,))

    @staticmethod
    def _format(db: Connection) -> int:
        """Return the format of the tables, 0 if there are none. Raise `BadSetting` if this version cannot read it."""
        # Not by `to_regclass`: it may answer from a cache, which misses tables that another server has just created.
        exists = "SELECT FROM pg_tables WHERE tablename = 'companyos_format' AND schemaname = ANY(current_schemas(false))"
        number = _first_value(db, "SELECT format FROM companyos_format") if db.execute(exists).fetchone() is not None else 0
        if number not in sql.UPGRADES:
            raise BadSetting(
                f"the database holds a ledger of format {number}; this version reads formats up to {sql.FORMAT}"
            )
        return int(number)


def _parameters(url: str) -> dict[str, Any]:
    """Return the connection parameters of a URL. The error does not quote the URL, because it contains the password."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        parameters = {"port": "unreadable"}
    # An unescaped special character ends the password early; the rest of it would be taken for a host.
    host, port, database = (str(parameters.get(name, "")) for name in ("host", "port", "dbname"))
    if "@" in host + database or (not port.replace(",", "").isdigit() and port):
        raise BadSetting(
            "the ledger's URL cannot be read; write postgresql://user:password@host:port/database, special characters as %.."
        )
    return parameters


def _first_value(db: Connection, query: Any, *values: Any) -> Any:
    """Return the first column of the first row, or None if there is no row."""
    row = db.execute(query, values).fetchone()
    return row[0] if row else None


def _has_ended(db: Connection) -> bool:
    """Return whether the database has closed the connection. Reads what has arrived and sends nothing."""
    if db.closed:
        return True
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(db.fileno(), selectors.EVENT_READ)
            while waiting.select(0):
                db.pgconn.consume_input()  # a notice, or the end of the connection
    except (psycopg.OperationalError, OSError):
        return True
    return False


def _columns(rows: Sequence[TurnRow]) -> tuple[list[str], list[int], list[float], list[bytes]]:
    """Return the rows as columns: session ids, turns, times and encoded calls."""
    return (
        [row.session_id for row in rows],
        [row.turn for row in rows],
        [row.at for row in rows],
        [encode(row.call) for row in rows],
    )
