"""The REST API: episodes over plain HTTP. A session is named in a header, in the body or in the query."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import FastAPI, Query, Request, Response
from starlette.routing import Route

from companyos.company import TOOLBOX, Toolbox
from companyos.core.task import BENCHMARK_VERSION, SPLITS
from companyos.env.rewards import PROFILES
from companyos.families import FAMILIES
from companyos.serve import errors
from companyos.serve.access.roles import Roles
from companyos.serve.errors import InvalidTask, Malformed, UnknownRoute, WrongToken
from companyos.serve.http.describe import VIEW_ENDPOINTS, Operation, openapi_function
from companyos.serve.http.requests import body_of, client_of, json_response, session_id_of, session_ids_in
from companyos.serve.messages.bodies import (
    CloseBody,
    CloseReply,
    ForkBody,
    ForkReply,
    ResetBody,
    ResetReply,
    RolloutAnswer,
    RolloutBody,
    RolloutReply,
    StepBody,
    StepReply,
    reset_reply_for_agent,
    reset_reply_for_trainer,
    rollout_answer,
    step_reply,
)
from companyos.serve.messages.wire import JSON, Reader, checked, encode
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin, task_id_for_reply
from companyos.serve.sessions.screens import SCREEN, Picture, has_screenshots
from companyos.serve.sessions.sessions import Answer, Session
from companyos.serve.sessions.stepper import Stepper
from companyos.serve.sessions.views import MEDIA_TYPES, View, inspect, render
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.serve.steps import StepRequest, StepResult

T = TypeVar("T")

# Errors of endpoints that take screenshots, name a session, load a session into memory, make a step, ...
_SCREEN_ERRORS = (errors.NoScreens, errors.ScreenLost)
_SESSION_ERRORS = (
    errors.UnknownSession, errors.OtherVersion, Malformed, WrongToken, errors.NotForAgents, errors.TooLarge,
    errors.LedgerDown,
)  # fmt: skip
_LOADING_ERRORS = (*_SESSION_ERRORS, errors.OverCapacity)
_STEP_ERRORS = (
    *_LOADING_ERRORS,
    errors.SessionOver,
    errors.TurnTaken,
    errors.TurnAhead,
    errors.SessionFull,
    *_SCREEN_ERRORS,
)
_RESET_ERRORS = (
    InvalidTask, Malformed, WrongToken, errors.NotForAgents, errors.AttemptUsed, errors.TooLarge, errors.OverCapacity,
    errors.LedgerDown, *_SCREEN_ERRORS,
)  # fmt: skip
_ROLLOUT_ERRORS = (Malformed, WrongToken, errors.NotForAgents, errors.TooLarge, errors.LedgerDown)
_SESSION_ENDPOINTS = ("step", "fork", "close", *VIEW_ENDPOINTS)
# Without summaries: these are the docstrings of the endpoints.
_OPERATIONS = {
    "/reset": Operation("", ResetBody, ResetReply, _RESET_ERRORS, needs_session=False, leads_to=_SESSION_ENDPOINTS),
    "/step": Operation("", StepBody, StepReply, _STEP_ERRORS, leads_to=_SESSION_ENDPOINTS),
    "/rollout": Operation("", RolloutBody, RolloutReply, _ROLLOUT_ERRORS, needs_session=False),
    "/fork": Operation("", ForkBody, ForkReply, _LOADING_ERRORS),
    "/close": Operation("", CloseBody, CloseReply, _LOADING_ERRORS),
}


class RestApi:
    """The endpoints for curl and for any language that has an HTTP client."""

    def __init__(self, queue: WorkQueue, stepper: Stepper, metrics: Metrics, settings: Settings, roles: Roles) -> None:
        self._queue = queue
        self._settings = settings
        self._roles = roles
        self._stepper = stepper
        self._metrics = metrics
        self._has_admin_token = bool(settings.admin_token)
        self._capacity = settings.capacity
        self._manifest = encode(manifest(TOOLBOX, settings.capacity))

    def open(self, app: FastAPI) -> None:
        """Add the endpoints to the app. The POST routes come first and bypass FastAPI, because steps are frequent."""
        posts = {
            f"/{endpoint.__name__}": endpoint for endpoint in (self.step, self.rollout, self.reset, self.fork, self.close)
        }
        app.router.routes[:0] = [Route(path, endpoint, methods=["POST"]) for path, endpoint in posts.items()]
        operations = {
            path: msgspec.structs.replace(_OPERATIONS[path], summary=endpoint.__doc__ or "")
            for path, endpoint in posts.items()
        }
        app.openapi = openapi_function(app, operations)  # type: ignore[method-assign]
        view_types: dict[str, Any] = {media_type: {} for media_type in MEDIA_TYPES.values()}
        for view, content in ((self.render, view_types), (self.inspect, {JSON: {}}), (self.manifest, {JSON: {}})):
            name, operation = view.__name__, Operation("", errors=(*_LOADING_ERRORS, *_SCREEN_ERRORS)).as_openapi()
            operation["responses"]["200"]["content"] = content
            description = {
                "openapi_extra": {"parameters": operation["parameters"]},
                "responses": operation["responses"],
            }
            app.add_api_route(f"/{name}", view, response_class=Response, operation_id=name, **description)
        for endpoint in (self.health, self.metrics):
            app.add_api_route(f"/{endpoint.__name__}", endpoint, response_class=Response)

    # -- episodes --------------------------------------------------------------------------------------------------

    async def reset(self, request: Request) -> Response:
        """Begin a session with a task: by task id; by family, seed, chaos and split; or by split and index."""
        body, client = _read_reset(await body_of(request)), client_of(request)
        await self._stepper.prepare_screens(body.observation)
        session = await begin(self._queue, self._settings, body, client.owner)
        session_id, last = session.header.session_id, session.last
        screenshot = await self._stepper.first_picture(session_id, client.owner)
        if client.agent:
            return json_response(reset_reply_for_agent(session_id, last, screenshot))
        task_id, agent_token = task_id_for_reply(body, session, client.trusted), self._roles.agent_token(session_id)
        return json_response(reset_reply_for_trainer(session_id, last, task_id, agent_token, screenshot))

    async def step(self, request: Request) -> Response:
        """Make one call in a session. With `turn`, it is safe to send it again. The app `screen` takes clicks and keys."""
        body = _read_step(await body_of(request))
        session_id, client = session_id_of(request, body.session_id), client_of(request)
        result = await self._stepper.step(StepRequest(session_id, checked(body.call), body.turn, client.owner))
        return json_response(step_reply(result, client.agent))

    async def rollout(self, request: Request) -> Response:
        """Make calls in many sessions at once. Each has its own answer, in the same order, without screenshots."""
        owner = client_of(request).owner
        steps = [
            StepRequest(body.session_id, checked(body.call), body.turn, owner)
            for body in _read_rollout(await body_of(request)).steps
        ]
        if any(step.call.app == SCREEN and has_screenshots(step.session_id) for step in steps):
            raise Malformed("calls to the app `screen` must be sent to /step - at `$.steps`")

        def count_and_convert(answer: Answer) -> RolloutAnswer:
            if isinstance(answer, StepResult):
                self._metrics.steps(1)
            else:
                self._metrics.refusal(answer.code)
            return rollout_answer(answer)

        return json_response(RolloutReply(await self._queue.step_all(steps, count_and_convert)))

    async def fork(self, request: Request) -> Response:
        """Open new, independent sessions that continue from the current turn of a session."""
        body, owner = _read_fork(await body_of(request)), client_of(request).owner
        session_id = session_id_of(request, body.session_id)
        forks = await self._queue.run(lambda sessions: sessions.fork(session_id, owner, body.count))
        return json_response(ForkReply([fork.header.session_id for fork in forks], forks[0].last.step))

    async def close(self, request: Request) -> Response:
        """Delete a session."""
        session_id = session_id_of(request, _read_close(await body_of(request)).session_id)
        owner = client_of(request).owner
        await self._queue.run(lambda sessions: sessions.close(session_id, owner))
        return json_response(CloseReply(session_id))

    # -- views ----------------------------------------------------------------------------------------------------

    async def render(self, request: Request, view: Annotated[View | Picture, Query()] = "text") -> Response:
        """Return the episode as its agent sees it: as text, HTML or JSON, or as a screenshot (png, jpeg) of its page."""
        if view == "png" or view == "jpeg":
            owner = None if client_of(request).admin else client_of(request).owner
            screenshot = await self._stepper.screens.picture(session_id_of(request), owner, view)
            return Response(screenshot, media_type=MEDIA_TYPES[view])
        return Response(await self._view_of(request, lambda session: render(session, view)), media_type=MEDIA_TYPES[view])

    async def inspect(self, request: Request) -> Response:
        """Return everything about an episode, ground truth included. Needs the admin token (COMPANYOS_ADMIN_TOKEN)."""
        if not self._has_admin_token:
            raise UnknownRoute("there is no such endpoint")
        if not client_of(request).admin:
            raise WrongToken
        return Response(await self._view_of(request, lambda session: encode(inspect(session))), media_type=JSON)

    async def manifest(self, request: Request) -> Response:
        """List families, splits, reward profiles and tools: those of every episode, or those of the given session."""
        if not session_ids_in(request):
            return Response(self._manifest, media_type=JSON)
        toolbox = await self._view_of(request, lambda session: session.env.toolbox)
        return json_response(manifest(toolbox, self._capacity))

    async def health(self) -> Response:
        """Return `healthy` while the process answers."""
        return json_response({"status": "healthy"})

    async def metrics(self) -> Response:
        """Return the metrics for Prometheus."""
        return Response(self._metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _view_of(self, request: Request, view: Callable[[Session], T]) -> T:
        """Return a view of a session, made inside the work queue: outside of it the session may change at any time."""
        session_id = session_id_of(request)
        owner = None if client_of(request).admin else client_of(request).owner
        return await self._queue.run(lambda sessions: view(sessions.observe(session_id, owner)))


def manifest(toolbox: Toolbox, capacity: int) -> dict[str, Any]:
    """Return what a client needs to know before it begins."""
    return {
        "name": "companyos",
        "benchmark_version": BENCHMARK_VERSION,
        "families": list(FAMILIES),
        "splits": list(SPLITS),
        "rewards": list(PROFILES),
        "capacity": capacity,  # sessions in the memory of one worker
        "apps": list(toolbox.apps),
        "tools": toolbox.schemas,
    }


_read_reset = Reader(ResetBody)
_read_step = Reader(StepBody)
_read_rollout = Reader(RolloutBody)
_read_fork = Reader(ForkBody)
_read_close = Reader(CloseBody)
