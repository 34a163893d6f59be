"""REST: episodes over plain HTTP. Reset, step, look; a session is named in a header, in the body or in the query."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Query, Request, Response
from starlette.routing import Route

from companyos.company import TOOLBOX, Toolbox
from companyos.core.task import BENCHMARK_VERSION, SPLITS
from companyos.env.rewards import PROFILES
from companyos.families import FAMILIES
from companyos.serve import errors
from companyos.serve.access.roles import Roles
from companyos.serve.errors import BadTask, Malformed, NoSuchPlace, ServeError, WrongToken
from companyos.serve.http.describe import LOOKS, Operation, described
from companyos.serve.http.requests import body_of, caller_of, json_response, session_named, sessions_named
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
    agents_reset,
    rollout_answer,
    step_reply,
    trainers_reset,
)
from companyos.serve.messages.wire import JSON, Reader, checked, encode
from companyos.serve.ops.metrics import Metrics
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import asked_id, begin
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.play import Play
from companyos.serve.sessions.screens import SCREEN, Picture, is_pictured
from companyos.serve.sessions.sessions import Answer, Session
from companyos.serve.sessions.views import MEDIA, View, inspect, render
from companyos.serve.steps import Outcome, Step

T = TypeVar("T")

_OF_SCREEN = (errors.NoScreens, errors.ScreenLost)
_OF_SESSION = (
    errors.UnknownSession, errors.OtherVersion, Malformed, WrongToken, errors.NotForAgents, errors.TooLarge,
    errors.LedgerDown,
)  # fmt: skip
_OF_MEMORY = (*_OF_SESSION, errors.OverCapacity)
_OF_STEP = (*_OF_MEMORY, errors.SessionOver, errors.TurnTaken, errors.TurnAhead, errors.SessionFull, *_OF_SCREEN)
_OF_RESET = (
    BadTask, Malformed, WrongToken, errors.NotForAgents, errors.AttemptUsed, errors.TooLarge, errors.OverCapacity,
    errors.LedgerDown, *_OF_SCREEN,
)  # fmt: skip
_IN_SESSION = ("step", "fork", "close", *LOOKS)
# Body, reply, errors, whether it is about one session, and where to go on with the session that it gives.
_TAKES: dict[str, tuple[Any, Any, tuple[type[ServeError], ...], bool, tuple[str, ...]]] = {
    "/reset": (ResetBody, ResetReply, _OF_RESET, False, _IN_SESSION),
    "/step": (StepBody, StepReply, _OF_STEP, True, _IN_SESSION),
    "/rollout": (
        RolloutBody,
        RolloutReply,
        (Malformed, WrongToken, errors.NotForAgents, errors.TooLarge, errors.LedgerDown),
        False,
        (),
    ),
    "/fork": (ForkBody, ForkReply, _OF_MEMORY, True, ()),
    "/close": (CloseBody, CloseReply, _OF_MEMORY, True, ()),
}


class Rest:
    """The door for curl and for every language that speaks HTTP."""

    def __init__(self, lane: Lane, play: Play, metrics: Metrics, settings: Settings, roles: Roles) -> None:
        self._lane = lane
        self._settings = settings
        self._roles = roles
        self._play = play
        self._metrics = metrics
        self._admin = bool(settings.admin_token)
        self._capacity = settings.capacity
        self._manifest = encode(manifest(TOOLBOX, settings.capacity))

    def open(self, app: FastAPI) -> None:
        """Adds its places to the app. Steps come by the thousand: they are found first, and past FastAPI's machinery."""
        posts = {f"/{place.__name__}": place for place in (self.step, self.rollout, self.reset, self.fork, self.close)}
        app.router.routes[:0] = [Route(path, place, methods=["POST"]) for path, place in posts.items()]
        operations = {path: Operation((place.__doc__ or ""), *_TAKES[path]) for path, place in posts.items()}
        app.openapi = described(app, operations)  # type: ignore[method-assign]
        views: dict[str, Any] = {media: {} for media in MEDIA.values()}
        for look, content in zip((self.render, self.inspect, self.manifest), (views, {JSON: {}}, {JSON: {}}), strict=True):
            said = Operation("", None, None, (*_OF_MEMORY, *_OF_SCREEN)).written()
            said["responses"]["200"]["content"] = content
            more = {"openapi_extra": {"parameters": said["parameters"]}, "responses": said["responses"]}
            app.add_api_route(f"/{look.__name__}", look, response_class=Response, operation_id=look.__name__, **more)
        for page in (self.health, self.metrics):
            app.add_api_route(f"/{page.__name__}", page, response_class=Response)

    # -- episodes --------------------------------------------------------------------------------------------------

    async def reset(self, request: Request) -> Response:
        """Begins a session: a task by its id, by family, seed, chaos and split, or by split and index."""
        body, caller = _read_reset(await body_of(request)), caller_of(request)
        await self._play.expect(body.observation)
        session = await begin(self._lane, self._settings, body, caller.owner)
        name, last = session.header.session_id, session.last
        shot = await self._play.first_picture(name, caller.owner)
        if caller.agent:
            return json_response(agents_reset(name, last, shot))
        task_id, agent_token = asked_id(body, session, caller.trusted), self._roles.agent_token(name)
        return json_response(trainers_reset(name, last, task_id, agent_token, shot))

    async def step(self, request: Request) -> Response:
        """Makes one call in a session. With `turn`, sending it again is safe. Calls to `screen` are clicks, keys …"""
        body = _read_step(await body_of(request))
        session_id, caller = session_named(request, body.session_id), caller_of(request)
        outcome = await self._play.step(Step(session_id, checked(body.call), body.turn, caller.owner))
        return json_response(step_reply(outcome, caller.agent))

    async def rollout(self, request: Request) -> Response:
        """Makes calls in many sessions at once; each is answered by itself, in order, and in words."""
        owner = caller_of(request).owner
        steps = [
            Step(body.session_id, checked(body.call), body.turn, owner)
            for body in _read_rollout(await body_of(request)).steps
        ]
        if any(step.call.app == SCREEN and is_pictured(step.session_id) for step in steps):
            raise Malformed("what is done on a screen is sent to /step - at `$.steps`")

        def show(answer: Answer) -> RolloutAnswer:
            if isinstance(answer, Outcome):
                self._metrics.steps(1)
            else:
                self._metrics.refusal(answer.code)
            return rollout_answer(answer)

        return json_response(RolloutReply(await self._lane.step_all(steps, show)))

    async def fork(self, request: Request) -> Response:
        """Opens sessions that go on from where one stands, each by itself."""
        body, owner = _read_fork(await body_of(request)), caller_of(request).owner
        session_id = session_named(request, body.session_id)
        twins = await self._lane.run(lambda sessions: sessions.fork(session_id, owner, body.count))
        return json_response(ForkReply([twin.header.session_id for twin in twins], twins[0].last.step))

    async def close(self, request: Request) -> Response:
        """Forgets a session for good and frees its place."""
        session_id = session_named(request, _read_close(await body_of(request)).session_id)
        owner = caller_of(request).owner
        await self._lane.run(lambda sessions: sessions.close(session_id, owner))
        return json_response(CloseReply(session_id))

    # -- what can be seen ------------------------------------------------------------------------------------------

    async def render(self, request: Request, view: Annotated[View | Picture, Query()] = "text") -> Response:
        """The episode as its agent sees it: in words, or as a picture of the page that it is on."""
        if view == "png" or view == "jpeg":
            owner = None if caller_of(request).admin else caller_of(request).owner
            shot = await self._play.screens.picture(session_named(request, None), owner, view)
            return Response(shot, media_type=MEDIA[view])
        return Response(await self._look(request, lambda session: render(session, view)), media_type=MEDIA[view])

    async def inspect(self, request: Request) -> Response:
        """The whole truth of an episode. Needs the admin token; without one on the server there is no such place."""
        if not self._admin:
            raise NoSuchPlace("there is nothing here")
        if not caller_of(request).admin:
            raise WrongToken
        return Response(await self._look(request, lambda session: encode(inspect(session))), media_type=JSON)

    async def manifest(self, request: Request) -> Response:
        """What work there is, and the tools to do it with: those of every episode, or of the session that is named."""
        if not sessions_named(request):
            return Response(self._manifest, media_type=JSON)
        toolbox = await self._look(request, lambda session: session.env.toolbox)
        return json_response(manifest(toolbox, self._capacity))

    async def health(self) -> Response:
        """That the server is up."""
        return json_response({"status": "healthy"})

    async def metrics(self) -> Response:
        """Counts, for Prometheus."""
        return Response(self._metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _look(self, request: Request, view: Callable[[Session], T]) -> T:
        """A view of a session, taken within the lane: outside of it the session may go on at any moment."""
        session_id = session_named(request, None)
        owner = None if caller_of(request).admin else caller_of(request).owner
        return await self._lane.run(lambda sessions: view(sessions.observe(session_id, owner)))


def manifest(toolbox: Toolbox, capacity: int) -> dict[str, Any]:
    """What a client needs to know before it begins."""
    return {
        "name": "companyos",
        "benchmark_version": BENCHMARK_VERSION,
        "families": list(FAMILIES),
        "splits": list(SPLITS),
        "rewards": list(PROFILES),
        "capacity": capacity,  # sessions that one worker holds at a time
        "apps": list(toolbox.apps),
        "tools": toolbox.schemas,
    }


_read_reset = Reader(ResetBody)
_read_step = Reader(StepBody)
_read_rollout = Reader(RolloutBody)
_read_fork = Reader(ForkBody)
_read_close = Reader(CloseBody)
