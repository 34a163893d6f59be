"""Scripts: the text of an episode as a language model reads and writes it, the same in training and in evaluation.

    Thu 2026-08-20 12:58, 86 steps
    Hi, you have the vendor desk today. T-9361 asks for a vendor onboarding: …
    > get_ticket T-9361
    T-9361 title="Onboard Juniper Design SA" kind=vendor_onboarding amount=74560 cost_center blocked_by …
    > search_policies vendor
    id title status since:
    P-88 "Vendor onboarding: minimum score" superseded 2025-01-15
    P-86 "Vendor onboarding: order of checks" "in force" 2026-04-13
    > read_policy P-86
    no_answer
    > read_policy P-86
    P-86 title="Vendor onboarding: order of checks" status="in force" since=2026-04-13
     The first that applies decides. 1: another ticket, not cancelled, has the same reference: …
    >

A call is a line (`companyos.env.line_syntax`). A reply has one line for each record; a list names its fields once, above its
rows. After a wait the reply begins with the clock. Values are written as in a call, so the model can copy them. A field
without a value is written as its name alone, and the time 00:00 is left out. The script adds no comparison or advice.

A model that was trained with working lines writes lines that begin with `=` before some of its calls (`turns.py`).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from companyos.core.calls import NO_ANSWER, OK
from companyos.env.line_syntax import write_line_value
from companyos.env.observations import Observation
from companyos.train.data import turns
from companyos.train.data.turns import PROMPT as _PROMPT

LIMIT = 1536  # most tokens of a script at any moment
RESERVE = 128  # tokens of the limit kept for the next call: experts need up to 114 tokens of SmolLM2
# When the script reaches its limit, this share of the limit is freed at once. A shrink invalidates the cached keys and
# values of the model, so shrinks must be rare.
_FREED_SHARE = 0.4
_PROSE = "text"  # the field of a record that is prose
_INDENT = " "  # before prose, which has a line of its own
_MAX_REFUSAL_CHARACTERS = 300  # a refusal may quote a long argument
_MIDNIGHT = " 00:00"
_DATE_AND_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


# -- the text ----------------------------------------------------------------------------------------------------------


def opening(obs: Observation) -> str:
    """Return the start of a script: clock, budget, brief and the prompt of the first call."""
    return f"{obs.now}, {obs.max_steps} steps\n{_one_line(obs.task)}\n{_PROMPT}"


def reply_text(obs: Observation, parse_error: str = "") -> str:
    """Return the reply to a call as text: a line for each record, or the error; then the prompt of the next call.

    `parse_error` is that of a line that is not a call. It replaces the environment's message, which is less specific.
    """
    reply = obs.reply
    if reply.code == OK:
        text = "\n".join(_lines(reply.data, obs.now))
    elif reply.code == NO_ANSWER:
        text = reply.code  # its message is always the same
    else:
        text = f"{reply.code}: {_one_line(parse_error or reply.message)[:_MAX_REFUSAL_CHARACTERS]}"
    return f"{text}\n{_PROMPT}"


def turn_text(line: str, working: Iterable[str] = ()) -> str:
    """Return a turn as it is written in a script after the prompt: working lines, then the call."""
    return "".join(turns.turn_pieces(line, working))


def _lines(data: Any, now: str) -> Iterator[str]:
    """Yield the data of a reply line by line. After a wait, the clock comes first."""
    if not isinstance(data, dict):
        yield _value(data)
    elif "arrived" in data:
        weekday, _, clock = now.split()
        yield f"{weekday} {clock}"
        yield from _rows(data["arrived"])
    elif "rows" in data:
        yield from _rows(data["rows"])
        if data.get("pages", 1) > 1:
            yield f"page {data['page']} of {data['pages']}, {data['total']} in all"
    else:
        yield " ".join([_value(v) if name == "id" else _field(name, v) for name, v in data.items() if name != _PROSE])
        yield from _prose(data)


def _rows(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield rows below a line with the names of their fields. Repeat that line before a row with other fields."""
    if not rows:
        yield "nothing"
    names: list[str] = []
    for row in rows:
        names_of_row = [name for name in row if name != _PROSE]
        if names_of_row != names:
            names = names_of_row
            yield " ".join(names) + ":"
        yield " ".join([_value(row[name]) for name in names])
        yield from _prose(row)


