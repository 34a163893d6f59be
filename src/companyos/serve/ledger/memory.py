"""A ledger in memory: sessions end with the process."""

from collections.abc import Sequence

from companyos.core.calls import Call
from companyos.serve.errors import ServeError, TurnTaken, UnknownSession
from companyos.serve.ledger.ledger import (
    MAX_EXPIRED,
    ExamAttempt,
    Handle,
    IdTaken,
    Ledger,
    SessionHeader,
    StoredSession,
    TurnRow,
)


class MemoryLedger(Ledger):
    """Keeps all records in dictionaries."""

    quick = True
    gathers = False
    durable = False

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[SessionHeader, list[TurnRow]]] = {}  # oldest first
        self._handles: dict[str, Handle] = {}
        self._attempts: dict[str, ExamAttempt] = {}

    def begin(
        self, headers: Sequence[SessionHeader], calls: Sequence[Call] = (), attempt: ExamAttempt | None = None
    ) -> None:
        taken = attempt is not None and attempt.attempt_id in self._attempts
        if taken or any(header.session_id in self._sessions for header in headers):
            raise IdTaken
        for header in headers:
            rows = [TurnRow(header.session_id, turn, call, header.created) for turn, call in enumerate(calls, 1)]
            self._sessions[header.session_id] = (header, rows)
        if attempt is not None:
            self._attempts[attempt.attempt_id] = attempt

    def read(self, session_id: str) -> StoredSession | None:
        stored = self._sessions.get(session_id)
        if stored is None:
            return None
        header, rows = stored
        return StoredSession(header, tuple(row.call for row in rows), touched=rows[-1].at if rows else header.created)

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        if session_id not in self._sessions:
            return None
        _, rows = self._sessions[session_id]
        return tuple(row.call for row in rows[after:])

    def headers(self) -> list[SessionHeader]:
        return [header for header, _ in self._sessions.values()]

    def newest(self, name: str) -> str | None:
        return next((session_id for session_id in reversed(self._sessions) if session_id.startswith(f"{name}.")), None)

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        return [self._append(row) for row in rows]

    def _append(self, row: TurnRow) -> ServeError | None:
        if row.session_id not in self._sessions:
            return UnknownSession()
        _, rows = self._sessions[row.session_id]
        if row.turn <= len(rows):
            return TurnTaken(row.turn, rows[row.turn - 1].call)
        rows.append(row)
        return None

    def remove(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def handle(self, handle_id: str) -> Handle | None:
        return self._handles.get(handle_id)

    def put_handle(self, handle: Handle) -> None:
        self._handles[handle.handle_id] = handle

    def remove_handle(self, handle_id: str) -> None:
        self._handles.pop(handle_id, None)

    def attempts(self) -> list[ExamAttempt]:
        return list(self._attempts.values())

    def expire(self, before: float) -> int:
        stored_sessions = filter(None, map(self.read, self._sessions))
        old_sessions = [stored.header.session_id for stored in stored_sessions if stored.touched < before]
        old_handles = [handle_id for handle_id, handle in self._handles.items() if handle.created < before]
        for session_id in old_sessions[:MAX_EXPIRED]:
            del self._sessions[session_id]
        room = max(0, MAX_EXPIRED - len(old_sessions))
        for handle_id in old_handles[:room]:
            del self._handles[handle_id]
        return min(MAX_EXPIRED, len(old_sessions) + len(old_handles))

    def count(self, owner: str) -> int:
        owners = [header.owner for header, _ in self._sessions.values()]
        owners += [record.owner for records in (self._handles, self._attempts) for record in records.values()]
        return owners.count(owner)

    def ping(self) -> None:
        pass

    def close(self) -> None:
        self._sessions.clear()
