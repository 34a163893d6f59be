"""Turns: what a model says before it is answered: a call, which is a line, and before it, if it was trained so, working.

    > = 5675 <= 6695: enough
    > resolve_ticket T-9361 completed …

A line that begins with `=` is working: it is not a call, costs no step, and nobody answers it, so the prompt of the next
line follows at once. Working is limited to `LINES` lines and `ROOM` tokens of a turn; then the model can only make its call.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

PROMPT = ">"
LINES = 12
ROOM = 288  # tokens, prompts included: experts say up to 11 lines and 277 of SmolLM2's before a call, half of them up to 28
_MARK = "="
LEAST = 4  # tokens that a line of working takes at least
_NEXT = re.compile(rf"\n+{PROMPT}")

# Where a turn stands: a line is about to begin, a call or working is being said, the next prompt is due.
BEGINS, CALL, WORKING, PROMPTED = range(4)


def pieces(line: str, working: Iterable[str] = ()) -> list[str]:
    """Texts that make up a turn, from its prompt on. Each is encoded by itself, so that equal lines are equal tokens."""
    return [*(f" {_MARK} {said}\n{PROMPT}" for said in working), f" {line}\n"]


def encoded(encode: Callable[[str], list[int]], line: str, working: Sequence[str] = ()) -> tuple[list[int], int]:
    """The tokens of a turn, and how many of them are working. Leaves out the first lines of more working than allowed."""
    *asides, call = (list(encode(piece)) for piece in pieces(line, working[-LINES:]))
    while asides and sum(map(len, asides)) > ROOM:
        del asides[0]
    return [token for piece in (*asides, call) for token in piece], sum(map(len, asides))


def split(text: str) -> tuple[tuple[str, ...], str]:
    """The lines of working of a turn, without their mark, and the line of its call."""
    said = text.strip()
    working: list[str] = []
    while said.startswith(_MARK) and (rest := _NEXT.split(said, maxsplit=1))[1:]:
        working.append(rest[0].removeprefix(_MARK).strip())
        said = rest[1].strip()
    return tuple(working), said


class Aside(NamedTuple):
    """How a tokenizer writes working, and how much of it is allowed in a turn."""

    marks: tuple[int, ...]  # tokens that begin a line of working
    blanks: tuple[int, ...]  # tokens that may precede such a mark
    prompt: int
    lines: int = LINES
    room: int = ROOM


def aside_of(texts: Mapping[int, str], lines: int = LINES) -> Aside:
    """The same for a vocabulary. With no `lines`, working is forbidden."""
    marks = tuple(token for token, text in texts.items() if text.lstrip(" ").startswith(_MARK) and "\n" not in text)
    blanks = tuple(token for token, text in texts.items() if text and not text.strip(" "))
    return Aside(marks, blanks, next(token for token, text in texts.items() if text == PROMPT), lines)


class Progress:
    """A turn while it is being said: whether it is over, and what may come next. `Decoder` does the same on its device."""

    def __init__(self, enders: Iterable[int], most: int, aside: Aside | None) -> None:
        self._enders = frozenset(enders)
        self._aside = aside
        self._call = most - (aside.room if aside else 0)  # tokens that are kept for the call
        self._lines = aside.lines if aside else 0
        self.left = most
        self.state = BEGINS
        self.over = False

    @property
    def must_end(self) -> bool:
        """Whether the next token has to end the line."""
        return self.left <= 1 or (self.state == WORKING and self.left <= self._call + 2)

    @property
    def may_work(self) -> bool:
        """Whether a line that begins now may be working."""
        return self._lines > 0 and self.left >= self._call + LEAST

    def take(self, token: int) -> None:
        """Takes in the next token."""
        ends, aside = token in self._enders, self._aside
        if self.state == PROMPTED:
            self.state = BEGINS
        elif self.state == WORKING:
            self.state = PROMPTED if ends else WORKING
        elif self.state == BEGINS and aside and token in aside.marks and self.may_work:
            self.state = WORKING
            self._lines -= 1
        elif ends or not (self.state == BEGINS and aside and token in aside.blanks):
            self.state = CALL
        self.left -= 1
        self.over = ends and self.state == CALL
