"""A model's turn: optional working lines, then one line with a call.

    > = 5675 <= 6695: enough
    > resolve_ticket T-9361 completed …

A line that begins with `=` is working: a short comparison or calculation that the model writes down before it decides.
It is not a call, costs no step and gets no reply; the prompt of the next line follows at once. A turn has at most `LINES`
lines and `ROOM` tokens of working; after that the model can only make its call.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

PROMPT = ">"
LINES = 12
ROOM = 288  # tokens, prompts included: experts write up to 11 lines and 277 tokens of SmolLM2 before a call (median 28)
_MARK = "="
LEAST = 4  # fewest tokens of a working line
_NEXT = re.compile(rf"\n+{PROMPT}")

# States of a turn: a line is about to begin, a call or a working line is being written, the next prompt is due.
BEGINS, CALL, WORKING, PROMPTED = range(4)


def pieces(line: str, working: Iterable[str] = ()) -> list[str]:
    """Return the texts of a turn after its prompt. Each is encoded separately, so that equal lines give equal tokens."""
    return [*(f" {_MARK} {said}\n{PROMPT}" for said in working), f" {line}\n"]


def encoded(encode: Callable[[str], list[int]], line: str, working: Sequence[str] = ()) -> tuple[list[int], int]:
    """Return the tokens of a turn, and how many of them are working. Working over the limits loses its first lines."""
    *working_pieces, call = (list(encode(piece)) for piece in pieces(line, working[-LINES:]))
    while working_pieces and sum(map(len, working_pieces)) > ROOM:
        del working_pieces[0]
    return [token for piece in (*working_pieces, call) for token in piece], sum(map(len, working_pieces))


def split(text: str) -> tuple[tuple[str, ...], str]:
    """Split a turn into its working lines, without their mark, and the line of its call."""
    said = text.strip()
    working: list[str] = []
    while said.startswith(_MARK) and (rest := _NEXT.split(said, maxsplit=1))[1:]:
        working.append(rest[0].removeprefix(_MARK).strip())
        said = rest[1].strip()
    return tuple(working), said


class WorkingSyntax(NamedTuple):
    """The tokens with which a tokenizer writes working lines, and how much working a turn may have."""

    marks: tuple[int, ...]  # tokens that begin a line of working
    blanks: tuple[int, ...]  # tokens that may precede such a mark
    prompt: int
    lines: int = LINES
    room: int = ROOM


def working_syntax(texts: Mapping[int, str], lines: int = LINES) -> WorkingSyntax:
    """Return the working syntax of a vocabulary (token to text). With 0 `lines`, working is forbidden."""
    marks = tuple(token for token, text in texts.items() if text.lstrip(" ").startswith(_MARK) and "\n" not in text)
    blanks = tuple(token for token, text in texts.items() if text and not text.strip(" "))
    return WorkingSyntax(marks, blanks, next(token for token, text in texts.items() if text == PROMPT), lines)


class Progress:
    """The state of a turn while it is generated token by token. `Decoder` keeps the same state on its device."""

    def __init__(self, enders: Iterable[int], most: int, syntax: WorkingSyntax | None) -> None:
        self._enders = frozenset(enders)
        self._syntax = syntax
        self._call = most - (syntax.room if syntax else 0)  # tokens kept for the call
        self._lines = syntax.lines if syntax else 0
        self.left = most
        self.state = BEGINS
        self.over = False

    @property
    def must_end(self) -> bool:
        """Whether the next token must end the line."""
        return self.left <= 1 or (self.state == WORKING and self.left <= self._call + 2)

    @property
    def may_work(self) -> bool:
        """Whether a line that begins now may be a working line."""
        return self._lines > 0 and self.left >= self._call + LEAST

    def take(self, token: int) -> None:
        """Add the next token."""
        ends, syntax = token in self._enders, self._syntax
        if self.state == PROMPTED:
            self.state = BEGINS
        elif self.state == WORKING:
            self.state = PROMPTED if ends else WORKING
        elif self.state == BEGINS and syntax and token in syntax.marks and self.may_work:
            self.state = WORKING
            self._lines -= 1
        elif ends or not (self.state == BEGINS and syntax and token in syntax.blanks):
            self.state = CALL
        self.left -= 1
        self.over = ends and self.state == CALL
