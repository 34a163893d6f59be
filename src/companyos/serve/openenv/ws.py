"""OpenEnv's WebSocket protocol, on sessions that survive the socket.

A socket uses one session. `reset` begins it and returns its id in `metadata.session_id`. A socket that is opened with
`?session_id=…`, at any worker, uses that session. Another `reset`, and `close`, delete it; a dropped socket does not.

A handle is a name that stays the same while the sessions behind it change. If the socket was opened with a handle instead of
a session id, each reset points the handle to the new session, and `close` keeps both.
"""

import logging
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from companyos.company import TOOLBOX
from companyos.env.observations import Observation
from companyos.serve.access.roles import Client
from companyos.serve.errors import Bug, Malformed, NotBegun, NotForAgents, OverCapacity, ServeError, TooLarge
from companyos.serve.openenv import protocol
from companyos.serve.openenv.protocol import BadFrame, CloseFrame, Code, Dialect, McpFrame, ResetFrame, StateFrame
from companyos.serve.openenv.rpc import JsonRpc
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.handles import point_handle, resolve
from companyos.serve.sessions.sessions import Session
from companyos.serve.sessions.stepper import Stepper
from companyos.serve.sessions.work_queue import WorkQueue

_LOG = logging.getLogger("companyos.sockets")
_MAX_EPISODE_ID = 255  # characters, as in OpenEnv


class WebSocketEndpoint:
    """The endpoint for OpenEnv's clients in one dialect. A plain ASGI app for speed: steps are frequent."""

    def __init__(self, queue: WorkQueue, stepper: Stepper, rpc: JsonRpc, settings: Settings, dialect: Dialect) -> None:
        self.queue = queue
        self.stepper = stepper
        self.rpc = rpc
        self.dialect = dialect
        self.settings = settings
        self._limit = settings.body_limit
        # With a durable ledger, the number of sessions in memory does not limit the number of sockets.
        self._max_open = settings.connections if queue.sessions.ledger.durable else settings.capacity
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # the connect message
        await send({"type": "websocket.accept"})
        self._open += 1
        try:
            await self._run(_SocketSession(self, scope), receive, send)
        except OSError:
            pass  # the socket dropped during a write; the session stays
        finally:
            self._open -= 1

    async def _run(self, session: "_SocketSession", receive: Receive, send: Send) -> None:
        try:
            if self._open > self._max_open:
                raise OverCapacity(self._max_open, 1)
            await session.resume()
        except ServeError as error:
            self.stepper.count_refusal(error)
            await send({"type": "websocket.send", "text": protocol.refusal(error, Code.SESSION_ERROR).decode()})
            await send({"type": "websocket.close", "code": 1008})
            return
        while (message := await receive())["type"] == "websocket.receive":
            text = message.get("text")
            if text is None:
                reply: bytes | None = protocol.error(Code.INVALID_JSON, "Invalid JSON: frames are text")
            elif len(text) > self._limit:
                reply = protocol.refusal(TooLarge(self._limit), Code.VALIDATION_ERROR)
            else:
                reply = await session.answer(text)
            if reply is None:
                await send({"type": "websocket.close", "code": 1000})
                return
            await send({"type": "websocket.send", "text": reply.decode()})


