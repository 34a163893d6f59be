"""Sessions: episodes that many callers hold at once, and that outlive the memory and the process they run in.

The ledger has the last word. What stands in memory is a copy that was played up to some turn; another worker may be
further on. A step is carried out on the copy, then compared and appended; whoever comes second throws the copy away,
plays what stands in the ledger, and answers from there.
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
from companyos.serve.ledger import NO_SESSIONS, Entry, Header, IdTaken, Ledger, Row, attempt, can_be_id
from companyos.serve.sessions.copies import Copies
from companyos.serve.sessions.screens import PICTURED, is_pictured
from companyos.serve.sessions.session import Session, size_of
from companyos.serve.steps import Outcome, Step

__all__ = ["Answer", "Replays", "Session", "Sessions"]

Answer = Outcome | ServeError
SESSION_BYTES = 1_000_000
TOKEN_SESSIONS = 100_000


class Replays:
    """How many old turns one request may still ask for: each is made again from the beginning of its session."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most

    def spend(self) -> None:
        if not self._left:
            raise OldTurns(self._most)
        self._left -= 1


class Sessions:
    """All sessions that this process serves. Not for two threads at once: doors reach it by one lane."""

    def __init__(
        self,
        ledger: Ledger,
        capacity: int = 2000,
        idle_seconds: float = 300.0,
        ttl_seconds: float = 86400.0,
        clock: Callable[[], float] = time.time,
        session_bytes: int = SESSION_BYTES,
        token_sessions: int = TOKEN_SESSIONS,
    ) -> None:
        self.ledger = ledger
        self.quota = SessionQuota(token_sessions)
        self.copies = Copies(capacity, idle_seconds, ledger.durable)
        self._ttl = ttl_seconds
        self._clock = clock
        self._bytes = session_bytes
        self.keeps_closed = False  # in an exam: somebody is going to judge them

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self.copies)

    def holds(self, session_id: str) -> bool:
        """Whether a session is in memory."""
        return session_id in self.copies

    # -- what doors ask for ----------------------------------------------------------------------------------------

    def create(
        self,
        task: TaskId,
        reward: str = "dense",
        progress: bool = False,
        owner: str = "",
        name: str = "",
        once: bool = False,
    ) -> Session:
        """Begins an episode under an id that nobody can guess; under a name it can be found again by that.

        `once`: `AttemptUsed` where this owner has begun the task before, on any server of this ledger.
        """
        now = self._clock()
        self.copies.check_room(1, now)
        header = Header(_unguessable(name), str(task), reward, progress, BENCHMARK_VERSION, now, owner)
        session = Session(header, now)
        self.quota.take(self.ledger, owner, 1)
        try:
            self.ledger.begin([header, attempt(header, task)] if once else [header])
        except IdTaken:
            raise AttemptUsed from None
        self.copies.add(session)
        return session

    def step(self, step: Step) -> Outcome:
        """One step; raises why it cannot be."""
        [answer] = self.step_all([step])
        if isinstance(answer, ServeError):
            raise answer
        return answer

    def step_all(self, steps: Sequence[Step], replays: Replays | None = None) -> list[Answer]:
        """Many steps under one commit: what came of each, in their order. Those of one session happen in that order.

        `replays` bounds how many old turns are looked up; without it there is no bound.
        """
        answers: dict[int, Answer] = {}
        lines: dict[str, list[tuple[int, Step]]] = {}  # of each session, those who come first standing last
        for place in range(len(steps) - 1, -1, -1):
            lines.setdefault(steps[place].session_id, []).append((place, steps[place]))
        while lines:
            self._step_each([line[-1] for line in reversed(lines.values())], answers, replays)
            # Whoever has no answer comes again: another worker was faster.
            for line in lines.values():
                if line[-1][0] in answers:
                    line.pop()
            lines = {session_id: line for session_id, line in lines.items() if line}
        return [answers[place] for place in range(len(steps))]

    def observe(self, session_id: str, owner: str | None = "") -> Session:
        """A session as it stands in the ledger at this moment. Owner None is whoever runs the server."""
        session = self._find(session_id, owner)
        self._catch_up(session)
        return session

    def entry(self, session_id: str, owner: str | None = "") -> Entry:
        """A session as the ledger has it, for somebody who only looks: it stays where it is, and grows no younger."""
        entry = self.ledger.read(session_id) if can_be_id(session_id) else None
        if entry is None or not may_use(owner, entry.header) or entry.touched + self._ttl < self._clock():
            raise UnknownSession
        if entry.header.reward in NO_SESSIONS:
            raise UnknownSession
        if entry.header.version != BENCHMARK_VERSION:
            raise OtherVersion(entry.header.version)
        _check_release(entry.header)
        return entry

    def live(self, owner: str | None = "") -> list[Session]:
        """The sessions in memory, those first that were asked for last."""
        found = [session for session in self.copies if may_use(owner, session.header)]
        return sorted(found, key=lambda session: -session.touched)

    def fork(self, session_id: str, owner: str = "", count: int = 1) -> list[Session]:
        """Sessions that go on from where this one stands, each by itself."""
        session, now = self.observe(session_id, owner), self._clock()
        self.copies.check_room(count, now)
        self.quota.take(self.ledger, session.header.owner, count)
        replace, name = msgspec.structs.replace, PICTURED if is_pictured(session_id) else ""
        headers = [replace(session.header, session_id=_unguessable(name), created=now) for _ in range(count)]
        self.ledger.begin(headers, session.calls)
        twins = [session.fork(header) for header in headers]
        for twin in twins:
            self.copies.add(twin)
        return twins

    def close(self, session_id: str, owner: str = "") -> None:
        """Forgets a session for good; where closed sessions are kept, only frees its place."""
        self._find(session_id, owner)
        self.copies.forget(session_id)
        if not self.keeps_closed:
            self.ledger.remove(session_id)

    def sweep(self) -> int:
        """Let idle sessions leave memory, and expired ones the ledger; return how many the ledger forgot."""
        now = self._clock()
        self.copies.sweep(now)
        return self.ledger.expire(now - self._ttl)

    # -- how a step goes -------------------------------------------------------------------------------------------

    def _step_each(self, steps: Sequence[tuple[int, Step]], answers: dict[int, Answer], replays: Replays | None) -> None:
        """Steps of as many sessions; a step that lost a race to another worker gets no answer yet."""
        stepped: list[tuple[int, Session]] = []
        rows: list[Row] = []
        try:
            for place, step in steps:
                try:
                    session = self._find(step.session_id, step.owner)
                    known = self._answer(session, step, replays)
                except ServeError as error:
                    answers[place] = error
                    continue
                if known is not None:
                    answers[place] = known
                    continue
                stepped.append((place, session))
                session.play([step.call])
                rows.append(Row(step.session_id, session.last.step, step.call, session.touched))
            refusals = self.ledger.append_all(rows) if rows else []
        except BaseException:
            # These have gone on in memory, and nobody knows whether in the ledger.
            for _, session in stepped:
                self.copies.forget(session.header.session_id)
            raise
        for (place, session), refused in zip(stepped, refusals, strict=True):
            if refused is None:
                answers[place] = session.outcome
                if session.env.done:
                    self.copies.use(session)
            else:
                self.copies.forget(session.header.session_id)

    def _answer(self, session: Session, step: Step, replays: Replays | None) -> Outcome | None:
        """What is answered without stepping: a turn that was made already. None: the step is due."""
        env = session.env
        if step.turn is not None and step.turn > env.step_count + 1:
            self._catch_up(session)
        due = env.step_count + 1
        if step.turn is not None and step.turn < due:
            return self._recorded(session, step.turn, step.call, replays)
        if env.done:
            raise SessionOver(session.outcome)
        if step.turn is not None and step.turn > due:
            raise TurnAhead(step.turn, due)
        if session.size + size_of(step.call) > self._bytes:
            raise SessionFull(self._bytes)
        return None

    @staticmethod
    def _recorded(session: Session, turn: int, call: Call, replays: Replays | None) -> Outcome:
        """The outcome of a turn that was made, if it was made with this call."""
        stands = session.env.turns[turn - 1].call
        if _canonical(call) != _canonical(stands):
            raise TurnTaken(turn, stands)
        if turn == session.env.step_count:
            return session.outcome
        if replays is not None:
            replays.spend()
        return Session(session.header, session.touched, session.calls[:turn]).outcome

    # -- memory ----------------------------------------------------------------------------------------------------

    def _find(self, session_id: str, owner: str | None) -> Session:
        now = self._clock()
        session = self.copies.get(session_id)
        if session is None or session.touched + self._ttl < now:
            session = self._bring_back(session_id, owner, now)
        if not may_use(owner, session.header):
            raise UnknownSession
        session.touched = now
        self.copies.use(session)
        return session

    def _bring_back(self, session_id: str, owner: str | None, now: float) -> Session:
        self.copies.forget(session_id)
        entry = self.entry(session_id, owner)
        self.copies.check_room(1, now)
        session = Session(entry.header, entry.touched, entry.calls)
        self.copies.add(session)
        return session

    def _catch_up(self, session: Session) -> None:
        """Plays what another worker has added to the ledger meanwhile."""
        later = self.ledger.calls(session.header.session_id, session.env.step_count)
        if later is None:
            self.copies.forget(session.header.session_id)
            raise UnknownSession
        session.play(later)


def _unguessable(name: str) -> str:
    """An id for a session; under a name it begins with that."""
    return f"{name}.{secrets.token_urlsafe(16)}" if name else secrets.token_urlsafe(24)


def _canonical(call: Call) -> bytes:
    # By bytes, since for Python 1 is True and 1.0; in sorted order, since clients need not keep theirs.
    return msgspec.json.encode(call, order="sorted")


def _check_release(header: Header) -> None:
    """Raise `OtherRelease` where this release has no such task or reward: another one wrote it to the ledger."""
    try:
        profile(header.reward)
        setting(TaskId.parse(header.task_id))
    except (BadTask, BadDose, BadChoice):
        raise OtherRelease from None