def _prose(record: dict[str, Any]) -> Iterator[str]:
    """Yield the prose of a record as a line of its own, if it has any."""
    if record.get(_PROSE):
        yield _INDENT + _one_line(record[_PROSE])


def _one_line(prose: str) -> str:
    """Return prose in one line, so that it cannot look like the end of a reply."""
    return " ".join(prose.split())


def _field(name: str, value: Any) -> str:
    return name if value is None or value == "" else f"{name}={_value(value)}"


def _value(value: Any) -> str:
    if type(value) is str:
        return _text(value)
    if value is None:
        return "-"
    if isinstance(value, dict):
        return f"({' '.join([_field(name, item) for name, item in value.items()])})"
    if isinstance(value, list | tuple):
        return ",".join(map(_value, value)) or "-"
    return write_line_value(value)


@lru_cache(maxsize=65536)
def _text(value: str) -> str:
    if _DATE_AND_TIME.fullmatch(value):
        value = value.removesuffix(_MIDNIGHT)
    return write_line_value(value) if value else "-"


# -- the tokens --------------------------------------------------------------------------------------------------------


class Script:
    """The script of one episode as tokens. It never exceeds `limit` tokens, of which `reserve` are kept for the next turn.

    When it grows too long, it drops parts in these stages, and the oldest turns first within each stage: lines about
    records that were read again since; prose and working lines; all but the first line of a reply; all but its first word.
    The brief and the calls stay, unless even they do not fit: then the oldest turns are dropped whole.
    """

    def __init__(self, encode: Callable[[str], list[int]], limit: int = LIMIT, reserve: int = RESERVE) -> None:
        self._encode = encode
        self._max_tokens = limit - reserve
        self._shrink_to = self._max_tokens - int(limit * _FREED_SHARE)  # tokens after a shrink, if possible
        self._opening: list[int] = []
        self._turns: list[_ScriptTurn] = []
        self.tokens: list[int] = []
        self.turn_spans: list[tuple[int, int]] = []  # first token and end of each turn in `tokens`

    def open(self, text: str) -> None:
        """Begin the script with the brief."""
        self._opening = self._encode(text)
        self.tokens = self._opening.copy()
        if len(self.tokens) > self._shrink_to:
            raise ValueError(f"a brief of {len(self.tokens)} tokens leaves no room for work: {self._shrink_to} is the most")

    def add_turn(self, tokens: list[int], working: int = 0) -> None:
        """Add a turn, its final newline included. Its first `working` tokens are working lines."""
        self.turn_spans.append((len(self.tokens), len(self.tokens) + len(tokens)))
        self._turns.append(_ScriptTurn(tokens, working))
        self.tokens += tokens

    def add_reply(self, text: str) -> bool:
        """Add a reply. Return True if older parts were dropped to make room, so that the earlier tokens have changed."""
        turn = self._turns[-1]
        turn.reply_text, turn.reply = text, self._encode(text)
        self.tokens += turn.reply
        if len(self.tokens) <= self._max_tokens:
            return False
        self._shrink()
        return True

    def _shrink(self) -> None:
        """Drop parts of old turns until the script has `_shrink_to` tokens, in the stages that the class describes."""
        *older, newest = self._turns
        self._drop_stale_lines()
        size = len(self._opening) + sum(map(len, self._turns))
        for stage in (_NO_PROSE, _FIRST_LINE, _FIRST_WORD, _DROPPED):
            # Whole turns are dropped only if nothing else helps.
            target = self._max_tokens if stage == _DROPPED else self._shrink_to
            for turn in older:
                if size > target and turn.stage < stage:
                    size -= len(turn)
                    turn.stage = stage
                    self._encode_rest(turn)
                    size += len(turn)
        if size > self._max_tokens:
            end = self._encode(f"\n{_PROMPT}")
            newest.reply = newest.reply[: self._max_tokens - size - len(end)] + end
        self._turns = [turn for turn in self._turns if turn.stage != _DROPPED]
        self.tokens, self.turn_spans = self._opening.copy(), []
        for turn in self._turns:
            self.turn_spans.append((len(self.tokens), len(self.tokens) + len(turn.tokens)))
            self.tokens += turn.tokens + turn.reply

    def _drop_stale_lines(self) -> None:
        """Drop a line if every field in it was read again later, in the same record."""
        read_later: dict[str, set[str]] = defaultdict(set)
        for turn in reversed(self._turns):
            kept = [line for line in turn.lines if not (line.fields and line.fields <= read_later[line.record])]
            for line in turn.lines:
                read_later[line.record] |= line.fields
            if turn is not self._turns[-1] and len(kept) < len(turn.lines):
                turn.lines = kept or [_ReplyLine(turn.lines[0].record, turn.lines[0].record, frozenset())]
                self._encode_rest(turn)

    def _encode_rest(self, turn: "_ScriptTurn") -> None:
        """Encode the part of an old turn that is still in the script."""
        if turn.stage == _DROPPED:
            turn.tokens, turn.reply = [], []
            return
        lines = [line.text for line in turn.lines]
        if turn.stage >= _NO_PROSE:
            turn.tokens, turn.working = turn.tokens[turn.working :], 0
            lines = [line for line in lines if not line.startswith(_INDENT)] or [turn.lines[0].record]
        if turn.stage >= _FIRST_LINE:
            lines = lines[:1]
        if turn.stage >= _FIRST_WORD:
            lines = [lines[0].split(" ", 1)[0]]
        turn.reply = self._encode("\n".join([*lines, _PROMPT]))


