"""Copies: the sessions that one worker has in memory, in the order in which they may leave it."""

import math
from collections import OrderedDict
from collections.abc import Iterator

from companyos.serve.errors import OverCapacity
from companyos.serve.sessions.session import Session


class Copies:
    """At most `capacity` sessions: ended ones leave first, then the least recently used.

    With `evicts`, whatever is added finds a place, because a ledger can bring back what leaves. Without it a session leaves
    only when it has ended or was idle for `idle_seconds`; where none has, `OverCapacity` says when to come again.
    """

    def __init__(self, capacity: int, idle_seconds: float, evicts: bool) -> None:
        self.capacity = capacity
        self.evictions = 0  # sessions that had to leave while they were in use
        self._idle = idle_seconds
        self._evicts = evicts
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._sessions

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def get(self, session_id: str) -> Session | None:
        return self._sessions.get(session_id)

    def check_room(self, places: int, now: float) -> None:
        """Raise `OverCapacity` unless this many more sessions can be added."""
        if self._evicts:
            return
        while len(self._sessions) + places > self.capacity:
            oldest = next(iter(self), None)
            if oldest is None or not self._may_leave(oldest, now):
                wait = self._idle if oldest is None else oldest.touched + self._idle - now
                raise OverCapacity(self.capacity, max(1, math.ceil(wait)))
            self._sessions.popitem(last=False)

    def add(self, session: Session) -> None:
        """Keep a session, as the most recently used one. `check_room` comes before."""
        self._sessions[session.header.session_id] = session
        self.use(session)
        while len(self._sessions) > self.capacity:
            _, left = self._sessions.popitem(last=False)
            self.evictions += not left.env.done

    def use(self, session: Session) -> None:
        """Note that a session was asked for, or has ended. One that left memory meanwhile is left alone."""
        session_id = session.header.session_id
        if session_id in self._sessions:
            self._sessions.move_to_end(session_id, last=not session.env.done)

    def forget(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    def sweep(self, now: float) -> None:
        """Let ended and idle sessions leave."""
        while self._sessions and self._may_leave(next(iter(self)), now):
            self._sessions.popitem(last=False)

    def _may_leave(self, session: Session, now: float) -> bool:
        return session.env.done or session.touched + self._idle <= now
