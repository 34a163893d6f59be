"""Scripts: an episode as the tokens that a language model reads and writes, the same in every loop and in evaluation.

    Thu 2026-08-20 12:58, 86 steps
    Hi, you have the vendor desk today. T-9361 asks for …
    > get_ticket T-9361
    13:00 T-9361 title="Onboard Juniper Design SA" kind=vendor_onboarding amount=74560 cost_center blocked_by …
    > read_policy P-86
    13:05 no_answer
    > read_policy P-86
    13:08 P-86 title="Vendor onboarding: order of checks" status="in force" since="2026-04-13 00:00"
    The first that applies decides. 1: another ticket, not cancelled, has the same reference: …
    >

A call is a line (`companyos.lines`). A reply is the clock and a line a record. Values stand as a line would write them, so
that what was read can be copied; a name without a value is empty; rows below one another name their fields once. Nothing is
compared, sorted out or advised. Prose has a line of its own, below its record: it is what goes first where room is short.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from companyos.calls import NO_ANSWER, OK
from companyos.lines import write_value
from companyos.observe import Observation

LIMIT = 1536  # tokens of an episode at any moment
RESERVE = 96  # of these, what the next call may take: experts need up to 81
_SLACK = 0.125  # of the limit is freed when it is reached: what was read changes seldom, and stays cached for long
_PROMPT = ">"
_PROSE = "text"  # the field of a record that is prose


# -- the text ----------------------------------------------------------------------------------------------------------


def opening(obs: Observation) -> str:
    """What an episode begins with: clock, budget, brief. It ends where the first call begins."""
    return f"{obs.now}, {obs.max_steps} steps\n{obs.task}\n{_PROMPT}"


def heard(obs: Observation) -> str:
    """What is heard after a call: the clock, and a line a record. It ends where the next call begins."""
    reply, clock = obs.reply, obs.now[-5:]
    if reply.code == OK:
        said = "\n".join(_lines(reply.data))
    elif reply.code == NO_ANSWER:
        said = reply.code  # what its message says, it says every time
    else:
        said = f"{reply.code}: {reply.message}"
    return f"{clock} {said}\n{_PROMPT}"


def spoken(line: str) -> str:
    """A call as it stands in a script, from the prompt on."""
    return f" {line}\n"


def _lines(data: Any) -> Iterator[str]:
    if not isinstance(data, dict):
        yield _value(data)
        return
    rows = data.get("rows", data.get("arrived"))
    if rows is None:
        yield from _record(data, ())
        return
    if not rows:
        yield "nothing"
    above: tuple[str, ...] = ()
    for row in rows:
        yield from _record(row, above)
        above = tuple(row)
    if data.get("pages", 1) > 1:
        yield f"page {data['page']} of {data['pages']}, {data['total']} in all"


def _record(shown: dict[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    """A record on a line, its prose on the next; its fields are named unless the row above named the same."""
    fields = {name: value for name, value in shown.items() if name != _PROSE}
    if tuple(shown) == above:
        yield " ".join(map(_value, fields.values()))
    else:
        yield " ".join([_value(value) if name == "id" else _field(name, value) for name, value in fields.items()])
    if _PROSE in shown:
        yield _one_line(shown[_PROSE])


def _field(name: str, value: Any) -> str:
    return name if value is None else f"{name}={_value(value)}"


def _value(value: Any) -> str:
    if type(value) is str:
        return _text(value)
    if value is None:
        return "-"
    if isinstance(value, dict):
        return f"({' '.join([_field(name, item) for name, item in value.items()])})"
    if isinstance(value, list | tuple):
        return ",".join(map(_value, value)) or "-"
    return write_value(value)


@lru_cache(maxsize=65536)
def _text(value: str) -> str:
    return '"-"' if value == "-" else write_value(value)


def _one_line(prose: str | None) -> str:
    """Prose without what could pass for the end of a reply."""
    return " ".join((prose or "-").split())


# -- the tokens --------------------------------------------------------------------------------------------------------


class _Turn:
    """A call and its reply, of which less may be shown."""

    __slots__ = ("call", "reply", "shown", "text")

    def __init__(self, call: list[int]) -> None:
        self.call = call
        self.text = ""
        self.reply: list[int] = []
        self.shown = WHOLE

    def __len__(self) -> int:
        return len(self.call) + len(self.reply)


WHOLE, FIRST_LINE, FIRST_WORDS, GONE = range(4)  # how much is shown of an old reply; of one that is gone, nor is its call


class Script:
    """One episode as tokens of one tokenizer: with the next call, never more than `limit`.

    Where it grows too long the oldest replies shrink to their first line, then to the clock and the first word. The brief
    and the calls stay; only where even those are too many do the oldest turns go.
    """

    def __init__(self, encode: Callable[[str], list[int]], limit: int = LIMIT, reserve: int = RESERVE) -> None:
        self._encode = encode
        self._most = limit - reserve
        self._aim = self._most - int(limit * _SLACK)
        self._opening: list[int] = []
        self._turns: list[_Turn] = []
        self.tokens: list[int] = []
        self.calls: list[tuple[int, int]] = []  # where in `tokens` they stand

    def open(self, text: str) -> None:
        """Takes in the brief."""
        self._opening = self._encode(text)
        self.tokens = self._opening.copy()
        if len(self.tokens) > self._aim:
            raise ValueError(f"a brief of {len(self.tokens)} tokens leaves no room for work: {self._aim} is the most")

    def say(self, tokens: list[int]) -> None:
        """Takes in a call, its newline included."""
        self.calls.append((len(self.tokens), len(self.tokens) + len(tokens)))
        self._turns.append(_Turn(tokens))
        self.tokens += tokens

    def hear(self, text: str) -> bool:
        """Takes in a reply. True: there was too little room, so that the tokens before it are not what they were."""
        turn = self._turns[-1]
        turn.text, turn.reply = text, self._encode(text)
        self.tokens += turn.reply
        if len(self.tokens) <= self._most:
            return False
        self._shrink()
        return True

    def _shrink(self) -> None:
        taken = len(self.tokens)
        for shown in (FIRST_LINE, FIRST_WORDS, GONE):
            aim = self._most if shown == GONE else self._aim  # calls go for want of room only
            for turn in self._turns[:-1]:
                if taken > aim and turn.shown < shown:
                    taken -= len(turn)
                    self._shorten(turn, shown)
                    taken += len(turn)
        if taken > self._most:
            newest, end = self._turns[-1], self._encode(f"\n{_PROMPT}")
            newest.reply = newest.reply[: self._most - taken - len(end)] + end
        self._turns = [turn for turn in self._turns if turn.shown != GONE]
        self.tokens, self.calls = self._opening.copy(), []
        for turn in self._turns:
            self.calls.append((len(self.tokens), len(self.tokens) + len(turn.call)))
            self.tokens += turn.call + turn.reply

    def _shorten(self, turn: _Turn, shown: int) -> None:
        turn.shown = shown
        if shown == GONE:
            turn.call, turn.reply = [], []
            return
        line, _, rest = turn.text.partition("\n")
        if shown == FIRST_WORDS:
            line = " ".join(line.split(" ", 2)[:2])
        turn.reply = self._encode(f"{line}\n{_PROMPT}")