# Stages of an old turn, by what is left of it: all; all but prose and working; its call and the first line of the reply;
# its call and the first word of the reply; nothing.
_COMPLETE, _NO_PROSE, _FIRST_LINE, _FIRST_WORD, _DROPPED = range(5)


class _ReplyLine(NamedTuple):
    """A line of a reply, the record that it is about, and the fields that it shows."""

    text: str
    record: str
    fields: frozenset[str]


class _ScriptTurn:
    """A turn and its reply, or what is left of them."""

    __slots__ = ("_lines", "reply", "reply_text", "stage", "tokens", "working")

    def __init__(self, tokens: list[int], working: int) -> None:
        self.tokens = tokens  # working lines and the call
        self.working = working  # how many of `tokens` are working lines; they are dropped with the prose of the reply
        self.reply_text = ""
        self.reply: list[int] = []  # tokens
        self.stage = _COMPLETE
        self._lines: list[_ReplyLine] = []

    def __len__(self) -> int:
        return len(self.tokens) + len(self.reply)

    @property
    def lines(self) -> list[_ReplyLine]:
        """The lines of the reply that are not stale."""
        if not self._lines:
            self._lines = list(_parsed_lines(self.reply_text))
        return self._lines

    @lines.setter
    def lines(self, lines: list[_ReplyLine]) -> None:
        self._lines = lines


# The value after the name of a field: `=(…)`, `="…"` or `=word`.
_EQUALS_VALUE = re.compile(r'=(?:\([^)]*\)|"(?:[^"\\]|\\.)*"|\S*)')


def _parsed_lines(reply_text: str) -> Iterator[_ReplyLine]:
    """Yield the lines of a reply. Prose belongs to the record in the line above it."""
    record, in_list, fields = "", False, frozenset[str]()
    for line in reply_text.split("\n")[:-1]:
        if line.startswith(_INDENT):
            yield _ReplyLine(line, record, fields | {_PROSE})
            continue
        if line.endswith(":"):  # the names of the fields of a list
            in_list, fields = True, frozenset(line[:-1].split(" ")) - {"id"}
            yield _ReplyLine(line, "", frozenset())
            continue
        record, _, rest = line.partition(" ")
        if not in_list:
            fields = frozenset(_EQUALS_VALUE.sub("", rest).split())
        yield _ReplyLine(line, record, fields)
