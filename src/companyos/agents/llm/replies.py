"""Replies of language models: read from the body that an endpoint sent, and searched for calls."""

import re
from typing import Any

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import Call
from companyos.env import CompanyEnv
from companyos.env.line_syntax import find_tool, parse_line
from companyos.env.observations import Observation

MAX_CALLS = 16  # calls of one message that are made; the model has not seen a reply since it wrote them
_MAX_TOKENS = 2**31  # a token count that is not below this is read as 0
_MAX_INVALID = 500  # characters of an invalid call that the transcript keeps
_MAX_ARGUMENTS = 4000  # characters of arguments that are shown to the model again
_JSON_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_THOUGHTS = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_MAX_LINES = 200  # lines to search for a call
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")  # characters that servers refuse in the name of a tool


class NotAReply(ValueError):
    """A body that is not a chat completion."""


class ModelReply(msgspec.Struct, frozen=True):
    """A model's text, its unparsed tool calls, and its token counts."""

    content: str = ""
    tool_calls: tuple[Any, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0


class RequestedCall(msgspec.Struct, frozen=True):
    """One call that a model requests: the action for the environment, and how it is shown to the model again.

    `wrong` says why the call is invalid; it is empty for a valid call. An invalid call still costs a step.
    """

    action: Any
    name: str = ""  # of the tool, as the model is shown it; empty if the call was a line of text
    arguments: str = ""  # JSON, or the whole line of text
    wrong: str = ""

    def with_parse_error(self, obs: Observation) -> Observation:
        """Return the observation after this call. If the call is invalid, its message is `wrong`.

        The environment's own message about an invalid call is about JSON, which the model may not have written.
        """
        reply = msgspec.structs.replace(obs.reply, message=self.wrong) if self.wrong else obs.reply
        return msgspec.structs.replace(obs, reply=reply)


class ModelMessage(msgspec.Struct, frozen=True):
    """One message of a model: what it wrote before its calls, and at least one call."""

    thought: str
    calls: tuple[RequestedCall, ...]


NOTHING = ModelMessage("", (RequestedCall("", wrong="nothing arrived"),))  # in place of a reply that never came


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct):
    function: _Function


class _Message(msgspec.Struct):
    content: Any = None
    tool_calls: Any = None


class _Choice(msgspec.Struct):
    message: _Message


class _Body(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None


def read_reply(body: bytes) -> ModelReply:
    """Parse the body of an answer. Raise `NotAReply` if it is not a chat completion."""
    try:
        decoded = msgspec.json.decode(body, type=_Body)
    except _JSON_ERRORS as error:
        raise NotAReply(f"not a chat completion: {error}") from None
    if not decoded.choices:
        raise NotAReply("a chat completion without a choice")
    message, usage = decoded.choices[0].message, decoded.usage if isinstance(decoded.usage, dict) else {}
    calls = message.tool_calls if isinstance(message.tool_calls, list) else []
    return ModelReply(
        _text(message.content), tuple(calls), _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    )


def _text(content: Any) -> str:
    """Return the text of a message, which may come in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _count(usage: dict[str, Any], name: str) -> int:
    """Return a token count, or 0 if it is missing or invalid."""
    value = usage.get(name)
    return value if isinstance(value, int) and 0 <= value < _MAX_TOKENS else 0


# -- tool calls --------------------------------------------------------------------------------------------------------


def parse_tool_calls(reply: ModelReply, toolbox: Toolbox) -> ModelMessage:
    """Parse the tool calls of a reply. A reply without one counts as an invalid call. `toolbox` holds the offered tools."""
    if not reply.tool_calls:
        wrong = "that was no tool call; the work is done by calling the tools"
        return ModelMessage(reply.content, (RequestedCall(reply.content[:_MAX_INVALID], wrong=wrong),))
    return ModelMessage(reply.content, tuple(_tool_call(raw, toolbox) for raw in reply.tool_calls[:MAX_CALLS]))


def _tool_call(raw: Any, toolbox: Toolbox) -> RequestedCall:
    """Parse one tool call of a reply."""
    try:
        function = msgspec.convert(raw, _ToolCall).function
    except msgspec.ValidationError as error:
        return RequestedCall("<broken tool call>", "unknown", "{}", f"a broken tool call: {error}")
    name, arguments = function.name, function.arguments
    # Names of apps have no underscore. Some models write a dot after the app, or leave the app out.
    tool = find_tool(name.replace("_", ".", 1), toolbox) or find_tool(name, toolbox)
    app, _, method = name[:100].partition("_")
    if tool:
        app, method = tool.app, tool.method
    shown_name = _NOT_IN_NAMES.sub("_", name)[:64] or "unknown"
    try:
        params = (
            msgspec.json.decode(arguments or "{}", type=dict[str, Any]) if not isinstance(arguments, dict) else arguments
        )
    except (*_JSON_ERRORS, UnicodeEncodeError) as error:
        broken = {"app": app, "method": method, "params": str(arguments)[:_MAX_INVALID]}
        return RequestedCall(broken, shown_name, "{}", f"the arguments of {shown_name} are no JSON object: {error}")
    return RequestedCall(Call(app, method, params), shown_name, _shown_arguments(params))


def _shown_arguments(params: dict[str, Any]) -> str:
    """Return the arguments as the model sees them again. Always valid JSON, because some servers parse it."""
    try:
        text = msgspec.json.encode(params).decode()
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return "{}"
    return text if len(text) <= _MAX_ARGUMENTS else "{}"


# -- lines -------------------------------------------------------------------------------------------------------------


def parse_call_line(reply: ModelReply, toolbox: Toolbox) -> ModelMessage:
    """Parse the first line of a text that is a call. Later lines are ignored: the model had not seen the reply."""
    stripped_lines = map(_without_markdown, _THOUGHTS.sub("", reply.content).splitlines())
    lines = [line for line in stripped_lines if line][:_MAX_LINES]
    invalid = []  # lines that name a tool, and what is wrong with them
    for number, line in enumerate(lines):
        if _names_a_tool(line, toolbox):
            too_long = f"a call has at most {_MAX_ARGUMENTS} characters"
            call = parse_line(line, toolbox) if len(line) <= _MAX_ARGUMENTS else too_long
            if isinstance(call, Call):
                return ModelMessage("\n".join(lines[:number]), (RequestedCall(call, arguments=line),))
            invalid.append((line, call))
    line, wrong = invalid[0] if invalid else _no_call(lines[0] if lines else "", toolbox)
    line, wrong = line[:_MAX_INVALID], wrong[:_MAX_INVALID]
    return ModelMessage("", (RequestedCall(line, arguments=line, wrong=wrong),))


def _without_markdown(line: str) -> str:
    """Return a line without Markdown marks of lists, quotations and code."""
    return line.lstrip(" \t>*-•`").rstrip(" \t`").strip()


def _names_a_tool(line: str, toolbox: Toolbox) -> bool:
    """Return whether a line begins with the name of a tool, or with `{` as a call in JSON does."""
    return line.startswith("{") or find_tool(line.split(maxsplit=1)[0], toolbox) is not None


def _no_call(line: str, toolbox: Toolbox) -> tuple[str, str]:
    """Return a line that is not a call, and why it is not."""
    wrong = parse_line(line[:_MAX_INVALID], toolbox)
    assert isinstance(wrong, str), "a line without the name of a tool is not a call"
    return line, wrong


def step_by_line(env: CompanyEnv, text: str) -> Observation:
    """Make the call in a text and return what the model sees of it. A text without a call costs a step, too."""
    [requested] = parse_call_line(ModelReply(text), env.toolbox).calls
    return requested.with_parse_error(env.step(requested.action))
