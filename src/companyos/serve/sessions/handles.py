"""Handles: names that stay while the episodes behind them change.

OpenEnv's tool clients ask for a name before any reset, then reset by a socket and call by HTTP, all under that name. A
handle stands in the ledger as a session would, without calls, and says which session is meant; so every worker knows it.
"""

import secrets
import time

from companyos.core.task import BENCHMARK_VERSION
from companyos.serve.access.roles import may_use
from companyos.serve.errors import UnknownSession
from companyos.serve.ledger import ATTEMPT, HANDLE, Header, can_be_id
from companyos.serve.sessions.sessions import Sessions


def open_handle(sessions: Sessions, owner: str, session_id: str = "") -> str:
    """A handle to a session, or to none as yet. It counts as a session of its owner."""
    sessions.quota.take(sessions.ledger, owner, 1)
    return _write(sessions, secrets.token_urlsafe(24), owner, session_id)


def point(sessions: Sessions, handle: str, owner: str, session_id: str) -> None:
    """From here on the handle means this session."""
    sessions.ledger.remove(handle)
    _write(sessions, handle, owner, session_id)


def follow(sessions: Sessions, name: str, owner: str) -> tuple[str, str]:
    """The handle that a name is, and the session that is meant; either may be empty. `UnknownSession` if it is neither."""
    if sessions.holds(name):
        return "", name
    entry = sessions.ledger.read(name) if can_be_id(name) else None
    if entry is None or not may_use(owner, entry.header) or entry.header.reward == ATTEMPT:
        raise UnknownSession
    return (name, entry.header.task_id) if entry.header.reward == HANDLE else ("", name)


def close(sessions: Sessions, name: str, owner: str) -> None:
    """Forgets a session, by its own name or by a handle, which is forgotten with it."""
    handle, session_id = follow(sessions, name, owner)
    if session_id:
        sessions.close(session_id, owner)
    if handle:
        sessions.ledger.remove(handle)


def _write(sessions: Sessions, handle: str, owner: str, session_id: str) -> str:
    sessions.ledger.begin([Header(handle, session_id, HANDLE, False, BENCHMARK_VERSION, time.time(), owner)])
    return handle
