"""REST: episodes over plain HTTP. Reset, step, look; a session is named in a header, in the body or in the query."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from fastapi import FastAPI, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.routing import Route

from companyos.apps import TOOLBOX
from companyos.env import task_named
from companyos.errors import BadChoice, BadDose
from companyos.errors import BadTask as NoSuchTask
from companyos.families import FAMILIES
from companyos.rewards import PROFILES
from companyos.serve import errors
from companyos.serve.bodies import (
    CloseBody,
    CloseReply,
    ForkBody,
    ForkReply,
    ResetBody,
    ResetReply,
    RolloutBody,
    RolloutReply,
    StepBody,
    StepReply,
    rollout_answer,
    seen,
    step_reply,
)
from companyos.serve.describe import Operation, described
from companyos.serve.errors import BadTask, Malformed, NoSuchPlace, ServeError, WrongToken
from companyos.serve.guard import Caller
from companyos.serve.lane import Lane
from companyos.serve.metrics import Metrics
from companyos.serve.sessions import Session
from companyos.serve.settings import Settings
from companyos.serve.steps import Outcome, Step
from companyos.serve.views import MEDIA, View, inspect, render
from companyos.serve.wire import JSON, Reader, checked, encode
from companyos.task import BENCHMARK_VERSION, SPLITS, TaskId

T = TypeVar("T")

_OF_SESSION = (errors.UnknownSession, errors.OtherVersion, Malformed, WrongToken, errors.TooLarge, errors.LedgerDown)
_OF_MEMORY = (*_OF_SESSION, errors.OverCapacity)
_OF_STEP = (*_OF_MEMORY, errors.SessionOver, errors.TurnTaken, errors.TurnAhead)
_OF_RESET = (BadTask, Malformed, WrongToken, errors.TooLarge, errors.OverCapacity, errors.LedgerDown)
# Body, reply, errors, and whether it is about one session.
_TAKES: dict[str, tuple[Any, Any, tuple[type[ServeError], ...], bool]] = {
    "/reset": (ResetBody, ResetReply, _OF_RESET, False),
    "/step": (StepBody, StepReply, _OF_STEP, True),
    "/rollout": (RolloutBody, RolloutReply, (Malformed, WrongToken, errors.TooLarge, errors.LedgerDown), False),
    "/fork": (ForkBody, ForkReply, _OF_MEMORY, True),
    "/close": (CloseBody, CloseReply, _OF_MEMORY, True),
}


class Rest:
    """The door for curl and for every language that speaks HTTP."""

    def __init__(self, lane: Lane, metrics: Metrics, settings: Settings) -> None:
        self._lane = lane
        self._metrics = metrics
        self._admin = bool(settings.admin_token)
        self._manifest = encode(manifest())

    def open(self, app: FastAPI) -> None:
        """Adds its places to the app. Steps come by the thousand: they are found first, and past FastAPI's machinery."""
        posts = {f"/{place.__name__}": place for place in (self.step, self.rollout, self.reset, self.fork, self.close)}
        app.router.routes[:0] = [Route(path, place, methods=["POST"]) for path, place in posts.items()]
        operations = {path: Operation((place.__doc__ or ""), *_TAKES[path]) for path, place in posts.items()}
        app.openapi = described(app, operations)  # type: ignore[method-assign]
        for look in (self.render, self.inspect):
            said = Operation("", None, None, _OF_MEMORY).written()
            more = {"openapi_extra": {"parameters": said["parameters"]}, "responses": said["responses"]}
            app.add_api_route(f"/{look.__name__}", look, response_class=Response, **more)
        for page in (self.manifest, self.health, self.metrics):
            app.add_api_route(f"/{page.__name__}", page, response_class=Response)

    # -- episodes --------------------------------------------------------------------------------------------------

    async def reset(self, request: Request) -> Response:
        """Begins a session: a task by its id, or by family, seed, chaos and split."""
        body, owner = _read_reset(await _body(request)), _caller(request).owner
        try:
            task = _task(body)
            session = await self._lane.run(lambda sessions: sessions.create(task, body.reward, body.progress, owner))
        except BadChoice as mistake:
            raise Malformed(f"{mistake} - at `$.reward`") from None
        except BadDose as mistake:
            raise Malformed(f"{mistake} - at `$.chaos`") from None
        except NoSuchTask as mistake:
            # With overrides in it, the reason could tell what the causes of the task are.
            raise BadTask(f"{body.task!r} is no task" if "." in body.task else str(mistake)) from None
        last = session.last
        reply = ResetReply(session.header.session_id, session.header.task_id, 0, seen(last), last.reward, last.done)
        return _json(reply)

    async def step(self, request: Request) -> Response:
        """Makes one call in a session. With `turn`, sending it again is safe."""
        body = _read_step(await _body(request))
        session_id = _session_id(request, body.session_id)
        outcome = await self._lane.step(Step(session_id, checked(body.call), body.turn, _caller(request).owner))
        self._metrics.steps(1)
        return _json(step_reply(outcome))

    async def rollout(self, request: Request) -> Response:
        """Makes calls in many sessions at once; each is answered by itself, in order."""
        owner = _caller(request).owner
        steps = [
            Step(body.session_id, checked(body.call), body.turn, owner) for body in _read_rollout(await _body(request)).steps
        ]
        answers = await self._lane.step_all(steps)
        self._metrics.steps(sum(isinstance(answer, Outcome) for answer in answers))
        return _json(RolloutReply([rollout_answer(answer) for answer in answers]))

    async def fork(self, request: Request) -> Response:
        """Opens sessions that go on from where one stands, each by itself."""
        body, owner = _read_fork(await _body(request)), _caller(request).owner
        session_id = _session_id(request, body.session_id)
        twins = await self._lane.run(lambda sessions: sessions.fork(session_id, owner, body.count))
        return _json(ForkReply([twin.header.session_id for twin in twins], twins[0].last.step))

    async def close(self, request: Request) -> Response:
        """Forgets a session for good and frees its place."""
        session_id = _session_id(request, _read_close(await _body(request)).session_id)
        owner = _caller(request).owner
        await self._lane.run(lambda sessions: sessions.close(session_id, owner))
        return _json(CloseReply(session_id))

    # -- what can be seen ------------------------------------------------------------------------------------------

    async def render(self, request: Request, view: Annotated[View, Query()] = "text") -> Response:
        """The episode as its agent sees it."""
        return Response(await self._look(request, lambda session: render(session, view)), media_type=MEDIA[view])

    async def inspect(self, request: Request) -> Response:
        """The whole truth of an episode. Needs the admin token; without one on the server there is no such place."""
        if not self._admin:
            raise NoSuchPlace("there is nothing here")
        if not _caller(request).admin:
            raise WrongToken
        return Response(await self._look(request, lambda session: encode(inspect(session))), media_type=JSON)

    async def manifest(self) -> Response:
        """What work there is, and the tools to do it with."""
        return Response(self._manifest, media_type=JSON)

    async def health(self) -> Response:
        """That the server is up."""
        return _json({"status": "healthy"})

    async def metrics(self) -> Response:
        """Counts, for Prometheus."""
        return Response(self._metrics.page(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _look(self, request: Request, view: Callable[[Session], T]) -> T:
        """A view of a session, taken within the lane: outside of it the session may go on at any moment."""
        session_id = _session_id(request, None)
        owner = None if _caller(request).admin else _caller(request).owner
        return await self._lane.run(lambda sessions: view(sessions.observe(session_id, owner)))


def manifest() -> dict[str, Any]:
    """What a client needs to know before it begins."""
    return {
        "name": "companyos",
        "benchmark_version": BENCHMARK_VERSION,
        "families": list(FAMILIES),
        "splits": list(SPLITS),
        "rewards": list(PROFILES),
        "apps": list(TOOLBOX.apps),
        "tools": TOOLBOX.schemas,
    }


def _task(body: ResetBody) -> TaskId:
    chosen = {name: getattr(body, name) for name in ("seed", "chaos", "split")}
    given = {name: value for name, value in chosen.items() if value is not msgspec.UNSET}
    if "-" not in body.task:
        return task_named(body.task, **given)
    if given:
        raise Malformed(f"a task id says its own {next(iter(given))}; give it with a family - at `$.{next(iter(given))}`")
    return TaskId.parse(body.task)


def _session_id(request: Request, in_body: str | None) -> str:
    named = {in_body, _caller(request).session_id}
    if request.scope["query_string"]:
        named.add(request.query_params.get("session_id"))
    named -= {None, ""}
    if len(named) != 1:
        what = "which session is not said" if not named else "several sessions are named"
        raise Malformed(f"{what}; name one in the header X-Session-Id, in the body or in the query as session_id")
    return str(named.pop())


def _caller(request: Request) -> Caller:
    caller: Caller = request.scope["state"]["caller"]
    return caller


async def _body(request: Request) -> bytes:
    """What Starlette's own `body()` gives, at a third of its price: nearly every body comes in one piece."""
    pieces, more = [], True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _json(value: Any) -> Response:
    return Response(encode(value), media_type=JSON)


_read_reset = Reader(ResetBody)
_read_step = Reader(StepBody)
_read_rollout = Reader(RolloutBody)
_read_fork = Reader(ForkBody)
_read_close = Reader(CloseBody)
