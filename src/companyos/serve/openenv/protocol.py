"""OpenEnv's WebSocket messages (frames), in both of its dialects.

A client sends `{"type": "reset" | "step" | "state" | "mcp" | "close", "data": …}`; the server answers with an observation, a
state, an MCP reply or an error. The path determines the dialect of actions: CompanyOS's own (app, method, params), or
`call_tool` and `list_tools`, for hosts that know each tool under a single name.
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
    """OpenEnv's error codes."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    SESSION_ERROR = "SESSION_ERROR"


class BadFrame(Exception):
    """A frame that cannot be read. Its only argument is the error reply."""


# -- messages from the client --------------------------------------------------------------------------------------------


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type", gc=False):
    """A message."""


class ResetFrame(Frame, frozen=True, tag="reset"):
    data: dict[str, Any] = {}


class StateFrame(Frame, frozen=True, tag="state"):
    pass


class McpFrame(Frame, frozen=True, tag="mcp"):
    data: dict[str, Any]


class CloseFrame(Frame, frozen=True, tag="close"):
    pass


class ActionMetadata(msgspec.Struct, frozen=True, gc=False):
    """The metadata of an action. OpenEnv allows any fields; the server reads `turn` only."""

    turn: TurnNumber | None = None


class CompanyActionData(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    app: str
    method: str
    params: Params = {}
    metadata: ActionMetadata = ActionMetadata()


class ToolActionData(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    type: Literal["call_tool", "list_tools"] = "call_tool"
    tool_name: str | UnsetType = UNSET
    arguments: Params | UnsetType = UNSET
    metadata: ActionMetadata = ActionMetadata()

    def __post_init__(self) -> None:
        listing = self.type == "list_tools"
        if listing and (self.tool_name is not UNSET or self.arguments is not UNSET):
            raise ValueError("`list_tools` takes neither `tool_name` nor `arguments`")
        if not listing and self.tool_name is UNSET:
            raise ValueError("Object missing required field `tool_name`")


class CompanyStepFrame(Frame, frozen=True, tag="step"):
    data: CompanyActionData


class ToolStepFrame(Frame, frozen=True, tag="step"):
    data: ToolActionData


# -- messages to the client ----------------------------------------------------------------------------------------------


class ObservationMessage(msgspec.Struct, frozen=True, gc=False):
    """The fields of `CompanyObservation`."""

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


class ToolObservationMessage(msgspec.Struct, frozen=True, gc=False):
    """The fields of `CallToolObservation`."""

    metadata: dict[str, Any]
    tool_name: str
    result: str
    error: dict[str, str] | None


class StateMessage(msgspec.Struct, frozen=True, gc=False):
    """The fields of `CompanyState`."""

    episode_id: str | None = None
    step_count: int = 0
    now: str = ""
    max_steps: int = 0
    done: bool = False


class _ResultData(msgspec.Struct, frozen=True, gc=False):
    observation: Any
    reward: float | None
    done: bool
    metadata: dict[str, Any] | UnsetType


class _ObservationFrame(msgspec.Struct, frozen=True, tag_field="type", tag="observation", gc=False):
    data: _ResultData


def observation(message: Any, reward: float | None, done: bool) -> bytes:
    """Return an encoded observation. `message` is an `ObservationMessage`, `ToolObservationMessage` or `ToolListMessage`."""
    return encode(_ObservationFrame(_ResultData(message, reward, done, message.metadata or UNSET)))


def state_message(obs: Observation, episode_id: str) -> StateMessage:
    return StateMessage(episode_id, obs.step, obs.now, obs.max_steps, obs.done)


def state(message: StateMessage) -> bytes:
    """Return an encoded state."""
    return encode({"type": "state", "data": message})


def mcp(reply: Any) -> bytes:
    """Return an encoded reply to JSON-RPC."""
    return encode({"type": "mcp", "data": reply})


def error(code: Code, message: str, **fields: Any) -> bytes:
    """Return an encoded error."""
    return encode({"type": "error", "data": {"message": message, "code": code, **fields}})


def refusal(problem: ServeError, code: Code = Code.EXECUTION_ERROR) -> bytes:
    """Return a `ServeError` as a message: OpenEnv's code, and our more specific one in `reason`."""
    code = Code.CAPACITY_REACHED if isinstance(problem, OverCapacity) else code
    return error(code, problem.message, reason=problem.code, what_next=problem.what_next)


# -- dialects ------------------------------------------------------------------------------------------------------------


class Dialect(Protocol):
    """How actions and observations are written under one path."""

    name: ClassVar[str]
    prefix: ClassVar[str]  # of the paths that use this dialect

    def read(self, raw: str | bytes) -> Frame:
        """Decode a message, or raise `BadFrame`."""

    def call(self, action: Any) -> Call | None:
        """Return the call of an action, or None if it asks for the list of tools."""

    def observation_after(self, action: Any, obs: Observation, metadata: dict[str, Any]) -> Any:
        """Return the observation after an action."""


class CompanyDialect(Dialect):
    name, prefix = "company", ""
    _decode = msgspec.json.Decoder(CompanyStepFrame | ResetFrame | StateFrame | McpFrame | CloseFrame).decode

    def read(self, raw: str | bytes) -> Frame:
        return _read(self._decode, raw)

    def call(self, action: CompanyActionData) -> Call:
        return Call(action.app, action.method, action.params)

    def observation_after(self, action: CompanyActionData, obs: Observation, metadata: dict[str, Any]) -> ObservationMessage:
        return observation_message(obs, metadata)


class ToolsDialect(Dialect):
    name, prefix = "tools", "/tools"
    _decode = msgspec.json.Decoder(ToolStepFrame | ResetFrame | StateFrame | McpFrame | CloseFrame).decode

    def read(self, raw: str | bytes) -> Frame:
        return _read(self._decode, raw)

    def call(self, action: ToolActionData) -> Call | None:
        if action.tool_name is UNSET:
            return None
        return call_named(action.tool_name, {} if action.arguments is UNSET else action.arguments)

    def observation_after(
        self, action: ToolActionData, obs: Observation, metadata: dict[str, Any]
    ) -> ToolObservationMessage:
        reply, error_type = obs.reply, _TOOL_ERRORS.get(obs.code)
        error = None if error_type is None else {"error_type": error_type, "message": reply.message}
        fields = {"step": obs.step, "code": reply.code, "last_result": reply.data, "message": reply.message, **metadata}
        return ToolObservationMessage(metadata=fields, tool_name=str(action.tool_name), result=obs.text, error=error)


class ToolListMessage(msgspec.Struct, frozen=True, gc=False):
    """The fields of `ListToolsObservation`."""

    tools: list[dict[str, Any]]
    metadata: dict[str, Any] = {}


def tool_list_message(toolbox: Toolbox) -> ToolListMessage:
    return ToolListMessage(listed(toolbox, "input_schema"))


def observation_message(obs: Observation, metadata: dict[str, Any]) -> ObservationMessage:
    scene, reply = obs.scene, obs.reply
    return ObservationMessage(
        metadata=metadata,
        task=scene.brief,
        now=obs.now,
        step=obs.step,
        max_steps=scene.max_steps,
        steps_remaining=scene.max_steps - obs.step,
        code=reply.code,
        message=reply.message,
        last_result=reply.data,
        text=obs.text,
        progress=obs.progress,
    )


DIALECTS: tuple[Dialect, ...] = (CompanyDialect(), ToolsDialect())
_TOOL_ERRORS = {UNKNOWN_TOOL: "tool_not_found", BAD_ARGUMENTS: "invalid_args"}
_FRAME_TYPES = ("reset", "step", "state", "mcp", "close")


def _read(decode: Any, raw: str | bytes) -> Frame:
    try:
        frame: Frame = decode(raw)
        return frame
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as mistake:
        raise BadFrame(_frame_error(raw, mistake)) from None


def _frame_error(raw: str | bytes, mistake: Exception) -> bytes:
    """Return the error reply to a frame. The checks come in the same order as in OpenEnv."""
    try:
        message = msgspec.json.decode(raw)
    except RecursionError:
        return error(Code.INVALID_JSON, "Invalid JSON: nested too deep")
    except (msgspec.MsgspecError, UnicodeError) as broken:
        return error(Code.INVALID_JSON, f"Invalid JSON: {broken}")
    frame_type = message.get("type", "") if isinstance(message, dict) else ""
    if isinstance(message, dict) and frame_type not in _FRAME_TYPES:
        return error(Code.UNKNOWN_TYPE, f"Unknown message type: {str(frame_type)[:40]}")
    # for example "Expected `str`, got `int` - at `$.data.app`"
    problem, _, path_text = str(mistake).partition(" - at `$")
    path = [part for part in path_text.rstrip("`").split(".") if part]
    return error(Code.VALIDATION_ERROR, "Invalid message", errors=[{"type": "invalid", "loc": path, "msg": problem}])
