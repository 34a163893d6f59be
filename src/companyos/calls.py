"""Calls: the words that agent and apps exchange."""

from collections.abc import Generator
from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One use of one tool."""

    app: str
    method: str
    params: dict[str, Any] = {}

    @property
    def tool(self) -> str:
        return f"{self.app}.{self.method}"


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What came back. `code` is `ok`, or a stable word for what went wrong; `data` is plain JSON."""

    ok: bool
    code: str
    data: Any = None
    message: str = ""


OK = "ok"
BAD_ACTION = "bad_action"  # not an action at all
UNKNOWN_TOOL = "unknown_tool"
BAD_ARGUMENTS = "bad_arguments"
NO_ANSWER = "no_answer"  # a fault of the company: the caller cannot tell whether it was carried out
EPISODE_OVER = "episode_over"

Program = Generator[Call, Reply, None]  # yield a call, receive its reply: the shape of experts and colleagues alike


def parse(action: object) -> Call | Reply:
    """Any value as a call, or the reply that says why it is none."""
    if type(action) is Call and _is_plain(action):
        return Call(action.app, action.method, action.params.copy())
    try:
        return msgspec.convert(as_json(action), Call)
    except msgspec.ValidationError as error:
        return Reply(False, BAD_ACTION, None, f'an action is {{"app": …, "method": …, "params": {{…}}}}: {error}')


def _is_plain(call: Call) -> bool:
    """Whether a call holds ASCII texts and small whole numbers only: then JSON would give back the same."""
    for text in (call.app, call.method, *call.params):
        if type(text) is not str or not text.isascii():
            return False
    for value in call.params.values():
        if type(value) is str:
            if not value.isascii():
                return False
        elif type(value) is not int or not -(2**31) < value < 2**31:
            return False
    return True


def as_json(action: object) -> Any:
    """An action after one round trip through JSON, so that it can be journaled, hashed and written to a transcript.

    What does not survive that, is nested too deep or holds a number of more than 64 bits becomes the name of its type.
    """
    try:
        kept = msgspec.json.decode(msgspec.json.encode(action))
        if _is_modest(kept, MOST_NESTED):
            return kept
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
        pass  # Python objects, lone surrogates, numbers of thousands of digits: none of them an action
    return f"<{type(action).__name__}>"


MOST_NESTED = 12


def _is_modest(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_is_modest(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_modest(item, depth - 1) for item in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**64
