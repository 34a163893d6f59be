"""Protocol: OpenEnv's messages as they stand on the wire, in both of its dialects.

`{"type": "reset" | "step" | "state" | "mcp" | "close", "data": …}` comes in; an observation, a state, an MCP reply or an
error goes out. The dialect of a place says what an action is: CompanyOS's own (app, method, params), or `call_tool` and
`list_tools`, for hosts that know tools by one name each.
"""

from enum import StrEnum
from typing import Any, ClassVar, Literal, Protocol

import msgspec
from msgspec import UNSET, UnsetType

from companyos.company import Toolbox
from companyos.core.calls import BAD_ARGUMENTS, UNKNOWN_TOOL, Call
from companyos.env.observations import Observation
from companyos.serve.errors import OverCapacity, ServeError
from companyos.serve.messages.bodies import Params, TurnNumber
from companyos.serve.messages.tools import call_named, listed
from companyos.serve.messages.wire import encode


class Code(StrEnum):
    """What went wrong with a message, in OpenEnv's words."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    SESSION_ERROR = "SESSION_ERROR"


class Unreadable(Exception):
    """A frame that is no message; its only argument is the reply that says so."""


# -- what comes in -------------------------------------------------------------------------------------------------------


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", gc=False):
    """A message."""


class Reset(Frame, frozen=True, tag="reset"):
    data: dict[str, Any] = {}


class State(Frame, frozen=True, tag="state"):
    pass


class Mcp(Frame, frozen=True, tag="mcp"):
    data: dict[str, Any]


class Close(Frame, frozen=True, tag="close"):
    pass


class Notes(msgspec.Struct, frozen=True, gc=False):
    """What a client may write beside an action. OpenEnv allows anything there; we read the turn."""

    turn: TurnNumber | None = None


class CompanyAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    app: str
    method: str
    params: Params = {}
    metadata: Notes = Notes()


class ToolAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    type: Literal["call_tool", "list_tools"] = "call_tool"
    tool_name: str | UnsetType = UNSET
    arguments: Params | UnsetType = UNSET
    metadata: Notes = Notes()

    def __post_init__(self) -> None:
        listing = self.type == "list_tools"
        if listing and (self.tool_name is not UNSET or self.arguments is not UNSET):
            raise ValueError("`list_tools` takes neither `tool_name` nor `arguments`")
        if not listing and self.tool_name is UNSET:
            raise ValueError("Object missing required field `tool_name`")


class CompanyStep(Frame, frozen=True, tag="step"):
    data: CompanyAction


class ToolStep(Frame, frozen=True, tag="step"):
    data: ToolAction


# -- what goes out -------------------------------------------------------------------------------------------------------


class Seen(msgspec.Struct, frozen=True, gc=False):
    """`CompanyObservation`, field for field."""

    metadata: dict[str, Any]
    task: str
    now: str
    step: int
    max_steps: int
    steps_remaining: int
    code: str
    message: str
    last_result: Any
    text: str
    progress: tuple[str, ...] | None


class ToolSeen(msgspec.Struct, frozen=True, gc=False):
    """`CallToolObservation`, field for field."""

    metadata: dict[str, Any]
    tool_name: str
    result: str
    error: dict[str, str] | None


class Standing(msgspec.Struct, frozen=True, gc=False):
    """`CompanyState`, field for field."""

    episode_id: str | None = None
    step_count: int = 0
    now: str = ""
    max_steps: int = 0
    done: bool = False


class _Result(msgspec.Struct, frozen=True, gc=False):
    observation: Any
    reward: float | None
    done: bool
    metadata: dict[str, Any] | UnsetType


class _Observation(msgspec.Struct, frozen=True, tag_field="type", tag="observation", gc=False):
    data: _Result


def observation(seen: Any, reward: float | None, done: bool) -> bytes:
    return encode(_Observation(_Result(seen, reward, done, seen.metadata or UNSET)))


def standing(obs: Observation, episode_id: str) -> Standing:
    return Standing(episode_id, obs.step, obs.now, obs.max_steps, obs.done)


def state(of: Standing) -> bytes:
    return encode({"type": "state", "data": of})


def mcp(reply: Any) -> bytes:
    return encode({"type": "mcp", "data": reply})


def error(code: Code, message: str, **more: Any) -> bytes:
    return encode({"type": "error", "data": {"message": message, "code": code, **more}})


def refusal(why: ServeError, code: Code = Code.EXECUTION_ERROR) -> bytes:
    """An error of ours: OpenEnv's code for its clients, and our own, which says more."""
    code = Code.CAPACITY_REACHED if isinstance(why, OverCapacity) else code
    return error(code, why.message, reason=why.code, what_next=why.what_next)


