"""Screen: one session's page in a browser that has no network. Whatever it asks for is answered here, in this process.

So there is no port to know and no token to hand over, nothing can leave the host, and a page is held to its own session:
wherever else it asks to go, it is led back to where its work is. A verdict is for people, who go there by themselves.
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

from companyos.serve.access.roles import Caller
from companyos.serve.errors import Malformed
from companyos.serve.sessions.screens import Picture
from companyos.web.screen.gestures import HEIGHT, WIDTH, Gesture
from companyos.web.site import STATIC

ORIGIN = "http://company.test"  # a name that nobody can have
QUALITY = 80  # of a JPEG, of 100
Answer = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers, body
_LOG = logging.getLogger("companyos.screens")
_LEAVES = ("Page.frameScheduledNavigation", "Page.frameRequestedNavigation")
_ARRIVES = ("Page.loadEventFired", "Page.navigatedWithinDocument")
# Whatever a gesture set off has been said by the time that this is answered: both come by the same line.
_PASSED = "new Promise(done => requestAnimationFrame(() => setTimeout(done)))"
# Of one kind, so that the same page is the same picture everywhere.
_LOOKS = {
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
    """A page in a context of its own, which belongs to one session until it is handed over, empty, to the next."""

    def __init__(self, office: ASGIApp) -> None:
        self._office = office
        self._still = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()
        self.is_open = False
        self.lock = asyncio.Lock()  # one thing at a time
        self.belong("", "")

    def belong(self, session_id: str, owner: str) -> None:
        """From here on the page is this session's; it has shown nothing of it yet."""
        self._place = f"/office/{session_id}"
        self._caller = Caller(owner, False, session_id)
        self.touched = time.monotonic()
        self.over = False  # the episode is
        self.turn = -1  # up to which it shows the episode

    async def open(self, browser: Any) -> None:
        """Makes the page. That takes a process of its own, and most of a second of a processor's time."""
        self._context = await browser.new_context(**_LOOKS)
        self._page = await self._context.new_page()
        self._context.on("page", lambda other: self._spawn(other.close()))  # there is one screen
        self._line = await self._context.new_cdp_session(self._page)
        for event in _LEAVES:
            self._line.on(event, lambda _: self._still.clear())
        for event in _ARRIVES:
            self._line.on(event, lambda _: self._still.set())
        self._line.on("Fetch.requestPaused", lambda paused: self._spawn(self._answer(paused)))
        await self._line.send("Page.enable")
        await self._line.send("Fetch.enable")
        self.is_open = True

    async def clear(self) -> None:
        """Leaves nothing on the page, behind it or beside it that was of its session."""
        await self._page.goto("about:blank")
        await asyncio.gather(*self._answers)
        await self._context.clear_cookies()
        await self._line.send("Storage.clearDataForOrigin", {"origin": ORIGIN, "storageTypes": "all"})
        await self._line.send("Page.resetNavigationHistory")

    async def show(self, turn: int) -> None:
        """Goes to the page of a turn, unless it is past it already."""
        if turn != self.turn:
            await self._page.goto(f"{ORIGIN}{self._place}/{turn}")
            self.turn = turn
            self._still.set()

    async def do(self, gesture: Gesture) -> None:
        """Does something on the page, and waits for what it set off."""
        from playwright.async_api import Error

        self._still.set()
        try:
            await gesture.perform(self._page)
        except Error as mistake:
            if "Unknown key" in mistake.message:
                raise Malformed("there is no such key - at `$.params.key`") from None
            raise
        try:
            await self._line.send("Runtime.evaluate", {"expression": _PASSED, "awaitPromise": True})
        except Error:  # the page has gone while it was asked
            if self._page.is_closed():
                raise
        await self._still.wait()

    async def picture(self, kind: Picture) -> bytes:
        how = {"format": kind, "optimizeForSpeed": True}
        shot = await self._line.send("Page.captureScreenshot", how | ({"quality": QUALITY} if kind == "jpeg" else {}))
        return b64decode(shot["data"])

    async def close(self) -> None:
        await self._context.close()

    # -- what the page asks for ------------------------------------------------------------------------------------

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, paused: dict[str, Any]) -> None:
        from playwright.async_api import Error

        asked = paused["request"]
        address = urlsplit(asked["url"])
        path = unquote(address.path)
        if f"{address.scheme}://{address.netloc}" == ORIGIN and self._is_own(path):
            status, headers, body = await self._ask(asked, path, address.query)
        elif paused["resourceType"] == "Document":
            status, headers, body = 303, [(b"location", self._place.encode())], b""
        else:  # such as an icon that no page named
            status, headers, body = 404, [], b""
        said = [{"name": name.decode("latin-1"), "value": value.decode("latin-1")} for name, value in headers]
        reply = {"requestId": paused["requestId"], "responseCode": status, "responseHeaders": said}
        with suppress(Error):  # the page may have gone elsewhere meanwhile
            await self._line.send("Fetch.fulfillRequest", reply | {"body": b64encode(body).decode()})

    def _is_own(self, path: str) -> bool:
        own = path == self._place or path.startswith(f"{self._place}/")
        return (own and path != f"{self._place}/verdict") or path.startswith(f"{STATIC}/")

    async def _ask(self, asked: dict[str, Any], path: str, query: str) -> Answer:
        """What the office replies to one request."""
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in asked["headers"].items()]
        sent = b"".join(b64decode(part["bytes"]) for part in asked.get("postDataEntries", ()))
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": asked["method"],
            "scheme": "http",
            "path": path,
            "root_path": "",
            "query_string": query.encode(),
            "headers": [*headers, (b"host", urlsplit(ORIGIN).netloc.encode())],
            "state": {"caller": self._caller},
        }
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": sent}

        async def send(message: Message) -> None:
            messages.append(message)

        try:
            await self._office(scope, receive, send)
        except Exception:
            _LOG.exception("a bug on a screen")  # which shows the page that was sent all the same
        body = b"".join(message.get("body", b"") for message in messages[1:])
        return messages[0]["status"], messages[0]["headers"], body
