"""Replay: a transcript as a page to step through, from a file that is dropped, a run's folder or a session that is over.

The work is done in a process of its own: looking closely at an episode takes a good part of a second, in which others step.
"""

from fastapi import FastAPI
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.families import family
from companyos.serve.errors import Malformed, NoSuchPlace, NotOver, StillOpen
from companyos.serve.http.requests import caller_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.truth import Truth
from companyos.web.episode.review import OtherTimes, Review, Unreadable, pieces, review
from companyos.web.pages.watch import Watch, Watched, owner_of
from companyos.web.shelf import Shelf
from companyos.web.site import Site, check_origin
from companyos.web.words import asked


class Replay:
    """The pages at `/replay`."""

    place, title = "/replay", "Replay"

    def __init__(self, watch: Watch, shelf: Shelf) -> None:
        self._watch, self._shelf = watch, shelf
        self._truth = Truth()

    def open(self, app: FastAPI, site: Site, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._site, self._lane = site, lane
        site.templates.globals |= {"pieces": pieces}
        app.router.routes.extend(
            [
                Route("/replay", self.ask),
                Route("/replay", self.dropped, methods=["POST"]),
                Route("/replay/episode", self.episode),
                Route("/replay/session/{code}", self.session),
            ]
        )

    async def ask(self, request: Request) -> Response:
        """Where to drop a file."""
        return await self._asked_again()

    async def dropped(self, request: Request) -> Response:
        """A file that came with the form, or its text that came back with the choice of a twin. Nothing of it is kept."""
        check_origin(request)
        try:
            async with request.form(max_files=1, max_fields=4) as form:
                file, twin = form.get("file"), form.get("twin", "")
                text = await file.read() if isinstance(file, UploadFile) else str(form.get("text", "")).encode()
        except HTTPException as mistake:
            raise Malformed(f"this is no form: {mistake.detail}") from None
        return await self._show(request, text, str(twin), again=text.decode("utf-8", "replace"))

    async def episode(self, request: Request) -> Response:
        """An episode of a run that lies in the folder of results."""
        asked_for = request.query_params
        trial = asked_for.get("trial", "0")
        if not (trial.isascii() and trial.isdecimal() and len(trial) < 7):
            raise Malformed("trial is a whole number")
        named = asked_for.get("run", ""), asked_for.get("task", ""), int(trial)
        text = await self._site.aside.run(self._shelf.transcript, *named)
        source = {name: asked_for[name] for name in ("run", "task", "trial") if name in asked_for}
        run = asked_for.get("run", "")
        return await self._show(request, text.encode(), asked_for.get("twin", ""), source=source, run=run)

    async def session(self, request: Request) -> Response:
        """A session that is over: here it is shown what is true in it. Who runs the server may look before."""
        code, owner = request.path_params["code"], owner_of(request)
        session_id = self._watch.session_of(code)
        watched: Watched = await self._lane.run(lambda sessions: Watched(sessions, session_id, owner))
        env = watched.telling.env
        if not env.done and not caller_of(request).admin:
            raise NoSuchPlace("this episode is not over yet; it can be watched, and replayed once it is")
        text = env.transcript().to_jsonl().encode()
        return await self._show(request, text, request.query_params.get("twin", ""), source={})

    async def _show(
        self,
        request: Request,
        text: bytes,
        twin: str,
        again: str = "",
        source: dict[str, str] | None = None,
        run: str = "",
    ) -> Response:
        try:
            found = await self._reviewed(text, twin)
        except Unreadable as mistake:
            other = isinstance(mistake, OtherTimes)
            return await self._asked_again(422, str(mistake), other)
        caller, task = caller_of(request), TaskId.parse(found.task_id)
        if not (found.done or caller.trusted):
            raise NotOver
        if not await self._lane.run(lambda sessions: self._truth.may_see(sessions, caller, task)):
            raise StillOpen
        title, _ = asked(family(task.family))
        return self._site.page("replayed.html", it=found, title=title, again=again, source=source, run=run)

    async def _asked_again(self, status: int = 200, wrong: str = "", other: bool = False) -> Response:
        runs = await self._site.aside.run(self._shelf.runs) if self._shelf.folder is not None else []
        return self._site.page("replay.html", status, wrong=wrong, other=other, version=BENCHMARK_VERSION, runs=runs)

    async def _reviewed(self, text: bytes, twin: str) -> Review:
        return await self._site.aside.run(review, text, twin)
