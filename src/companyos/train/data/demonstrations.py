"""Demonstrations: what an expert would say where a language model sits, with no more before it than the model has.

A script forgets (`script.py`). An expert remembers everything, and whoever learnt from it would learn to make up what is
no longer before them. So our expert looks again: before it uses what has gone from the script, it repeats the call that
showed it. What it cannot look up again it says without being learnt from; nor are slips, after which it takes over.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from functools import cache, partial
from itertools import count
from typing import Any

import msgspec

from companyos.agents.adversaries.slips import slip
from companyos.company.clerk import advance
from companyos.core.calls import NO_ANSWER, Call, Reply, aloud
from companyos.core.episode import Turn
from companyos.core.errors import BadChoice
from companyos.core.parallel import ahead
from companyos.core.task import MAX_SEED, TaskId
from companyos.core.world import Streams
from companyos.env import CompanyEnv, task_named
from companyos.env.line_syntax import write_line
from companyos.env.observations import Observation
from companyos.families import Taste, family
from companyos.train.data.script import LIMIT, RESERVE, Script, heard, opening
from companyos.train.data.turns import ROOM, encoded

_TRIES = 1000
_MOST_ANSWERLESS = 3  # calls on one thing: no fault strikes more than twice running
_AT_A_TIME = 8  # demonstrations that a worker makes in one go
_AHEAD = 16  # such portions for each worker
_FIGURES = re.compile(r"[A-Z]+-\d+|\d{4}-\d\d-\d\d|\d{4,}")


class Plan(msgspec.Struct, frozen=True):
    """Which demonstrations: the same plan and number give the same one."""

    families: tuple[str, ...]
    doses: tuple[tuple[float, float], ...] = ((0.0, 0.9), (0.5, 0.1))  # each with its share
    slips: float = 0.25  # the share that begins with slips, or has some on the way
    seed: int = 0
    limit: int = LIMIT
    reserve: int = RESERVE  # tokens that are kept for the next call; working may have more
    working: bool = False  # whether the expert says what it compares before it decides

    def __post_init__(self) -> None:
        shares = [share for _, share in self.doses]
        if not shares or min(shares) < 0 or not 0 < sum(shares) < float("inf"):
            raise BadChoice("doses", self.doses, ["doses with shares from 0 up, not all of them 0"])
        if not 0 <= self.slips <= 1:
            raise BadChoice("share of slips", self.slips, ["a number from 0 to 1"])
        for name in self.families:
            for dose, _ in self.doses:
                task_named(name, 0, dose)


class Window(msgspec.Struct, frozen=True):
    """A script as it stood while some calls were said, and where those stand that are worth learning."""

    tokens: list[int]
    calls: list[tuple[int, int]]


class Demonstration(msgspec.Struct, frozen=True):
    """An episode that was won, as the windows through which it was seen."""

    task_id: str
    windows: list[Window]
    said: int  # calls
    slipped: int  # of these, slips
    again: int  # looked up again
    blind: int  # not learnt from, because they use what is no longer seen


def demonstrate(plan: Plan, tongue: "Tongue", number: int) -> Demonstration:
    """The demonstration of this number. Families take turns; doses and slips are drawn."""
    turn, place = divmod(number, len(plan.families))
    name = plan.families[place]
    streams = Streams(f"demonstrations/{plan.seed}/{name}/{turn}")
    dose = by_share(plan.doses, streams.at("dose").random())
    slips = streams.at("slips").chance(plan.slips)
    for attempt in range(_TRIES):
        seed = streams.at("task", attempt).between(0, MAX_SEED)
        show = _Show(CompanyEnv(task_named(name, seed, dose)), tongue, plan)
        if show.slip(Streams(f"{streams.key}/{attempt}")) if slips else True:
            show.work()
            if show.env.success:
                return show.demonstration()
    raise AssertionError(f"{name} at dose {dose}: no demonstration in {_TRIES} tries")


def shown(plan: Plan, tongue: "Tongue", task_id: str) -> Demonstration:
    """The demonstration of one task, without slips. Its expert always wins."""
    show = _Show(CompanyEnv(TaskId.parse(task_id)), tongue, plan)
    show.work()
    return show.demonstration()


def by_share(doses: Sequence[tuple[float, float]], luck: float) -> float:
    """The dose that a number from 0 to 1 falls on."""
    left = luck * sum(share for _, share in doses)
    for dose, share in doses:
        left -= share
        if left < 0:
            return dose
    return doses[-1][0]


class Tongue:
    """A tokenizer as it travels to workers: they need no torch."""

    def __init__(self, tokenizer: str) -> None:
        self._made = _tokenizer(tokenizer)

    def encode(self, text: str) -> list[int]:
        return list(self._made.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: list[int]) -> str:
        return str(self._made.decode(tokens, skip_special_tokens=False))


@cache
def _tokenizer(content: str) -> Any:
    from tokenizers import Tokenizer  # comes with an extra

    return Tokenizer.from_str(content)


# -- one episode -------------------------------------------------------------------------------------------------------


class _Show:
    """An episode while it is being demonstrated."""

    def __init__(self, env: CompanyEnv, tongue: Tongue, plan: Plan) -> None:
        self.env = env
        self._tongue = tongue
        self._working = plan.working
        self._script = Script(tongue.encode, plan.limit, plan.reserve + ROOM * plan.working)
        self._script.open(opening(env.look()))
        self._told = [opening(env.look())]  # all that was said to the agent, forgotten or not; a text a turn, from the first
        self._windows: list[Window] = []
        self._worth: list[bool] = []  # of the calls in this window: whether they are worth learning
        self._slipped = self._again = self._blind = 0

    def slip(self, streams: Streams) -> bool:
        """Lets something go wrong first. Says whether it did, and can be put right."""
        slips = slip(self.env, streams, streams.at("middle").chance(0.5))
        if not slips or self.env.done or self.env.lost():
            return False
        for number, turn in enumerate(self.env.turns):
            lacking = number not in slips and bool(self._lacking(turn.call))
            self._blind += lacking
            self._take(turn, number not in slips and not lacking)
        self._slipped = len(slips)
        return True

    def work(self) -> None:
        """The expert takes over."""
        program = aloud(family(TaskId.parse(self.env.task_id).family).procedure(self.env.memory(), Taste()))
        reply: Reply | None = None
        while not self.env.done:
            step = advance(program, reply)
            if step is None:
                return
            lines, call = step
            working = lines if self._working else ()
            self._look_again(call, working)
            if self.env.done:  # that took the last step
                return
            reply = self._make(call, working)

    def demonstration(self) -> Demonstration:
        said = self.env.step_count
        return Demonstration(self.env.task_id, self._windows, said, self._slipped, self._again, self._blind)

    def _make(self, call: Call, working: tuple[str, ...] = ()) -> Reply:
        worth = not self._lacking(call, working)
        self._blind += not worth
        self.env.step(call)
        turn = self.env.turns[-1]
        self._take(turn, worth, working)
        return turn.reply

    def _take(self, turn: Turn, worth: bool, working: tuple[str, ...] = ()) -> None:
        """Puts a turn into the script; where that makes it shrink, what was seen until then is a window."""
        script, env = self._script, self.env
        script.say(*encoded(self._tongue.encode, write_line(turn.call), working))
        self._worth.append(worth)
        obs = Observation(env.scene, turn.now, len(self._told), turn.reply, 0.0, False)
        self._told.append(heard(obs))
        seen, calls, end = script.tokens, script.calls, len(script.tokens)
        over = turn is env.turns[-1] and env.done
        if over or script.hear(self._told[-1]):
            here = zip(calls[-len(self._worth) :], self._worth, strict=True)
            self._windows.append(Window(seen[:end], [call for call, worth in here if worth]))
            self._worth = []

    # -- what has gone from the script -----------------------------------------------------------------------------

    def _lacking(self, call: Call, working: Sequence[str] = ()) -> list[str]:
        """What a call or its working says that was told once and can be seen no more."""
        if not self._windows:
            return []  # nothing has gone yet
        seen = self._tongue.decode(self._script.tokens)
        values = [value for value in (*values_of(call), *figures_of(working)) if not stands_in(value, seen)]
        return [value for value in values if any(stands_in(value, text) for text in self._told)]

    def _look_again(self, call: Call, working: Sequence[str]) -> None:
        """Repeats the calls that showed what this one needs and the script has lost."""
        for value in self._lacking(call, working):
            shown_by = self._reading(value) if value in self._lacking(call, working) else None
            for _ in range(_MOST_ANSWERLESS):
                if shown_by is None or self.env.done:
                    break
                self._again += 1
                if self._make(shown_by).code != NO_ANSWER:
                    break

    def _reading(self, value: str) -> Call | None:
        """The last call that showed this and changes nothing, nor lets time pass, when made again."""
        for turn, text in zip(reversed(self.env.turns), reversed(self._told), strict=False):
            tool = self.env.toolbox.find(turn.call)
            if tool is not None and not tool.writes and "arrived" not in (turn.reply.data or ()) and stands_in(value, text):
                return turn.call
        return None


def values_of(call: Call) -> Iterator[str]:
    """The values that a call's arguments have or hold. Of numbers only those that are held: hours and pages nobody tells."""
    for argument in call.params.values():
        if not isinstance(argument, int):
            yield from _values(argument)


