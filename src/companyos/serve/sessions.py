"""Sessions: episodes that many callers hold at once, and that outlive the memory and the process they run in.

The ledger has the last word. What stands in memory is a copy that was played up to some turn; another worker may be
further on. A step is carried out on the copy, then compared and appended; whoever comes second throws the copy away,
plays what stands in the ledger, and answers from there.
"""

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

import msgspec

from companyos.calls import Call
from companyos.env import CompanyEnv
from companyos.observe import Observation
from companyos.serve.errors import OtherVersion, OverCapacity, ServeError, SessionOver, TurnAhead, TurnTaken, UnknownSession
from companyos.serve.ledger import HANDLE, Entry, Header, Ledger, Row
from companyos.serve.screens import PICTURED, is_pictured
from companyos.serve.steps import Outcome, Step
from companyos.task import BENCHMARK_VERSION, TaskId

Answer = Outcome | ServeError


class Session:
    """An episode in memory: where it has got to, and what its agent saw last."""

    __slots__ = ("env", "header", "last", "touched")

    def __init__(self, header: Header, touched: float, calls: Iterable[Call] = ()) -> None:
        self.header = header
        self.touched = touched
        self.env = CompanyEnv(TaskId.parse(header.task_id), header.reward, header.progress)
        self.last: Observation = self.env.reset()
        self.play(calls)

    def play(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.last = self.env.step(call)

    def fork(self, header: Header) -> "Session":
        twin = Session.__new__(Session)
        twin.header, twin.touched = header, header.created
        twin.env, twin.last = self.env.fork(), self.last
        return twin

    @property
    def calls(self) -> list[Call]:
        return [turn.call for turn in self.env.turns]

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.header.session_id, self.last, self.env.success)


