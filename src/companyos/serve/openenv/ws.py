"""Sockets: OpenEnv's WebSocket protocol, on sessions that outlive them.

A socket holds one session. `reset` begins it and says its id (`metadata.session_id`); a socket opened with
`?session_id=…`, at any worker, holds the same one. Another reset, and `close`, forget it; a socket that drops leaves it be.
Where a handle was named in place of a session, it follows each reset, and outlives `close`.
"""

import logging
from typing import Any
from urllib.parse import parse_qs

from starlette.types import Receive, Scope, Send

from companyos.company import TOOLBOX
from companyos.env.observations import Observation
from companyos.serve.access.roles import Caller
from companyos.serve.errors import Bug, Malformed, NotBegun, NotForAgents, OverCapacity, ServeError, TooLarge
from companyos.serve.openenv import protocol
from companyos.serve.openenv.protocol import Close, Code, Dialect, Mcp, Reset, State, Unreadable
from companyos.serve.openenv.rpc import Rpc
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.handles import follow, point
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.play import Play
from companyos.serve.sessions.sessions import Session

_LOG = logging.getLogger("companyos.sockets")
_LONGEST_NAME = 255  # of an episode, as OpenEnv has it


class Sockets:
    """The door for OpenEnv's clients, in one of its dialects: an ASGI app, since steps come by the thousand."""

    def __init__(self, lane: Lane, play: Play, rpc: Rpc, settings: Settings, dialect: Dialect) -> None:
        self.lane = lane
        self.play = play
        self.rpc = rpc
        self.dialect = dialect
        self.settings = settings
        self._limit = settings.body_limit
        # With a ledger a session needs no place in memory, and a socket is a connection like any other.
        self._most = settings.connections if lane.sessions.ledger.durable else settings.capacity
        self._open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # that somebody wants to connect
        await send({"type": "websocket.accept"})
        self._open += 1
        try:
            await self._hold(_Holder(self, scope), receive, send)
        except OSError:
            pass  # it dropped while we were writing; the session stays
        finally:
            self._open -= 1

    async def _hold(self, holder: "_Holder", receive: Receive, send: Send) -> None:
        try:
            if self._open > self._most:
                raise OverCapacity(self._most, 1)
            await holder.resume()
        except ServeError as error:
            self.play.refused(error)
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
                reply = await holder.answer(text)
            if reply is None:
                await send({"type": "websocket.close", "code": 1000})
                return
            await send({"type": "websocket.send", "text": reply.decode()})


class _Holder:
    """Who is at the far end of one socket, and the session that they hold."""

    __slots__ = ("_caller", "_door", "_episode_id", "_handle", "_owner", "_session_id")

    def __init__(self, door: Sockets, scope: Scope) -> None:
        self._caller: Caller = scope["state"]["caller"]
        caller = self._caller
        query = parse_qs(scope["query_string"].decode("latin-1"))
        self._door = door
        self._owner = caller.owner
        self._session_id = query.get("session_id", [caller.session_id])[0]
        self._handle = ""  # by which it was named, if by one
        self._episode_id = query.get("episode_id", [""])[0][:_LONGEST_NAME]

    async def resume(self) -> None:
        """Finds the session that a new socket names, if it does."""
        name, owner = self._session_id, self._owner
        if name:
            self._handle, self._session_id = await self._door.lane.run(lambda sessions: follow(sessions, name, owner))
        if self._session_id:
            await self._look()

    async def answer(self, text: str) -> bytes | None:
        """The reply to a frame; None where it says good-bye."""
        door = self._door
        try:
            frame: Any = door.dialect.read(text)
            kind = type(frame)
            if kind is Reset:
                return await self._reset(frame.data)
            if kind is State:
                return await self._state()
            if kind is Mcp:
                return protocol.mcp(await door.rpc.answer(frame.data, self._caller, self._session_id))
            if kind is Close:
                await self._close()
                return None
            return await self._step(frame.data)
        except Unreadable as why:
            reply: bytes = why.args[0]
            return reply
        except ServeError as error:
            door.play.refused(error)
            return protocol.refusal(error)
        except Exception:
            _LOG.exception("a bug at a socket")
            return protocol.refusal(Bug())

    async def _step(self, action: Any) -> bytes:
        door = self._door
        call = door.dialect.call(action)
        if call is None:
            session = await self._session() if self._session_id else None
            toolbox, done = (session.env.toolbox, session.env.done) if session else (TOOLBOX, False)
            return protocol.observation(protocol.tool_list(toolbox), 0.0, done)
        if not self._session_id:
            raise NotBegun
        outcome = await door.play(self._session_id, call, action.metadata.turn, self._owner)
        obs = outcome.observation
        metadata: dict[str, Any] = {} if outcome.screenshot is None else {"screenshot": outcome.screenshot}
        if outcome.success is not None and not self._caller.agent:
            metadata["success"] = outcome.success
        return protocol.observation(door.dialect.seen(action, obs, metadata), self._paid(obs), obs.done)

    async def _reset(self, given: dict[str, Any]) -> bytes:
        episode_id = given.pop("episode_id", None)
        if episode_id is not None and not (isinstance(episode_id, str) and len(episode_id) <= _LONGEST_NAME):
            raise Malformed(f"Expected `str` of length <= {_LONGEST_NAME} - at `$.episode_id`")
        if self._caller.bound:
            raise NotForAgents
        body, play = read_reset(given), self._door.play
        await play.expect(body.observation)
        session = await begin(self._door.lane, self._door.settings, body, self._owner, self._session_id)
        self._session_id, self._episode_id = session.header.session_id, episode_id or ""
        if self._handle:
            here = (self._handle, self._owner, self._session_id)
            await self._door.lane.run(lambda sessions: point(sessions, *here))
        obs, shot = session.last, await play.first_picture(self._session_id, self._owner)
        metadata = {"session_id": self._session_id} | ({} if shot is None else {"screenshot": shot})
        return protocol.observation(protocol.company_seen(obs, metadata), self._paid(obs), obs.done)

    def _paid(self, obs: Observation) -> float | None:
        """The reward, as OpenEnv's messages have it: None for an agent."""
        return None if self._caller.agent else obs.reward

    async def _state(self) -> bytes:
        if not self._session_id:
            return protocol.state(protocol.Standing())
        return protocol.state(await self._look())

    async def _look(self) -> protocol.Standing:
        return protocol.standing((await self._session()).last, self._episode_id or self._session_id)

    async def _session(self) -> Session:
        name, owner = self._session_id, self._owner
        return await self._door.lane.run(lambda sessions: sessions.observe(name, owner))

    async def _close(self) -> None:
        name, owner = self._session_id, self._owner
        if name and not self._handle:  # what has a handle is closed by that
            try:
                await self._door.lane.run(lambda sessions: sessions.close(name, owner))
            except ServeError:
                _LOG.debug("what a socket said good-bye to was gone already")
