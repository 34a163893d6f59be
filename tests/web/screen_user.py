"""A user of the screen API, who clicks at points and types, and sees only pictures.

A second browser with the same page and size tells the test where things are.
"""

from base64 import b64decode
from typing import Any

import httpx

from companyos.core.calls import Call
from companyos.env.line_syntax import write_line
from companyos.web.screen.gestures import HEIGHT


class ScreenUser:
    """Works in one session over REST. `page` is the second browser's page."""

    def __init__(self, guest: httpx.Client, page: Any, task: str) -> None:
        self._guest, self._page = guest, page
        self._scrolled = 0
        self.last = self._take(guest.post("/reset", json={"task": task, "observation": "screenshot"}))
        self.session_id: str = self.last["session_id"]

    @property
    def picture(self) -> bytes:
        return b64decode(self.last["observation"]["screenshot"])

    def does(self, method: str, **params: Any) -> dict[str, Any]:
        return self.calls("screen", method, **params)

    def calls(self, app: str, method: str, **params: Any) -> dict[str, Any]:
        body = {"session_id": self.session_id, "app": app, "method": method, "params": params}
        turn = self.last["turn"]
        self.last = self._take(self._guest.post("/step", json=body))
        if self.last["turn"] != turn:
            self._scrolled = 0
        return self.last

    def look_at(self, page: str) -> None:
        """Open the screen's current page in the second browser, to measure it."""
        self._page.goto(f"{self._guest.base_url}/office/{self.session_id}/{page}")

    def click(self, what: Any) -> dict[str, Any]:
        """Click the centre of an element, after scrolling to it if necessary."""
        box = what.bounding_box()
        x, y = int(box["x"] + box["width"] / 2), int(box["y"] + box["height"] / 2)
        if not 80 <= y - self._scrolled < HEIGHT - 20:  # below the top bar, which does not scroll
            there = max(0, y - HEIGHT // 2)
            self.does("scroll", dy=there - self._scrolled)
            self._scrolled = there
        return self.does("click", x=x, y=y - self._scrolled)

    def types_call(self, call: Call) -> None:
        """Type a call on the brief's page, with the keyboard."""
        self.look_at("0")
        self.click(self._page.get_by_role("link", name="Brief"))
        self.does("key", key="/")
        self.does("type", text=write_line(call))
        self.does("key", key="Enter")

    def _take(self, reply: httpx.Response) -> dict[str, Any]:
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found
