"""Limits on connections before a request reaches the app, and a clean end of WebSockets when the server stops.

uvicorn limits neither the length of a request's head (URL and headers) nor the time to send it, so its two protocol classes
are extended here. There is no timer per request: once a second, one pass finds the connections that have taken too long.
"""

import asyncio
import os
import resource
from functools import cache
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from companyos.serve.errors import HeadTooLarge, ServeError, TooManyConnections, TooSlow, UrlTooLong
from companyos.serve.messages.bodies import error_reply
from companyos.serve.messages.wire import encode
from companyos.serve.ops.settings import Settings

MAX_URL_BYTES = 8192
_CHECK_INTERVAL = 1.0  # seconds between two passes over the connections
_OTHER_OPEN_FILES = 256  # open files of a worker that are not connections


class Connection(HttpToolsProtocol):
    """An HTTP connection with limits on the size of the head and the time to send it, counted in a `ConnectionPool`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._pool = connection_pool()
        self._max_head_bytes = self._pool.settings.head_limit
        # When the wait for a head began. None while a request runs or the connection is idle.
        self._head_started_at: float | None = None
        self._head_bytes = 0  # received in earlier pieces of the current head
        self._piece_bytes = 0  # of the piece that is being read
        self._in_body = False
        self._refusal: ServeError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_started_at = self.loop.time()
        if not self._pool.enter(self, len(self.connections)):
            self.refuse(TooManyConnections())

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.leave(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._pool.leave(self)
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        if self._head_started_at is None and self.is_idle:
            self._head_started_at = self.loop.time()
        self._piece_bytes = len(data)
        super().data_received(data)
        if self._head_started_at is not None and not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > self._max_head_bytes:
                self.refuse(HeadTooLarge(self._max_head_bytes))

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > MAX_URL_BYTES:
            self._refuse_while_parsing(UrlTooLong(MAX_URL_BYTES))

    def on_headers_complete(self) -> None:
        # A cheap test first. The last piece may contain a part of the body, too, so the headers are then measured alone.
        may_be_too_large = self._head_bytes + self._piece_bytes > self._max_head_bytes
        if may_be_too_large and sum(len(name) + len(value) for name, value in self.headers) > self._max_head_bytes:
            self._refuse_while_parsing(HeadTooLarge(self._max_head_bytes))
        self._head_started_at, self._head_bytes, self._in_body = None, 0, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self.refuse(self._refusal)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being processed."""
        return self.cycle is None or self.cycle.response_complete

    def close_if_slow(self, now: float) -> None:
        """Close the connection if its head takes too long."""
        max_seconds = self._pool.settings.head_seconds
        if self._head_started_at is None or now - self._head_started_at <= max_seconds:
            return
        if self._head_bytes:
            self.refuse(TooSlow(max_seconds, "head"))
        else:
            self.transport.close()  # no request was started

    def refuse(self, error: ServeError) -> None:
        """Send an error and close the connection."""
        if self.transport.is_closing():
            return
        body = encode(error_reply(error, agent=True))
        head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _refuse_while_parsing(self, error: ServeError) -> None:
        """Stop the parser. uvicorn then calls `send_400_response`."""
        self._refusal = error
        raise ValueError(error.message)


class ConnectionPool:
    """All HTTP connections of a worker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._limit = min(settings.connections, raise_open_file_limit() - _OTHER_OPEN_FILES)
        self._members: dict[Connection, None] = {}  # oldest first
        self._checking = False

    def enter(self, connection: Connection, open_connections: int) -> bool:
        """Add a new connection, which is one of `open_connections`. If these are too many, close the oldest idle one.

        Return False if none is idle.
        """
        if open_connections > self._limit:
            idle = next((other for other in self._members if other.is_idle and not other.transport.is_closing()), None)
            if idle is None:
                return False
            idle.transport.close()
        self._members[connection] = None
        if not self._checking:
            self._checking = True
            connection.loop.call_later(_CHECK_INTERVAL, self._check, connection.loop)
        return True

    def leave(self, connection: Connection) -> None:
        self._members.pop(connection, None)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close the slow connections, and plan the next check if any connection is left."""
        now = loop.time()
        for connection in list(self._members):
            connection.close_if_slow(now)
        self._checking = bool(self._members)
        if self._checking:
            loop.call_later(_CHECK_INTERVAL, self._check, loop)


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket that, when the server stops, still answers the frame in progress, and accepts no more."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._answering = False  # a frame was received and is not answered yet
        self._stopping = False

    async def receive(self) -> Any:
        message = await super().receive()
        self._answering = message["type"] == "websocket.receive"
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self._answering and message["type"] == "websocket.send":
            self._answering = False
            if self._stopping:
                self.shutdown()

    def shutdown(self) -> None:
        self._stopping = self._answering
        while not self.queue.empty():  # frames that were not started yet; clients can send them to another server
            self.queue.get_nowait()
        if not self._answering:
            super().shutdown()


@cache
def connection_pool() -> ConnectionPool:
    """Return the pool of this process. uvicorn creates the connections, so the settings come from the environment."""
    return ConnectionPool(Settings.read(os.environ))


def raise_open_file_limit() -> int:
    """Raise the limit on open files as far as the system allows, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 30  # no limit: any large number
