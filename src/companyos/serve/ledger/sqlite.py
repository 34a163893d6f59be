"""A ledger in an SQLite file, shared by any number of processes on one machine."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from companyos.core.calls import Call
from companyos.serve.errors import LedgerDown, ServeError, TurnTaken, UnknownSession
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

FORMAT = 3  # of the tables; kept in `PRAGMA user_version`
LOCK_TIMEOUT = 4.0  # seconds to wait for another process that is writing
CHECK_INTERVAL = 0.1  # seconds between two checks that the file is still there
# Turns refer to their session by a number and are stored in the order in which they arrive, so the turns of a rollout fill
# a few pages at the end of the file. Ordered by session, each turn would dirty a page of its own.
_SESSION_TABLES = """
CREATE TABLE IF NOT EXISTS session (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created REAL NOT NULL, header BLOB NOT NULL, owner TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS session_created ON session (created);
CREATE INDEX IF NOT EXISTS session_owner ON session (owner);
CREATE TABLE IF NOT EXISTS turn (
    session INTEGER NOT NULL REFERENCES session ON DELETE CASCADE,
    turn INTEGER NOT NULL, at REAL NOT NULL, call BLOB NOT NULL,
    UNIQUE (session, turn)
);
"""
_HANDLE_AND_ATTEMPT_TABLES = """
CREATE TABLE handle (id TEXT PRIMARY KEY, session TEXT NOT NULL, created REAL NOT NULL, owner TEXT NOT NULL);
CREATE INDEX handle_created ON handle (created);
CREATE INDEX handle_owner ON handle (owner);
CREATE TABLE attempt (id TEXT PRIMARY KEY, session TEXT NOT NULL, owner TEXT NOT NULL);
CREATE INDEX attempt_owner ON attempt (owner);
"""
# Format 1 stored the owner in the header alone.
_UPGRADE_FROM_1 = """
ALTER TABLE session ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE session SET owner = json_extract(CAST(header AS TEXT), '$.owner');
CREATE INDEX session_owner ON session (owner);
"""
# Format 2 stored handles and attempts as sessions. The field `reward` of such a session was "handle" or "attempt", its field
# `task_id` was the id of the session that it belonged to, and the id of an attempt began with "~exam.".
_UPGRADE_FROM_2 = f"""
{_HANDLE_AND_ATTEMPT_TABLES}
INSERT INTO handle SELECT id, json_extract(CAST(header AS TEXT), '$.task_id'), created, owner FROM session
    WHERE json_extract(CAST(header AS TEXT), '$.reward') = 'handle';
INSERT INTO attempt SELECT substr(id, 7), json_extract(CAST(header AS TEXT), '$.task_id'), owner FROM session
    WHERE json_extract(CAST(header AS TEXT), '$.reward') = 'attempt';
DELETE FROM session WHERE json_extract(CAST(header AS TEXT), '$.reward') IN ('handle', 'attempt');
"""
_UPGRADES = {  # by the format that a file has; 0: it has no tables yet
    0: _SESSION_TABLES + _HANDLE_AND_ATTEMPT_TABLES,
    1: _UPGRADE_FROM_1 + _UPGRADE_FROM_2,
    2: _UPGRADE_FROM_2,
    FORMAT: "",
}
_TABLES_WITH_OWNER = ("session", "handle", "attempt")
# NULL for an unknown session. The column `session` of a turn refuses NULL.
_SESSION_KEY = "(SELECT key FROM session WHERE id = ?)"
_APPEND = f"INSERT INTO turn (session, turn, at, call) VALUES ({_SESSION_KEY}, ?, ?, ?)"


class SqliteLedger(Ledger):
    """A ledger in the file at `path`. `BadSetting` says why the file cannot be used.

    A committed turn survives the death of every process (write-ahead log, synchronous=NORMAL); with `fsync` it also
    survives a power cut. The ledger notices when the file is deleted or replaced while the server runs: otherwise the steps
    written to it would be missing after the next start.
    """

    def __init__(self, path: str, fsync: bool = False, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.quick = not fsync
        self._path = os.path.abspath(path)  # a process may change its working directory
        try:
            # Only one thread uses the connection at a time, but not always the one that opened it.
            self._db = sqlite3.connect(path, timeout=lock_timeout, isolation_level=None, check_same_thread=False)
            with ExitStack() as undo:
                undo.callback(self._db.close)
                self._use_write_ahead_log(lock_timeout)
                self._db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
                self._db.execute("PRAGMA foreign_keys = ON")
                self._create_tables(path)
                self._db.execute("SELECT count(*) FROM session WHERE key = 0").fetchone()  # opens the log file
                self._files, self._checked_at = self._identities(), time.monotonic()
                undo.pop_all()  # all went well, so the connection stays open
        except (sqlite3.Error, OSError) as error:
            raise BadSetting(f"cannot keep a ledger in {path}: {error}") from None

    def _use_write_ahead_log(self, lock_timeout: float) -> None:
        """Switch to the write-ahead log. SQLite's own lock timeout does not apply to this statement, so retry it here."""
        until = time.monotonic() + lock_timeout
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                primary_code = error.sqlite_errorcode & 0xFF  # the other bits give details
                if primary_code != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _create_tables(self, path: str) -> None:
        """Create the tables, or bring those of an older format up to date, in one transaction."""
        if self._format(path) != FORMAT:
            self._db.execute("BEGIN IMMEDIATE")
            upgrade = _UPGRADES[self._format(path)]  # read again: another process may have been faster
            for statement in f"{upgrade} PRAGMA user_version = {FORMAT}; COMMIT".split(";"):
                self._db.execute(statement)

    def _format(self, path: str) -> int:
        """Return the format of the tables, 0 for a new file. Raise `BadSetting` if this version cannot read it."""
        [number] = self._db.execute("PRAGMA user_version").fetchone()
        if number not in _UPGRADES:
            raise BadSetting(f"{path} is a ledger of format {number}; this version reads formats up to {FORMAT}")
        return int(number)

    def _identities(self) -> tuple[tuple[int, int], ...]:
        """Return device and inode of the ledger file and its log, as the path leads to them now."""
        stats = (os.stat(path) for path in (self._path, f"{self._path}-wal"))
        return tuple((stat.st_dev, stat.st_ino) for stat in stats)

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(
        self, headers: Sequence[SessionHeader], calls: Sequence[Call] = (), attempt: ExamAttempt | None = None
    ) -> None:
        encoded_calls = [encode(call) for call in calls]
        try:
            with self._transaction() as db:
                for header in headers:
                    values = (header.session_id, header.created, encode(header), header.owner)
                    db.execute("INSERT INTO session (id, created, header, owner) VALUES (?, ?, ?, ?)", values)
                    turns = enumerate(encoded_calls, 1)
                    rows = ((header.session_id, turn, header.created, call) for turn, call in turns)
                    db.executemany(_APPEND, rows)
                if attempt is not None:
                    row = (attempt.attempt_id, attempt.session_id, attempt.owner)
                    db.execute("INSERT INTO attempt (id, session, owner) VALUES (?, ?, ?)", row)
        except sqlite3.IntegrityError:
            raise IdTaken from None

    def read(self, session_id: str) -> StoredSession | None:
        with self._database() as db:
            stored = db.execute("SELECT header FROM session WHERE id = ?", (session_id,)).fetchone()
            if stored is None:
                return None
            query = f"SELECT call, at FROM turn WHERE session = {_SESSION_KEY} ORDER BY turn"
            rows = db.execute(query, (session_id,)).fetchall()
        header = decode_header(stored[0])
        calls = tuple(decode_call(call) for call, _ in rows)
        return StoredSession(header, calls, touched=rows[-1][1] if rows else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._database() as db:
            query = f"SELECT call FROM turn WHERE session = {_SESSION_KEY} AND turn > ? ORDER BY turn"
            rows = db.execute(query, (session_id, after)).fetchall()
            if not rows and db.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone() is None:
                return None
        return tuple(decode_call(row[0]) for row in rows)

    def headers(self) -> list[SessionHeader]:
        with self._database() as db:
            return [decode_header(raw) for (raw,) in db.execute("SELECT header FROM session ORDER BY key")]

    def newest(self, name: str) -> str | None:
        with self._database() as db:
            # "/" is the character after ".", so this is a range of the index.
            query = "SELECT id FROM session WHERE id > ? AND id < ? ORDER BY created DESC LIMIT 1"
            row = db.execute(query, (f"{name}.", f"{name}/")).fetchone()
        return None if row is None else str(row[0])

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        values = [(row.session_id, row.turn, row.at, encode(row.call)) for row in rows]
        try:
            with self._transaction() as db:
                db.executemany(_APPEND, values)
            return [None] * len(values)
        except sqlite3.IntegrityError:
            # One of the rows could not be written, which rolled all of them back. Try again, row by row.
            with self._transaction() as db:
                return [self._append(db, *value) for value in values]

    def _append(self, db: sqlite3.Connection, session_id: str, turn: int, at: float, call: bytes) -> ServeError | None:
        """Append one turn. Return None, or why it cannot be written."""
        if db.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone() is None:
            return UnknownSession()
        query = f"SELECT call FROM turn WHERE session = {_SESSION_KEY} AND turn = ?"
        stored = db.execute(query, (session_id, turn)).fetchone()
        if stored is not None:
            return TurnTaken(turn, decode_call(stored[0]))
        db.execute(_APPEND, (session_id, turn, at, call))
        return None

    def remove(self, session_id: str) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM session WHERE id = ?", (session_id,))

    # -- handles and attempts --------------------------------------------------------------------------------------

    def handle(self, handle_id: str) -> Handle | None:
        with self._database() as db:
            row = db.execute("SELECT id, session, created, owner FROM handle WHERE id = ?", (handle_id,)).fetchone()
        return None if row is None else Handle(*row)

    def put_handle(self, handle: Handle) -> None:
        with self._transaction() as db:
            values = (handle.handle_id, handle.session_id, handle.created, handle.owner)
            db.execute("INSERT OR REPLACE INTO handle (id, session, created, owner) VALUES (?, ?, ?, ?)", values)

    def remove_handle(self, handle_id: str) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM handle WHERE id = ?", (handle_id,))

    def attempts(self) -> list[ExamAttempt]:
        with self._database() as db:
            return [ExamAttempt(*row) for row in db.execute("SELECT id, session, owner FROM attempt ORDER BY rowid")]

    # -- housekeeping ----------------------------------------------------------------------------------------------

    def expire(self, before: float) -> int:
        is_old = "created < :before AND NOT EXISTS (SELECT 1 FROM turn WHERE session = key AND at >= :before)"
        old_keys = f"SELECT key FROM session WHERE {is_old} LIMIT {MAX_EXPIRED}"
        old_handle_ids = "SELECT id FROM handle WHERE created < :before LIMIT :room"
        with self._transaction() as db:
            sessions = db.execute(f"DELETE FROM session WHERE key IN ({old_keys})", {"before": before}).rowcount
            limits = {"before": before, "room": MAX_EXPIRED - sessions}
            return sessions + db.execute(f"DELETE FROM handle WHERE id IN ({old_handle_ids})", limits).rowcount

    def count(self, owner: str) -> int:
        counts = " + ".join(f"(SELECT count(*) FROM {table} WHERE owner = :owner)" for table in _TABLES_WITH_OWNER)
        with self._database() as db:
            return int(db.execute(f"SELECT {counts}", {"owner": owner}).fetchone()[0])

    def ping(self) -> None:
        with self._database() as db:
            db.execute("SELECT 1 FROM session LIMIT 1").fetchone()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection. Failures other than a violated constraint become `LedgerDown`."""
        try:
            self._check_file()
            yield self._db
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise LedgerDown from error

    def _check_file(self) -> None:
        """Raise an `OSError` if the path no longer leads to the file that is open."""
        now = time.monotonic()
        if now - self._checked_at > CHECK_INTERVAL:
            if self._identities() != self._files:
                raise FileNotFoundError(f"{self._path} was replaced by another file")
            self._checked_at = now  # not set above, so that every operation fails while the file is gone

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection inside a transaction."""
        with self._database() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
