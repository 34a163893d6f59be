"""Decides when a page may show the ground truth of a task: the right ending, the facts, and the expert's solution.

A trainer may see it at any time. Other clients see it once no session of that task is unfinished on this server. Otherwise
a client could fork a session, lose the fork, read its verdict, and win the original. Demonstrations do not count, because no
client can make a call in them. Ids that differ only in doses, weather (the draw of the troubles) or overrides count as the
same task here, because the seed gives them the same facts.
"""

from collections.abc import Iterable

from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.serve.access.roles import Client
from companyos.serve.errors import OtherRelease, OtherVersion, UnknownSession
from companyos.serve.sessions.demonstrations import demonstrator
from companyos.serve.sessions.sessions import Session, Sessions

_MAX_REMEMBERED = 65_536  # sessions known to have ended


class TruthAccess:
    """Knows which tasks have an unfinished session."""

    def __init__(self) -> None:
        self._ended: set[str] = set()  # a memo: an ended episode never continues

    def may_see(self, sessions: Sessions, client: Client, task: TaskId) -> bool:
        """Return whether a client may see the ground truth of a task."""
        return client.trusted or not self.unfinished(sessions, [task])

    def unfinished(self, sessions: Sessions, tasks: Iterable[TaskId]) -> set[str]:
        """Return the keys of the tasks that have an unfinished session of any owner, on any worker."""
        wanted, unfinished = {task.key for task in tasks}, set[str]()
        self._remember(session.header.session_id for session in sessions.live(None) if session.env.done)
        for header in sessions.ledger.headers():
            if header.version != BENCHMARK_VERSION or demonstrator(header.session_id):
                continue
            key = TaskId.parse(header.task_id).key
            if key in wanted - unfinished and not self._has_ended(sessions, header.session_id):
                unfinished.add(key)
        return unfinished

    def _has_ended(self, sessions: Sessions, session_id: str) -> bool:
        if session_id in self._ended:
            return True
        try:
            stored = sessions.entry(session_id, None)
        except (UnknownSession, OtherVersion, OtherRelease):  # closed, expired, or no longer playable
            return True
        ended = Session(stored.header, stored.touched, stored.calls).env.done
        self._remember([session_id] if ended else ())
        return ended

    def _remember(self, session_ids: Iterable[str]) -> None:
        if len(self._ended) >= _MAX_REMEMBERED:
            self._ended.clear()
        self._ended.update(session_ids)
