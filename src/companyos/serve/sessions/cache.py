"""The cache of sessions in the memory of one worker."""

import math
from collections import OrderedDict
from collections.abc import Iterator

from companyos.serve.errors import OverCapacity
from companyos.serve.sessions.session import Session


class SessionCache:
    """At most `capacity` sessions. Ended sessions are evicted first, then the least recently used.

    With `evicts`, adding a session always succeeds, because the ledger can restore an evicted one. Without it, a session is
    dropped only if it has ended or was idle for `idle_seconds`; if the cache is full, `OverCapacity` says when to retry.
    """

    def __init__(self, capacity: int, idle_seconds: float, evicts: bool) -> None:
        self.capacity = capacity
        self.evictions = 0  # sessions that were evicted before their end
        self._idle_seconds = idle_seconds
        self._evicts = evicts
        # In the order in which they are dropped: first those that have ended, then the least recently used.
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def check_room(self, count: int, now: float) -> None:
        """Raise `OverCapacity` unless `count` more sessions can be added."""
        if self._evicts:
            return
        while len(self._sessions) + count > self.capacity:
            next_dropped = next(iter(self), None)
            if next_dropped is None or not self._may_drop(next_dropped, now):
                wait = self._idle_seconds if next_dropped is None else next_dropped.touched + self._idle_seconds - now
                raise OverCapacity(self.capacity, max(1, math.ceil(wait)))
            self._sessions.popitem(last=False)

    def add(self, session: Session) -> None:
        """Add a session as the most recently used one. Call `check_room` first."""
        self._sessions[session.header.session_id] = session
        self.use(session)
        while len(self._sessions) > self.capacity:
            _, evicted = self._sessions.popitem(last=False)
            self.evictions += not evicted.env.done

    def use(self, session: Session) -> None:
        """Record that a session was used, or has ended. Does nothing if it is no longer in the cache."""
        session_id = session.header.session_id
        if session_id in self._sessions:
            self._sessions.move_to_end(session_id, last=not session.env.done)

    def forget(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def sweep(self, now: float) -> None:
        """Drop ended and idle sessions."""
        while self._sessions and self._may_drop(next(iter(self)), now):
            self._sessions.popitem(last=False)

    def _may_drop(self, session: Session, now: float) -> bool:
        return session.env.done or session.touched + self._idle_seconds <= now
