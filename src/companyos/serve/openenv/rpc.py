"""MCP's tools over JSON-RPC in OpenEnv's form, which has no `initialize`. A tools/call is a normal step.

Agents read these replies, so they contain no task id and no reward.
"""

from typing import Any, Literal

import msgspec

from companyos.company import TOOLBOX, Toolbox
from companyos.serve.access.roles import Client
from companyos.serve.errors import NotBegun, NotForAgents, ServeError, UnknownSession
from companyos.serve.messages.tools import call_named, listed, tool_result
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions import handles
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.stepper import Stepper
from companyos.serve.sessions.work_queue import WorkQueue

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
_PARSE_FAILURES = (msgspec.MsgspecError, UnicodeError, RecursionError)


class RpcRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = {}
    id: str | int | None = None


class RpcError(Exception):
    """A request is answered with this error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class JsonRpc:
    """Answers requests that came over HTTP or over a WebSocket."""

    def __init__(self, queue: WorkQueue, stepper: Stepper, settings: Settings) -> None:
        self._queue = queue
        self._settings = settings
        self._stepper = stepper

    async def answer_text(self, raw: bytes, client: Client, session_id: str = "") -> dict[str, Any]:
        """Return the reply to a request in JSON."""
        try:
            return await self.answer(msgspec.json.decode(raw), client, session_id)
        except _PARSE_FAILURES:
            return _error(None, PARSE_ERROR, "Parse error")

    async def answer(self, decoded: Any, client: Client, session_id: str = "") -> dict[str, Any]:
        """Return the reply to a decoded request. `session_id` is the session of the socket, or the one in the header."""
        try:
            request = msgspec.convert(decoded, RpcRequest)
        except msgspec.ValidationError as mistake:
            return _error(None, INVALID_REQUEST, f"Invalid request: {mistake}")
        try:
            return {"jsonrpc": "2.0", "id": request.id, "result": await self._result(request, client, session_id)}
        except RpcError as error:
            return _error(request.id, error.code, str(error))
        except ServeError as error:
            return _error(request.id, INTERNAL_ERROR, error.message, {"code": error.code, "what_next": error.what_next})

    async def _result(self, request: RpcRequest, client: Client, session_id: str) -> Any:
        params, owner = request.params, client.owner
        match request.method:
            case "tools/list":
                return {"tools": listed(await self._toolbox(_session_name(params, session_id), owner))}
            case "tools/call":
                return await self._call(params, owner, session_id)
            case "openenv/session/create":
                return {"session_id": session_id or await self._create(params, client)}
            case "openenv/session/close":
                name = _text(params, "session_id", "Invalid params - 'session_id' is required")
                if name == session_id:
                    raise RpcError(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
                try:
                    await self._queue.run(lambda sessions: handles.close(sessions, name, owner))
                except UnknownSession:
                    raise RpcError(INVALID_PARAMS, f"Unknown session_id: {name}") from None
                return {"session_id": name, "closed": True}
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {request.method}")

    async def _create(self, params: dict[str, Any], client: Client) -> str:
        """Make a handle: to a new episode if the parameters name a task, else to none until a reset."""
        if client.only_session:
            raise NotForAgents
        session_id, owner = "", client.owner
        if params:
            body = read_reset(params)
            await self._stepper.prepare_screens(body.observation)
            session_id = (await begin(self._queue, self._settings, body, owner)).header.session_id
        return await self._queue.run(lambda sessions: handles.open_handle(sessions, owner, session_id))

    async def _call(self, params: dict[str, Any], owner: str, socket_session: str) -> dict[str, Any]:
        """Make the step that a tools/call asks for, and return its result."""
        name = _text(params, "name", "Missing 'name' in params")
        arguments = params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "Invalid params - 'arguments' must be an object")
        session_name = _session_name(params, socket_session)
        if not session_name:
            raise NotBegun
        try:
            _, session_id = await self._queue.run(lambda sessions: handles.resolve(sessions, session_name, owner))
            if not session_id:
                raise NotBegun
            result = await self._stepper.step_or_repeat_end(session_id, call_named(name, arguments), None, owner)
            return tool_result(result.observation)
        except UnknownSession:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {session_name}") from None

    async def _toolbox(self, session_name: str, owner: str) -> Toolbox:
        """Return the tools of a session; without a session, the tools that every episode has."""

        def find(sessions: Sessions) -> Toolbox:
            _, session_id = handles.resolve(sessions, session_name, owner)
            return sessions.observe(session_id, owner).env.toolbox if session_id else TOOLBOX

        try:
            return await self._queue.run(find) if session_name else TOOLBOX
        except UnknownSession:
            raise RpcError(INVALID_PARAMS, f"Unknown session_id: {session_name}") from None


def _session_name(params: dict[str, Any], socket_session: str) -> str:
    """Return the session of the socket, or the session id or handle that the parameters name, or ""."""
    return socket_session or (_text(params, "session_id", "") if "session_id" in params else "")


def _text(params: dict[str, Any], name: str, missing: str) -> str:
    """Return a parameter that must be a text. Raise `RpcError` if it is not, with the message `missing` if one is given."""
    value = params.get(name)
    if not value or not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, missing or f"Invalid params - '{name}' must be a string")
    return value


def _error(request_id: str | int | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}
