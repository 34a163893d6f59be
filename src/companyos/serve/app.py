"""App: the server put together. `uvicorn --factory companyos.serve.app:create` runs it anywhere, without any pages."""

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
from companyos.serve.errors import Bug, LedgerDown, Malformed, NoSuchPlace, ServeError, WrongMethod
from companyos.serve.http.describe import DOCS, listing
from companyos.serve.http.guard import Guard, respond, said
from companyos.serve.http.pages import Pages
from companyos.serve.http.ready import Ready
from companyos.serve.http.rest import Rest
from companyos.serve.ledger import MOST_EXPIRED, open_ledger
from companyos.serve.ledger.measured import MeasuredLedger
from companyos.serve.mcp.hosts import Hosts
from companyos.serve.openenv.discovery import Discovery
from companyos.serve.openenv.protocol import DIALECTS
from companyos.serve.openenv.rpc import Rpc
from companyos.serve.openenv.ws import Sockets
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.play import Play
from companyos.serve.sessions.sessions import Sessions

_LOG = logging.getLogger("companyos.app")


def create(settings: Settings | None = None, pages: Pages | None = None) -> FastAPI:
    """The app with all its doors; the settings are those of the environment unless given."""
    settings = settings or Settings.read(os.environ)
    metrics = Metrics(lambda: len(sessions), lambda: sessions.copies.evictions, settings.capacity)
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
    roles, lane = Roles(settings), Lane(sessions)
    hosts = Hosts(lane, metrics, settings)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        sweeping = asyncio.create_task(_sweep(lane, min(settings.idle_seconds, settings.ttl_seconds, 60.0)))
        async with hosts.life():
            yield
        if pages is not None:
            await pages.screens.close()
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping
        if pages is not None:
            pages.close()
        lane.close()
        ledger.close()

    # FastAPI's own pages about the API would fetch their programs from elsewhere; ours is made of the same description.
    app = FastAPI(title="CompanyOS", version=__version__, lifespan=life, docs_url=None, redoc_url=None)
    app.state.sessions = sessions
    play = Play(lane, metrics, pages.screens if pages is not None else None)
    Rest(lane, play, metrics, settings, roles).open(app)
    rpc = Rpc(lane, play, settings)
    Discovery(lane, rpc).open(app)
    hosts.open(app)
    Ready(lane).open(app)
    if pages is not None:
        pages.open(app, lane, metrics, settings)
    else:
        app.router.routes.append(Route(DOCS, listing(app)))
    sockets = [WebSocketRoute(f"{one.place}/ws", Sockets(lane, play, rpc, settings, one)) for one in DIALECTS]
    app.router.routes[:0] = sockets
    places = frozenset(route.path for route in app.routes if isinstance(route, Route | WebSocketRoute))
    app.add_middleware(Guard, settings=settings, metrics=metrics, roles=roles, places=places, pages=pages)
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


async def _sweep(lane: Lane, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            while await lane.run(Sessions.sweep) == MOST_EXPIRED:
                await asyncio.sleep(0)  # there are more, and others have waited
        except LedgerDown:
            _LOG.warning("the ledger does not answer; sweeping waits", exc_info=True)


def _answer_errors(app: FastAPI, pages: Pages | None, metrics: Metrics) -> None:
    """Whatever goes wrong behind the guard, as whoever asked can read it."""

    async def on_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServeError)
        metrics.refusal(error.code)
        return said(pages, request.scope, error)

    async def on_no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code != 405:
            return said(pages, request.scope, NoSuchPlace("there is nothing here"))
        response = said(pages, request.scope, WrongMethod("this place takes another method"))
        response.headers.update(error.headers or {})
        return response

    async def on_bug(request: Request, _: Exception) -> Response:
        """The server's log has the trace; the caller gets to know nothing of it."""
        return said(pages, request.scope, Bug())

    app.add_exception_handler(ServeError, on_error)
    app.add_exception_handler(RequestValidationError, _on_bad_query)
    app.add_exception_handler(HTTPException, on_no_route)
    app.add_exception_handler(ClientDisconnect, _on_gone)
    app.add_exception_handler(Exception, on_bug)


async def _on_bad_query(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return respond(Malformed(f"{first['msg']} - at `{'.'.join(map(str, first['loc']))}`"))


async def _on_gone(_: Request, __: Exception) -> Response:
    return Response(status_code=400)  # nobody is there to read it
