"""The MCP endpoint over HTTP (streamable, at /mcp-server; OpenEnv's JSON-RPC is at /mcp).

An MCP session has no state in memory. Its id is a random name that `initialize` returns, and the ledger stores its episodes
under that name. So any worker can answer any request, and the session survives restarts. Its episodes are the sessions
`<Mcp-Session-Id>.<suffix>`; the newest is the current one. The other endpoints accept these ids, too.

The URL chooses the episode, with the fields of a reset: `/mcp-server?task=expense_report&seed=3&chaos=0.5`. A host with an
agent token plays the session that the token is valid for.
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

from companyos.serve.access.roles import MCP_PATH, Client
from companyos.serve.errors import Malformed, UnknownSession
from companyos.serve.http.requests import body_of
from companyos.serve.messages.wire import Reader
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.work_queue import WorkQueue

_HEADER = b"mcp-session-id"
_ID = re.compile(r"[A-Za-z0-9_-]{32}")  # the form of our ids; clients may not choose a name, because others could guess it


class _Rpc(msgspec.Struct):
    method: str = ""


class McpHttpEndpoint:
    """FastMCP behind the guard. It loads slowly, so it is loaded at the first request."""

    def __init__(self, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._queue = queue
        self._metrics = metrics
        self._settings = settings
        self._life: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[ASGIApp] | None = None

    def open(self, app: FastAPI) -> None:
        app.router.routes.append(Route(MCP_PATH, self, methods=["POST"]))

    @asynccontextmanager
    async def life(self) -> AsyncIterator[None]:
        """Stop FastMCP when the server stops, if it was started."""
        yield
        if self._life is not None:
            self._life.cancel()
            with suppress(asyncio.CancelledError):
                await self._life

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Read here, so that a body that is too large, too slow or not JSON gets the same error as at other endpoints.
        body = await body_of(Request(scope, receive))
        method = _read(body).method
        scope["state"]["mcp_session"] = name = dict(scope["headers"]).get(_HEADER, b"").decode("latin-1")
        if name and not _ID.fullmatch(name):
            raise UnknownSession
        starts = method == "initialize" and not name
        unread = [body]

        async def replay() -> Message:
            return {"type": "http.request", "body": unread.pop()} if unread else await receive()

        async def named(message: Message) -> None:
            if starts and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_HEADER, secrets.token_urlsafe(24).encode())]
            await send(message)

        await (await self._started())(scope, replay, named)

    async def _started(self) -> ASGIApp:
        if self._ready is None:
            self._ready = asyncio.get_running_loop().create_future()
            self._life = asyncio.create_task(self._run(self._ready))
        return await asyncio.shield(self._ready)

    async def _run(self, ready: asyncio.Future[ASGIApp]) -> None:
        """Run FastMCP's lifespan in its own task, because the task that enters it must also leave it."""
        try:
            app = await asyncio.to_thread(self._load)
            async with app.router.lifespan_context(app):
                ready.set_result(app)
                await asyncio.Event().wait()
        except Exception as error:
            ready.set_exception(error)

    def _load(self) -> Starlette:
        from fastmcp.server.dependencies import get_http_request

        from companyos.serve.mcp.server import McpClient, build_server

        def current_client() -> McpClient:
            state = get_http_request().scope["state"]
            client: Client = state["client"]
            if not state["mcp_session"] and not client.bound:
                raise Malformed("no session is named; `initialize` returns its id in the header Mcp-Session-Id")
            asked = parse_qs(get_http_request().scope["query_string"].decode("latin-1"))
            chosen = {field: values[0] for field, values in asked.items()}
            return McpClient(state["mcp_session"], client.owner, client.agent, client.bound, chosen)

        return build_server(self._queue, self._settings, current_client, self._metrics.steps).http_app(
            MCP_PATH,
            json_response=True,
            stateless_http=True,
            host_origin_protection="auto",  # refuse pages of other origins
            allowed_origins=list(self._settings.cors_origins),
        )


_read = Reader(_Rpc)
