"""Sessions: episodes that many clients use at once, and that survive eviction from memory and restarts of the process.

The ledger is authoritative. A session in memory is a copy that was played up to some turn, and another worker may be ahead.
A step is carried out on the copy and then appended to the ledger, if that turn is still free there. A worker that loses this
race drops its copy, replays the session from the ledger, and answers from there.
"""

import secrets
import time
from collections.abc import Callable, Sequence

import msgspec

from companyos.core.calls import Call
from companyos.core.errors import BadChoice, BadDose, BadTask
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.env.rewards import profile
from companyos.families import setting
from companyos.serve.access.quotas import SessionQuota
from companyos.serve.access.roles import may_use
from companyos.serve.errors import (
    AttemptUsed,
    OldTurns,
    OtherRelease,
    OtherVersion,
    ServeError,
    SessionFull,
    SessionOver,
    TurnAhead,
    TurnTaken,
    UnknownSession,
)
from companyos.serve.ledger import IdTaken, Ledger, SessionHeader, StoredSession, TurnRow, attempt_of, can_be_id
from companyos.serve.sessions.cache import SessionCache
from companyos.serve.sessions.screens import SCREENSHOT_PREFIX, has_screenshots
from companyos.serve.sessions.session import Session, size_of
from companyos.serve.steps import StepRequest, StepResult

__all__ = ["Answer", "ReplayBudget", "Session", "Sessions"]

Answer = StepResult | ServeError
MAX_SESSION_BYTES = 1_000_000  # of the calls of one session
MAX_TOKEN_SESSIONS = 100_000  # in the ledger, for one token


class ReplayBudget:
    """Limits how many old turns one request may ask for: answering one replays its session from the beginning."""

    def __init__(self, limit: int) -> None:
        self._limit = self._left = limit

    def spend(self) -> None:
        """Count one old turn, or raise `OldTurns` if the limit is reached."""
        if not self._left:
            raise OldTurns(self._limit)
        self._left -= 1


