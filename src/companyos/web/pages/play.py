"""Play: choosing a task, or following a link to one, and sitting down at it."""

import secrets
from contextlib import suppress

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.chaos import read_doses
from companyos.core.errors import BadTask as NoSuchTask
from companyos.core.task import MAX_SEED, TaskId
from companyos.families import FAMILIES, family
from companyos.serve.errors import BadTask, Malformed
from companyos.serve.http.requests import caller_of
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.lane import Lane
from companyos.web.links import task_of
from companyos.web.site import Form, Site, form_of, go_to
from companyos.web.words import asked

SEEDS = 1000  # from which one is proposed
# Days by their dose, mildest first, as the form offers them.
DAYS = (
    (0.0, "Calm", "Nothing goes wrong. The work alone."),
    (0.25, "Monday", "Some stale figures, somebody away."),
    (0.5, "Quarter end", "Queues, blocks, faults: an honest week."),
    (0.75, "Reorg", "Rules move while you work."),
    (1.0, "Meltdown", "Every dial at its worst."),
)


class Play:
    """The pages at `/play`."""

    place, title = "/play", "Play"

    def open(self, app: FastAPI, site: Site, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._site, self._lane, self._settings = site, lane, settings
        app.router.routes.extend(
            [
                Route("/play", self.choose),
                Route("/play", self.begin, methods=["POST"]),
                Route("/play/{code}", self.linked),
                Route("/play/{code}", self.begin_linked, methods=["POST"]),
            ]
        )

    async def choose(self, request: Request) -> Response:
        """The form: which work, on what kind of day, with which seed."""
        chosen = request.query_params.get("family", "")
        return self._site.page(
            "play.html",
            families=[(name, *asked(one)) for name, one in FAMILIES.items()],
            chosen=chosen if chosen in FAMILIES else next(iter(FAMILIES)),
            days=DAYS,
            seed=secrets.randbelow(SEEDS),
            most=MAX_SEED,
        )

    async def begin(self, request: Request) -> Response:
        """Begins a session like any other, and opens its first page."""
        return await self._sit_down(request, _asked_for(await form_of(request)))

    async def linked(self, request: Request) -> Response:
        """What a link leads to, as far as one may know before one has begun."""
        task = _linked_task(request)
        name, question = asked(family(task.family))
        return self._site.page(
            "linked.html",
            code=request.path_params["code"],
            name=name,
            question=question,
            dose=max(read_doses(task.doses).values()),
        )

    async def begin_linked(self, request: Request) -> Response:
        await form_of(request)
        return await self._sit_down(request, ResetBody(task=str(_linked_task(request))))

    async def _sit_down(self, request: Request, body: ResetBody) -> Response:
        session = await begin(self._lane, self._settings, body, caller_of(request).owner)
        return go_to(f"/office/{session.header.session_id}/0")


def _asked_for(form: Form) -> ResetBody:
    """A family or task id, a seed, a dose; what is not said is as by default."""
    task = form.one("family")
    given = {"task": task or None, "seed": _number(form, "seed", int), "chaos": _number(form, "chaos", float)}
    with suppress(NoSuchTask):  # whoever types a whole task id has said everything
        TaskId.parse(task)
        given = {"task": task}
    return read_reset(given)


def _number(form: Form, name: str, kind: type[int] | type[float]) -> int | float | None:
    text = form.one(name).strip()
    try:
        return msgspec.convert(text, kind, strict=False) if text else None
    except msgspec.ValidationError:
        raise Malformed(f"{name} is a number, not {text!r}") from None


def _linked_task(request: Request) -> TaskId:
    try:
        task = task_of(request.path_params["code"])
        family(task.family)
        read_doses(task.doses)
    except ValueError as mistake:
        raise BadTask(str(mistake) if isinstance(mistake, NoSuchTask) else "this link leads to no task") from None
    return task
