"""The pages that replay an episode: from an uploaded file, from a run in the results folder, or from a finished session.

A replay takes a large part of a second, so it runs in the background process and other requests do not wait.
"""

from fastapi import FastAPI
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.families import family
from companyos.serve.errors import EpisodeNotOver, Malformed, TaskInUse, UnknownRoute
from companyos.serve.http.requests import client_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.truth import TruthAccess
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.episode.review import (
    EpisodeReview,
    OtherVersionTranscript,
    UnreadableTranscript,
    mark_differences,
    review,
)
from companyos.web.labels import title_and_question
from companyos.web.pages.gallery import list_address
from companyos.web.pages.watch import WatchedEpisode, WatchPages, owner_filter
from companyos.web.results_folder import ResultsFolder
from companyos.web.site import Site, check_origin


class ReplayPages:
    """The pages under `/replay`."""

    prefix, title = "/replay", "Replay"

    def __init__(self, watch: WatchPages, results_folder: ResultsFolder) -> None:
        self._watch, self._results = watch, results_folder
        self._truth_access = TruthAccess()

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._site, self._queue = site, queue
        site.templates.globals |= {"mark_differences": mark_differences}
        app.router.routes.extend(
            [
                Route("/replay", self.upload_page),
                Route("/replay", self.replay_upload, methods=["POST"]),
                Route("/replay/episode", self.episode),
                Route("/replay/session/{code}", self.session),
            ]
        )

    async def upload_page(self, request: Request) -> Response:
        """The page that asks for a transcript."""
        return await self._ask_for_file()

    async def replay_upload(self, request: Request) -> Response:
        """Replay an uploaded file. Nothing is stored.

        The page contains the text of the file. When the reader chooses a twin, the browser sends that text, not a file.
        """
        check_origin(request)
        try:
            async with request.form(max_files=1, max_fields=4) as form:
                file, twin = form.get("file"), form.get("twin", "")
                text = await file.read() if isinstance(file, UploadFile) else str(form.get("text", "")).encode()
        except HTTPException as error:
            raise Malformed(f"this is not a valid form: {error.detail}") from None
        return await self._show(request, text, str(twin), uploaded_text=text.decode("utf-8", "replace"))

    async def episode(self, request: Request) -> Response:
        """Replay an episode of a run in the results folder."""
        query = request.query_params
        trial = query.get("trial", "0")
        if not (trial.isascii() and trial.isdecimal() and len(trial) < 7):
            raise Malformed("trial must be a whole number")
        episode = query.get("run", ""), query.get("task", ""), int(trial)
        text = await self._site.background.run(self._results.transcript, *episode)
        own_query = {name: query[name] for name in ("run", "task", "trial", "family", "ended") if name in query}
        return await self._show(request, text.encode(), query.get("twin", ""), own_query=own_query, back=list_address(query))

    async def session(self, request: Request) -> Response:
        """Replay a finished session, with its hidden causes. An admin may look before the end."""
        session_id, owner = self._watch.session_id_of(request.path_params["code"]), owner_filter(request)
        watched: WatchedEpisode = await self._queue.run(lambda sessions: WatchedEpisode(sessions, session_id, owner))
        env = watched.recorder.env
        if not env.done and not client_of(request).admin:
            raise UnknownRoute("this episode is not over yet; you can watch it now and replay it later")
        text = env.transcript().to_jsonl().encode()
        return await self._show(request, text, request.query_params.get("twin", ""), own_query={})

    async def _show(
        self,
        request: Request,
        text: bytes,
        twin: str,
        uploaded_text: str = "",
        own_query: dict[str, str] | None = None,
        back: str = "",
    ) -> Response:
        """Return the page of a replay, beside a twin.

        `own_query` is the query of the page's address without the twin, or None for an uploaded file, whose page has no
        address. `back` is the address of the list from which the reader came.
        """
        try:
            reviewed: EpisodeReview = await self._site.background.run(review, text, twin)
        except UnreadableTranscript as error:
            return await self._ask_for_file(422, str(error), isinstance(error, OtherVersionTranscript))
        client, task = client_of(request), TaskId.parse(reviewed.task_id)
        if not (reviewed.done or client.trusted):
            raise EpisodeNotOver  # a transcript of an unfinished episode
        if not await self._queue.run(lambda sessions: self._truth_access.may_see(sessions, client, task)):
            raise TaskInUse  # a session of the same task is unfinished, and the page would show its right ending
        title, _ = title_and_question(family(task.family))
        return self._site.page(
            "replay_episode.html",
            review=reviewed,
            title=title,
            uploaded_text=uploaded_text,
            own_query=own_query,
            back=back,
        )

    async def _ask_for_file(self, status: int = 200, wrong: str = "", other_version: bool = False) -> Response:
        if self._results.is_sample:
            runs = self._results.runs()  # a small folder, so no other request has to wait
        else:
            runs = await self._site.background.run(self._results.runs)
        return self._site.page(
            "replay_upload.html", status, wrong=wrong, other=other_version, version=BENCHMARK_VERSION, runs=runs
        )
