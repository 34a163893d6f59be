"""Handles: names that stay the same while the sessions behind them change.

OpenEnv's tool clients ask for a name before any reset, then reset over a WebSocket and call tools over HTTP, all under that
name. Handles are stored in the ledger, so every worker knows them.
"""

import secrets
import time

from companyos.serve.access.roles import may_use
from companyos.serve.errors import UnknownSession
from companyos.serve.ledger import Handle, can_be_id
from companyos.serve.sessions.sessions import Sessions


def open_handle(sessions: Sessions, owner: str, session_id: str = "") -> str:
    """Make a handle to a session, or to none yet, and return its name. It counts against the owner's session quota."""
    sessions.quota.take(sessions.ledger, owner, 1)
    handle_id = secrets.token_urlsafe(24)
    point_handle(sessions, handle_id, owner, session_id)
    return handle_id


def point_handle(sessions: Sessions, handle_id: str, owner: str, session_id: str) -> None:
    """Make a handle point to another session."""
    sessions.ledger.put_handle(Handle(handle_id, session_id, time.time(), owner))


def resolve(sessions: Sessions, name: str, owner: str) -> tuple[str, str]:
    """Resolve the name of a session or a handle. Return the handle, or "", and the session, or "" if none has begun.

    Raise `UnknownSession` if this owner has neither a session nor a handle with this name.
    """
    if sessions.holds(name):
        return "", name
    if not can_be_id(name):
        raise UnknownSession
    handle = sessions.ledger.handle(name)
    if handle is not None and handle.owner == owner:
        return name, handle.session_id
    stored = sessions.ledger.read(name)
    if stored is None or not may_use(owner, stored.header):
        raise UnknownSession
    return "", name


def close(sessions: Sessions, name: str, owner: str) -> None:
    """Delete a session by its own name or by its handle; the handle is deleted with it."""
    handle_id, session_id = resolve(sessions, name, owner)
    if session_id:
        sessions.close(session_id, owner)
    if handle_id:
        sessions.ledger.remove_handle(handle_id)
