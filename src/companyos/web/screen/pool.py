"""One headless browser, with a page for each session that works with pictures.

Opening a page is slow, so a free page is cleared and reused. `COMPANYOS_SCREENS` limits their number. If a session's page
was given to another session, it gets a new page, which shows its last turn; the text of a half-filled form is lost.
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

from companyos.core.errors import install_hint
from companyos.families.kit.goals import add_up
from companyos.serve.errors import Malformed, NoScreens, OverCapacity, ScreenLost, SessionOver
from companyos.serve.ops import programs
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.screens import SCREEN, Picture, has_screenshots
from companyos.serve.sessions.sessions import Session
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.serve.steps import StepRequest, StepResult
from companyos.web.screen.gestures import read_gesture
from companyos.web.screen.screen import Screen

PAGE_TIMEOUT_SECONDS = 20.0
OBSERVATION_FORMAT: Picture = "jpeg"
_LOG = logging.getLogger("companyos.screens")
_CHROMIUM_FLAGS = [
    "--host-resolver-rules=MAP * ~NOTFOUND",  # this process answers all requests; no name is looked up
    "--disable-smooth-scrolling",
]


class ScreenPool:
    """Implements `serve.sessions.screens.Screens` with Chromium and Playwright."""

    def open(self, app: FastAPI, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._queue, self._metrics, self._settings = queue, metrics, settings
        self._app = app
        self._screens: OrderedDict[str, Screen] = OrderedDict()  # by session id, the least recently used first
        self._starting = asyncio.Lock()
        self._playwright: Any = None
        self._browser: Any = None

    # -- the server's interface ------------------------------------------------------------------------------------

    async def start(self) -> None:
        if self._settings.workers > 1:
            raise NoScreens("screens need a single worker: run `companyos serve --workers 1`")
        async with self._starting:
            if self._browser is None or not self._browser.is_connected():
                await self.close()
                await self._launch()

    async def picture(self, session_id: str, owner: str | None, kind: Picture) -> bytes:
        session = await self._session(session_id, owner)
        async with self._screen(session) as screen:
            return await screen.picture(kind)

    async def step(self, step: StepRequest) -> StepResult:
        if step.call.app == SCREEN:
            return await self._gesture(step)
        await self.start()  # a step without its picture would be lost, so check the browser first
        result = await self._queue.step(step)
        self._metrics.steps(1)
        picture = await self.picture(step.session_id, step.owner, OBSERVATION_FORMAT)
        return msgspec.structs.replace(result, screenshot=picture)

    async def close(self) -> None:
        self._screens.clear()
        if self._playwright is not None:
            with suppress(Exception):  # it may have crashed
                await self._browser.close()
            await self._playwright.stop()
            self._playwright = self._browser = None

    # -- helpers ---------------------------------------------------------------------------------------------------

    async def _gesture(self, step: StepRequest) -> StepResult:
        """Carry out a gesture and return the result of the call that it made. Most gestures make none."""
        gesture = read_gesture(step.call)
        if step.turn is not None:
            raise Malformed("a gesture has no turn: look at the picture before you repeat it - at `$.turn`")
        session = await self._session(step.session_id, step.owner)
        if session.env.done:
            raise SessionOver(session.result)
        async with self._screen(session) as screen:
            steps_before = session.env.step_count
            await screen.perform(gesture)
            session = await self._session(step.session_id, step.owner)
            new_turns = session.env.turns[steps_before:]
            screen.turn = session.env.step_count
            picture = await screen.picture(OBSERVATION_FORMAT)
        observation = msgspec.structs.replace(session.last, reward=add_up(turn.reward for turn in new_turns))
        return StepResult(step.session_id, observation, session.env.success, picture)

    async def _session(self, session_id: str, owner: str | None) -> Session:
        return await self._queue.run(lambda sessions: sessions.observe(session_id, owner))

    @asynccontextmanager
    async def _screen(self, session: Session) -> AsyncIterator[Screen]:
        """Give exclusive use of the session's page, which shows the current turn."""
        await self.start()
        from playwright.async_api import Error

        screen = self._screen_of(session)
        try:
            async with screen.lock, asyncio.timeout(PAGE_TIMEOUT_SECONDS):
                if not screen.is_open:
                    await screen.open(self._browser)
                elif screen.turn < 0:
                    await screen.clear()
                await screen.show(session.env.step_count)
                yield screen
                screen.touched, screen.over = time.monotonic(), session.env.done
        except (Error, TimeoutError):
            _LOG.warning("lost a screen", exc_info=True)
            await self._discard(session.header.session_id)
            raise ScreenLost from None

    def _screen_of(self, session: Session) -> Screen:
        """Return the session's page. A session without a page takes a free or a new one."""
        session_id = session.header.session_id
        if session_id not in self._screens:
            screen = self._take_screen()
            screen.assign_to(session_id, session.header.owner)
            self._screens[session_id] = screen
        self._screens.move_to_end(session_id)
        return self._screens[session_id]

    def _take_screen(self) -> Screen:
        """Return a free page, a new one or an idle one. Raise `OverCapacity` if all are in use."""
        if free := self._least_recently_used(self._is_free):
            return self._screens.pop(free)
        if len(self._screens) < self._settings.screens:
            return Screen(_without_guard(self._app))
        if idle := self._least_recently_used(self._is_idle):
            return self._screens.pop(idle)
        raise OverCapacity(self._settings.screens, 1)

    def _least_recently_used(self, condition: Callable[[str, Screen], bool]) -> str:
        """Return the least recently used session whose page fulfils the condition, or an empty text."""
        unlocked = ((session_id, screen) for session_id, screen in self._screens.items() if not screen.lock.locked())
        return next((session_id for session_id, screen in unlocked if condition(session_id, screen)), "")

    def _is_free(self, session_id: str, screen: Screen) -> bool:
        return screen.over or not self._queue.sessions.holds(session_id)

    def _is_idle(self, session_id: str, screen: Screen) -> bool:
        """Return whether only time is lost with the page: the session was only rendered, or has been idle for long."""
        return not has_screenshots(session_id) or screen.touched + self._settings.idle_seconds < time.monotonic()

    async def _discard(self, session_id: str) -> None:
        screen = self._screens.pop(session_id, None)
        if screen is not None and screen.is_open:
            with suppress(Exception):  # the browser may have crashed
                await screen.close()

    async def _launch(self) -> None:
        try:
            from playwright.async_api import Error, async_playwright
        except ModuleNotFoundError:
            raise NoScreens(f"pictures need Playwright: {install_hint('browser')}") from None
        program = self._settings.chromium or programs.chromium()
        self._playwright = await async_playwright().start()
        try:
            # Chromium's sandbox does not work for root. Only our own pages are opened, and they run one script of ours.
            self._browser = await self._playwright.chromium.launch(
                executable_path=program, args=_CHROMIUM_FLAGS, chromium_sandbox=os.geteuid() != 0
            )
        except Error as error:
            await self._playwright.stop()
            self._playwright = None
            _LOG.warning("no browser: %s", error.message)
            raise NoScreens(
                "pictures need a Chromium: install one (`apt-get install chromium` or `playwright install chromium`), "
                "or set COMPANYOS_CHROMIUM to its path"
            ) from None


def _without_guard(app: FastAPI) -> ASGIApp:
    """Return the app without its authentication, for requests that are authorized already."""
    handlers = dict(app.exception_handlers)
    on_bug = handlers.pop(Exception, None)
    return ServerErrorMiddleware(ExceptionMiddleware(app.router, handlers), on_bug)
