"""The teacher: the expert's next call from any state of an episode, with the working lines that lead to it.

A teacher runs the expert's procedure alongside an episode that somebody else plays. A call of the procedure is answered with
the reply that the player already got to the same call, if one is unused. The first call without an answer is the one to
make next. So the expert goes on from the player's state, instead of starting again.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from companyos.company import Tool, Toolbox
from companyos.company.apps.tool import PROSE
from companyos.company.programs import advance
from companyos.core.calls import NO_ANSWER, Call, Reply, aloud
from companyos.core.episode import Turn
from companyos.core.errors import Stuck
from companyos.core.task import TaskId
from companyos.core.world import clock_text
from companyos.env import CompanyEnv
from companyos.families import EpisodeSoFar, ExpertStyle, family

OVER = "the episode is over"
LOST = "lost: "  # before the reason that `CompanyEnv.lost` gives
NO_PLAN = "the expert finds no way to win from here"


class Spoken(msgspec.Struct, frozen=True):
    """A call of the expert, the working lines right before it, and the reply."""

    working: tuple[str, ...]
    call: Call
    reply: Reply


def work_aloud(env: CompanyEnv, style: ExpertStyle | None = None) -> Iterator[Spoken]:
    """Let the expert finish the episode, like `run_expert`, and yield each turn with its working lines."""
    procedure = aloud(family(TaskId.parse(env.task_id).family).procedure(env.so_far(), style or ExpertStyle()))
    reply: Reply | None = None
    while not env.done:
        turn = advance(procedure, reply)
        if turn is None:
            return
        working, call = turn
        env.step(call)
        reply = env.turns[-1].reply
        yield Spoken(working, call, reply)


def resume(env: CompanyEnv) -> Iterator[Spoken]:
    """Let the teacher finish an episode that somebody else began, and yield each turn with its working lines."""
    teacher = Teacher(env)
    while (due := teacher.due()).call is not None:
        env.step(due.call)
        yield Spoken(due.working, due.call, env.turns[-1].reply)


class Due(msgspec.Struct, frozen=True):
    """The expert's next call. `call` is None if there is nothing to do, and `why` says the reason.

    `steps` is the number of calls from here to a success, including this one, and `in_time` tells whether the budget
    allows them; both are None if this was not verified.
    """

    call: Call | None = None
    working: tuple[str, ...] = ()
    why: str = ""
    steps: int | None = None
    in_time: bool | None = None


class Teacher:
    """Follows an episode that somebody else plays, and says what the expert would do next.

    It continues the procedure that began with the episode. If that no longer leads to a success, it starts a new one from
    the present state, which first undoes wrong changes.
    """

    def __init__(self, env: CompanyEnv) -> None:
        self._env = env
        self._family_name = TaskId.parse(env.task_id).family
        self._turns_followed = 0  # how many turns it has followed
        self._plan: deque[Due] = deque()  # the verified calls from here to a success
        at_the_start = EpisodeSoFar(env.scene.brief, clock_text(env.setting.world.now))
        self._procedure = _Resumed(self._family_name, at_the_start, env.toolbox)

    def due(self, verify: bool = True) -> Due:
        """Return the next call.

        With `verify`, all calls up to a success are tried on a fork with a fresh budget. Without it, the call may be wrong
        if the player has made a change that the procedure does not make.
        """
        self._follow()
        env = self._env
        if env.done:
            return Due(why=OVER)
        if lost := env.lost():
            return Due(why=LOST + lost)
        if not verify and not self._plan and self._procedure.call is not None:
            return Due(self._procedure.call, self._procedure.working)
        if not self._plan and not self._find_plan():
            return Due(why=NO_PLAN)
        steps = len(self._plan)
        return msgspec.structs.replace(self._plan[0], steps=steps, in_time=steps <= env.steps_left())

    def plan(self) -> tuple[Due, ...]:
        """Return all calls from here to a success, verified; empty if there are none."""
        self.due()
        return tuple(self._plan)

    def _follow(self) -> None:
        """Process the turns that were made since the last time."""
        for number, turn in enumerate(self._env.turns[self._turns_followed :], self._turns_followed):
            if self._plan and turn.call == self._plan[0].call:
                self._plan.popleft()  # the rest is still valid, because episodes are deterministic
            else:
                self._plan.clear()
            if not turn.actor:
                self._procedure.take(number, turn)
        self._turns_followed = len(self._env.turns)

    def _find_plan(self) -> bool:
        """Look for calls that lead to a success by trying procedures on forks. Return whether one was found."""
        for procedure in self._procedures_to_try():
            plan = self._plan_of(procedure)
            if plan:
                self._procedure, self._plan = procedure, plan
                return True
        return False

    def _procedures_to_try(self) -> Iterator["_Resumed"]:
        """Yield the present procedure, a new one that may use earlier replies, and a new one without them."""
        env = self._env
        yield self._procedure
        restarted = _Resumed(self._family_name, env.so_far(), env.toolbox)
        for number, turn in _valid_reads(env.turns, env.toolbox):
            restarted.take(number, turn)
        yield restarted
        yield _Resumed(self._family_name, env.so_far(), env.toolbox)

    def _plan_of(self, procedure: "_Resumed") -> deque[Due]:
        """Return the calls of a procedure from here to a success; empty if it does not succeed."""
        fork, trial = self._env.fresh_budget(), procedure.copy()
        plan: deque[Due] = deque()
        while not fork.done and trial.call is not None:
            plan.append(Due(trial.call, trial.working))
            fork.step(trial.call)
            trial.take(len(fork.turns) - 1, fork.turns[-1])
        return plan if fork.success else deque()


def due(env: CompanyEnv) -> Due:
    """Return the expert's next call, verified. To follow an episode, keep a `Teacher`, which is faster."""
    return Teacher(env).due()


