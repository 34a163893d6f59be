"""Results of an exam, read from its ledger by the person who judges it.

An exam is a server that evaluates agents (`companyos serve --exam`): each token has one attempt per task, and no reply
contains a reward or a verdict. So the server itself shows these results to nobody.
"""

import msgspec

from companyos.serve.errors import UnknownSession
from companyos.serve.ledger import ExamAttempt, open_ledger
from companyos.serve.sessions.sessions import Sessions


class ExamResult(msgspec.Struct, frozen=True):
    """The state of one attempt: one task that one token has begun."""

    owner: str  # the digest of the token, as `companyos.serve.access.roles.digest_of` computes it
    task_id: str
    steps: int
    done: bool
    success: bool  # False for an attempt that is not finished


def attempts(ledger_address: str) -> list[ExamResult]:
    """Return the results of all attempts in a ledger (a file or postgresql://...) whose sessions have not expired."""
    ledger = open_ledger(ledger_address)
    try:
        sessions = Sessions(ledger, ttl_seconds=float("inf"))
        results = [_result(sessions, attempt) for attempt in ledger.attempts()]
        return [result for result in results if result is not None]
    finally:
        ledger.close()


def _result(sessions: Sessions, attempt: ExamAttempt) -> ExamResult | None:
    """Return the result of an attempt, or None if its session has expired."""
    try:
        env = sessions.observe(attempt.session_id, None).env
    except UnknownSession:
        return None
    return ExamResult(attempt.owner, env.task_id, env.step_count, env.done, bool(env.success))
