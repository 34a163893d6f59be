"""Teacher: what the expert would do next, from wherever an episode stands, and the working lines that lead to it.

A teacher runs the family's procedure beside an episode that somebody else plays. Every call that the procedure wants is
answered with the reply that the player got to that very call, where there is an unused one. The first call without an
answer is due. So the procedure goes on where the player stands, instead of starting again.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from companyos.company import Tool, Toolbox
from companyos.company.apps.tool import PROSE
from companyos.company.clerk import advance
from companyos.core.calls import NO_ANSWER, Call, Reply, aloud
from companyos.core.episode import Turn
from companyos.core.errors import Stuck
from companyos.core.task import TaskId
from companyos.core.world import clock_text
from companyos.env import CompanyEnv
from companyos.families import Memory, Taste, family

OVER = "the episode is over"
LOST = "lost: "  # before the reason that `CompanyEnv.lost` gives
NO_WAY = "the expert finds no way to win from here"


class Spoken(msgspec.Struct, frozen=True):
    """A call that the expert made, the working lines that it said right before it, and the reply."""

    working: tuple[str, ...]
    call: Call
    reply: Reply


def work_aloud(env: CompanyEnv, taste: Taste | None = None) -> Iterator[Spoken]:
    """Let the expert work the episode from here to its end, as `work` does, and yield each turn with its working lines."""
    procedure = aloud(family(TaskId.parse(env.task_id).family).procedure(env.memory(), taste or Taste()))
    reply: Reply | None = None
    while not env.done:
        step = advance(procedure, reply)
        if step is None:
            return
        working, call = step
        env.step(call)
        reply = env.turns[-1].reply
        yield Spoken(working, call, reply)


def resume(env: CompanyEnv) -> Iterator[Spoken]:
    """Let the teacher finish an episode that somebody else has begun, and yield each turn with its working lines."""
    teacher = Teacher(env)
    while (due := teacher.due()).call is not None:
        env.step(due.call)
        yield Spoken(due.working, due.call, env.turns[-1].reply)


class Due(msgspec.Struct, frozen=True):
    """What the expert would do next. `call` is None where nothing is left to do, and `why` says why.

    `steps` is how many calls it takes from here to a success, this one included, and `in_time` whether that many are left;
    both are None where that was not verified.
    """

    call: Call | None = None
    working: tuple[str, ...] = ()
    why: str = ""
    steps: int | None = None
    in_time: bool | None = None


class Teacher:
    """The expert beside an episode that somebody else plays. It follows the turns of `env` by itself.

    It goes on with the procedure from the start of the episode. Where that would no longer win, it takes over: it begins
    the procedure anew as somebody who finds the desk as it is now, which first puts right what should not be so.
    """

    def __init__(self, env: CompanyEnv) -> None:
        self._env = env
        self._name = TaskId.parse(env.task_id).family
        self._seen = 0  # turns
        self._way: deque[Due] = deque()  # from here to a success, as far as that is known
        first = Memory(env.scene.task, clock_text(env.setting.world.now))
        self._procedure = _Resumed(self._name, first, env.toolbox)

    def due(self, verify: bool = True) -> Due:
        """The call that is due now.

        With `verify` the rest of the way is tried out on a fork with a fresh budget. Without, the call may be wrong where
        the player has changed something that the procedure does not call for.
        """
        self._follow()
        env = self._env
        if env.done:
            return Due(why=OVER)
        if lost := env.lost():
            return Due(why=LOST + lost)
        if not verify and not self._way and self._procedure.call is not None:
            return Due(self._procedure.call, self._procedure.working)
        if not self._way and not self._find_a_way():
            return Due(why=NO_WAY)
        steps = len(self._way)
        return msgspec.structs.replace(self._way[0], steps=steps, in_time=steps <= env.steps_left())

    def _follow(self) -> None:
        """Take in the turns that were made since the last time."""
        for number, turn in enumerate(self._env.turns[self._seen :], self._seen):
            if self._way and turn.call == self._way[0].call:
                self._way.popleft()  # the company is deterministic: what follows is as it was on the fork
            else:
                self._way.clear()
            if not turn.actor:
                self._procedure.take(number, turn)
        self._seen = len(self._env.turns)

    def _find_a_way(self) -> bool:
        """Try out on forks to go on, to take over with what was read, and to take over reading everything again."""
        for procedure in self._ways_to_go_on():
            way = self._tried(procedure)
            if way:
                self._procedure, self._way = procedure, way
                return True
        return False

    def _ways_to_go_on(self) -> Iterator["_Resumed"]:
        env = self._env
        yield self._procedure
        anew = _Resumed(self._name, env.memory(), env.toolbox)
        for number, turn in _still_good(env.turns, env.toolbox):
            anew.take(number, turn)
        yield anew
        yield _Resumed(self._name, env.memory(), env.toolbox)

    def _tried(self, procedure: "_Resumed") -> deque[Due]:
        """The calls that a procedure makes from here to a success; none if it does not get there."""
        fork, trial = self._env.fresh_budget(), procedure.copy()
        way: deque[Due] = deque()
        while not fork.done and trial.call is not None:
            way.append(Due(trial.call, trial.working))
            fork.step(trial.call)
            trial.take(len(fork.turns) - 1, fork.turns[-1])
        return way if fork.success else deque()


def due(env: CompanyEnv) -> Due:
    """The call that is due where an episode stands, verified. To follow an episode, keep a `Teacher`: it is faster."""
    return Teacher(env).due()


class _Resumed:
    """A procedure that is answered with replies that somebody else got.

    A reply is used once. Whoever asks the same again wants to know what has become of it, so such a question is answered
    only with a reply that is younger than the last write or wait that the procedure made.
    """

    def __init__(self, name: str, memory: Memory, toolbox: Toolbox) -> None:
        self._start = name, memory, toolbox
        self._toolbox = toolbox
        self._spoken = aloud(family(name).procedure(memory, Taste()))
        self._unused: defaultdict[bytes, deque[tuple[int, Reply]]] = defaultdict(deque)
        self._heard: list[Reply] = []
        self._asked: set[bytes] = set()  # what has been answered
        self._moved = -1  # the number of the last turn it heard of that wrote something or let time pass
        self._latest = -1  # the number of the last turn it heard of
        self.call: Call | None = None  # what is due
        self.working: tuple[str, ...] = ()
        self._next(None)

    def copy(self) -> "_Resumed":
        """An independent copy. Generators cannot be copied, so another one hears the same replies."""
        twin = _Resumed(*self._start)
        for reply in self._heard:
            twin._next(reply)
        twin._heard = self._heard.copy()
        twin._unused.update((key, unused.copy()) for key, unused in self._unused.items() if unused)
        twin._asked = self._asked.copy()
        twin._moved, twin._latest, twin.working = self._moved, self._latest, self.working
        return twin

    def take(self, number: int, turn: Turn) -> None:
        """Take in a turn: as the answer to the call that is due, or else as one that may be asked for later."""
        tool = self._toolbox.find(turn.call) if turn.call.app else None
        if tool is None:
            return
        key = _key(turn.call, tool)
        if self.call is not None and key == self._key_due():
            self._hear(number, key, tool, turn.reply)
        elif turn.reply.ok or (tool.writes and turn.reply.code == NO_ANSWER):
            # A refusal to somebody who asked at another time says nothing, nor does a question without an answer.
            self._unused[key].append((number, turn.reply))
            return
        self._go_on()

    def _go_on(self) -> None:
        """Answer calls for as long as there are answers."""
        while self.call is not None:
            key = self._key_due()
            unused = self._unused[key]
            while unused and key in self._asked and unused[0][0] < self._moved:
                unused.popleft()
            if not unused:
                return
            number, reply = unused.popleft()
            tool = self._toolbox.find(self.call)
            assert tool is not None
            self._hear(number, key, tool, reply)

    def _hear(self, number: int, key: bytes, tool: Tool, reply: Reply) -> None:
        said = () if number > self._latest else self.working  # what led to a call made before its time is still to be said
        self._latest = max(self._latest, number)
        if reply.code != NO_ANSWER:
            self._asked.add(key)
        if tool.writes or tool.method == "wait":
            self._moved = max(self._moved, number)
        self._heard.append(reply)
        self._next(reply)
        self.working = said + self.working

    def _next(self, reply: Reply | None) -> None:
        try:
            self.working, self.call = advance(self._spoken, reply) or ((), None)
        except Stuck:
            self.working, self.call = (), None

    def _key_due(self) -> bytes:
        assert self.call is not None
        tool = self._toolbox.find(self.call)
        assert tool is not None, self.call
        return _key(self.call, tool)


def _still_good(turns: Sequence[Turn], toolbox: Toolbox) -> list[tuple[int, Turn]]:
    """The readings of an episode after which nothing was written in the same app, with their numbers."""
    good: list[tuple[int, Turn]] = []
    written: set[str] = set()
    for number, turn in reversed([*enumerate(turns)]):
        tool = toolbox.find(turn.call) if turn.call.app else None
        if tool is None or turn.actor:
            continue
        if tool.writes:
            written.add(tool.app)
        elif turn.reply.ok and tool.app not in written and tool.method != "wait":
            good.append((number, turn))
    return good[::-1]


def _key(call: Call, tool: Tool) -> bytes:
    """What two calls that do the same have in common: all but the prose."""
    prose = _prose_of(tool)
    params = {name: value for name, value in call.params.items() if name not in prose} if prose else call.params
    return msgspec.json.encode((call.app, call.method, params), order="deterministic")


@cache
def _prose_of(tool: Tool) -> frozenset[str]:
    return frozenset(name for name, hint in tool.hints.items() if PROSE in getattr(hint, "__metadata__", ()))
