"""Episodes that the expert plays, as token windows for supervised fine-tuning.

The model sees a script of limited length, which drops its oldest parts (`script.py`); the expert remembers everything. A
model that imitated the expert directly would learn to invent values that it can no longer see. So before the expert uses a
value that the script has dropped, it repeats the call that showed the value. If no call can show the value again, the turn
is played but not learnt. Slips (deliberate mistakes, which the expert then corrects) are not learnt either.
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
from companyos.train.data.script import LIMIT, RESERVE, Script, opening, reply_text
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import MAX_WORKING_TOKENS, encode_turn

_MAX_SEEDS = 1000  # that are tried until slips can be corrected
_MAX_ATTEMPTS = 3  # at one call: a fault strikes the same call at most twice in a row
_PORTION_SIZE = 8  # demonstrations in one portion of work for a worker
_PORTIONS_AHEAD = 16  # that each worker may be ahead of the consumer
_ID_DATE_OR_NUMBER = re.compile(r"[A-Z]+-\d+|\d{4}-\d\d-\d\d|\d{4,}")  # for example T-9361, 2026-03-31 or 5675


class DemoPlan(msgspec.Struct, frozen=True):
    """Which demonstrations to make. The same plan and number always give the same demonstration."""

    families: tuple[str, ...]
    doses: tuple[tuple[float, float], ...] = ((0.0, 0.9), (0.5, 0.1))  # pairs of dose and share
    slips: float = 0.25  # share of the episodes with slips at the start or on the way
    seed: int = 0
    limit: int = LIMIT
    reserve: int = RESERVE  # tokens kept free for the next call; working lines get `MAX_WORKING_TOKENS` more
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
    """The script as it was while some turns were made, and the spans (first token and end) of those that are learnt."""

    tokens: list[int]
    spans: list[tuple[int, int]]


class Demonstration(msgspec.Struct, frozen=True):
    """A successful episode as windows."""

    task_id: str
    windows: list[LearningWindow]
    calls: int  # the number of calls
    slips: int  # … that are slips
    repeated: int  # … that repeat an earlier call to show a dropped value
    blind: int  # … that are not learnt, because they use a dropped value


def demonstrate(plan: DemoPlan, tokenizer: Tokenizer, number: int) -> Demonstration:
    """Return the demonstration with this number. Families take turns; doses and slips are drawn at random."""
    round_number, family_index = divmod(number, len(plan.families))
    name = plan.families[family_index]
    streams = Streams(f"demonstrations/{plan.seed}/{name}/{round_number}")
    dose = dose_at(plan.doses, streams.at("dose").random())
    with_slips = streams.at("slips").chance(plan.slips)
    for attempt in range(_MAX_SEEDS):
        seed = streams.at("task", attempt).between(0, MAX_SEED)
        demo = _DemoInProgress(CompanyEnv(task_named(name, seed, dose)), tokenizer, plan)
        if not with_slips or demo.make_slips(Streams(f"{streams.key}/{attempt}")):
            demo.play_expert()
            if demo.env.success:
                return demo.demonstration()
    raise AssertionError(f"{name} at dose {dose}: no demonstration in {_MAX_SEEDS} tries")


def demonstration_of(plan: DemoPlan, tokenizer: Tokenizer, task_id: str) -> Demonstration:
    """Return the demonstration of one task, without slips. The expert always succeeds."""
    demo = _DemoInProgress(CompanyEnv(TaskId.parse(task_id)), tokenizer, plan)
    demo.play_expert()
    return demo.demonstration()


def dose_at(doses: Sequence[tuple[float, float]], point: float) -> float:
    """Return the dose at a point from 0 to 1, if the doses are laid side by side, each as wide as its share."""
    rest = point * sum(share for _, share in doses)
    for dose, share in doses:
        rest -= share
        if rest < 0:
            return dose
    return doses[-1][0]


# -- one episode -------------------------------------------------------------------------------------------------------


class _DemoInProgress:
    """A demonstration while it is being made."""

    def __init__(self, env: CompanyEnv, tokenizer: Tokenizer, plan: DemoPlan) -> None:
        self.env = env
        self._tokenizer = tokenizer
        self._working = plan.working
        self._script = Script(tokenizer.encode, plan.limit, plan.reserve + MAX_WORKING_TOKENS * plan.working)
        self._script.open(opening(env.look()))
        self._texts_shown = [opening(env.look())]  # every text that the agent was shown, dropped or not
        self._windows: list[LearningWindow] = []
        self._learnt: list[bool] = []  # for each turn in this window, whether it is learnt
        self._slips = self._repeated = self._blind = 0

    def make_slips(self, streams: Streams) -> bool:
        """Make slips. Return whether there are any and the episode can still be won."""
        slips = slip(self.env, streams, streams.at("middle").chance(0.5))
        if not slips or self.env.done or self.env.lost():
            return False
        for number, turn in enumerate(self.env.turns):
            blind = number not in slips and bool(self._dropped_values(turn.call))
            self._blind += blind
            self._add(turn, learnt=number not in slips and not blind)
        self._slips = len(slips)
        return True

    def play_expert(self) -> None:
        """Let the expert play the episode from here to its end."""
        program = aloud(family(TaskId.parse(self.env.task_id).family).procedure(self.env.so_far(), ExpertStyle()))
        reply: Reply | None = None
        while not self.env.done:
            step = advance(program, reply)
            if step is None:
                return
            lines, call = step
            working = lines if self._working else ()
            self._repeat_readings(call, working)
            if self.env.done:  # a repeated call took the last step
                return
            reply = self._make(call, working)

    def demonstration(self) -> Demonstration:
        return Demonstration(
            self.env.task_id,
            self._windows,
            calls=self.env.step_count,
            slips=self._slips,
            repeated=self._repeated,
            blind=self._blind,
        )

    def _make(self, call: Call, working: tuple[str, ...] = ()) -> Reply:
        """Make a call and add the turn to the script. Return the reply."""
        learnt = not self._dropped_values(call, working)
        self._blind += not learnt
        self.env.step(call)
        turn = self.env.turns[-1]
        self._add(turn, learnt, working)
        return turn.reply

    def _add(self, turn: Turn, learnt: bool, working: tuple[str, ...] = ()) -> None:
        """Add a turn and its reply to the script. If the script then drops something, end the window with this turn."""
        script, env = self._script, self.env
        script.add_turn(*encode_turn(self._tokenizer.encode, write_line(turn.call), working))
        self._learnt.append(learnt)
        obs = Observation(env.scene, turn.now, len(self._texts_shown), turn.reply, 0.0, False)
        self._texts_shown.append(reply_text(obs))
        tokens, end, spans = script.tokens, len(script.tokens), script.turn_spans  # before the script changes
        over = turn is env.turns[-1] and env.done
        if over or script.add_reply(self._texts_shown[-1]):
            spans_of_window = zip(spans[-len(self._learnt) :], self._learnt, strict=True)
            learnt_spans = [span for span, is_learnt in spans_of_window if is_learnt]
            self._windows.append(LearningWindow(tokens[:end], learnt_spans))
            self._learnt = []

    # -- values that the script has dropped -----------------------------------------------------------------------------

    def _dropped_values(self, call: Call, working: Sequence[str] = ()) -> list[str]:
        """Return the values in a call and its working lines that the agent was shown once and the script has dropped."""
        if not self._windows:
            return []  # nothing was dropped yet
        visible = self._tokenizer.decode(self._script.tokens)
        missing = [value for value in (*values_of(call), *figures_of(working)) if not contains_value(value, visible)]
        return [value for value in missing if any(contains_value(value, text) for text in self._texts_shown)]

    def _repeat_readings(self, call: Call, working: Sequence[str]) -> None:
        """Repeat the calls that showed the dropped values that this call needs."""
        for value in self._dropped_values(call, working):
            is_still_missing = value in self._dropped_values(call, working)  # an earlier repetition may have shown it
            reading = self._reading(value) if is_still_missing else None
            for _ in range(_MAX_ATTEMPTS):
                if reading is None or self.env.done:
                    break
                self._repeated += 1
                if self._make(reading).code != NO_ANSWER:
                    break

    def _reading(self, value: str) -> Call | None:
        """Return the last call that showed a value and that can be repeated without a write or a wait."""
        for turn, text in zip(reversed(self.env.turns), reversed(self._texts_shown), strict=False):
            tool = self.env.toolbox.find(turn.call)
            if (
                tool is not None
                and not tool.writes
                and "arrived" not in (turn.reply.data or ())
                and contains_value(value, text)
            ):
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
        yield from _ID_DATE_OR_NUMBER.findall(line)


def _values(argument: Any) -> Iterator[str]:
    """Yield the values in one argument as strings, also those inside lists and dictionaries."""
    if isinstance(argument, dict):
        for value in argument.values():
            yield from _values(value)
    elif isinstance(argument, list | tuple):
        for value in argument:
            yield from _values(value)
    elif argument is not None and not isinstance(argument, bool):
        yield str(argument)


def contains_value(value: str, text: str) -> bool:
    """Return whether a text contains a value as a separate word."""
    return value in text and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text) is not None


# -- many demonstrations -----------------------------------------------------------------------------------------------


def stream(
    plan: DemoPlan, tokenizer_json: str, first: int, total: int, workers: int
) -> Generator[Demonstration, None, None]:
    """Yield demonstrations from number `first` on, made ahead by worker processes. After `total`, start again with 0."""
    portions = count(first, _PORTION_SIZE)
    for portion in ahead(partial(_portion, plan, tokenizer_json, total), portions, workers, _PORTIONS_AHEAD):
        yield from portion


def _portion(plan: DemoPlan, tokenizer_json: str, total: int, first: int) -> list[Demonstration]:
    tokenizer = Tokenizer(tokenizer_json)
    return [demonstrate(plan, tokenizer, number % total) for number in range(first, first + _PORTION_SIZE)]