class _Resumed:
    """A procedure whose calls are answered with replies that somebody else got.

    A reply is used once. If the procedure makes the same call again, it wants to know what has changed, so it gets only a
    reply from after its last write or wait.
    """

    def __init__(self, name: str, so_far: EpisodeSoFar, toolbox: Toolbox) -> None:
        self._start = name, so_far, toolbox
        self._toolbox = toolbox
        self._turns = aloud(family(name).procedure(so_far, ExpertStyle()))  # yields working lines and a call, gets a reply
        # By the key of a call: numbers of turns and their replies, which may answer that call later.
        self._unused: defaultdict[bytes, deque[tuple[int, Reply]]] = defaultdict(deque)
        self._replies: list[Reply] = []
        self._answered: set[bytes] = set()  # keys of the calls that were answered
        self._last_change = -1  # the number of the last used turn that wrote something or let time pass
        self._last_used = -1  # the number of the last used turn
        self.call: Call | None = None  # the next call
        self.working: tuple[str, ...] = ()
        self._advance(None)

    def copy(self) -> "_Resumed":
        """Return an independent copy. Generators cannot be copied, so a new one gets the same replies again."""
        copied = _Resumed(*self._start)
        for reply in self._replies:
            copied._advance(reply)
        copied._replies = self._replies.copy()
        copied._unused.update((key, unused.copy()) for key, unused in self._unused.items() if unused)
        copied._answered = self._answered.copy()
        copied._last_change, copied._last_used, copied.working = self._last_change, self._last_used, self.working
        return copied

    def take(self, number: int, turn: Turn) -> None:
        """Use a turn as the answer to the next call, or keep it for a later call."""
        tool = self._toolbox.find(turn.call) if turn.call.app else None
        if tool is None:
            return
        key = _key(turn.call, tool)
        if self.call is not None and key == self._key_of_next_call():
            self._answer(number, key, tool, turn.reply)
        elif _can_be_used_later(tool, turn.reply):
            self._unused[key].append((number, turn.reply))
            return
        self._use_kept_replies()

    def _use_kept_replies(self) -> None:
        """Answer calls from the kept replies as long as possible."""
        while self.call is not None:
            key = self._key_of_next_call()
            unused = self._unused[key]
            while unused and key in self._answered and unused[0][0] < self._last_change:
                unused.popleft()
            if not unused:
                return
            number, reply = unused.popleft()
            tool = self._toolbox.find(self.call)
            assert tool is not None
            self._answer(number, key, tool, reply)

    def _answer(self, number: int, key: bytes, tool: Tool, reply: Reply) -> None:
        """Answer the next call with the reply of the turn with this number."""
        # If the player made the call earlier than the expert would have, its working lines are kept for the next call.
        kept = () if number > self._last_used else self.working
        self._last_used = max(self._last_used, number)
        if reply.code != NO_ANSWER:
            self._answered.add(key)
        if tool.writes or tool.method == "wait":
            self._last_change = max(self._last_change, number)
        self._replies.append(reply)
        self._advance(reply)
        self.working = kept + self.working

    def _advance(self, reply: Reply | None) -> None:
        """Send a reply to the procedure, and store its next call; None if it has ended or is stuck."""
        try:
            self.working, self.call = advance(self._turns, reply) or ((), None)
        except Stuck:
            self.working, self.call = (), None

    def _key_of_next_call(self) -> bytes:
        assert self.call is not None
        tool = self._toolbox.find(self.call)
        assert tool is not None, self.call
        return _key(self.call, tool)


def _can_be_used_later(tool: Tool, reply: Reply) -> bool:
    """Whether a reply that the player got still answers the same call when the procedure makes it later.

    A refusal, a list of requests and a request that is still pending do not: all three may be different by then.
    """
    if not reply.ok:
        return tool.writes and reply.code == NO_ANSWER
    if tool.method == "check_status":
        return bool(reply.data["status"] != "pending")
    return tool.method != "list_approvals"


def _valid_reads(turns: Sequence[Turn], toolbox: Toolbox) -> list[tuple[int, Turn]]:
    """Return the reads of an episode that are still valid, with their numbers: nothing was written later in the same app."""
    reads: list[tuple[int, Turn]] = []
    written_apps: set[str] = set()
    for number, turn in reversed([*enumerate(turns)]):
        tool = toolbox.find(turn.call) if turn.call.app else None
        if tool is None or turn.actor:
            continue
        if tool.writes:
            written_apps.add(tool.app)
        elif turn.reply.ok and tool.app not in written_apps and tool.method != "wait":
            reads.append((number, turn))
    return reads[::-1]


def _key(call: Call, tool: Tool) -> bytes:
    """Return a key that is equal for calls with the same effect: everything except free text."""
    prose = _prose_of(tool)
    params = {name: value for name, value in call.params.items() if name not in prose} if prose else call.params
    return msgspec.json.encode((call.app, call.method, params), order="deterministic")


@cache
def _prose_of(tool: Tool) -> frozenset[str]:
    return frozenset(name for name, hint in tool.hints.items() if PROSE in getattr(hint, "__metadata__", ()))
