"""Screens: what a server knows of pictures of its pages. They come from above, with the pages, or there are none."""

from typing import Literal, Protocol

from companyos.serve.steps import Outcome, Step

Picture = Literal["png", "jpeg"]
SCREEN = "screen"  # what a click, a key and the like are calls of, where an episode is looked at by pictures
# How ids of sessions begin whose observations are pictures: so every worker knows it, and no ledger needs another column.
PICTURED = "~screen"


class Screens(Protocol):
    """A browser in which sessions are looked at and worked in, each on a page of its own."""

    async def start(self) -> None:
        """Makes sure that there is a browser; `NoScreens` says why there can be none."""

    async def picture(self, session_id: str, owner: str | None, kind: Picture) -> bytes:
        """The page that a session's agent is on. Owner None is whoever runs the server."""

    async def step(self, step: Step) -> Outcome:
        """A call as any other, or what is done on the screen; with a picture of what came of it."""

    async def close(self) -> None:
        """Ends the browser."""


def is_pictured(session_id: str) -> bool:
    """Whether the observations of a session are pictures."""
    return session_id.startswith(PICTURED)
