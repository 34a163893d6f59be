"""Replies: what a language model said, read from whatever an endpoint sent, and the calls in it."""

import re
from typing import Any

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import Call
from companyos.env import CompanyEnv
from companyos.env.line_syntax import find_tool, parse_line
from companyos.env.observations import Observation

MOST_CALLS = 16  # of one message are made; whoever plans further ahead has not seen a reply for long
_MOST_TOKENS = 2**31
_KEPT = 500  # characters of what was no call, for the transcript
_LONGEST = 4000  # characters of arguments that are repeated to whoever wrote them
_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_THOUGHTS = re.compile(r"<think>.*?(</think>|\Z)", re.DOTALL)
_MOST_LINES = 200  # in which a call is looked for
_ODD = re.compile(r"[^A-Za-z0-9_-]")


class NotAReply(ValueError):
    """A body that is no reply of a model, and why."""


class Reply(msgspec.Struct, frozen=True):
    """What a model said: its text, its tool calls as they came, and what it cost."""

    content: str = ""
    tool_calls: tuple[Any, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0


class Asked(msgspec.Struct, frozen=True):
    """One call that a model asks for: what the company is sent, and how it is repeated to the model.

    `wrong` says why it is no call; sending it costs a step all the same.
    """

    action: Any
    name: str = ""
    arguments: str = ""
    wrong: str = ""

    def hears(self, obs: Observation) -> Observation:
        """What is shown to its author of what came of it."""
        # What a line should look like helps them more than what an action in JSON should.
        said = msgspec.structs.replace(obs.reply, message=self.wrong) if self.wrong else obs.reply
        return msgspec.structs.replace(obs, reply=said)


class Said(msgspec.Struct, frozen=True):
    """One message of a model: what it wrote before its calls, and the calls, of which there is always one at least."""

    thought: str
    asked: tuple[Asked, ...]


NOTHING = Said("", (Asked("", wrong="nothing arrived"),))  # instead of a reply that never came


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


def read_reply(body: bytes) -> Reply:
    """The reply in a body. `NotAReply` for anything that is none."""
    try:
        found = msgspec.json.decode(body, type=_Body)
    except _NOT_JSON as error:
        raise NotAReply(f"not a chat completion: {error}") from None
    if not found.choices:
        raise NotAReply("a chat completion without a choice")
    message, usage = found.choices[0].message, found.usage if isinstance(found.usage, dict) else {}
    calls = message.tool_calls if isinstance(message.tool_calls, list) else []
    return Reply(_text(message.content), tuple(calls), _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))


def _text(content: Any) -> str:
    """A message's text, which may come in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def _count(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and 0 <= value < _MOST_TOKENS else 0


# -- tool calls --------------------------------------------------------------------------------------------------------


def by_tools(reply: Reply, toolbox: Toolbox) -> Said:
    """The tool calls of a message, one after the other; `toolbox` holds the tools that were offered."""
    if not reply.tool_calls:
        wrong = "that was no tool call; the work is done by calling the tools"
        return Said(reply.content, (Asked(reply.content[:_KEPT], wrong=wrong),))
    return Said(reply.content, tuple(_tool_call(one, toolbox) for one in reply.tool_calls[:MOST_CALLS]))


def _tool_call(raw: Any, toolbox: Toolbox) -> Asked:
    try:
        function = msgspec.convert(raw, _ToolCall).function
    except msgspec.ValidationError as error:
        return Asked("<broken tool call>", "unknown", "{}", f"a broken tool call: {error}")
    name, arguments = function.name, function.arguments
    # Names of apps have no underscore; some models put the point back, or leave the app out.
    tool = find_tool(name.replace("_", ".", 1), toolbox) or find_tool(name, toolbox)
    app, _, method = name[:100].partition("_")
    where = (tool.app, tool.method) if tool else (app, method)
    shown = _ODD.sub("_", name)[:64] or "unknown"
    try:
        params = (
            msgspec.json.decode(arguments or "{}", type=dict[str, Any]) if not isinstance(arguments, dict) else arguments
        )
    except (*_NOT_JSON, UnicodeEncodeError) as error:
        broken = {"app": where[0], "method": where[1], "params": str(arguments)[:_KEPT]}
        return Asked(broken, shown, "{}", f"the arguments of {shown} are no JSON object: {error}")
    return Asked(Call(*where, params), shown, _as_written(params))


def _as_written(params: dict[str, Any]) -> str:
    """Arguments as the model reads them again: always JSON, for some servers take a conversation apart."""
    try:
        text = msgspec.json.encode(params).decode()
    except (msgspec.MsgspecError, OverflowError, RecursionError):
        return "{}"
    return text if len(text) <= _LONGEST else "{}"


# -- lines -------------------------------------------------------------------------------------------------------------


def by_line(reply: Reply, toolbox: Toolbox) -> Said:
    """The first line of a text that is a call. What comes after it is left out: its author had not seen the reply."""
    lines = [bare for line in _THOUGHTS.sub("", reply.content).splitlines() if (bare := _bare(line))][:_MOST_LINES]
    slips = []
    for number, line in enumerate(lines):
        if _names_a_tool(line, toolbox):
            call = parse_line(line, toolbox) if len(line) <= _LONGEST else f"a call has at most {_LONGEST} characters"
            if isinstance(call, Call):
                return Said("\n".join(lines[:number]), (Asked(call, arguments=line),))
            slips.append((line, call))
    line, wrong = slips[0] if slips else _no_call(lines[0] if lines else "", toolbox)
    return Said("", (Asked(line[:_KEPT], arguments=line[:_KEPT], wrong=wrong[:_KEPT]),))


def _bare(line: str) -> str:
    """A line without what models put around it: marks of a list, of a quotation, of code."""
    return line.lstrip(" \t>*-•`").rstrip(" \t`").strip()


def _names_a_tool(line: str, toolbox: Toolbox) -> bool:
    return line.startswith("{") or find_tool(line.split(maxsplit=1)[0], toolbox) is not None


def _no_call(line: str, toolbox: Toolbox) -> tuple[str, str]:
    slip = parse_line(line[:_KEPT], toolbox)
    assert isinstance(slip, str), "a line that names no tool is no call"
    return line, slip


def step_by_line(env: CompanyEnv, text: str) -> Observation:
    """Makes the call that a text says, and gives what its author sees of that. A text that says none costs a step, too."""
    [asked] = by_line(Reply(text), env.toolbox).asked
    return asked.hears(env.step(asked.action))
