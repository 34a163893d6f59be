"""Exams: how the attempts in a ledger went, for the person who judges them. The server of an exam itself tells nobody."""

import msgspec

from companyos.serve.errors import UnknownSession
from companyos.serve.ledger import ATTEMPT, Header, open_ledger
from companyos.serve.sessions.sessions import Sessions


class Attempt(msgspec.Struct, frozen=True):
    """One task that one token has begun, as it stands now."""

    owner: str  # the digest of the token; `companyos.serve.access.roles.digest_of` makes it
    task_id: str
    steps: int
    done: bool
    success: bool  # an attempt that is not over is no success


def attempts(place: str) -> list[Attempt]:
    """All attempts in a ledger, at a file or at postgresql://..., whose sessions have not expired."""
    ledger = open_ledger(place)
    try:
        sessions = Sessions(ledger, ttl_seconds=float("inf"))
        marks = [header for header in ledger.headers() if header.reward == ATTEMPT]
        return [found for mark in marks if (found := _judged(sessions, mark)) is not None]
    finally:
        ledger.close()


def _judged(sessions: Sessions, mark: Header) -> Attempt | None:
    try:
        env = sessions.observe(mark.task_id, None).env
    except UnknownSession:
        return None
    return Attempt(mark.owner, env.task_id, env.step_count, env.done, bool(env.success))
