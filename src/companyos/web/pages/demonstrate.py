"""The requests that start a demonstration and make its steps. The pages that show it are those of `/watch`."""

import time

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.serve.errors import Malformed
from companyos.serve.http.requests import client_of
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.demonstrations import demonstrator
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.demonstrations import CARELESS, EXPERT
from companyos.web.pages.play import reset_body
from companyos.web.pages.watch import WatchPages
from companyos.web.site import HEADERS, FormState, Site, read_form, redirect_to

MAX_SECONDS = 20.0  # of one request that plays an episode to its end; the visitor can then send another one


class DemonstrationPages:
    """The forms of demonstrations, under `/watch`."""

    prefix, title = "/watch", ""

    def __init__(self, watch: WatchPages) -> None:
        self._watch = watch

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._demonstrations = self._watch.demonstrations
        site.templates.globals["demonstrations"] = [
            (EXPERT, "Watch the expert"),
            (CARELESS, "Watch a careless agent fail"),
            *([(self._demonstrations.trained, "Watch the trained model")] if self._demonstrations.trained else []),
        ]
        app.router.routes.extend(
            [
                Route("/watch/new", self.start, methods=["POST"]),
                Route("/watch/{code}/next", self.next, methods=["POST"]),
            ]
        )

    async def start(self, request: Request) -> Response:
        """Start a demonstration and open the page that plays it. Without a family, the server chooses the task."""
        form = await read_form(request)
        try:
            body = reset_body(form) if form.first("family") else None
            session = await self._demonstrations.start(form.first("agent"), client_of(request), body)
        except Malformed as error:
            return await self._watch.list_page(request, FormState(form.filled_in(), error))
        return redirect_to(f"/watch/{self._watch.code(session.header.session_id)}?play")

    async def next(self, request: Request) -> Response:
        """Let the agent make one step, or all (`steps=all`). A script gets JSON; other browsers return to the page."""
        form, client, code = await read_form(request), client_of(request), request.path_params["code"]
        session_id, turn = self._watch.session_id_of(code), form.first("turn")
        if not demonstrator(session_id):
            raise Malformed("in this session the server does not play")
        if not turn.isdecimal() or not turn.isascii() or len(turn) > 9:
            raise Malformed("the form does not say which turn this is for")
        session = await self._demonstrations.step(session_id, int(turn), client)
        deadline = time.monotonic() + MAX_SECONDS
        while form.first("steps") == "all" and not session.env.done and time.monotonic() < deadline:
            session = await self._demonstrations.step(session_id, session.env.step_count + 1, client)
        if form.first("script"):
            progress = {"step": session.env.step_count, "done": session.env.done}
            return Response(msgspec.json.encode(progress), headers=HEADERS, media_type="application/json")
        return redirect_to(f"/watch/{code}")
