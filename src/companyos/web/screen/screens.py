"""Screens: one headless browser for all sessions that are looked at by pictures, and a page in it for each.

A page is dear to open, so one that has become free is cleared and handed on. Pages are few (`COMPANYOS_SCREENS`): whoever
comes back to a session whose page was handed on is shown its last turn, and a form that was half filled in is gone.
"""

import asyncio
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp

from companyos.families.kit.goals import add_up
from companyos.serve.errors import Malformed, NoScreens, OverCapacity, ScreenLost, SessionOver
from companyos.serve.ops import programs
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.screens import SCREEN, Picture, is_pictured
from companyos.serve.sessions.sessions import Session
from companyos.serve.steps import Outcome, Step
from companyos.web.screen.gestures import read_gesture
from companyos.web.screen.screen import Screen

PATIENCE = 20.0  # seconds, with a page that does not answer
OBSERVED: Picture = "jpeg"
_LOG = logging.getLogger("companyos.screens")
_FLAGS = [
    "--host-resolver-rules=MAP * ~NOTFOUND",  # pages are answered in this process; nothing is looked up anywhere
    "--disable-smooth-scrolling",
]


class Screens:
    """`serve.screens.Screens`, in Chromium, by Playwright."""

    def open(self, app: FastAPI, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._lane, self._metrics, self._settings = lane, metrics, settings
        self._app = app
        self._screens: OrderedDict[str, Screen] = OrderedDict()  # those that make room first come first
        self._starting = asyncio.Lock()
        self._playwright: Any = None
        self._browser: Any = None

    # -- what doors ask for ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        if self._settings.workers > 1:
            raise NoScreens("pages that are half worked in live in one worker: run `companyos serve --workers 1`")
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self.close()
                await self._launch()

    async def picture(self, session_id: str, owner: str | None, kind: Picture) -> bytes:
        session = await self._session(session_id, owner)
        async with self._screen(session) as screen:
            return await screen.picture(kind)

    async def step(self, step: Step) -> Outcome:
        if step.call.app == SCREEN:
            return await self._gesture(step)
        await self.start()  # without a picture there is no step
        outcome = await self._lane.step(step)
        self._metrics.steps(1)
        shot = await self.picture(step.session_id, step.owner, OBSERVED)
        return msgspec.structs.replace(outcome, screenshot=shot)

    async def close(self) -> None:
        self._screens.clear()
        if self._playwright is not None:
            with suppress(Exception):  # it may have broken down already
                await self._browser.close()
            await self._playwright.stop()
            self._playwright = self._browser = None

    # -- helpers ---------------------------------------------------------------------------------------------------

    async def _gesture(self, step: Step) -> Outcome:
        """Does it, and tells what the call that it set off has brought; most gestures set off none."""
        gesture = read_gesture(step.call)
        if step.turn is not None:
            raise Malformed("what is done on a screen has no turn: look at the picture before you do it again - at `$.turn`")
        session = await self._session(step.session_id, step.owner)
        if session.env.done:
            raise SessionOver(session.outcome)
        async with self._screen(session) as screen:
            before = session.env.step_count
            await screen.do(gesture)
            session = await self._session(step.session_id, step.owner)
            made = session.env.turns[before:]
            screen.turn = session.env.step_count
            shot = await screen.picture(OBSERVED)
        seen = msgspec.structs.replace(session.last, reward=add_up(turn.reward for turn in made))
        return Outcome(step.session_id, seen, session.env.success, shot)

    async def _session(self, session_id: str, owner: str | None) -> Session:
        return await self._lane.run(lambda sessions: sessions.observe(session_id, owner))

    @asynccontextmanager
    async def _screen(self, session: Session) -> AsyncIterator[Screen]:
        """The session's page, at the turn that it stands at, for one thing at a time."""
        await self.start()
        from playwright.async_api import Error

        screen = self._of(session)
        try:
            async with screen.lock, asyncio.timeout(PATIENCE):
                if not screen.is_open:
                    await screen.open(self._browser)
                elif screen.turn < 0:
                    await screen.clear()
                await screen.show(session.env.step_count)
                yield screen
                screen.touched, screen.over = time.monotonic(), session.env.done
        except (Error, TimeoutError):
            _LOG.warning("a screen is lost", exc_info=True)
            await self._leave(session.header.session_id)
            raise ScreenLost from None

    def _of(self, session: Session) -> Screen:
        """The page of a session, or one that nobody works on any more, or another."""
        session_id = session.header.session_id
        if session_id not in self._screens:
            screen = self._spare()
            screen.belong(session_id, session.header.owner)
            self._screens[session_id] = screen
        self._screens.move_to_end(session_id)
        return self._screens[session_id]

    def _spare(self) -> Screen:
        """A page that has become free, or one more, or one that can be spared; `OverCapacity` where all are worked on."""
        if left := self._first(self._has_left):
            return self._screens.pop(left)
        if len(self._screens) < self._settings.screens:
            return Screen(_behind_guard(self._app))
        if idle := self._first(self._is_idle):
            return self._screens.pop(idle)
        raise OverCapacity(self._settings.screens, 1)

    def _first(self, holds: Callable[[str, Screen], bool]) -> str:
        """The session that was looked at longest ago, of those of which this is so."""
        found = (one for one, screen in self._screens.items() if not screen.lock.locked() and holds(one, screen))
        return next(found, "")

    def _has_left(self, session_id: str, screen: Screen) -> bool:
        return screen.over or not self._lane.sessions.holds(session_id)

    def _is_idle(self, session_id: str, screen: Screen) -> bool:
        """Whether nothing but time is lost with the page: somebody only looked, or has not come back for long."""
        return not is_pictured(session_id) or screen.touched + self._settings.idle_seconds < time.monotonic()

    async def _leave(self, session_id: str) -> None:
        screen = self._screens.pop(session_id, None)
        if screen is not None and screen.is_open:
            with suppress(Exception):  # it may be lost with its browser
                await screen.close()

    async def _launch(self) -> None:
        try:
            from playwright.async_api import Error, async_playwright
        except ModuleNotFoundError:
            raise NoScreens('pictures need Playwright: pip install "companyos[browser]"') from None
        program = self._settings.chromium or programs.chromium()
        self._playwright = await async_playwright().start()
        try:
            # Root can have no sandbox; all that is opened are pages of ours, which run one script of ours.
            self._browser = await self._playwright.chromium.launch(
                executable_path=program, args=_FLAGS, chromium_sandbox=os.geteuid() != 0
            )
        except Error as error:
            await self._playwright.stop()
            self._playwright = None
            _LOG.warning("no browser: %s", error.message)
            raise NoScreens(
                "pictures need a Chromium: install one (`apt-get install chromium` or `playwright install chromium`), "
                "or say where it is by COMPANYOS_CHROMIUM"
            ) from None


def _behind_guard(app: FastAPI) -> ASGIApp:
    """The app's places and errors for whoever has been let in already."""
    handlers = dict(app.exception_handlers)
    on_bug = handlers.pop(Exception, None)
    return ServerErrorMiddleware(ExceptionMiddleware(app.router, handlers), on_bug)
