"""The ASGI app. `uvicorn --factory companyos.serve.app:create` runs it without the HTML pages."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Route, WebSocketRoute

from companyos import __version__
from companyos.serve.access.roles import Roles
from companyos.serve.errors import Bug, LedgerDown, Malformed, ServeError, UnknownRoute, WrongMethod
from companyos.serve.http.describe import DOCS, text_docs
from companyos.serve.http.guard import Guard, error_response, json_error, request_id_of
from companyos.serve.http.pages import Pages
from companyos.serve.http.ready import Ready
from companyos.serve.http.rest import RestApi
from companyos.serve.ledger import MAX_EXPIRED, open_ledger
from companyos.serve.ledger.measured import MeasuredLedger
from companyos.serve.mcp.http import McpHttpEndpoint
from companyos.serve.openenv.discovery import Discovery
from companyos.serve.openenv.protocol import DIALECTS
from companyos.serve.openenv.rpc import JsonRpc
from companyos.serve.openenv.ws import WebSocketEndpoint
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.stepper import Stepper
from companyos.serve.sessions.work_queue import WorkQueue

_LOG = logging.getLogger("companyos.app")


def create(settings: Settings | None = None, pages: Pages | None = None) -> FastAPI:
    """Create the app with all its endpoints. Without `settings`, read them from the environment."""
    settings = settings or Settings.read(os.environ)
    metrics = Metrics(lambda: len(sessions), lambda: sessions.cache.evictions, settings.capacity)
    ledger = MeasuredLedger(open_ledger(settings.ledger, settings.fsync), metrics.ledger)
    sessions = Sessions(
        ledger,
        settings.capacity,
        settings.idle_seconds,
        settings.ttl_seconds,
        session_bytes=settings.session_bytes,
        token_sessions=settings.token_sessions,
    )
    sessions.keeps_closed = settings.exam
    roles, queue = Roles(settings), WorkQueue(sessions)
    mcp_endpoint = McpHttpEndpoint(queue, metrics, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        sweep_task = asyncio.create_task(_sweep(queue, min(settings.idle_seconds, settings.ttl_seconds, 60.0)))
        async with mcp_endpoint.lifespan():
            yield
        if pages is not None:
            await pages.screens.close()
        sweep_task.cancel()
        with suppress(asyncio.CancelledError):
            await sweep_task
        if pages is not None:
            pages.close()
        queue.close()
        ledger.close()

    # FastAPI's own /docs loads scripts from another host. Ours does not, and is made from the same description.
    app = FastAPI(title="CompanyOS", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.sessions = sessions
    stepper = Stepper(queue, metrics, pages.screens if pages is not None else None)
    RestApi(queue, stepper, metrics, settings, roles).open(app)
    rpc = JsonRpc(queue, stepper, settings)
    Discovery(queue, rpc).open(app)
    mcp_endpoint.open(app)
    Ready(queue).open(app)
    if pages is not None:
        pages.open(app, queue, metrics, settings)
    else:
        app.router.routes.append(Route(DOCS, text_docs(app)))
    sockets = [
        WebSocketRoute(f"{dialect.prefix}/ws", WebSocketEndpoint(queue, stepper, rpc, settings, dialect))
        for dialect in DIALECTS
    ]
    app.router.routes[:0] = sockets
    routes = frozenset(route.path for route in app.routes if isinstance(route, Route | WebSocketRoute))
    app.add_middleware(Guard, settings=settings, metrics=metrics, roles=roles, routes=routes, pages=pages)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after", "mcp-session-id"],
        )
    _answer_errors(app, pages, metrics)
    return app


async def _sweep(queue: WorkQueue, seconds: float) -> None:
    """Delete idle and expired sessions, once per `seconds`, until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        try:
            while await queue.run(Sessions.sweep) == MAX_EXPIRED:
                await asyncio.sleep(0)  # more have expired; let requests run in between
        except LedgerDown:
            _LOG.warning("the ledger does not answer; expired sessions are deleted later", exc_info=True)


def _answer_errors(app: FastAPI, pages: Pages | None, metrics: Metrics) -> None:
    """Answer the errors that endpoints raise, as a page or as JSON."""

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServeError)
        metrics.refusal(error.code)
        return error_response(pages, request.scope, error)

    async def on_no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code != 405:
            return error_response(pages, request.scope, UnknownRoute("there is no such endpoint"))
        response = error_response(pages, request.scope, WrongMethod("this endpoint does not accept this method"))
        response.headers.update(error.headers or {})
        return response

    async def on_bug(request: Request, _: Exception) -> Response:
        """Answer a bug without details; the log has the traceback."""
        response = error_response(pages, request.scope, Bug())
        response.headers["x-request-id"] = request_id_of(request.scope)  # Starlette sends this reply outside of `Guard`
        return response

    app.add_exception_handler(ServeError, on_error)
    app.add_exception_handler(RequestValidationError, _on_bad_query)
    app.add_exception_handler(HTTPException, on_no_route)
    app.add_exception_handler(ClientDisconnect, _on_disconnect)
    app.add_exception_handler(Exception, on_bug)


async def _on_bad_query(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return json_error(Malformed(f"{first['msg']} - at `{'.'.join(map(str, first['loc']))}`"))


async def _on_disconnect(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # the client has disconnected
