"""Ledger: the durable record of sessions. A session is its header and its calls, one a turn; all else follows by replay."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.serve.errors import ServeError, TurnTaken, UnknownSession

MOST_EXPIRED = 1000  # sessions at once, so that steps made meanwhile do not wait for long
# Stand for the reward of an entry that is no session; its task id is the session that it points at.
HANDLE, ATTEMPT = "handle", "attempt"
NO_SESSIONS = (HANDLE, ATTEMPT)
_NEVER = 1e11  # seconds: a time after which nothing expires


class Header(msgspec.Struct, frozen=True):
    """What a session was begun as. `owner` is the digest of the token that began it, or nothing."""

    session_id: str
    task_id: str
    reward: str
    progress: bool
    version: int
    created: float
    owner: str = ""


class IdTaken(Exception):
    """An entry of this id stands in the ledger already."""


def attempt(header: Header, task: TaskId) -> Header:
    """The entry which says that an owner has begun a task. It has one id for each owner and task, and never expires.

    Doses and weather are not part of it: the facts of a task are the same at every dose.
    """
    about = blake2b(f"{header.owner} {task.key}".encode(), digest_size=24).hexdigest()
    return msgspec.structs.replace(
        header, session_id=f"~exam.{about}", task_id=header.session_id, reward=ATTEMPT, created=_NEVER
    )


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

    `gathers`: writing has its price by the commit, so that steps had better go together. `durable`: it keeps sessions
    outside of this process's memory, so that they may leave that at any moment.
    """

    quick: bool
    gathers: bool = True
    durable: bool = True

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        """Opens sessions, all with the same calls made already; `IdTaken`, and none, where one of the ids is in use."""

    def read(self, session_id: str) -> Entry | None:
        """The whole of a session, or None where there is none."""

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        """The calls after a turn, or None where there is no such session."""

    def headers(self) -> list[Header]:
        """Every header, of handles and attempts, too. Reads the whole ledger: for pages that people open, not for steps."""

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
        """Forget sessions that were last touched before this moment, at most `MOST_EXPIRED`; return how many."""

    def count(self, owner: str) -> int:
        """Return how many sessions and handles there are of one owner."""

    def ping(self) -> None:
        """Raise `LedgerDown` unless the ledger answers."""

    def close(self) -> None: ...


class NoLedger(Ledger):
    """Kept in memory only: sessions end with the process."""

    quick = True
    gathers = False
    durable = False

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[Header, list[Row]]] = {}

    def begin(self, headers: Sequence[Header], calls: Sequence[Call] = ()) -> None:
        if any(header.session_id in self._sessions for header in headers):
            raise IdTaken
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

    def headers(self) -> list[Header]:
        return [header for header, _ in self._sessions.values()]

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
        for session_id in old[:MOST_EXPIRED]:
            del self._sessions[session_id]
        return len(old[:MOST_EXPIRED])

    def count(self, owner: str) -> int:
        return sum(header.owner == owner for header, _ in self._sessions.values())

    def ping(self) -> None:
        pass

    def close(self) -> None:
        self._sessions.clear()


def can_be_id(text: str) -> bool:
    """Whether a text can be the id of a session. No ledger is asked about others: PostgreSQL cannot hold a NUL."""
    return text.isascii() and text.isprintable()


# How headers and calls stand in a ledger that keeps bytes.
encode = msgspec.json.Encoder().encode
decode_call = msgspec.json.Decoder(Call).decode
decode_header = msgspec.json.Decoder(Header).decode
