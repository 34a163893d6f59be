"""RPC: MCP's tools as OpenEnv has them, JSON-RPC without `initialize`. A call by it is a step like any other.

Agents read these replies, so neither task id nor reward is in them.
"""

from typing import Any, Literal

import msgspec

from companyos.company import TOOLBOX, Toolbox
from companyos.serve.access.roles import Caller
from companyos.serve.errors import NotBegun, NotForAgents, ServeError, UnknownSession
from companyos.serve.messages.tools import call_named, listed, tool_result
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions import handles
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.play import Play
from companyos.serve.sessions.sessions import Sessions

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
_PARSED = (msgspec.MsgspecError, UnicodeError, RecursionError)


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON-RPC request."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = {}
    id: str | int | None = None


class Refusal(Exception):
    """Why a request is answered by an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Rpc:
    """Answers requests, by HTTP or by a socket that holds a session."""

    def __init__(self, lane: Lane, play: Play, settings: Settings) -> None:
        self._lane = lane
        self._settings = settings
        self._play = play

    async def answer_text(self, raw: bytes, caller: Caller, session_id: str = "") -> dict[str, Any]:
        """The reply to a request that has not been read yet."""
        try:
            return await self.answer(msgspec.json.decode(raw), caller, session_id)
        except _PARSED:
            return _error(None, PARSE_ERROR, "Parse error")

    async def answer(self, said: Any, caller: Caller, session_id: str = "") -> dict[str, Any]:
        """The reply to a request. `session_id` is the one that the socket holds, or that a header names."""
        try:
            request = msgspec.convert(said, Request)
        except msgspec.ValidationError as mistake:
            return _error(None, INVALID_REQUEST, f"Invalid request: {mistake}")
        try:
            return {"jsonrpc": "2.0", "id": request.id, "result": await self._result(request, caller, session_id)}
        except Refusal as why:
            return _error(request.id, why.code, str(why))
        except ServeError as why:
            return _error(request.id, INTERNAL_ERROR, why.message, {"code": why.code, "what_next": why.what_next})

    async def _result(self, request: Request, caller: Caller, session_id: str) -> Any:
        params, owner = request.params, caller.owner
        match request.method:
            case "tools/list":
                return {"tools": listed(await self._toolbox(_named(params, session_id), owner))}
            case "tools/call":
                return await self._call(params, owner, session_id)
            case "openenv/session/create":
                return {"session_id": session_id or await self._create(params, caller)}
            case "openenv/session/close":
                name = _text(params, "session_id", "Invalid params - 'session_id' is required")
                if name == session_id:
                    raise Refusal(INVALID_REQUEST, "Cannot close active WebSocket-managed session via MCP method")
                try:
                    await self._lane.run(lambda sessions: handles.close(sessions, name, owner))
                except UnknownSession:
                    raise Refusal(INVALID_PARAMS, f"Unknown session_id: {name}") from None
                return {"session_id": name, "closed": True}
        raise Refusal(METHOD_NOT_FOUND, f"Method not found: {request.method}")

    async def _create(self, params: dict[str, Any], caller: Caller) -> str:
        """A handle; to an episode, where it is said which, else to one that a reset is to begin."""
        if caller.bound:
            raise NotForAgents
        begun, owner = "", caller.owner
        if params:
            body = read_reset(params)
            await self._play.expect(body.observation)
            begun = (await begin(self._lane, self._settings, body, owner)).header.session_id
        return await self._lane.run(lambda sessions: handles.open_handle(sessions, owner, begun))

    async def _call(self, params: dict[str, Any], owner: str, session_id: str) -> dict[str, Any]:
        name = _text(params, "name", "Missing 'name' in params")
        arguments = params.get("arguments", {})
        if not isinstance(arguments, dict):
            raise Refusal(INVALID_PARAMS, "Invalid params - 'arguments' is an object")
        named = _named(params, session_id)
        if not named:
            raise NotBegun
        try:
            _, meant = await self._lane.run(lambda sessions: handles.follow(sessions, named, owner))
            if not meant:
                raise NotBegun
            return tool_result((await self._play(meant, call_named(name, arguments), None, owner)).observation)
        except UnknownSession:
            raise Refusal(INVALID_PARAMS, f"Unknown session_id: {named}") from None

    async def _toolbox(self, named: str, owner: str) -> Toolbox:
        """The tools of a session's episode; where none is named or begun, those that every episode has."""

        def offered(sessions: Sessions) -> Toolbox:
            _, meant = handles.follow(sessions, named, owner)
            return sessions.observe(meant, owner).env.toolbox if meant else TOOLBOX

        try:
            return await self._lane.run(offered) if named else TOOLBOX
        except UnknownSession:
            raise Refusal(INVALID_PARAMS, f"Unknown session_id: {named}") from None


def _named(params: dict[str, Any], session_id: str) -> str:
    """The session that a request is about: the one that its socket holds, or that it names; empty for none."""
    return session_id or (_text(params, "session_id", "") if "session_id" in params else "")


def _text(params: dict[str, Any], name: str, missing: str) -> str:
    value = params.get(name)
    if not value or not isinstance(value, str):
        raise Refusal(INVALID_PARAMS, missing or f"Invalid params - '{name}' is a text")
    return value


def _error(request_id: str | int | None, code: int, message: str, data: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message, "data": data}}