class Sessions:
    """All sessions that this process serves. Not thread-safe: endpoints use it through one `WorkQueue`."""

    def __init__(
        self,
        ledger: Ledger,
        capacity: int = 2000,
        idle_seconds: float = 300.0,
        ttl_seconds: float = 86400.0,
        clock: Callable[[], float] = time.time,
        session_bytes: int = MAX_SESSION_BYTES,
        token_sessions: int = MAX_TOKEN_SESSIONS,
    ) -> None:
        self.ledger = ledger
        self.quota = SessionQuota(token_sessions)
        self.cache = SessionCache(capacity, idle_seconds, ledger.durable)
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._max_bytes = session_bytes
        self.keeps_closed = False  # True in an exam: closed sessions stay in the ledger, so that they can be judged

    def __len__(self) -> int:
        """Return how many sessions are in memory."""
        return len(self.cache)

    def holds(self, session_id: str) -> bool:
        """Return whether a session is in memory."""
        return session_id in self.cache

    # -- operations ------------------------------------------------------------------------------------------------

    def create(
        self,
        task: TaskId,
        reward: str = "dense",
        progress: bool = False,
        owner: str = "",
        name: str = "",
        one_attempt: bool = False,
    ) -> Session:
        """Begin an episode under an unguessable id. With a `name`, the id starts with it, so `newest(name)` finds it.

        With `one_attempt`, raise `AttemptUsed` if this owner has begun the task before, on any server with this ledger.
        """
        now = self._clock()
        self.cache.check_room(1, now)
        header = SessionHeader(_random_id(name), str(task), reward, progress, BENCHMARK_VERSION, now, owner)
        session = Session(header, now)
        self.quota.take(self.ledger, owner, 1)
        try:
            self.ledger.begin([header], attempt=attempt_of(header, task) if one_attempt else None)
        except IdTaken:
            raise AttemptUsed from None
        self.cache.add(session)
        return session

    def step(self, step: StepRequest) -> StepResult:
        """Make one step, or raise the error with which it is refused."""
        [answer] = self.step_all([step])
        if isinstance(answer, ServeError):
            raise answer
        return answer

    def step_all(self, steps: Sequence[StepRequest], replays: ReplayBudget | None = None) -> list[Answer]:
        """Make many steps in one commit and return their answers in order. Steps of one session are made in their order.

        `replays` limits how many old turns are looked up; without it there is no limit.
        """
        answers: dict[int, Answer] = {}
        queues: dict[str, list[tuple[int, StepRequest]]] = {}  # per session; its last entry is the next step, for `pop`
        for index in range(len(steps) - 1, -1, -1):
            queues.setdefault(steps[index].session_id, []).append((index, steps[index]))
        while queues:
            self._step_once_in_each([queue[-1] for queue in reversed(queues.values())], answers, replays)
            # A step without an answer is tried again: another worker was faster.
            for queue in queues.values():
                if queue[-1][0] in answers:
                    queue.pop()
            queues = {session_id: queue for session_id, queue in queues.items() if queue}
        return [answers[index] for index in range(len(steps))]

    def observe(self, session_id: str, owner: str | None = "") -> Session:
        """Return a session at its latest turn in the ledger. Owner None stands for the operator of the server."""
        session = self._find(session_id, owner)
        self._catch_up(session)
        return session

    def entry(self, session_id: str, owner: str | None = "") -> StoredSession:
        """Return a session as the ledger stores it, without loading it into memory or renewing its lifetime."""
        stored = self.ledger.read(session_id) if can_be_id(session_id) else None
        if stored is None or not may_use(owner, stored.header) or stored.touched + self._ttl_seconds < self._clock():
            raise UnknownSession
        if stored.header.version != BENCHMARK_VERSION:
            raise OtherVersion(stored.header.version)
        _check_release(stored.header)
        return stored

    def live(self, owner: str | None = "") -> list[Session]:
        """Return the sessions in memory, most recently used first."""
        usable = [session for session in self.cache if may_use(owner, session.header)]
        return sorted(usable, key=lambda session: -session.touched)

    def fork(self, session_id: str, owner: str = "", count: int = 1) -> list[Session]:
        """Return new, independent sessions that continue from the current turn of this one."""
        session, now = self.observe(session_id, owner), self._clock()
        self.cache.check_room(count, now)
        self.quota.take(self.ledger, session.header.owner, count)
        replace, name = msgspec.structs.replace, SCREENSHOT_PREFIX if has_screenshots(session_id) else ""
        headers = [replace(session.header, session_id=_random_id(name), created=now) for _ in range(count)]
        self.ledger.begin(headers, session.calls)
        forks = [session.fork(header) for header in headers]
        for fork in forks:
            self.cache.add(fork)
        return forks

    def close(self, session_id: str, owner: str = "") -> None:
        """Delete a session. If closed sessions are kept, only drop it from memory."""
        self._find(session_id, owner)
        self.cache.forget(session_id)
        if not self.keeps_closed:
            self.ledger.remove(session_id)

    def sweep(self) -> int:
        """Drop idle sessions from memory and expired records from the ledger. Return how many the ledger deleted."""
        now = self._clock()
        self.cache.sweep(now)
        return self.ledger.expire(now - self._ttl_seconds)

    # -- one round of steps ----------------------------------------------------------------------------------------

    def _step_once_in_each(
        self, steps: Sequence[tuple[int, StepRequest]], answers: dict[int, Answer], replays: ReplayBudget | None
    ) -> None:
        """Make one step in each of several sessions. A step that lost a race to another worker gets no answer yet."""
        stepped: list[tuple[int, Session]] = []
        rows: list[TurnRow] = []
        try:
            for index, step in steps:
                try:
                    session = self._find(step.session_id, step.owner)
                    recorded_result = self._recorded_result(session, step, replays)
                except ServeError as error:
                    answers[index] = error
                    continue
                if recorded_result is not None:
                    answers[index] = recorded_result
                    continue
                stepped.append((index, session))
                session.play([step.call])
                rows.append(TurnRow(step.session_id, session.last.step, step.call, session.touched))
            refusals = self.ledger.append_all(rows) if rows else []
        except BaseException:
            # The copies in memory are a turn ahead, and it is unknown whether the ledger has that turn.
            for _, session in stepped:
                self.cache.forget(session.header.session_id)
            raise
        for (index, session), refused in zip(stepped, refusals, strict=True):
            if refused is None:
                answers[index] = session.result
                if session.env.done:
                    self.cache.use(session)
            else:
                self.cache.forget(session.header.session_id)

    def _recorded_result(self, session: Session, step: StepRequest, replays: ReplayBudget | None) -> StepResult | None:
        """Return the recorded result if this turn was already made, or None if the step is the next turn.

        Raise the `ServeError` if the step is refused.
        """
        env = session.env
        if step.turn is not None and step.turn > env.step_count + 1:
            self._catch_up(session)
        next_turn = env.step_count + 1
        if step.turn is not None and step.turn < next_turn:
            return self._result_of_turn(session, step.turn, step.call, replays)
        if env.done:
            raise SessionOver(session.result)
        if step.turn is not None and step.turn > next_turn:
            raise TurnAhead(step.turn, next_turn)
        if session.size + size_of(step.call) > self._max_bytes:
            raise SessionFull(self._max_bytes)
        return None

    @staticmethod
    def _result_of_turn(session: Session, turn: int, call: Call, replays: ReplayBudget | None) -> StepResult:
        """Return the result of a turn that was already made, or raise `TurnTaken` if it was made with another call."""
        recorded = session.env.turns[turn - 1].call
        if _canonical(call) != _canonical(recorded):
            raise TurnTaken(turn, recorded)
        if turn == session.env.step_count:
            return session.result
        if replays is not None:
            replays.spend()
        return Session(session.header, session.touched, session.calls[:turn]).result

    # -- memory ----------------------------------------------------------------------------------------------------

    def _find(self, session_id: str, owner: str | None) -> Session:
        """Return a session from memory, or from the ledger if it is not in memory. Raise `UnknownSession`."""
        now = self._clock()
        session = self.cache.get(session_id)
        if session is None or session.touched + self._ttl_seconds < now:
            session = self._load(session_id, owner, now)
        if not may_use(owner, session.header):
            raise UnknownSession
        session.touched = now
        self.cache.use(session)
        return session

    def _load(self, session_id: str, owner: str | None, now: float) -> Session:
        """Replay a session from the ledger into memory."""
        self.cache.forget(session_id)
        stored = self.entry(session_id, owner)
        self.cache.check_room(1, now)
        session = Session(stored.header, stored.touched, stored.calls)
        self.cache.add(session)
        return session

    def _catch_up(self, session: Session) -> None:
        """Play the turns that other workers have added to the ledger."""
        calls = self.ledger.calls(session.header.session_id, session.env.step_count)
        if calls is None:
            self.cache.forget(session.header.session_id)
            raise UnknownSession
        session.play(calls)


def _random_id(name: str) -> str:
    """Return a random session id, which starts with the name if there is one."""
    return f"{name}.{secrets.token_urlsafe(16)}" if name else secrets.token_urlsafe(24)


def _canonical(call: Call) -> bytes:
    """Return a call as bytes that are equal for equal calls."""
    # In Python 1 equals True and 1.0, so calls are not compared as values. Keys are sorted: clients may change their order.
    return msgspec.json.encode(call, order="sorted")


def _check_release(header: SessionHeader) -> None:
    """Raise `OtherRelease` if another release wrote this session, with a task or a reward that this release lacks."""
    try:
        profile(header.reward)
        setting(TaskId.parse(header.task_id))
    except (BadTask, BadDose, BadChoice):
        raise OtherRelease from None