class Sessions:
    """All sessions that this process serves. Not for two threads at once: doors reach it by one lane."""

    def __init__(
        self,
        ledger: Ledger,
        capacity: int = 2000,
        idle_seconds: float = 300.0,
        ttl_seconds: float = 86400.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ledger = ledger
        self.capacity = capacity
        self._idle = idle_seconds
        self._ttl = ttl_seconds
        self._clock = clock
        self._live: OrderedDict[str, Session] = OrderedDict()  # those that may leave first come first

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self._live)

    def holds(self, session_id: str) -> bool:
        """Whether a session is in memory."""
        return session_id in self._live

    # -- what doors ask for ----------------------------------------------------------------------------------------

    def create(self, task: TaskId, reward: str = "seed", progress: bool = False, owner: str = "", name: str = "") -> Session:
        """Begins an episode under an id that nobody can guess; under a name it can be found again by that."""
        now = self._clock()
        self._make_room(1, now)
        header = Header(_unguessable(name), str(task), reward, progress, BENCHMARK_VERSION, now, owner)
        session = Session(header, now)
        self.ledger.begin([header])
        self._live[header.session_id] = session
        return session

    def step(self, step: Step) -> Outcome:
        """One step; raises why it cannot be."""
        [answer] = self.step_all([step])
        if isinstance(answer, ServeError):
            raise answer
        return answer

    def step_all(self, steps: Sequence[Step]) -> list[Answer]:
        """Many steps under one commit: what came of each, in their order. Those of one session happen in that order."""
        answers: dict[int, Answer] = {}
        lines: dict[str, list[tuple[int, Step]]] = {}  # of each session, those who come first standing last
        for place in range(len(steps) - 1, -1, -1):
            lines.setdefault(steps[place].session_id, []).append((place, steps[place]))
        while lines:
            self._step_each([line[-1] for line in reversed(lines.values())], answers)
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
        entry = self.ledger.read(session_id) if session_id.isascii() and session_id.isprintable() else None
        if entry is None or owner not in (None, entry.header.owner) or entry.touched + self._ttl < self._clock():
            raise UnknownSession
        if entry.header.reward == HANDLE:
            raise UnknownSession
        if entry.header.version != BENCHMARK_VERSION:
            raise OtherVersion(entry.header.version)
        return entry

    def live(self, owner: str | None = "") -> list[Session]:
        """The sessions in memory, those first that were asked for last."""
        found = [session for session in self._live.values() if owner in (None, session.header.owner)]
        return sorted(found, key=lambda session: -session.touched)

    def fork(self, session_id: str, owner: str = "", count: int = 1) -> list[Session]:
        """Sessions that go on from where this one stands, each by itself."""
        session, now = self.observe(session_id, owner), self._clock()
        self._make_room(count, now)
        replace, name = msgspec.structs.replace, PICTURED if is_pictured(session_id) else ""
        headers = [replace(session.header, session_id=_unguessable(name), created=now) for _ in range(count)]
        self.ledger.begin(headers, session.calls)
        twins = [session.fork(header) for header in headers]
        self._live.update((twin.header.session_id, twin) for twin in twins)
        return twins

    def close(self, session_id: str, owner: str = "") -> None:
        """Forgets a session for good."""
        self._find(session_id, owner)
        self._forget(session_id)
        self.ledger.remove(session_id)

    def sweep(self) -> None:
        """Lets idle sessions leave memory, and expired ones the ledger."""
        now = self._clock()
        while self._live and self._may_leave(next(iter(self._live.values())), now):
            self._live.popitem(last=False)
        self.ledger.expire(now - self._ttl)

    # -- how a step goes -------------------------------------------------------------------------------------------

    def _step_each(self, steps: Sequence[tuple[int, Step]], answers: dict[int, Answer]) -> None:
        """Steps of as many sessions; a step that lost a race to another worker gets no answer yet."""
        stepped: list[tuple[int, Session]] = []
        rows: list[Row] = []
        try:
            for place, step in steps:
                try:
                    session = self._find(step.session_id, step.owner)
                    known = self._answer(session, step)
                except ServeError as error:
                    answers[place] = error
                    continue
                if known is not None:
                    answers[place] = known
                    continue
                stepped.append((place, session))
                session.last = session.env.step(step.call)
                rows.append(Row(step.session_id, session.last.step, step.call, session.touched))
            refusals = self.ledger.append_all(rows) if rows else []
        except BaseException:
            # These have gone on in memory, and nobody knows whether in the ledger.
            for _, session in stepped:
                self._forget(session.header.session_id)
            raise
        for (place, session), refused in zip(stepped, refusals, strict=True):
            if refused is None:
                answers[place] = session.outcome
                if session.env.done and session.header.session_id in self._live:
                    self._live.move_to_end(session.header.session_id, last=False)
            else:
                self._forget(session.header.session_id)

    def _answer(self, session: Session, step: Step) -> Outcome | None:
        """What is answered without stepping: a turn that was made already. None: the step is due."""
        env = session.env
        if step.turn is not None and step.turn > env.step_count + 1:
            self._catch_up(session)
        due = env.step_count + 1
        if step.turn is not None and step.turn < due:
            return self._recorded(session, step.turn, step.call)
        if env.done:
            raise SessionOver(session.outcome)
        if step.turn is not None and step.turn > due:
            raise TurnAhead(step.turn, due)
        return None

    def _recorded(self, session: Session, turn: int, call: Call) -> Outcome:
        """The outcome of a turn that was made, if it was made with this call."""
        stands = session.env.turns[turn - 1].call
        if _canonical(call) != _canonical(stands):
            raise TurnTaken(turn, stands)
        if turn == session.env.step_count:
            return session.outcome
        return Session(session.header, session.touched, session.calls[:turn]).outcome

    # -- memory ----------------------------------------------------------------------------------------------------

    def _find(self, session_id: str, owner: str | None) -> Session:
        now = self._clock()
        session = self._live.get(session_id)
        if session is None or session.touched + self._ttl < now:
            session = self._bring_back(session_id, owner, now)
        if owner not in (None, session.header.owner):
            raise UnknownSession
        session.touched = now
        if not session.env.done:
            self._live.move_to_end(session_id)
        return session

    def _bring_back(self, session_id: str, owner: str | None, now: float) -> Session:
        self._forget(session_id)
        entry = self.entry(session_id, owner)
        self._make_room(1, now)
        session = self._live[session_id] = Session(entry.header, entry.touched, entry.calls)
        if session.env.done:
            self._live.move_to_end(session_id, last=False)
        return session

    def _catch_up(self, session: Session) -> None:
        """Plays what another worker has added to the ledger meanwhile."""
        later = self.ledger.calls(session.header.session_id, session.env.step_count)
        if later is None:
            self._forget(session.header.session_id)
            raise UnknownSession
        session.play(later)

    def _make_room(self, places: int, now: float) -> None:
        while len(self._live) + places > self.capacity:
            oldest = next(iter(self._live.values()), None)
            if oldest is None or not self._may_leave(oldest, now):
                wait = self._idle if oldest is None else oldest.touched + self._idle - now
                raise OverCapacity(self.capacity, max(1, math.ceil(wait)))
            self._live.popitem(last=False)

    def _may_leave(self, session: Session, now: float) -> bool:
        return session.env.done or session.touched + self._idle <= now

    def _forget(self, session_id: str) -> None:
        self._live.pop(session_id, None)


def _unguessable(name: str) -> str:
    """An id for a session; under a name it begins with that."""
    return f"{name}.{secrets.token_urlsafe(16)}" if name else secrets.token_urlsafe(24)


def _canonical(call: Call) -> bytes:
    # By bytes, since for Python 1 is True and 1.0; in sorted order, since clients need not keep theirs.
    return msgspec.json.encode(call, order="sorted")
