"""Connections: what a client may cost before its request reaches the app, and what it still gets when the server stops.

uvicorn bounds neither the length of a request's head nor the time that a client takes to send it. So its two protocols are
extended here. Nothing is timed by request: one look a second finds the connections that have taken too long.
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

LONGEST_URL = 8192  # bytes
_LOOKS = 1.0  # seconds between two looks for who takes too long
_FILES = 256  # that a worker may have open beside its connections


class Connection(HttpToolsProtocol):
    """An HTTP connection with a bounded head, a bounded time to send it, and a place among a bounded number of others."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._hall = hall()
        self._limit = self._hall.settings.head_limit
        self._since: float | None = None  # since when a head is waited for; None: a request is under way, or it is idle
        self._head = 0  # bytes of it in earlier pieces
        self._piece = 0  # bytes of the piece that is being read
        self._in_body = False
        self._refusal: ServeError | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        if not self._hall.enter(self, len(self.connections)):
            self.refuse(TooManyConnections())

    def connection_lost(self, exc: Exception | None) -> None:
        self._hall.leave(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._hall.leave(self)
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        if self._since is None and self.is_idle:
            self._since = self.loop.time()
        self._piece = len(data)
        super().data_received(data)
        if self._since is not None and not self._in_body:
            self._head += len(data)
            if self._head > self._limit:
                self.refuse(HeadTooLarge(self._limit))

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_URL:
            self._stop(UrlTooLong(LONGEST_URL))

    def on_headers_complete(self) -> None:
        large = self._head + self._piece > self._limit  # else there is nothing to add up
        if large and sum(len(name) + len(value) for name, value in self.headers) > self._limit:
            self._stop(HeadTooLarge(self._limit))
        self._since, self._head, self._in_body = None, 0, True
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
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def give_up(self, now: float) -> None:
        """Hang up where a head has been waited for too long."""
        seconds = self._hall.settings.head_seconds
        if self._since is None or now - self._since <= seconds:
            return
        if self._head:
            self.refuse(TooSlow(seconds, "head"))
        else:
            self.transport.close()  # nothing was asked

    def refuse(self, error: ServeError) -> None:
        """Say why, and hang up."""
        if self.transport.is_closing():
            return
        body = encode(error_reply(error, agent=True))
        head = f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\ncontent-type: application/json\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self.transport.close()

    def _stop(self, error: ServeError) -> None:
        """End the parser's work; uvicorn then answers by `send_400_response`."""
        self._refusal = error
        raise ValueError(error.message)


class Hall:
    """All connections of a worker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._most = min(settings.connections, open_files() - _FILES)
        self._inside: dict[Connection, None] = {}  # who came first stands first
        self._looking = False

    def enter(self, one: Connection, connections: int) -> bool:
        """Take a connection in; False: all are in use. A full hall lets go the first that has nothing under way."""
        if connections > self._most:
            idle = next((other for other in self._inside if other.is_idle and not other.transport.is_closing()), None)
            if idle is None:
                return False
            idle.transport.close()
        self._inside[one] = None
        if not self._looking:
            self._looking = True
            one.loop.call_later(_LOOKS, self._look, one.loop)
        return True

    def leave(self, one: Connection) -> None:
        self._inside.pop(one, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for one in list(self._inside):
            one.give_up(now)
        self._looking = bool(self._inside)
        if self._looking:
            loop.call_later(_LOOKS, self._look, loop)


class Socket(WebSocketsSansIOProtocol):
    """A WebSocket that, when the server stops, still sends the reply to what it has taken in, and takes in no more."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._owes = False  # a frame was taken in and is not answered yet
        self._leaving = False

    async def receive(self) -> Any:
        message = await super().receive()
        self._owes = message["type"] == "websocket.receive"
        return message

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self._owes and message["type"] == "websocket.send":
            self._owes = False
            if self._leaving:
                self.shutdown()

    def shutdown(self) -> None:
        self._leaving = self._owes
        while not self.queue.empty():  # nobody has begun with these; they may be sent again elsewhere
            self.queue.get_nowait()
        if not self._owes:
            super().shutdown()


@cache
def hall() -> Hall:
    """The one of this process. Workers hear of settings by variables alone."""
    return Hall(Settings.read(os.environ))


def open_files() -> int:
    """How many files this process may have open, made as large as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 30
