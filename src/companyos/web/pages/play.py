"""The pages on which a player chooses a task, or opens a shared link to one, and starts a session."""

import secrets
from contextlib import suppress
from typing import Any

import msgspec
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from companyos.chaos import read_doses
from companyos.core.errors import BadTask
from companyos.core.task import MAX_SEED, TaskId
from companyos.env import task_named
from companyos.families import FAMILIES, family
from companyos.serve.errors import InvalidTask, Malformed
from companyos.serve.http.requests import client_of
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin, read_reset
from companyos.serve.sessions.truth import TruthAccess
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.web.labels import title_and_question
from companyos.web.links import decode_task_link
from companyos.web.site import FormState, Site, SubmittedForm, read_form, redirect_to

PROPOSED_SEEDS = 1000  # the form proposes a random seed below this
# The task that the front page starts: the first of these seeds on which nobody works.
FIRST_FAMILY, FIRST_CHAOS, FIRST_SEEDS = "vendor_onboarding", 0.25, range(7, 57)
# The doses that the form offers, mildest first.
DAYS = (
    (0.0, "Calm", "Nothing goes wrong."),
    (0.25, "Monday", "Some figures are stale, some people are away."),
    (0.5, "Quarter end", "Queues, blocked tickets, failing calls."),
    (0.75, "Reorg", "Rules change while you work."),
    (1.0, "Meltdown", "Every kind of trouble at its maximum."),
)


class PlayPages:
    """The pages under `/play`."""

    prefix, title = "/play", "Play"

    def open(self, app: FastAPI, site: Site, queue: WorkQueue, metrics: Metrics, settings: Settings) -> None:
        self._site, self._queue, self._settings = site, queue, settings
        self._truth_access = TruthAccess()
        app.router.routes.extend(
            [
                Route("/play", self.choose),
                Route("/play", self.begin, methods=["POST"]),
                Route("/play/first", self.begin_first, methods=["POST"]),
                Route("/play/{code}", self.linked),
                Route("/play/{code}", self.begin_linked, methods=["POST"]),
            ]
        )

    async def choose(self, request: Request) -> Response:
        """The form that asks for the family, the dose of chaos and the seed."""
        return self._choice_page(FormState(dict(request.query_params)))

    def _choice_page(self, chosen: FormState) -> Response:
        return self._site.page("play.html", chosen.status, chosen=chosen, **task_choices())

    async def begin(self, request: Request) -> Response:
        """Start a session and open its first page. A mistake is shown in the form."""
        form = await read_form(request)
        try:
            return await self._start(request, reset_body(form))
        except Malformed as error:
            return self._choice_page(FormState(form.filled_in(), error))

    async def begin_first(self, request: Request) -> Response:
        """Start a first task that no unfinished session has: such a session would withhold the player's verdict."""
        await read_form(request)
        tasks = [task_named(FIRST_FAMILY, seed, FIRST_CHAOS) for seed in FIRST_SEEDS]
        in_use = await self._queue.run(lambda sessions: self._truth_access.unfinished(sessions, tasks))
        task = next((task for task in tasks if task.key not in in_use), tasks[0])
        return await self._start(request, ResetBody(task=str(task)))

    async def linked(self, request: Request) -> Response:
        """The page of a shared link. It shows what a player may know before the start."""
        task = _linked_task(request)
        name, question = title_and_question(family(task.family))
        return self._site.page(
            "play_link.html",
            code=request.path_params["code"],
            name=name,
            question=question,
            dose=max(read_doses(task.doses).values()),
        )

    async def begin_linked(self, request: Request) -> Response:
        await read_form(request)
        return await self._start(request, ResetBody(task=str(_linked_task(request))))

    async def _start(self, request: Request, body: ResetBody) -> Response:
        session = await begin(self._queue, self._settings, body, client_of(request).owner)
        return redirect_to(f"/office/{session.header.session_id}/0")


def task_choices() -> dict[str, Any]:
    """Return the values of a form that asks for a task: what it offers, and a random seed."""
    return {
        "families": [(name, *title_and_question(family)) for name, family in FAMILIES.items()],
        "days": DAYS,
        "seed": secrets.randbelow(PROPOSED_SEEDS),
        "max_seed": MAX_SEED,
    }


def reset_body(form: SubmittedForm) -> ResetBody:
    """Return the reset request of a form that asks for a task. Empty fields get their defaults."""
    task = form.first("family")
    fields = {"task": task or None, "seed": _number(form, "seed", int), "chaos": _number(form, "chaos", float)}
    with suppress(BadTask):  # a whole task id includes the seed and the dose
        TaskId.parse(task)
        fields = {"task": task}
    return read_reset(fields)


def _number(form: SubmittedForm, name: str, kind: type[int] | type[float]) -> int | float | None:
    """Return the number in a field, or None if it is empty."""
    text = form.first(name).strip()
    try:
        return msgspec.convert(text, kind, strict=False) if text else None
    except msgspec.ValidationError:
        raise Malformed(f"{name} is a number, not {text!r} - at `$.{name}`") from None


def _linked_task(request: Request) -> TaskId:
    """Return the task of the link that was opened."""
    try:
        task = decode_task_link(request.path_params["code"])
        family(task.family)
        read_doses(task.doses)
    except ValueError as error:
        raise InvalidTask(str(error) if isinstance(error, BadTask) else "this link does not lead to a task") from None
    return task
