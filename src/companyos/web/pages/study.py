"""The pages of a study (`companyos serve --study`): each visitor plays a fixed list of tasks, one after the other.

A visitor gets a random number in a cookie with the first task. The sessions of a visitor have ids that begin with this
number and the number of the task, so a visitor who comes back continues where they stopped. No verdict is shown before the
last task is finished, because agents do not see one either.
"""

import asyncio
import secrets
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.evaluate.runs.study import StudyRun
from companyos.evaluate.suites.suite import suite
from companyos.serve.errors import UnknownSession
from companyos.serve.http.requests import client_of
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.site import Site, read_form, redirect_to

STUDY = "/study"
_SESSION_PREFIX = "study-"  # with which the ids of all sessions of a study begin
VISITOR_COOKIE = "companyos_visitor"
_VISITOR_NUMBERS = 10**12  # visitor numbers are below this
_COOKIE_SECONDS = 90 * 86400


class StudyPages:
    """The page `/study`, and the end of each episode, which leads back to it."""

    prefix, title = STUDY, "Study"

    def __init__(self, settings: Settings) -> None:
        """Open the run folder of the study."""
        self._run = StudyRun(Path(settings.study_out), suite(settings.study))
        self._settings = settings

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._site, self._queue = site, queue
        app.router.routes.extend(
            [
                Route(STUDY, self.overview),
                Route(STUDY, self.begin, methods=["POST"]),
                Route("/office/{session_id}/verdict", self.finished),
            ]
        )

    async def overview(self, request: Request) -> Response:
        """What the study is, how far this visitor is, and the button to the next task."""
        visitor = _visitor_of(request)
        session = await self._current_session(request, visitor) if visitor is not None else None
        done = self._run.done_by(visitor) if visitor is not None else {}
        return self._site.page(
            "study.html",
            tasks=len(self._run.tasks),
            done=len(done),
            successes=sum(done.values()),
            under_way=session is not None,
        )

    async def begin(self, request: Request) -> Response:
        """Open the visitor's next task: begin it, or continue it if it was begun before."""
        await read_form(request)
        known_visitor = _visitor_of(request)
        visitor = secrets.randbelow(_VISITOR_NUMBERS) if known_visitor is None else known_visitor
        session = await self._current_session(request, visitor)
        index = self._next_index(visitor)
        if index is None:
            return redirect_to(STUDY)
        if session is None:
            task_id = self._run.tasks[index]
            body, name = ResetBody(task=task_id), _session_name(visitor, index)
            session = await begin(self._queue, self._settings, body, client_of(request).owner, name=name)
            await asyncio.to_thread(self._run.record_start, visitor, task_id)
        response = redirect_to(f"/office/{session.header.session_id}")
        response.set_cookie(
            VISITOR_COOKIE,
            str(visitor),
            max_age=_COOKIE_SECONDS,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return response

    async def finished(self, request: Request) -> Response:
        """The end of an episode: record it, then show the overview instead of a verdict."""
        session_id, owner = request.path_params["session_id"], client_of(request).owner
        session = await self._queue.run(lambda sessions: sessions.observe(session_id, owner))
        if not session.env.done:
            return redirect_to(f"/office/{session_id}")
        await self._record_end(session)
        return redirect_to(STUDY)

    def _next_index(self, visitor: int) -> int | None:
        """Return the index of the first task that a visitor has not finished, or None if there is none."""
        done = self._run.done_by(visitor)
        return next((index for index, task_id in enumerate(self._run.tasks) if task_id not in done), None)

    async def _current_session(self, request: Request, visitor: int) -> Session | None:
        """Return the visitor's unfinished session. Record a session that has ended and was not recorded yet."""
        index, owner = self._next_index(visitor), client_of(request).owner
        if index is None:
            return None

        def find(sessions: Sessions) -> Session | None:
            session_id = sessions.ledger.newest(_session_name(visitor, index))
            try:
                return None if session_id is None else sessions.observe(session_id, owner)
            except UnknownSession:  # it has expired
                return None

        session = await self._queue.run(find)
        if session is None or not session.env.done:
            return session
        await self._record_end(session)
        return None

    async def _record_end(self, session: Session) -> None:
        """Write the episode of a session that a visitor has finished. Ignore sessions that do not belong to the study."""
        visitor, _, _ = session.header.session_id.removeprefix(_SESSION_PREFIX).partition("-")
        if session.header.session_id.startswith(_SESSION_PREFIX) and session.env.task_id in self._run.tasks:
            # `touched` changes when somebody looks, so the time of the last call comes from the ledger.
            last_call = (await self._queue.run(lambda sessions: sessions.entry(session.header.session_id, None))).touched
            seconds, text = last_call - session.header.created, session.env.transcript().to_jsonl()
            await asyncio.to_thread(self._run.record_end, int(visitor), session.env.task_id, text, seconds)


class StudyRedirect:
    """A path of another page that leads to the study instead, such as the front page."""

    title = ""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        async def redirect(_: Request) -> Response:
            return redirect_to(STUDY)

        app.router.routes.append(Route(self.prefix, redirect))


def _session_name(visitor: int, index: int) -> str:
    """Return the name with which the ids of a visitor's sessions of one task begin."""
    return f"{_SESSION_PREFIX}{visitor}-{index}"


def _visitor_of(request: Request) -> int | None:
    """Return the visitor number in the cookie, or None if there is none or it is not a number that a study drew."""
    text = request.cookies.get(VISITOR_COOKIE, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 12 else None
