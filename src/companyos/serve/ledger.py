"""Ledger: the durable record of sessions. A session is its header and its calls, one a turn; all else follows by replay."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from companyos.calls import Call
from companyos.serve.errors import LedgerDown, ServeError, TurnTaken, UnknownSession
from companyos.serve.settings import NO_LEDGER, BadSetting

FORMAT = 1  # of the file
HANDLE = "handle"  # stands for the reward of an entry that is no session: its task id is the session that it points at


class Header(msgspec.Struct, frozen=True):
    """What a session was begun as. `owner` is the digest of the token that began it, or nothing."""

    session_id: str
    task_id: str
    reward: str
    progress: bool
    version: int
    created: float
    owner: str = ""


class Row(msgspec.Struct, frozen=True, gc=False):
    """One turn of one session: its call, and when it was made."""

    session_id: str
    turn: int
    call: Call
    at: float


class Entry(msgspec.Struct, frozen=True):
    """All that the ledger knows of a session."""

    header: Header
    calls: tuple[Call, ...]
    touched: float  # when it was begun or last stepped


class Ledger(Protocol):
    """What sessions ask of a ledger. `quick`: it answers within microseconds, so that nobody needs a thread to wait in.

    `gathers`: writing has its price by the commit, so that steps had better go together.
    """

    quick: bool
    gathers: bool = True

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        """Opens sessions, all with the same calls made already."""

    def read(self, session_id: str) -> Entry | None:
        """The whole of a session, or None where there is none."""

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        """The calls after a turn, or None where there is no such session."""

    def newest(self, name: str) -> str | None:
        """The id of the session that was begun last under a name (its id is the name, a dot, and more)."""

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        """Compares and appends, all in one commit. For each row, by itself: None once it stands, or why it does not."""

    def append(self, row: Row) -> None:
        """The same for one row; raises `TurnTaken` with what stands there, or `UnknownSession`."""
        [refused] = self.append_all([row])
        if refused is not None:
            raise refused

    def remove(self, session_id: str) -> None:
        """Forgets a session, if there is one."""

    def expire(self, before: float) -> int:
        """Forgets the sessions that were last touched before this moment; says how many."""

    def close(self) -> None: ...


class NoLedger(Ledger):
    """Kept in memory only: sessions end with the process."""

    quick = True
    gathers = False

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[Header, list[Row]]] = {}

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        for header in headers:
            rows = [Row(header.session_id, turn, call, header.created) for turn, call in enumerate(calls, 1)]
            self._sessions[header.session_id] = (header, rows)

    def read(self, session_id: str) -> Entry | None:
        found = self._sessions.get(session_id)
        if found is None:
            return None
        header, rows = found
        return Entry(header, tuple(row.call for row in rows), rows[-1].at if rows else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        found = self._sessions.get(session_id)
        return None if found is None else tuple(row.call for row in found[1][after:])

    def newest(self, name: str) -> str | None:
        return next((session_id for session_id in reversed(self._sessions) if session_id.startswith(f"{name}.")), None)

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        return [self._append(row) for row in rows]

    def _append(self, row: Row) -> ServeError | None:
        found = self._sessions.get(row.session_id)
        if found is None:
            return UnknownSession()
        if row.turn <= len(found[1]):
            return TurnTaken(row.turn, found[1][row.turn - 1].call)
        found[1].append(row)
        return None

    def remove(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def expire(self, before: float) -> int:
        old = [name for name in self._sessions if (entry := self.read(name)) is not None and entry.touched < before]
        for session_id in old:
            del self._sessions[session_id]
        return len(old)

    def close(self) -> None:
        self._sessions.clear()


_SCHEMA = """
CREATE TABLE IF NOT EXISTS session (id TEXT PRIMARY KEY, created REAL NOT NULL, header BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_created ON session (created);
CREATE TABLE IF NOT EXISTS turn (
    session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, turn INTEGER NOT NULL, at REAL NOT NULL, call BLOB NOT NULL,
    PRIMARY KEY (session, turn)
) WITHOUT ROWID;
"""
_APPEND = "INSERT INTO turn (session, turn, at, call) VALUES (?, ?, ?, ?)"


class SqliteLedger(Ledger):
    """A file, shared by any number of processes on one machine.

    What is committed survives the death of every process (write-ahead log, synchronous=NORMAL); with `fsync` it survives
    a power cut.
    """

    def __init__(self, path: str, fsync: bool = False, patience: float = 10.0) -> None:
        self.quick = not fsync
        # One lane uses it, which may be another thread than the one that opened it.
        self._db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(f"PRAGMA synchronous = {'FULL' if fsync else 'NORMAL'}")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._furnish(path)
        except BaseException:
            self._db.close()
            raise

    def _furnish(self, path: str) -> None:
        [found] = self._db.execute("PRAGMA user_version").fetchone()
        if found not in (0, FORMAT):
            raise BadSetting(f"{path} is a ledger of format {found}; this version reads {FORMAT}")
        if found == 0:
            self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT")

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        texts = [_encode(call) for call in calls]
        with self._commit() as db:
            for header in headers:
                db.execute("INSERT INTO session VALUES (?, ?, ?)", (header.session_id, header.created, _encode(header)))
                rows = ((header.session_id, turn, header.created, text) for turn, text in enumerate(texts, 1))
                db.executemany(_APPEND, rows)

    def read(self, session_id: str) -> Entry | None:
        with self._answering() as db:
            found = db.execute("SELECT header FROM session WHERE id = ?", (session_id,)).fetchone()
            if found is None:
                return None
            rows = db.execute("SELECT call, at FROM turn WHERE session = ? ORDER BY turn", (session_id,)).fetchall()
        header = _decode_header(found[0])
        return Entry(header, tuple(_decode_call(row[0]) for row in rows), rows[-1][1] if rows else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        with self._answering() as db:
            later = "SELECT call FROM turn WHERE session = ? AND turn > ? ORDER BY turn"
            rows = db.execute(later, (session_id, after)).fetchall()
            if not rows and db.execute("SELECT 1 FROM session WHERE id = ?", (session_id,)).fetchone() is None:
                return None
        return tuple(_decode_call(row[0]) for row in rows)

    def newest(self, name: str) -> str | None:
        with self._answering() as db:
            # A slash is what comes after a dot: a range of the primary key.
            named = "SELECT id FROM session WHERE id > ? AND id < ? ORDER BY created DESC LIMIT 1"
            found = db.execute(named, (f"{name}.", f"{name}/")).fetchone()
        return None if found is None else str(found[0])

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        values = [(row.session_id, row.turn, row.at, _encode(row.call)) for row in rows]
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
        stands = db.execute("SELECT call FROM turn WHERE session = ? AND turn = ?", (session_id, turn)).fetchone()
        if stands is not None:
            return TurnTaken(turn, _decode_call(stands[0]))
        db.execute(_APPEND, (session_id, turn, at, call))
        return None

    def remove(self, session_id: str) -> None:
        with self._commit() as db:
            db.execute("DELETE FROM session WHERE id = ?", (session_id,))

    def expire(self, before: float) -> int:
        old = "created < :before AND NOT EXISTS (SELECT 1 FROM turn WHERE session = id AND at >= :before)"
        with self._commit() as db:
            return db.execute(f"DELETE FROM session WHERE {old}", {"before": before}).rowcount

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _answering(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._db
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as error:
            raise LedgerDown from error

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


def open_ledger(place: str, fsync: bool = False) -> Ledger:
    """The ledger at a place; `BadSetting` says why there can be none."""
    if place == NO_LEDGER:
        return NoLedger()
    if "://" in place:
        raise BadSetting(f"no ledger is kept at {place.partition('://')[0]}:// yet; give a file, or {NO_LEDGER}")
    try:
        return SqliteLedger(place, fsync)
    except sqlite3.Error as error:
        raise BadSetting(f"cannot keep a ledger in {place}: {error}") from None


_encode = msgspec.json.Encoder().encode
_decode_call = msgspec.json.Decoder(Call).decode
_decode_header = msgspec.json.Decoder(Header).decode
