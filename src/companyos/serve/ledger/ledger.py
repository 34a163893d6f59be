"""The ledger: the durable record of sessions, handles and exam attempts.

A session is stored as its header and its calls, one per turn. Everything else about it is computed by replaying the calls.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

import msgspec

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.serve.errors import ServeError

MAX_EXPIRED = 1000  # records that one call of `expire` deletes, so that concurrent steps do not wait long


class SessionHeader(msgspec.Struct, frozen=True):
    """How a session was started. `owner` is the digest of the token that started it, or empty."""

    session_id: str
    task_id: str
    reward: str  # the profile: `dense`, `score` or `sparse`
    progress: bool  # whether observations show the milestones that were reached
    version: int  # of the benchmark; a server of another version cannot replay the session
    created: float  # seconds since 1970, like all times here
    owner: str = ""


class TurnRow(msgspec.Struct, frozen=True, gc=False):
    """One turn of one session: its call, and when it was made."""

    session_id: str
    turn: int  # from 1
    call: Call
    at: float


class StoredSession(msgspec.Struct, frozen=True):
    """Everything that the ledger stores about one session."""

    header: SessionHeader
    calls: tuple[Call, ...]
    touched: float  # when the session was started or last stepped


class Handle(msgspec.Struct, frozen=True):
    """A name that points to a session, or to none (`session_id` is empty) until a reset starts one."""

    handle_id: str
    session_id: str
    created: float  # when the handle was made, or when its session was last changed
    owner: str = ""


class ExamAttempt(msgspec.Struct, frozen=True):
    """The fact that an owner has started a task in an exam, where each task may be started only once. It never expires.

    `attempt_id` is a digest of owner and task, so there is at most one attempt for each owner and task.
    """

    attempt_id: str
    session_id: str
    owner: str = ""


class IdTaken(Exception):
    """The ledger already has a record with this id."""


def attempt_of(header: SessionHeader, task: TaskId) -> ExamAttempt:
    """Return the attempt that a session uses up.

    Task ids that differ only in doses or weather (the draw of the troubles) share one attempt: they have the same facts.
    """
    digest = blake2b(f"{header.owner} {task.key}".encode(), digest_size=24).hexdigest()
    return ExamAttempt(digest, header.session_id, header.owner)


class Ledger(Protocol):
    """The contract of a ledger, with three properties that say how to use it.

    `quick`: it answers within microseconds, so calls need no thread of their own. `gathers`: each commit has a cost, so
    steps are better written together. `durable`: it stores sessions outside the memory of this process, so a session may be
    dropped from memory at any time.
    """

    quick: bool
    gathers: bool = True
    durable: bool = True

    # -- sessions --------------------------------------------------------------------------------------------------

    def begin(
        self, headers: Sequence[SessionHeader], calls: Sequence[Call] = (), attempt: ExamAttempt | None = None
    ) -> None:
        """Store new sessions in one commit.

        `calls` are the calls with which all of them begin, if they are forks. `attempt` is the attempt that they use up in
        an exam.
        Raise `IdTaken`, and store nothing, if the ledger already has one of the sessions or the attempt.
        """

    def read(self, session_id: str) -> StoredSession | None:
        """Return a session, or None if the ledger does not have it."""

    def calls(self, session_id: str, after: int) -> tuple[Call, ...] | None:
        """Return the calls after a turn, or None if the ledger does not have the session."""

    def headers(self) -> list[SessionHeader]:
        """Return the headers of all sessions. Reads the whole ledger: meant for pages that people open, not for steps."""

    def newest(self, name: str) -> str | None:
        """Return the id of the newest session whose id is the name, a dot and a suffix. The name is not a handle."""

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        """Append turns in one commit. Return None for each row that was written, or the error why it was not.

        A turn that the session already has is not written. A row that cannot be written does not stop the others.
        """

    def append(self, row: TurnRow) -> None:
        """Append one turn. Raise `TurnTaken` with the stored call, or `UnknownSession`."""
        [refused] = self.append_all([row])
        if refused is not None:
            raise refused

    def remove(self, session_id: str) -> None:
        """Delete a session, if it exists."""

    # -- handles and attempts --------------------------------------------------------------------------------------

    def handle(self, handle_id: str) -> Handle | None:
        """Return a handle, or None if the ledger does not have it."""

    def put_handle(self, handle: Handle) -> None:
        """Store a handle, in place of an earlier one with the same id."""

    def remove_handle(self, handle_id: str) -> None:
        """Delete a handle, if it exists."""

    def attempts(self) -> list[ExamAttempt]:
        """Return all exam attempts."""

    # -- housekeeping ----------------------------------------------------------------------------------------------

    def expire(self, before: float) -> int:
        """Delete sessions and handles that were last used before this time, at most `MAX_EXPIRED`. Return how many."""

    def count(self, owner: str) -> int:
        """Return how many records (sessions, handles, attempts) an owner has."""

    def ping(self) -> None:
        """Raise `LedgerDown` if the ledger does not answer."""

    def close(self) -> None: ...


def can_be_id(text: str) -> bool:
    """Return whether a text can be an id. The server checks this before it asks a ledger: PostgreSQL cannot store a NUL."""
    return text.isascii() and text.isprintable()


# How ledgers that store bytes encode headers and calls.
encode = msgspec.json.Encoder().encode
decode_call = msgspec.json.Decoder(Call).decode
decode_header = msgspec.json.Decoder(SessionHeader).decode
