"""Hosts: the door for MCP hosts over HTTP (streamable, at /mcp-server; OpenEnv's JSON-RPC has /mcp).

Nothing of an MCP session stands in memory: its id is a name that we hand out at `initialize` and under which the ledger
keeps its episodes, so any worker answers any request, and a session outlives the server. Its episodes are the sessions
`<Mcp-Session-Id>.<more>`, the newest being played; the other doors take those ids as well.

The address says which episode: `/mcp-server?task=expense_report&seed=3&chaos=0.5`, with the fields of a reset. A host that
brings the token of an agent plays the session that the token is for.
"""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs

import msgspec
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from companyos.serve.access.roles import HOSTS, Caller
from companyos.serve.errors import Malformed, UnknownSession
from companyos.serve.http.requests import body_of
from companyos.serve.messages.wire import Reader
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane

PLACE = HOSTS
_HEADER = b"mcp-session-id"
_ID = re.compile(r"[A-Za-z0-9_-]{32}")  # what we hand out; nobody may choose a name that others could guess


class _Rpc(msgspec.Struct):
    method: str = ""


class Hosts:
    """FastMCP behind our guard. It takes longer to load than all the rest of the server: done when the first host knocks."""

    def __init__(self, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._lane = lane
        self._metrics = metrics
        self._settings = settings
        self._life: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[ASGIApp] | None = None

    def open(self, app: FastAPI) -> None:
        app.router.routes.append(Route(PLACE, self, methods=["POST"]))

    @asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """As long as the server's: ends FastMCP if it was ever begun."""
        yield
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Read here, so that a body that is too large, too slow or no JSON is answered as at every other door.
        body = await body_of(Request(scope, receive))
        method = _read(body).method
        scope["state"]["mcp_session"] = name = dict(scope["headers"]).get(_HEADER, b"").decode("latin-1")
        if name and not _ID.fullmatch(name):
            raise UnknownSession
        begins = method == "initialize" and not name
        unread = [body]

        async def replay() -> Message:
            return {"type": "http.request", "body": unread.pop()} if unread else await receive()

        async def named(message: Message) -> None:
            if begins and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_HEADER, secrets.token_urlsafe(24).encode())]
            await send(message)

        await (await self._begun())(scope, replay, named)

    async def _begun(self) -> ASGIApp:
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._life = asyncio.create_task(self._run(self._ready))
        return await asyncio.shield(self._ready)

    async def _run(self, ready: asyncio.Future[ASGIApp]) -> None:
        """In a task of its own, since what it enters has to be left by whoever entered it."""
        try:
            app = await asyncio.to_thread(self._load)
            async with app.router.lifespan_context(app):
                ready.set_result(app)
                await asyncio.Event().wait()
        except Exception as error:
            ready.set_exception(error)

    def _load(self) -> Starlette:
        from fastmcp.server.dependencies import get_http_request

        from companyos.serve.mcp.server import Guest, company

        def guest() -> Guest:
            state = get_http_request().scope["state"]
            caller: Caller = state["caller"]
            if not state["mcp_session"] and not caller.bound:
                raise Malformed("which session is not said; `initialize` gives its id in the header Mcp-Session-Id")
            asked = parse_qs(get_http_request().scope["query_string"].decode("latin-1"))
            chosen = {field: values[0] for field, values in asked.items()}
            return Guest(state["mcp_session"], caller.owner, caller.agent, caller.bound, chosen)

        return company(self._lane, self._settings, guest, self._metrics.steps).http_app(
            PLACE,
            json_response=True,
            stateless_http=True,
            host_origin_protection="auto",  # no page of another origin talks to a server on this machine
            allowed_origins=list(self._settings.cors_origins),
        )


_read = Reader(_Rpc)
