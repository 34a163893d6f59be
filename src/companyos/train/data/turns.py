"""A model's turn: optional working lines, then one line with a call.

    > = 5675 <= 6695: enough
    > resolve_ticket T-9361 completed …

A line that begins with `=` is a working line: a short comparison or calculation that the model writes down before it
decides. It is not a call, costs no step and gets no reply; the prompt of the next line follows at once. A turn has at most
`MAX_WORKING_LINES` working lines with `MAX_WORKING_TOKENS` tokens; after that the model can only make its call.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

PROMPT = ">"
MAX_WORKING_LINES = 12
# Prompts included. Experts write up to 11 lines and 277 tokens of SmolLM2 before a call (median 28).
MAX_WORKING_TOKENS = 288
MIN_WORKING_TOKENS = 4  # of one line
_MARK = "="  # begins a working line
_NEXT_PROMPT = re.compile(rf"\n+{PROMPT}")

# States of a turn: a line is about to begin, a call or a working line is being written, the next prompt must follow.
BEGINS, CALL, WORKING, PROMPT_DUE = range(4)


def turn_pieces(line: str, working: Iterable[str] = ()) -> list[str]:
    """Return the lines of a turn as it is written after its prompt: working lines, then the line of its call.

    They are encoded separately, so that equal lines give equal tokens.
    """
    return [*(f" {_MARK} {working_line}\n{PROMPT}" for working_line in working), f" {line}\n"]


def encode_turn(encode: Callable[[str], list[int]], line: str, working: Sequence[str] = ()) -> tuple[list[int], int]:
    """Return the tokens of a turn, and how many of them are working. If there is too much working, drop its first lines."""
    *working_pieces, call = (list(encode(piece)) for piece in turn_pieces(line, working[-MAX_WORKING_LINES:]))
    while working_pieces and sum(map(len, working_pieces)) > MAX_WORKING_TOKENS:
        del working_pieces[0]
    return [token for piece in (*working_pieces, call) for token in piece], sum(map(len, working_pieces))


def split_turn(text: str) -> tuple[tuple[str, ...], str]:
    """Split a turn into its working lines, without their mark, and the line of its call."""
    rest = text.strip()
    working: list[str] = []
    while rest.startswith(_MARK) and len(parts := _NEXT_PROMPT.split(rest, maxsplit=1)) == 2:
        working_line, rest = parts[0], parts[1].strip()
        working.append(working_line.removeprefix(_MARK).strip())
    return tuple(working), rest


class WorkingSyntax(NamedTuple):
    """The tokens with which a tokenizer writes working lines, and how much working a turn may have."""

    marks: tuple[int, ...]  # tokens that begin a working line
    blanks: tuple[int, ...]  # tokens that may precede such a mark
    prompt: int  # the token of the prompt
    max_lines: int = MAX_WORKING_LINES
    max_tokens: int = MAX_WORKING_TOKENS


def working_syntax(texts: Mapping[int, str], max_lines: int = MAX_WORKING_LINES) -> WorkingSyntax:
    """Return the working syntax of a vocabulary (token to text). If `max_lines` is 0, working is forbidden."""
    marks = tuple(token for token, text in texts.items() if text.lstrip(" ").startswith(_MARK) and "\n" not in text)
    blanks = tuple(token for token, text in texts.items() if text and not text.strip(" "))
    prompt = next(token for token, text in texts.items() if text == PROMPT)
    return WorkingSyntax(marks, blanks, prompt, max_lines)


class TurnProgress:
    """The state of a turn while it is generated token by token. `Decoder` keeps the same state on its device.

    `line_ends` are the tokens that end a line. Without a `syntax`, the turn is only a call.
    """

    def __init__(self, line_ends: Iterable[int], max_tokens: int, syntax: WorkingSyntax | None) -> None:
        self._line_ends = frozenset(line_ends)
        self._syntax = syntax
        self._call_tokens = max_tokens - (syntax.max_tokens if syntax else 0)  # tokens kept for the call
        self._lines_left = syntax.max_lines if syntax else 0  # working lines
        self.tokens_left = max_tokens
        self.state = BEGINS
        self.over = False

    @property
    def must_end(self) -> bool:
        """Whether the next token must end the line."""
        # After a working line, its newline and the next prompt must still fit.
        return self.tokens_left <= 1 or (self.state == WORKING and self.tokens_left <= self._call_tokens + 2)

    @property
    def may_work(self) -> bool:
        """Whether a line that begins now may be a working line."""
        return self._lines_left > 0 and self.tokens_left >= self._call_tokens + MIN_WORKING_TOKENS

    def take(self, token: int) -> None:
        """Add the next token."""
        ends, syntax = token in self._line_ends, self._syntax
        if self.state == PROMPT_DUE:
            self.state = BEGINS
        elif self.state == WORKING:
            self.state = PROMPT_DUE if ends else WORKING
        elif self.state == BEGINS and syntax and token in syntax.marks and self.may_work:
            self.state = WORKING
            self._lines_left -= 1
        elif ends or not (self.state == BEGINS and syntax and token in syntax.blanks):
            self.state = CALL
        self.tokens_left -= 1
        self.over = ends and self.state == CALL
