"""The middleware that every request passes: it checks token, origin, quotas and size, then counts and logs the request."""

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
from companyos.serve.access.quotas import Quotas, SignInLimiter
from companyos.serve.access.roles import Client, Roles
from companyos.serve.errors import Busy, NotForAgents, ServeError, TooLarge, TooSlow, WrongToken
from companyos.serve.http.pages import COOKIE, Pages
from companyos.serve.messages.bodies import error_reply
from companyos.serve.messages.wire import JSON, encode
from companyos.serve.ops.logs import REQUESTS
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings

PATHS_WITHOUT_TOKEN = ("/health", "/ready")  # the pages have more: `Pages.is_open`
QUIET_ROUTES = (
    "/step",
    "/rollout",
    "/mcp-server",
    "/health",
    "/ready",
    "/metrics",
)  # too frequent to log each at level info
UNKNOWN_ROUTE = "elsewhere"  # the route name of unknown paths in metrics and logs
_MAX_DIGITS = 15  # of a Content-Length; longer numbers are refused unread
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")


class Guard:
    """ASGI middleware. Stores the client in the state of the request, as `client`."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        metrics: Metrics,
        roles: Roles,
        routes: Collection[str],
        pages: Pages | None = None,
    ) -> None:
        self._app = app
        self._pages = pages
        self._routes = routes  # known paths; metrics and logs put all others under one name
        self._settings = settings
        self._metrics = metrics
        self._roles = roles
        self._origins = Origins(settings)
        self._sign_in_limiter = SignInLimiter()
        self._quotas = Quotas(settings.token_bytes, settings.token_sockets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = perf_counter(), 500
        headers = dict(scope["headers"])
        sent_id = headers.get(b"x-request-id", b"")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else secrets.token_hex(8).encode()
        scope.setdefault("state", {})["request_id"] = request_id.decode()  # error pages show it

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if status == WrongToken.status and self._is_sign_in(scope):
                    self._sign_in_limiter.record_wrong(_address(scope))
                message["headers"] = [*message["headers"], (b"x-request-id", request_id)]
            await send(message)

        try:
            try:
                self._admit(scope, headers)
            except ServeError as error:
                self._metrics.refusal(error.code)
                await error_response(self._pages, scope, error)(scope, receive, send_with_id)
            else:
                await self._app(scope, self._limited(receive, scope["state"]["client"].quota_owner), send_with_id)
        finally:
            route = self._route(scope["path"])
            self._record(scope["method"], route, status, perf_counter() - started, request_id.decode())

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a WebSocket as one long request: checked before it opens, counted and logged when it closes."""
        started, status, headers = perf_counter(), 101, dict(scope["headers"])
        try:
            try:
                self._admit(scope, headers)
                owner = scope["state"]["client"].quota_owner
                with self._quotas.socket(owner):
                    await self._app(scope, self._counted(receive, owner) if owner else receive, send)
            except ServeError as error:
                status = error.status
                self._metrics.refusal(error.code)
                await json_error(error)(scope, receive, send)
        finally:
            self._record("SOCKET", self._route(scope["path"]), status, perf_counter() - started, secrets.token_hex(8))

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise a `ServeError` unless the request is allowed; store its client in the state."""
        path, pages = scope["path"], self._pages
        if path not in PATHS_WITHOUT_TOKEN:  # load balancers call the paths without token, under any host name
            self._origins.check(scope, headers)
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer":
            # Only pages accept the cookie: another site can make a browser send it, and pages check where a form comes from.
            token = _cookie(headers) if pages is not None and pages.route_name(path) else b""
        if token or self._is_sign_in(scope):
            self._sign_in_limiter.check(_address(scope), token)
        session_id = headers.get(b"x-session-id", b"").decode("latin-1")
        client = self._roles.client(token.strip(), session_id)
        is_open = path in PATHS_WITHOUT_TOKEN or (pages is not None and pages.is_open(path))
        if client is None and not is_open:
            if token:
                self._sign_in_limiter.record_wrong(_address(scope))
            raise WrongToken
        if client is not None and (client.owner or client.admin):
            self._sign_in_limiter.record_valid(_address(scope), token)
        scope.setdefault("state", {})["client"] = client = client or Client("", False, session_id)
        if not (is_open or self._roles.admits(client, path)):
            raise NotForAgents
        self._quotas.check_bytes(client.quota_owner)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or len(length) > _MAX_DIGITS or int(length) > self._settings.body_limit:
            raise TooLarge(self._settings.body_limit)

    def _route(self, path: str) -> str:
        if path in self._routes:
            return path
        return (self._pages.route_name(path) if self._pages is not None else "") or UNKNOWN_ROUTE

    def _is_sign_in(self, scope: Scope) -> bool:
        """Return whether a request is a sign-in form, which contains a token."""
        return self._pages is not None and scope.get("method") == "POST" and self._pages.is_open(scope["path"])

    def _counted(self, receive: Receive, owner: str) -> Receive:
        """Return a `receive` for a socket. It counts bytes, and waits before it reads if the client has sent too much."""

        async def receive_counted() -> Message:
            if (wait := self._quotas.seconds_to_wait(owner)) > 0:
                await asyncio.sleep(wait)
            message = await receive()
            self._quotas.record_bytes(owner, len(message.get("text") or message.get("bytes") or b""))
            return message

        return receive_counted

    def _limited(self, receive: Receive, owner: str) -> Receive:
        """Return a `receive` for the body. It raises `TooLarge` or `TooSlow` when the body is too long or takes too long."""
        limit, seconds = self._settings.body_limit, self._settings.request_seconds
        deadline = asyncio.get_running_loop().time() + seconds
        size, complete = 0, False

        async def receive_limited() -> Message:
            nonlocal size, complete
            if complete:  # the next message says that the client has disconnected, which may take long
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise TooSlow(seconds) from None
            size += len(message.get("body", b""))
            self._quotas.record_bytes(owner, len(message.get("body", b"")))
            complete = not message.get("more_body", False)
            if size > limit:
                raise TooLarge(limit)
            return message

        return receive_limited

    def _record(self, method: str, route: str, status: int, seconds: float, request_id: str) -> None:
        self._metrics.request(route, status, seconds)
        is_quiet = route in QUIET_ROUTES and status < 400
        level = logging.DEBUG if is_quiet else logging.INFO if status < 500 else logging.ERROR
        if REQUESTS.isEnabledFor(level):
            # The route is logged, not the URL, because a URL may contain a session id, which allows to continue the session.
            # The field is called "place" because programs read these logs under that name.
            fields: dict[str, Any] = {"method": method, "place": route, "status": status}
            REQUESTS.log(level, "request", extra={**fields, "ms": round(seconds * 1000, 2), "request_id": request_id})


def json_error(error: ServeError, agent: bool = True) -> Response:
    """Return an error as JSON. For agents, and for unknown clients, it contains no reward and no verdict."""
    headers = {"retry-after": str(error.retry_after)} if isinstance(error, Busy) else {}
    if isinstance(error, WrongToken):
        headers["www-authenticate"] = "Bearer"
    return Response(encode(error_reply(error, agent)), error.status, headers, JSON)


def error_response(pages: Pages | None, scope: Scope, error: ServeError) -> Response:
    """Return an error as a page for people, or as JSON for programs."""
    if pages is not None and pages.wants(scope):
        return pages.refusal(scope, error)
    client: Client | None = scope.get("state", {}).get("client")
    return json_error(error, client is None or client.agent)


def request_id_of(scope: Scope) -> str:
    """Return the id of a request, as the log has it. Empty if `Guard` has not seen the request."""
    request_id: str = scope.get("state", {}).get("request_id", "")
    return request_id


def _address(scope: Scope) -> str:
    """Return the IP address of the client."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _cookie(headers: dict[bytes, bytes]) -> bytes:
    """Return the token in the cookie of a browser."""
    for part in headers.get(b"cookie", b"").split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == COOKIE.encode():
            return unquote_to_bytes(value)
    return b""
