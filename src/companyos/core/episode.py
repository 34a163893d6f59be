"""Transcripts: what happened in an episode, turn by turn, as a JSON Lines file that anyone can re-execute."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from companyos.core.calls import Call, Reply
from companyos.core.task import BENCHMARK_VERSION

# Part of every transcript, so that training data that contains episodes can be found by searching for it.
CANARY = "companyos-canary-8f1d2c70-do-not-train-on-held-out-splits"


class Turn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """A call and its consequences."""

    call: Call
    reply: Reply
    now: str  # the simulated time after the call
    reward: float
    parts: dict[str, float]  # what the reward is the sum of, by name
    digest: str  # of the company after the call
    action: tuple[Any, ...] = ()  # the value that was sent, if it was not a valid call; otherwise empty
    actor: str = ""  # the handle of the person who made the call; empty for the person who works the task


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a transcript: what is needed to play the episode again."""

    task_id: str
    reward: str  # the name of the reward profile
    brief: str
    version: int = BENCHMARK_VERSION
    canary: str = CANARY
    actors: tuple[str, ...] | UnsetType = UNSET  # handles of colleagues whom further agents play


class Footer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of a transcript: how the episode ended, or how far it is."""

    done: bool
    success: bool | None
    total: float  # the sum of the rewards
    verdict: dict[str, Any] = {}


class Transcript(msgspec.Struct, frozen=True):
    """An episode: header, turns and footer. Written as one JSON object per line."""

    header: Header
    turns: tuple[Turn, ...]
    footer: Footer

    def to_jsonl(self) -> str:
        return b"".join(msgspec.json.encode(line) + b"\n" for line in (self.header, *self.turns, self.footer)).decode()

    @staticmethod
    def from_jsonl(text: str | bytes) -> "Transcript":
        """Read a transcript. `ValueError` names the first line that is not valid, or says that the end is missing."""
        lines = [line for line in (text.encode() if isinstance(text, str) else text).split(b"\n") if line.strip()]
        if len(lines) < 2:
            if lines and _decodes(lines[0], Header):
                raise ValueError("truncated transcript: only the header line is there")
            raise ValueError("not a transcript: it needs a header line and a footer line")
        line_types: Iterable[Any] = [Header, *[Turn] * (len(lines) - 2), Footer]
        decoded = []
        for number, (line, line_type) in enumerate(zip(lines, line_types, strict=True), 1):
            try:
                decoded.append(msgspec.json.decode(line, type=line_type))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if line_type is Footer and _decodes(line, Turn):
                    raise ValueError(f"truncated transcript: the footer line is missing after line {number}") from None
                if line_type is Footer and not _decodes(line, Any):
                    raise ValueError(f"truncated transcript: line {number}: the line is cut off") from None
                raise ValueError(f"not a transcript: line {number}: {error}") from None
        return Transcript(decoded[0], tuple(decoded[1:-1]), decoded[-1])


def _decodes(line: bytes, line_type: Any) -> bool:
    """Return whether a line is JSON of this type."""
    try:
        msgspec.json.decode(line, type=line_type)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return True