def figures_of(working: Sequence[str]) -> Iterator[str]:
    """Dates, ids and numbers in working. Shorter numbers are left out: as a rule they are results, which nobody told."""
    for line in working:
        yield from _FIGURES.findall(line)


def _values(argument: Any) -> Iterator[str]:
    if isinstance(argument, dict):
        for value in argument.values():
            yield from _values(value)
    elif isinstance(argument, list | tuple):
        for value in argument:
            yield from _values(value)
    elif argument is not None and not isinstance(argument, bool):
        yield str(argument)


def stands_in(value: str, text: str) -> bool:
    """Whether a text has a value as a word of its own."""
    return value in text and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


# -- many --------------------------------------------------------------------------------------------------------------


def stream(plan: Plan, tokenizer: str, first: int, among: int, workers: int) -> Generator[Demonstration, None, None]:
    """So many demonstrations over and over, from this place on, made on so many processes ahead of whoever takes them."""
    portions = count(first, _AT_A_TIME)
    for portion in ahead(partial(_portion, plan, tokenizer, among), portions, workers, _AHEAD):
        yield from portion


def _portion(plan: Plan, tokenizer: str, among: int, first: int) -> list[Demonstration]:
    tongue = Tongue(tokenizer)
    return [demonstrate(plan, tongue, number % among) for number in range(first, first + _AT_A_TIME)]
