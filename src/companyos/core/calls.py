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


OK = "ok"  # it was done
BAD_ACTION = "bad_action"  # not an action at all
UNKNOWN_TOOL = "unknown_tool"  # no tool of this name is offered; the message lists those that are
BAD_ARGUMENTS = "bad_arguments"  # the call does not fit the tool's signature; the message says where
NO_ANSWER = "no_answer"  # a fault of the company: the caller cannot tell whether it was carried out
EPISODE_OVER = "episode_over"  # reset starts another
NO_STEPS_LEFT = "no_steps_left"  # to somebody in another chair; the episode goes on


class Working(msgspec.Struct, frozen=True, gc=False):
    """A line of working that an expert says before a call: what it compared, with the values, and the result.

    It costs no step and no tool sees it. `text` is ASCII, at most 60 characters, and holds only what was told.
    """

    text: str


Program = Generator[Call, Reply, None]  # yield a call, receive its reply: the shape of experts and colleagues alike
Procedure = Generator[Call | Working, Reply, None]  # an expert that says its working: receives None after each line
Aloud = Generator[tuple[tuple[str, ...], Call], Reply, None]  # each call with the working lines said right before it


def silent(procedure: Procedure) -> Program:
    """Run a procedure without its working lines: yield its calls only."""
    try:
        said = next(procedure)
        while True:
            said = next(procedure) if isinstance(said, Working) else procedure.send((yield said))
    except StopIteration:
        return


def aloud(procedure: Procedure) -> Aloud:
    """Run a procedure and yield each of its calls with the working lines that it said since the call before."""
    lines: list[str] = []
    try:
        said = next(procedure)
        while True:
            if isinstance(said, Working):
                lines.append(said.text)
                said = next(procedure)
            else:
                reply = yield tuple(lines), said
                lines.clear()
                said = procedure.send(reply)
    except StopIteration:
        return


def parse(action: object) -> Call | Reply:
    """Any value as a call, or the reply that says why it is none."""
    try:
        if (
            type(action) is Call
            and type(app := action.app) is str
            and type(method := action.method) is str
            and app.isascii()
            and method.isascii()
        ):
            # JSON would give these names back as they are; kept, they need not be hashed anew to find the tool.
            raw = _encode(action.params)
            call = Call(app, method, _decode_params(raw))
        else:
            raw = _encode(action)
            call = _decode(raw)
        if len(raw) <= _SHORT or raw.count(b"[") + raw.count(b"{") <= MOST_NESTED or _is_modest(call.params, MOST_NESTED):
            return call
    except _NOT_JSON:
        pass  # `as_json` finds a form for it, and the answer names what is wrong with that
    try:
        return msgspec.convert(as_json(action), Call)
    except msgspec.ValidationError as error:
        return Reply(False, BAD_ACTION, None, f'an action is {{"app": …, "method": …, "params": {{…}}}}: {error}')


def as_json(action: object) -> Any:
    """An action after one round trip through JSON, so that it can be journaled, hashed and written to a transcript.

    What does not survive that or is nested too deep becomes the name of its type.
    """
    try:
        kept = msgspec.json.decode(_encode(action))
        if _is_modest(kept, MOST_NESTED + 1):
            return kept
    except _NOT_JSON:
        pass
    return f"<{type(action).__name__}>"


# Python objects, lone surrogates, numbers of thousands of digits, endless nesting.
_NOT_JSON = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
MOST_NESTED = 80
_SHORT = 2 * MOST_NESTED  # bytes: in no more than these nothing can be nested too deep, since what opens must close


def _is_modest(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_is_modest(item, depth - 1) for item in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_modest(item, depth - 1) for item in value)
    return True


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Call).decode
_decode_params = msgspec.json.Decoder(dict[str, Any]).decode
