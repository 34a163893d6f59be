"""Calls and replies: what agents, colleagues and apps exchange, and the shape of programs that make calls."""

from collections.abc import Generator
from typing import Any

import msgspec


class Call(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """One use of a tool, with its arguments."""

    app: str
    method: str
    params: dict[str, Any] = {}

    @property
    def tool(self) -> str:
        return f"{self.app}.{self.method}"


class Reply(msgspec.Struct, frozen=True, gc=False):
    """The answer to a call. `code` is `ok` or a stable word for what went wrong; `data` is plain JSON."""

    ok: bool
    code: str
    data: Any = None
    message: str = ""


OK = "ok"  # the call was carried out
BAD_ACTION = "bad_action"  # what was sent is not a call
UNKNOWN_TOOL = "unknown_tool"  # this episode offers no tool of this name; the message lists the tools
BAD_ARGUMENTS = "bad_arguments"  # the arguments do not fit the tool's signature; the message says which
NO_ANSWER = "no_answer"  # an injected fault: the caller cannot tell whether the call was carried out
EPISODE_OVER = "episode_over"  # the episode has ended
NO_STEPS_LEFT = "no_steps_left"  # a further actor has used up its steps; the episode goes on for the others


class Working(msgspec.Struct, frozen=True, gc=False):
    """A line of reasoning that an expert yields before a call: what it compared, with the values, and the result.

    It costs no step and no tool sees it. `text` is ASCII, at most 60 characters, and uses only what replies have shown.
    """

    text: str


Program = Generator[Call, Reply, None]  # yields a call and receives its reply: experts and colleagues
Procedure = Generator[Call | Working, Reply, None]  # an expert with its working lines; receives None after each line
Aloud = Generator[tuple[tuple[str, ...], Call], Reply, None]  # each call with the working lines before it


def silent(procedure: Procedure) -> Program:
    """Run a procedure and yield only its calls, without the working lines."""
    try:
        item = next(procedure)
        while True:
            item = next(procedure) if isinstance(item, Working) else procedure.send((yield item))
    except StopIteration:
        return


def aloud(procedure: Procedure) -> Aloud:
    """Run a procedure and yield each call together with the working lines since the previous call."""
    lines: list[str] = []
    try:
        item = next(procedure)
        while True:
            if isinstance(item, Working):
                lines.append(item.text)
                item = next(procedure)
            else:
                reply = yield tuple(lines), item
                lines.clear()
                item = procedure.send(reply)
    except StopIteration:
        return


def parse(action: object) -> Call | Reply:
    """Return any value as a call, or a `bad_action` reply that says why it is not a call."""
    try:
        if (
            type(action) is Call
            and type(app := action.app) is str
            and type(method := action.method) is str
            and app.isascii()
            and method.isascii()
        ):
            # A round trip through JSON would not change these names; keeping the same strings keeps their cached hashes.
            raw = _encode(action.params)
            call = Call(app, method, _decode_params(raw))
        else:
            raw = _encode(action)
            call = _decode(raw)
        # The depth is at most the number of opening brackets, which is cheap to count.
        if len(raw) <= _FLAT_BYTES or raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH or _is_shallow(call.params, MAX_DEPTH):
            return call
    except _NOT_JSON:
        pass
    # It is not a call, or nested too deep. The check of its JSON form says in the reply what is wrong.
    try:
        return msgspec.convert(as_json(action), Call)
    except msgspec.ValidationError as error:
        return Reply(False, BAD_ACTION, None, f'an action is {{"app": …, "method": …, "params": {{…}}}}: {error}')


def as_json(action: object) -> Any:
    """Return an action after a round trip through JSON, so that it can be hashed and written to a transcript.

    A value that JSON cannot hold, or that is nested too deep, becomes the name of its type.
    """
    try:
        decoded = msgspec.json.decode(_encode(action))
        if _is_shallow(decoded, MAX_DEPTH + 1):
            return decoded
    except _NOT_JSON:
        pass
    return f"<{type(action).__name__}>"


# Raised for Python objects, lone surrogates, numbers with thousands of digits and endless nesting.
_NOT_JSON = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
MAX_DEPTH = 80
_FLAT_BYTES = 2 * MAX_DEPTH  # a JSON text of this length cannot be nested too deep, because each bracket must be closed


def _is_shallow(value: Any, depth: int) -> bool:
    """Tell whether dicts and lists are nested at most `depth` levels deep in a JSON value."""
    if isinstance(value, dict):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in value)
    return True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Call).decode
_decode_params = msgspec.json.Decoder(dict[str, Any]).decode