class _SocketSession:
    """The client of one socket, and its current session."""

    __slots__ = ("_client", "_endpoint", "_episode_id", "_handle", "_owner", "_session_id")

    def __init__(self, endpoint: WebSocketEndpoint, scope: Scope) -> None:
        self._client: Client = scope["state"]["client"]
        client = self._client
        query = parse_qs(scope["query_string"].decode("latin-1"))
        self._endpoint = endpoint
        self._owner = client.owner
        self._session_id = query.get("session_id", [client.session_id])[0]
        self._handle = ""  # with which the socket was opened, if any
        self._episode_id = query.get("episode_id", [""])[0][:_MAX_EPISODE_ID]

    async def resume(self) -> None:
        """Find the session or handle that the URL of the socket names, if any."""
        name, owner = self._session_id, self._owner
        if name:
            self._handle, self._session_id = await self._endpoint.queue.run(lambda sessions: resolve(sessions, name, owner))
        if self._session_id:
            await self._state_message()

    async def answer(self, text: str) -> bytes | None:
        """Return the reply to a frame, or None after `close`."""
        endpoint = self._endpoint
        try:
            frame: Any = endpoint.dialect.read(text)
            kind = type(frame)
            if kind is ResetFrame:
                return await self._reset(frame.data)
            if kind is StateFrame:
                return await self._state()
            if kind is McpFrame:
                return protocol.mcp(await endpoint.rpc.answer(frame.data, self._client, self._session_id))
            if kind is CloseFrame:
                await self._close()
                return None
            return await self._step(frame.data)
        except BadFrame as bad_frame:
            reply: bytes = bad_frame.args[0]
            return reply
        except ServeError as error:
            endpoint.stepper.count_refusal(error)
            return protocol.refusal(error)
        except Exception:
            _LOG.exception("a bug in a WebSocket request")
            return protocol.refusal(Bug())

    async def _step(self, action: Any) -> bytes:
        endpoint = self._endpoint
        call = endpoint.dialect.call(action)
        if call is None:
            session = await self._session() if self._session_id else None
            toolbox, done = (session.env.toolbox, session.env.done) if session else (TOOLBOX, False)
            return protocol.observation(protocol.tool_list_message(toolbox), 0.0, done)
        if not self._session_id:
            raise NotBegun
        result = await endpoint.stepper.step_or_repeat_end(self._session_id, call, action.metadata.turn, self._owner)
        obs = result.observation
        metadata: dict[str, Any] = {} if result.screenshot is None else {"screenshot": result.screenshot}
        if result.success is not None and not self._client.agent:
            metadata["success"] = result.success
        return protocol.observation(endpoint.dialect.observation_after(action, obs, metadata), self._reward(obs), obs.done)

    async def _reset(self, fields: dict[str, Any]) -> bytes:
        episode_id = fields.pop("episode_id", None)
        if episode_id is not None and not (isinstance(episode_id, str) and len(episode_id) <= _MAX_EPISODE_ID):
            raise Malformed(f"Expected `str` of length <= {_MAX_EPISODE_ID} - at `$.episode_id`")
        if self._client.only_session:
            raise NotForAgents
        body, stepper = read_reset(fields), self._endpoint.stepper
        await stepper.prepare_screens(body.observation)
        session = await begin(self._endpoint.queue, self._endpoint.settings, body, self._owner, self._session_id)
        self._session_id, self._episode_id = session.header.session_id, episode_id or ""
        if self._handle:
            target = (self._handle, self._owner, self._session_id)
            await self._endpoint.queue.run(lambda sessions: point_handle(sessions, *target))
        obs, shot = session.last, await stepper.first_picture(self._session_id, self._owner)
        metadata = {"session_id": self._session_id} | ({} if shot is None else {"screenshot": shot})
        return protocol.observation(protocol.observation_message(obs, metadata), self._reward(obs), obs.done)

    def _reward(self, obs: Observation) -> float | None:
        """Return the reward for the message: None for an agent."""
        return None if self._client.agent else obs.reward

    async def _state(self) -> bytes:
        if not self._session_id:
            return protocol.state(protocol.StateMessage())
        return protocol.state(await self._state_message())

    async def _state_message(self) -> protocol.StateMessage:
        return protocol.state_message((await self._session()).last, self._episode_id or self._session_id)

    async def _session(self) -> Session:
        name, owner = self._session_id, self._owner
        return await self._endpoint.queue.run(lambda sessions: sessions.observe(name, owner))

    async def _close(self) -> None:
        name, owner = self._session_id, self._owner
        if name and not self._handle:  # a session with a handle is closed through the handle
            try:
                await self._endpoint.queue.run(lambda sessions: sessions.close(name, owner))
            except ServeError:
                _LOG.debug("the session of a closed socket was already deleted")
