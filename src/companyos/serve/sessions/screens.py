"""The interface to the browser that takes screenshots. `companyos.web` implements it; a server without pages has none."""

from typing import Literal, Protocol

from companyos.serve.steps import StepRequest, StepResult

Picture = Literal["png", "jpeg"]
SCREEN = "screen"  # the app of clicks, keys and other gestures, in sessions that are observed by screenshots
# The ids of these sessions start with this prefix, so every worker recognises them without asking the ledger.
SCREENSHOT_PREFIX = "~screen"


class ScreenBackend(Protocol):
    """A browser with a page for each session that is observed by screenshots."""

    async def start(self) -> None:
        """Start the browser, if it is not running. Raise `NoScreens` with the reason if it cannot start."""

    async def picture(self, session_id: str, owner: str | None, kind: Picture) -> bytes:
        """Return a screenshot of the agent's current page. Owner None stands for the operator of the server."""

    async def step(self, step: StepRequest) -> StepResult:
        """Make a tool call, or a gesture on the screen. The result has a screenshot."""

    async def close(self) -> None:
        """Stop the browser."""


def has_screenshots(session_id: str) -> bool:
    """Return whether a session is observed by screenshots."""
    return session_id.startswith(SCREENSHOT_PREFIX)