# -- dialects ------------------------------------------------------------------------------------------------------------


class Dialect(Protocol):
    """How a place writes actions and what it shows of them."""

    name: ClassVar[str]
    place: ClassVar[str]  # under which it is spoken

    def read(self, raw: str | bytes) -> Frame:
        """A message, or `Unreadable`."""

    def call(self, action: Any) -> Call | None:
        """The call that an action stands for; None where it only asks what tools there are."""

    def seen(self, action: Any, obs: Observation, metadata: dict[str, Any]) -> Any:
        """What is shown after an action."""


class Company(Dialect):
    name, place = "company", ""
    _decode = msgspec.json.Decoder(CompanyStep | Reset | State | Mcp | Close).decode

    def read(self, raw: str | bytes) -> Frame:
        return _read(self._decode, raw)

    def call(self, action: CompanyAction) -> Call:
        return Call(action.app, action.method, action.params)

    def seen(self, action: CompanyAction, obs: Observation, metadata: dict[str, Any]) -> Seen:
        return company_seen(obs, metadata)


class Tools(Dialect):
    name, place = "tools", "/tools"
    _decode = msgspec.json.Decoder(ToolStep | Reset | State | Mcp | Close).decode

    def read(self, raw: str | bytes) -> Frame:
        return _read(self._decode, raw)

    def call(self, action: ToolAction) -> Call | None:
        if action.tool_name is UNSET:
            return None
        return call_named(action.tool_name, {} if action.arguments is UNSET else action.arguments)

    def seen(self, action: ToolAction, obs: Observation, metadata: dict[str, Any]) -> ToolSeen:
        reply, kind = obs.reply, _TOOL_ERRORS.get(obs.code)
        wrong = None if kind is None else {"error_type": kind, "message": reply.message}
        about = {"step": obs.step, "code": reply.code, "last_result": reply.data, "message": reply.message, **metadata}
        return ToolSeen(about, str(action.tool_name), obs.text, wrong)


class ToolList(msgspec.Struct, frozen=True, gc=False):
    """`ListToolsObservation`, field for field."""

    tools: list[dict[str, Any]]
    metadata: dict[str, Any] = {}


def tool_list(toolbox: Toolbox) -> ToolList:
    return ToolList(listed(toolbox, "input_schema"))


def company_seen(obs: Observation, metadata: dict[str, Any]) -> Seen:
    scene, reply = obs.scene, obs.reply
    left = scene.max_steps - obs.step
    return Seen(
        metadata, scene.task, obs.now, obs.step, scene.max_steps, left,
        reply.code, reply.message, reply.data, obs.text, obs.progress,
    )  # fmt: skip


DIALECTS: tuple[Dialect, ...] = (Company(), Tools())
_TOOL_ERRORS = {UNKNOWN_TOOL: "tool_not_found", BAD_ARGUMENTS: "invalid_args"}
_TYPES = ("reset", "step", "state", "mcp", "close")


def _read(decode: Any, raw: str | bytes) -> Frame:
    try:
        frame: Frame = decode(raw)
        return frame
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as mistake:
        raise Unreadable(_why(raw, mistake)) from None


def _why(raw: str | bytes, mistake: Exception) -> bytes:
    """What is wrong with a frame, found out in the order in which OpenEnv does."""
    try:
        said = msgspec.json.decode(raw)
    except RecursionError:
        return error(Code.INVALID_JSON, "Invalid JSON: nested too deep")
    except (msgspec.MsgspecError, UnicodeError) as broken:
        return error(Code.INVALID_JSON, f"Invalid JSON: {broken}")
    kind = said.get("type", "") if isinstance(said, dict) else ""
    if isinstance(said, dict) and kind not in _TYPES:
        return error(Code.UNKNOWN_TYPE, f"Unknown message type: {str(kind)[:40]}")
    what, _, where = str(mistake).partition(" - at `$")
    place = [part for part in where.rstrip("`").split(".") if part]
    return error(Code.VALIDATION_ERROR, "Invalid message", errors=[{"type": "invalid", "loc": place, "msg": what}])
