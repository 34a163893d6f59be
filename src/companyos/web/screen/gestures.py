"""Gestures on a screen: click, type, key and scroll.

A gesture is sent as a call to the app `screen`, but does not count as a step. If it makes the page send a call to one of the
company's apps, that call counts.
"""

from collections.abc import Mapping
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from companyos.core.calls import Call
from companyos.serve.errors import Malformed

WIDTH, HEIGHT = 1024, 768

X = Annotated[int, Meta(ge=0, lt=WIDTH, description="from the left, in pixels of the picture")]
Y = Annotated[int, Meta(ge=0, lt=HEIGHT, description="from the top")]
Distance = Annotated[
    int, Meta(ge=-10_000, le=10_000, description="in pixels; positive: down or right; negative: up or left")
]


class _Gesture(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="method"):
    """A call to the app `screen`; the tag is its method. `perform` carries it out on a Playwright page."""


class Click(_Gesture, frozen=True, tag="click"):
    """Click at a point."""

    x: X
    y: Y

    async def perform(self, page: Any) -> None:
        await page.mouse.click(self.x, self.y)


class Type(_Gesture, frozen=True, tag="type"):
    """Type a text into the focused field. If no field has the focus, nothing happens. To press a key, use `key`."""

    text: Annotated[str, Meta(min_length=1, max_length=4000)]

    async def perform(self, page: Any) -> None:
        await page.keyboard.insert_text(self.text)


class Key(_Gesture, frozen=True, tag="key"):
    """Press a key or a combination: `Enter`, `Tab`, `Control+A`."""

    key: Annotated[str, Meta(min_length=1, max_length=40)]

    async def perform(self, page: Any) -> None:
        await page.keyboard.press(self.key)


class Scroll(_Gesture, frozen=True, tag="scroll"):
    """Scroll the element at a point."""

    dy: Distance
    dx: Distance = 0
    x: X = WIDTH // 2
    y: Y = HEIGHT // 2

    async def perform(self, page: Any) -> None:
        await page.mouse.move(self.x, self.y)
        await page.mouse.wheel(self.dx, self.dy)


Gesture = Click | Type | Key | Scroll
GESTURES = get_args(Gesture)


def read_gesture(call: Call) -> Gesture:
    """Return the gesture of a call to the app `screen`."""
    params: Mapping[str, Any] = call.params
    try:
        gesture: Gesture = msgspec.convert({**params, "method": call.method}, Gesture)
    except msgspec.ValidationError as error:
        # msgspec names the position in the merged object (`$.x`). Name the position in the call instead (`$.params.x`).
        problem, _, position = str(error).partition(" - at `$")
        position = "method" if position.startswith(".method") else f"params{position.rstrip('`')}"
        raise Malformed(f"{problem} - at `$.{position}`") from None
    return gesture
