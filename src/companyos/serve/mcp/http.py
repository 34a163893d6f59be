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
from companyos.serve.errors import Malformed, NoMcp, UnknownSession
from companyos.serve.http.requests import body_of
from companyos.serve.messages.wire import Reader
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.work_queue import WorkQueue

_SESSION_HEADER = b"mcp-session-id"
# A name that `initialize` made. Clients may not choose a name, because others could guess it.
_SESSION_NAME = re.compile(r"[A-Za-z0-9_-]{32}")


class _Rpc(msgspec.Struct):
    """The only field of a JSON-RPC request that is read here."""

    method: str = ""


class McpHttpEndpoint:
    """FastMCP behind the middleware `Guard`. It loads slowly, so it is loaded at the first request."""

    def __init__(self, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._queue = queue
        self._metrics = metrics
        self._settings = settings
        self._lifespan_task: asyncio.Task[None] | None = None
        self._loaded_app: asyncio.Future[ASGIApp] | None = None

    def open(self, app: FastAPI) -> None:
        """Add the endpoint to the app."""
        app.router.routes.append(Route(MCP_PATH, self, methods=["POST"]))

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Stop FastMCP when the server stops, if it was started."""
        yield
        if self._lifespan_task is not None:
            self._lifespan_task.cancel()
            with suppress(asyncio.CancelledError):
                await self._lifespan_task

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Read here, so that a body that is too large, too slow or not JSON gets the same error as at other endpoints.
        body = await body_of(Request(scope, receive))
        method = _read(body).method
        scope["state"]["mcp_session"] = session_name = dict(scope["headers"]).get(_SESSION_HEADER, b"").decode("latin-1")
        if session_name and not _SESSION_NAME.fullmatch(session_name):
            raise UnknownSession
        starts_session = method == "initialize" and not session_name
        unread = [body]

        async def receive_again() -> Message:  # the body was read above; FastMCP reads it again
            return {"type": "http.request", "body": unread.pop()} if unread else await receive()

        async def send_with_session_id(message: Message) -> None:
            if starts_session and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_SESSION_HEADER, secrets.token_urlsafe(24).encode())]
            await send(message)

        await (await self._loaded())(scope, receive_again, send_with_session_id)

    async def _loaded(self) -> ASGIApp:
        """Return FastMCP's app. The first call loads and starts it."""
        if self._loaded_app is None:
            self._loaded_app = asyncio.get_running_loop().create_future()
            self._lifespan_task = asyncio.create_task(self._run(self._loaded_app))
        return await asyncio.shield(self._loaded_app)

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
        """Import FastMCP and build its app. Raise `NoMcp` if it is not installed."""
        try:
            from fastmcp.server.dependencies import get_http_request
        except ModuleNotFoundError:
            raise NoMcp from None

        from companyos.serve.mcp.server import McpClient, build_server

        def current_client() -> McpClient:
            state = get_http_request().scope["state"]
            client: Client = state["client"]
            if not state["mcp_session"] and not client.only_session:
                raise Malformed("no session is named; `initialize` returns its id in the header Mcp-Session-Id")
            query = parse_qs(get_http_request().scope["query_string"].decode("latin-1"))
            reset_fields = {field: values[0] for field, values in query.items()}
            return McpClient(state["mcp_session"], client.owner, client.agent, client.only_session, reset_fields)

        return build_server(self._queue, self._settings, current_client, self._metrics.steps).http_app(
            MCP_PATH,
            json_response=True,
            stateless_http=True,
            host_origin_protection="auto",  # refuse pages of other origins
            allowed_origins=list(self._settings.cors_origins),
        )


_read = Reader(_Rpc)
