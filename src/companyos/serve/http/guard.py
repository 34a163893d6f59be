"""Guard: what every request passes on its way in and out. Its id, its token, its size, its time, its count, its log line."""

import asyncio
import logging
import re
import secrets
from collections.abc import Collection
from time import perf_counter
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from companyos.serve.access.origins import Origins
from companyos.serve.access.quotas import Brake, Quotas
from companyos.serve.access.roles import Caller, Roles
from companyos.serve.errors import Busy, NotForAgents, ServeError, TooLarge, TooSlow, WrongToken
from companyos.serve.http.pages import COOKIE, Pages
from companyos.serve.messages.bodies import error_reply
from companyos.serve.messages.wire import JSON, encode
from companyos.serve.ops.logs import REQUESTS
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings

OPEN_TO_ALL = ("/health", "/ready")
QUIET = ("/step", "/rollout", "/mcp-server", "/health", "/ready", "/metrics")  # thousands of them, of no interest each
ELSEWHERE = "elsewhere"
_MOST_DIGITS = 15  # of a length that is worth reading
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")


class Guard:
    """ASGI middleware. Leaves in the request's state who calls: `caller`."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        roles: Roles,
        places: Collection[str],
        pages: Pages | None = None,
    ) -> None:
        self._app = app
        self._pages = pages
        self._places = places  # by name in counts and logs; whatever else is asked for is one more
        self._settings = settings
        self._metrics = metrics
        self._roles = roles
        self._origins = Origins(settings)
        self._brake = Brake()
        self._quotas = Quotas(settings.token_bytes, settings.token_sockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = perf_counter(), 500
        headers = dict(scope["headers"])
        given = headers.get(b"x-request-id", b"")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8).encode()

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == WrongToken.status and self._signs_in(scope):
                    self._brake.wrong(_address(scope))
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        try:
            try:
                self._admit(scope, headers)
            except ServeError as error:
                self._metrics.refusal(error.code)
                await said(self._pages, scope, error)(scope, receive, answer)
            else:
                await self._app(scope, self._bounded(receive, scope["state"]["caller"].counted_as), answer)
        finally:
            place = self._place(scope["path"])
            self._note(scope["method"], place, status, perf_counter() - began, request_id.decode())

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A socket is one long request: let in or turned away before it opens, counted and logged when it closes."""
        began, status, headers = perf_counter(), 101, dict(scope["headers"])
        try:
            try:
                self._admit(scope, headers)
                owner = scope["state"]["caller"].counted_as
                with self._quotas.socket(owner):
                    await self._app(scope, self._counted(receive, owner) if owner else receive, send)
            except ServeError as error:
                status = error.status
                self._metrics.refusal(error.code)
                await respond(error)(scope, receive, send)
        finally:
            self._note("SOCKET", self._place(scope["path"]), status, perf_counter() - began, secrets.token_hex(8))

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        path, pages = scope["path"], self._pages
        if path not in OPEN_TO_ALL:  # which are asked by balancers, under whatever name
            self._origins.check(scope, headers)
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            # Only pages take a cookie: another site may make a browser send it, and they look where a form comes from.
            token = _cookie(headers) if pages is not None and pages.place(path) else b""
        if token or self._signs_in(scope):
            self._brake.check(_address(scope), token)
        session_id = headers.get(b"x-session-id", b"").decode("latin-1")
        caller = self._roles.caller(token.strip(), session_id)
        is_open = path in OPEN_TO_ALL or (pages is not None and pages.is_open(path))
        if caller is None and not is_open:
            if token:
                self._brake.wrong(_address(scope))
            raise WrongToken
        if caller is not None and (caller.owner or caller.admin):
            self._brake.right(_address(scope), token)
        scope.setdefault("state", {})["caller"] = caller = caller or Caller("", False, session_id)
        if not (is_open or self._roles.admits(caller, path)):
            raise NotForAgents
        self._quotas.check_bytes(caller.counted_as)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _MOST_DIGITS or int(length) > self._settings.body_limit:
            raise TooLarge(self._settings.body_limit)

    def _place(self, path: str) -> str:
        if path in self._places:
            return path
        return (self._pages.place(path) if self._pages is not None else "") or ELSEWHERE

    def _signs_in(self, scope: Scope) -> bool:
        """Whether a request is a form with a token in it."""
        return self._pages is not None and scope.get("method") == "POST" and self._pages.is_open(scope["path"])

    def _counted(self, receive: Receive, owner: str) -> Receive:
        """Count what arrives by a socket, and stop reading for a while when a caller has sent too much."""

        async def counted() -> Message:
            if (wait := self._quotas.wait(owner)) > 0:
                await asyncio.sleep(wait)
            message = await receive()
            self._quotas.spend(owner, len(message.get("text") or message.get("bytes") or b""))
            return message

        return counted

    def _bounded(self, receive: Receive, owner: str) -> Receive:
        """The body as it comes in, until it is too long or takes too long."""
        limit, seconds = self._settings.body_limit, self._settings.request_seconds
        deadline = asyncio.get_running_loop().time() + seconds
        size, whole = 0, False

        async def bounded() -> Message:
            nonlocal size, whole
            if whole:  # what comes now is that the caller has left, and some stay for long
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise TooSlow(seconds) from None
            size += len(message.get("body", b""))
            self._quotas.spend(owner, len(message.get("body", b"")))
            whole = not message.get("more_body", False)
            if size > limit:
                raise TooLarge(limit)
            return message

        return bounded

    def _note(self, method: str, place: str, status: int, seconds: float, request_id: str) -> None:
        self._metrics.request(place, status, seconds)
        quiet = place in QUIET and status < 400
        level = logging.DEBUG if quiet else logging.INFO if status < 500 else logging.ERROR
        if REQUESTS.isEnabledFor(level):
            # The place and not the address: that may hold a session's id, which is all one needs to play on.
            about: dict[str, Any] = {"method": method, "place": place, "status": status}
            REQUESTS.log(level, "request", extra={**about, "ms": round(seconds * 1000, 2), "request_id": request_id})


def respond(error: ServeError, agent: bool = True) -> Response:
    """An error as JSON. Unless the caller is known to be no agent, it shows neither a reward nor a verdict."""
    headers = {"retry-after": str(error.retry_after)} if isinstance(error, Busy) else {}
    if isinstance(error, WrongToken):
        headers["www-authenticate"] = "Bearer"
    return Response(encode(error_reply(error, agent)), error.status, headers, JSON)


def said(pages: Pages | None, scope: Scope, error: ServeError) -> Response:
    """An error to whoever asked: a page for people, JSON for programs."""
    if pages is not None and pages.wants(scope):
        return pages.refusal(scope, error)
    caller: Caller | None = scope.get("state", {}).get("caller")
    return respond(error, caller is None or caller.agent)


def _address(scope: Scope) -> str:
    """Where a request comes from."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _cookie(headers: dict[bytes, bytes]) -> bytes:
    """The token that a browser brings."""
    for part in headers.get(b"cookie", b"").split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == COOKIE.encode():
            return unquote_to_bytes(value)
    return b""
