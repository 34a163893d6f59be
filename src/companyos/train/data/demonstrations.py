"""Episodes that the expert plays, as token windows for supervised fine-tuning.

The model sees a script of limited length, which drops its oldest parts (`script.py`); the expert remembers everything. A
model that imitated it directly would learn to invent values that it can no longer see. So before the expert uses a value
that the script has dropped, it repeats the call that showed the value. If no call can show it again, the turn is played
but not learnt. Slips (wrong calls that are inserted on purpose, so that the expert puts them right) are not learnt either.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from companyos.agents.adversaries.slips import slip
from companyos.company.programs import advance
from companyos.core.calls import NO_ANSWER, Call, Reply, aloud
from companyos.core.episode import Turn
from companyos.core.errors import BadChoice
from companyos.core.parallel import ahead
from companyos.core.task import MAX_SEED, TaskId
from companyos.core.world import Streams
from companyos.env import CompanyEnv, task_named
from companyos.env.line_syntax import write_line
from companyos.env.observations import Observation
from companyos.families import ExpertStyle, family
from companyos.train.data.script import LIMIT, RESERVE, Script, heard, opening
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import ROOM, encoded

_TRIES = 1000  # seeds that are tried until slips can be put right
_MOST_ANSWERLESS = 3  # attempts at one call: a fault strikes the same call at most twice in a row
_AT_A_TIME = 8  # demonstrations in one portion of work for a worker
_AHEAD = 16  # portions that each worker may be ahead of the consumer
_FIGURES = re.compile(r"[A-Z]+-\d+|\d{4}-\d\d-\d\d|\d{4,}")


class DemoPlan(msgspec.Struct, frozen=True):
    """Which demonstrations to make. The same plan and number always give the same demonstration."""

    families: tuple[str, ...]
    doses: tuple[tuple[float, float], ...] = ((0.0, 0.9), (0.5, 0.1))  # pairs of dose and share
    slips: float = 0.25  # share of the episodes with slips at the start or on the way
    seed: int = 0
    limit: int = LIMIT
    reserve: int = RESERVE  # tokens kept free for the next call; working lines get `ROOM` tokens more
    working: bool = False  # whether the expert writes working lines before its calls (`turns.py`)

    def __post_init__(self) -> None:
        shares = [share for _, share in self.doses]
        if not shares or min(shares) < 0 or not 0 < sum(shares) < float("inf"):
            raise BadChoice("doses", self.doses, ["doses with shares from 0 up, not all of them 0"])
        if not 0 <= self.slips <= 1:
            raise BadChoice("share of slips", self.slips, ["a number from 0 to 1"])
        for name in self.families:
            for dose, _ in self.doses:
                task_named(name, 0, dose)


class LearningWindow(msgspec.Struct, frozen=True):
    """The script as it was while some calls were made, and the places of the calls that are learnt."""

    tokens: list[int]
    calls: list[tuple[int, int]]


class Demonstration(msgspec.Struct, frozen=True):
    """A successful episode as windows."""

    task_id: str
    windows: list[LearningWindow]
    said: int  # number of calls
    slipped: int  # calls that are slips
    again: int  # calls that repeat an earlier one to show a dropped value
    blind: int  # calls that are not learnt, because they use a dropped value


def demonstrate(plan: DemoPlan, tokenizer: Tokenizer, number: int) -> Demonstration:
    """Return the demonstration with this number. Families take turns; doses and slips are drawn at random."""
    turn, place = divmod(number, len(plan.families))
    name = plan.families[place]
    streams = Streams(f"demonstrations/{plan.seed}/{name}/{turn}")
    dose = by_share(plan.doses, streams.at("dose").random())
    slips = streams.at("slips").chance(plan.slips)
    for attempt in range(_TRIES):
        seed = streams.at("task", attempt).between(0, MAX_SEED)
        show = _DemoInProgress(CompanyEnv(task_named(name, seed, dose)), tokenizer, plan)
        if show.slip(Streams(f"{streams.key}/{attempt}")) if slips else True:
            show.work()
            if show.env.success:
                return show.demonstration()
    raise AssertionError(f"{name} at dose {dose}: no demonstration in {_TRIES} tries")


def shown(plan: DemoPlan, tokenizer: Tokenizer, task_id: str) -> Demonstration:
    """Return the demonstration of one task, without slips. The expert always succeeds."""
    show = _DemoInProgress(CompanyEnv(TaskId.parse(task_id)), tokenizer, plan)
    show.work()
    return show.demonstration()


def by_share(doses: Sequence[tuple[float, float]], luck: float) -> float:
    """Return the dose whose share a number from 0 to 1 falls into."""
    left = luck * sum(share for _, share in doses)
    for dose, share in doses:
        left -= share
        if left < 0:
            return dose
    return doses[-1][0]


# -- one episode -------------------------------------------------------------------------------------------------------


class _DemoInProgress:
    """A demonstration while it is being made."""

    def __init__(self, env: CompanyEnv, tokenizer: Tokenizer, plan: DemoPlan) -> None:
        self.env = env
        self._tokenizer = tokenizer
        self._working = plan.working
        self._script = Script(tokenizer.encode, plan.limit, plan.reserve + ROOM * plan.working)
        self._script.open(opening(env.look()))
        self._told = [opening(env.look())]  # every text that the agent was shown, dropped or not
        self._windows: list[LearningWindow] = []
        self._worth: list[bool] = []  # for each call in this window, whether it is learnt
        self._slipped = self._again = self._blind = 0

    def slip(self, streams: Streams) -> bool:
        """Make slips. Return whether there are any and the episode can still be won."""
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
        """Let the expert play the episode from here to its end."""
        program = aloud(family(TaskId.parse(self.env.task_id).family).procedure(self.env.so_far(), ExpertStyle()))
        reply: Reply | None = None
        while not self.env.done:
            step = advance(program, reply)
            if step is None:
                return
            lines, call = step
            working = lines if self._working else ()
            self._look_again(call, working)
            if self.env.done:  # a repeated call took the last step
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
        """Put a turn into the script. If the script then drops something, close the window that ends with this turn."""
        script, env = self._script, self.env
        script.say(*encoded(self._tokenizer.encode, write_line(turn.call), working))
        self._worth.append(worth)
        obs = Observation(env.scene, turn.now, len(self._told), turn.reply, 0.0, False)
        self._told.append(heard(obs))
        seen, calls, end = script.tokens, script.calls, len(script.tokens)
        over = turn is env.turns[-1] and env.done
        if over or script.hear(self._told[-1]):
            here = zip(calls[-len(self._worth) :], self._worth, strict=True)
            self._windows.append(LearningWindow(seen[:end], [call for call, worth in here if worth]))
            self._worth = []

    # -- values that the script has dropped -----------------------------------------------------------------------------

    def _lacking(self, call: Call, working: Sequence[str] = ()) -> list[str]:
        """Return the values in a call and its working lines that the agent was shown once and the script has dropped."""
        if not self._windows:
            return []  # nothing was dropped yet
        seen = self._tokenizer.decode(self._script.tokens)
        values = [value for value in (*values_of(call), *figures_of(working)) if not stands_in(value, seen)]
        return [value for value in values if any(stands_in(value, text) for text in self._told)]

    def _look_again(self, call: Call, working: Sequence[str]) -> None:
        """Repeat the calls that showed the dropped values that this call needs."""
        for value in self._lacking(call, working):
            shown_by = self._reading(value) if value in self._lacking(call, working) else None
            for _ in range(_MOST_ANSWERLESS):
                if shown_by is None or self.env.done:
                    break
                self._again += 1
                if self._make(shown_by).code != NO_ANSWER:
                    break

    def _reading(self, value: str) -> Call | None:
        """Return the last call that showed a value and that can be repeated without a write or a wait."""
        for turn, text in zip(reversed(self.env.turns), reversed(self._told), strict=False):
            tool = self.env.toolbox.find(turn.call)
            if tool is not None and not tool.writes and "arrived" not in (turn.reply.data or ()) and stands_in(value, text):
                return turn.call
        return None


def values_of(call: Call) -> Iterator[str]:
    """Yield the values in a call's arguments. Skip top-level integers such as `hours` and `page`: the agent chooses them."""
    for argument in call.params.values():
        if not isinstance(argument, int):
            yield from _values(argument)


def figures_of(working: Sequence[str]) -> Iterator[str]:
    """Yield the dates, ids and numbers in working lines. Skip shorter numbers: they are usually results of the working."""
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
    """Return whether a text contains a value as a separate word."""
    return value in text and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


# -- many --------------------------------------------------------------------------------------------------------------


def stream(
    plan: DemoPlan, tokenizer_json: str, first: int, among: int, workers: int
) -> Generator[Demonstration, None, None]:
    """Yield demonstrations from number `first` on, starting again after `among`, made ahead by worker processes."""
    portions = count(first, _AT_A_TIME)
    for portion in ahead(partial(_portion, plan, tokenizer_json, among), portions, workers, _AHEAD):
        yield from portion


def _portion(plan: DemoPlan, tokenizer_json: str, among: int, first: int) -> list[Demonstration]:
    tokenizer = Tokenizer(tokenizer_json)
    return [demonstrate(plan, tokenizer, number % among) for number in range(first, first + _AT_A_TIME)]
