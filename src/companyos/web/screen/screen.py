"""One session's page in a headless browser that has no network.

This process answers every request of the page itself, so the browser needs no port and no token, and nothing can leave
the host. The page can reach only its own session; any other address redirects back to it. The verdict page is blocked
too, because an agent must not see it.
"""

import asyncio
import logging
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message, Scope

from companyos.serve.access.roles import Client
from companyos.serve.errors import Malformed
from companyos.serve.sessions.screens import Picture
from companyos.web.screen.gestures import HEIGHT, WIDTH, Gesture
from companyos.web.site import STATIC

ORIGIN = "http://company.test"  # a reserved name, which cannot exist on the Internet
JPEG_QUALITY = 80  # at most 100
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers, body
_LOG = logging.getLogger("companyos.screens")
_NAVIGATION_STARTS = ("Page.frameScheduledNavigation", "Page.frameRequestedNavigation")
_NAVIGATION_ENDS = ("Page.loadEventFired", "Page.navigatedWithinDocument")
# All events of a gesture arrive before this promise resolves, because both use the same connection.
_NEXT_FRAME = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
# Fixed, so that the same page gives the same picture on every host.
_CONTEXT_OPTIONS = {
    "viewport": {"width": WIDTH, "height": HEIGHT},
    "device_scale_factor": 1,
    "color_scheme": "light",
    "reduced_motion": "reduce",
    "locale": "en-US",
    "timezone_id": "UTC",
    "accept_downloads": False,
    "service_workers": "block",
}


class Screen:
    """A page in its own browser context. It belongs to one session at a time and is cleared between sessions."""

    def __init__(self, office: ASGIApp) -> None:
        self._office = office
        self._loaded = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()
        self.is_open = False
        self.lock = asyncio.Lock()  # one gesture or picture at a time
        self.assign_to("", "")

    def assign_to(self, session_id: str, owner: str) -> None:
        """Assign the page to a session. It still shows the previous one until `clear` and `show`."""
        self._path = f"/office/{session_id}"
        self._client = Client(owner, False, session_id)
        self.touched = time.monotonic()
        self.over = False  # whether the episode has ended
        self.turn = -1  # the turn that the page shows

    async def open(self, browser: Any) -> None:
        """Create the page. This starts a renderer process and takes most of a second of CPU time."""
        self._context = await browser.new_context(**_CONTEXT_OPTIONS)
        self._page = await self._context.new_page()
        self._context.on("page", lambda popup: self._spawn(popup.close()))  # a pop-up would be a second screen
        # A connection for the Chrome DevTools Protocol: it reports navigation and lets this process answer requests.
        self._devtools = await self._context.new_cdp_session(self._page)
        for event in _NAVIGATION_STARTS:
            self._devtools.on(event, lambda _: self._loaded.clear())
        for event in _NAVIGATION_ENDS:
            self._devtools.on(event, lambda _: self._loaded.set())
        self._devtools.on("Fetch.requestPaused", lambda paused: self._spawn(self._answer(paused)))
        await self._devtools.send("Page.enable")
        await self._devtools.send("Fetch.enable")
        self.is_open = True

    async def clear(self) -> None:
        """Remove everything of the old session: the page, its cookies, storage and history."""
        await self._page.goto("about:blank")
        await asyncio.gather(*self._answers)
        await self._context.clear_cookies()
        await self._devtools.send("Storage.clearDataForOrigin", {"origin": ORIGIN, "storageTypes": "all"})
        await self._devtools.send("Page.resetNavigationHistory")

    async def show(self, turn: int) -> None:
        """Open the page of a turn, unless it is open already."""
        if turn != self.turn:
            await self._page.goto(f"{ORIGIN}{self._path}/{turn}")
            self.turn = turn
            self._loaded.set()

    async def perform(self, gesture: Gesture) -> None:
        """Carry out a gesture and wait until a navigation that it started has ended."""
        from playwright.async_api import Error

        self._loaded.set()
        try:
            await gesture.perform(self._page)
        except Error as error:
            if "Unknown key" in error.message:
                raise Malformed("unknown key - at `$.params.key`") from None
            raise
        try:
            await self._devtools.send("Runtime.evaluate", {"expression": _NEXT_FRAME, "awaitPromise": True})
        except Error:  # the page was navigating
            if self._page.is_closed():
                raise
        await self._loaded.wait()

    async def picture(self, kind: Picture) -> bytes:
        options = {"format": kind, "optimizeForSpeed": True}
        quality = {"quality": JPEG_QUALITY} if kind == "jpeg" else {}
        screenshot = await self._devtools.send("Page.captureScreenshot", options | quality)
        return b64decode(screenshot["data"])

    async def close(self) -> None:
        await self._context.close()

    # -- requests of the page ----------------------------------------------------------------------------------------

    def _spawn(self, work: Awaitable[None]) -> None:
        """Start a task and keep a reference to it, because the event loop keeps only a weak one."""
        task = asyncio.ensure_future(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, paused: dict[str, Any]) -> None:
        """Answer a request of the page, which the browser has paused."""
        from playwright.async_api import Error

        request = paused["request"]
        address = urlsplit(request["url"])
        path = unquote(address.path)
        if f"{address.scheme}://{address.netloc}" == ORIGIN and self._may_request(path):
            status, headers, body = await self._ask(request, path, address.query)
        elif paused["resourceType"] == "Document":
            status, headers, body = 303, [(b"location", self._path.encode())], b""
        else:  # for example an icon that the page does not name
            status, headers, body = 404, [], b""
        header_list = [{"name": name.decode("latin-1"), "value": value.decode("latin-1")} for name, value in headers]
        reply = {"requestId": paused["requestId"], "responseCode": status, "responseHeaders": header_list}
        with suppress(Error):  # the page may have left meanwhile
            await self._devtools.send("Fetch.fulfillRequest", reply | {"body": b64encode(body).decode()})

    def _may_request(self, path: str) -> bool:
        """Return whether the page may request a path."""
        in_session = path == self._path or path.startswith(f"{self._path}/")
        return (in_session and path != f"{self._path}/verdict") or path.startswith(f"{STATIC}/")

    async def _ask(self, request: dict[str, Any], path: str, query: str) -> Answer:
        """Send one request to the office and return its answer."""
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request["headers"].items()]
        request_body = b"".join(b64decode(part["bytes"]) for part in request.get("postDataEntries", ()))
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request["method"],
            "scheme": "http",
            "path": path,
            "root_path": "",
            "query_string": query.encode(),
            "headers": [*headers, (b"host", urlsplit(ORIGIN).netloc.encode())],
            "state": {"client": self._client},
        }
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": request_body}

        async def send(message: Message) -> None:
            messages.append(message)

        try:
            await self._office(scope, receive, send)
        except Exception:
            _LOG.exception("a bug on a screen")  # the error page was sent already
        body = b"".join(message.get("body", b"") for message in messages[1:])
        return messages[0]["status"], messages[0]["headers"], body
