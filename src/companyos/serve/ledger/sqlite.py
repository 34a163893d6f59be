"""SQLite: the ledger in a file, shared by any number of processes on one machine."""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

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

FORMAT = 2  # of the file
PATIENCE = 4.0  # seconds to wait for another process that writes
LOOKS = 0.1  # seconds between two looks whether the file is still there
# Turns name their session by a number, and lie in the order in which they came: the turns of a rollout go to a few pages
# at the end. In the order of sessions each would go to a page of its own, and all those pages into the log.
_SCHEMA = """
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
# From format 1, which had the owner in the header alone.
_FROM_1 = """
ALTER TABLE session ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE session SET owner = json_extract(CAST(header AS TEXT), '$.owner');
CREATE INDEX session_owner ON session (owner);
"""
_KEY = "(SELECT key FROM session WHERE id = ?)"  # of an unknown session: NULL, which no turn may have
_APPEND = f"INSERT INTO turn (session, turn, at, call) VALUES ({_KEY}, ?, ?, ?)"


class SqliteLedger(Ledger):
    """A file; `BadSetting` where there can be none.

    What is committed survives the death of every process (write-ahead log, synchronous=NORMAL); with `fsync` it survives
    a power cut. A file that was deleted or replaced under a running server is noticed: writing on would lose every step at
    the next start.
    """

    def __init__(self, path: str, fsync: bool = False, patience: float = PATIENCE) -> None:
        self.quick = not fsync
        self._path = os.path.abspath(path)  # a process may change its folder
        try:
            # One lane uses it, which may be another thread than the one that opened it.
            self._db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
            with ExitStack() as undo:
                undo.callback(self._db.close)
                self._keep_a_log(patience)
                self._db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
                self._db.execute("PRAGMA foreign_keys = ON")
                self._furnish(path)
                self._db.execute("SELECT count(*) FROM session WHERE key = 0").fetchone()  # opens the log
                self._files, self._looked = self._identities(), time.monotonic()
                undo.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise BadSetting(f"cannot keep a ledger in {path}: {error}") from None

    def _keep_a_log(self, patience: float) -> None:
        """Write ahead. SQLite itself does not wait for its turn to say so, as it does with everything else."""
        until = time.monotonic() + patience
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)
            else:
                return

    def _furnish(self, path: str) -> None:
        if self._format(path) != FORMAT:
            self._db.execute("BEGIN IMMEDIATE")
            found = self._format(path)  # another process may have been faster
            steps = "" if found == FORMAT else _FROM_1 if found == 1 else _SCHEMA
            for statement in f"{steps} PRAGMA user_version = {FORMAT}; COMMIT".split(";"):
                self._db.execute(statement)

    def _format(self, path: str) -> int:
        [found] = self._db.execute("PRAGMA user_version").fetchone()
        if found not in (0, 1, FORMAT):
            raise BadSetting(f"{path} is a ledger of format {found}; this version reads {FORMAT}")
        return int(found)

    def _identities(self) -> tuple[tuple[int, int], ...]:
        """Which files the path and its log name at this moment."""
        found = (os.stat(path) for path in (self._path, f"{self._path}-wal"))
        return tuple((one.st_dev, one.st_ino) for one in found)

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        texts = [encode(call) for call in calls]
        try:
            with self._commit() as db:
                for header in headers:
                    values = (header.session_id, header.created, encode(header), header.owner)
                    db.execute("INSERT INTO session (id, created, header, owner) VALUES (?, ?, ?, ?)", values)
                    rows = ((header.session_id, turn, header.created, text) for turn, text in enumerate(texts, 1))
                    db.executemany(_APPEND, rows)
        except sqlite3.IntegrityError:
            raise IdTaken from None

    def read(self, session_id: str) -> Entry | None:
        with self._answering() as db:
            found = db.execute("SELECT header FROM session WHERE id = ?", (session_id,)).fetchone()
            if found is None:
                return None
            rows = db.execute(f"SELECT call, at FROM turn WHERE session = {_KEY} ORDER BY turn", (session_id,)).fetchall()
        header = decode_header(found[0])
        return Entry(header, tuple(decode_call(row[0]) for row in rows), rows[-1][1] if rows else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._answering() as db:
            later = f"SELECT call FROM turn WHERE session = {_KEY} AND turn > ? ORDER BY turn"
            rows = db.execute(later, (session_id, after)).fetchall()
            if not rows and db.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone() is None:
                return None
        return tuple(decode_call(row[0]) for row in rows)

    def headers(self) -> list[Header]:
        with self._answering() as db:
            return [decode_header(raw) for (raw,) in db.execute("SELECT header FROM session ORDER BY key")]

    def newest(self, name: str) -> str | None:
        with self._answering() as db:
            # A slash is what comes after a dot: a range of the index.
            named = "SELECT id FROM session WHERE id > ? AND id < ? ORDER BY created DESC LIMIT 1"
            found = db.execute(named, (f"{name}.", f"{name}/")).fetchone()
        return None if found is None else str(found[0])

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        values = [(row.session_id, row.turn, row.at, encode(row.call)) for row in rows]
        try:
            with self._commit() as db:
                db.executemany(_APPEND, values)
            return [None] * len(values)
        except sqlite3.IntegrityError:
            # Somebody was faster with one of them, which undid them all: once more, each by itself.
            with self._commit() as db:
                return [self._append(db, *value) for value in values]

    def _append(self, db: sqlite3.Connection, session_id: str, turn: int, at: float, call: bytes) -> ServeError | None:
        if db.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone() is None:
            return UnknownSession()
        stands = db.execute(f"SELECT call FROM turn WHERE session = {_KEY} AND turn = ?", (session_id, turn)).fetchone()
        if stands is not None:
            return TurnTaken(turn, decode_call(stands[0]))
        db.execute(_APPEND, (session_id, turn, at, call))
        return None

    def remove(self, session_id: str) -> None:
        with self._commit() as db:
            db.execute("DELETE FROM session WHERE id = ?", (session_id,))

    def expire(self, before: float) -> int:
        old = "created < :before AND NOT EXISTS (SELECT 1 FROM turn WHERE session = key AND at >= :before)"
        some = f"SELECT key FROM session WHERE {old} LIMIT {MOST_EXPIRED}"
        with self._commit() as db:
            return db.execute(f"DELETE FROM session WHERE key IN ({some})", {"before": before}).rowcount

    def count(self, owner: str) -> int:
        with self._answering() as db:
            return int(db.execute("SELECT count(*) FROM session WHERE owner = ?", (owner,)).fetchone()[0])

    def ping(self) -> None:
        with self._answering() as db:
            db.execute("SELECT 1 FROM session LIMIT 1").fetchone()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _answering(self) -> Iterator[sqlite3.Connection]:
        try:
            self._look()
            yield self._db
        except sqlite3.IntegrityError:
            raise
        except (sqlite3.Error, OSError) as error:
            raise LedgerDown from error

    def _look(self) -> None:
        """Raise an `OSError` where the path does not lead to our file any more."""
        now = time.monotonic()
        if now - self._looked > LOOKS:
            if self._identities() != self._files:
                raise FileNotFoundError(f"{self._path} was replaced by another file")
            self._looked = now  # only now: while it is gone, everybody hears of it

    @contextmanager
    def _commit(self) -> Iterator[sqlite3.Connection]:
        with self._answering() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
