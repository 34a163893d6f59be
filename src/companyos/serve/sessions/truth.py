"""Truth: when a page may show what is right in a task, what is true in it, and how an expert solves it.

A trainer may see it at any time. Anybody else sees it once no session of that task is unfinished on this server: else one
could fork a session, lose the fork, read its verdict, and win the original. A task is the same at every dose, in every
weather and under every override here, because its seed has the same facts.
"""

from collections.abc import Iterable

from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.serve.access.roles import Caller
from companyos.serve.errors import OtherRelease, OtherVersion, UnknownSession
from companyos.serve.ledger import NO_SESSIONS
from companyos.serve.sessions.sessions import Session, Sessions

_MOST = 65_536  # sessions that are remembered to be over


class Truth:
    """Knows which tasks somebody is still working on."""

    def __init__(self) -> None:
        self._over: set[str] = set()  # an episode that is over stays so

    def may_see(self, sessions: Sessions, caller: Caller, task: TaskId) -> bool:
        """Whether a caller may see what is true in a task."""
        return caller.trusted or not self.unfinished(sessions, [task])

    def unfinished(self, sessions: Sessions, tasks: Iterable[TaskId]) -> set[str]:
        """The keys of those tasks that have an unfinished session, whoever began it and whichever worker holds it."""
        wanted, found = {task.key for task in tasks}, set[str]()
        self._remember(session.header.session_id for session in sessions.live(None) if session.env.done)
        for header in sessions.ledger.headers():
            if header.reward in NO_SESSIONS or header.version != BENCHMARK_VERSION:
                continue
            key = TaskId.parse(header.task_id).key
            if key in wanted - found and not self._is_over(sessions, header.session_id):
                found.add(key)
        return found

    def _is_over(self, sessions: Sessions, session_id: str) -> bool:
        if session_id in self._over:
            return True
        try:
            entry = sessions.entry(session_id, None)
        except (UnknownSession, OtherVersion, OtherRelease):  # closed or expired meanwhile, or never to be played again
            return True
        over = Session(entry.header, entry.touched, entry.calls).env.done
        self._remember([session_id] if over else ())
        return over

    def _remember(self, session_ids: Iterable[str]) -> None:
        if len(self._over) >= _MOST:
            self._over.clear()
        self._over.update(session_ids)
