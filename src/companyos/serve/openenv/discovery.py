"""Discovery: where OpenEnv's hosts and its validator look before they begin, and what they ask without a socket."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from companyos.core.errors import BadTask as NoSuchTask
from companyos.data.splits import SIZES, size_of
from companyos.serve import errors
from companyos.serve.errors import BadTask
from companyos.serve.http.describe import Operation
from companyos.serve.http.requests import body_of, caller_of, json_response, session_named, sessions_named
from companyos.serve.messages.wire import JSON, Reader, encode
from companyos.serve.openenv.catalog import METADATA, NAME, schemas, task_spec
from companyos.serve.openenv.protocol import DIALECTS, Standing, standing
from companyos.serve.openenv.rpc import Rpc
from companyos.serve.sessions.handles import follow
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.sessions import Sessions

_OF_LOOKING = (errors.UnknownSession, errors.OtherVersion, errors.Malformed, errors.OverCapacity, errors.LedgerDown)
_OF_CALLS = (errors.Malformed, errors.TooLarge, errors.TooSlow)
_OF_TASKS = (BadTask, errors.Malformed, errors.TooLarge, errors.TooSlow)


class SplitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a split."""

    split: str


class TaskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a task by its number in a split."""

    split: str
    index: int


class RangeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names some tasks of a split, as a slice does."""

    split: str
    start: int | None = None
    stop: int | None = None


class Discovery:
    """OpenEnv's places on HTTP, beside reset and step."""

    def __init__(self, lane: Lane, rpc: Rpc) -> None:
        self._lane = lane
        self._rpc = rpc

    def open(self, app: FastAPI) -> None:
        def place(
            path: str,
            answer: Callable[..., Awaitable[Response]],
            refusals: Any = (),
            body: Any = None,
            of_session: bool = False,
            reply: str = "object",
        ) -> None:
            said = Operation("", None, None, refusals).written()
            said["responses"]["200"]["content"] = {JSON: {"schema": {"type": reply}}}
            more = {"parameters": said["parameters"]} if of_session else {}
            if body is not None:
                more["requestBody"] = {"content": {JSON: {"schema": _inlined(msgspec.json.schema(body))}}}
            methods, responses = ["GET"] if body is None else ["POST"], said["responses"]
            app.add_api_route(
                path, answer, methods=methods, response_class=Response, responses=responses, openapi_extra=more
            )

        for dialect in DIALECTS:
            place(
                f"{dialect.place}/schema", _page(schemas(dialect.name), "What actions, observations and states look like.")
            )
            place(f"{dialect.place}/metadata", _page(METADATA, "What this environment is."))
            place(f"{dialect.place}/state", self.state, _OF_LOOKING, of_session=True)
            # JSON-RPC says within its replies what is wrong with a request, so anything is taken.
            place(f"{dialect.place}/mcp", self.mcp, _OF_CALLS, Any, of_session=True)
        place("/tools/health", _page({"status": "healthy"}, "That the server is up."))
        place("/list_environments", _page([NAME], "The one environment there is."), reply="array")
        splits = [{"name": name, "type": name} for name in SIZES]
        place(f"/{NAME}/splits", _page(splits, "The splits of its tasks."), reply="array")
        for path, answer, body in (
            ("tasks", self.tasks, SplitBody),
            ("num_tasks", self.num_tasks, SplitBody),
            ("task", self.task, TaskBody),
            ("task_range", self.task_range, RangeBody),
        ):
            place(f"/{NAME}/{path}", answer, _OF_TASKS, body)

    async def state(self, request: Request) -> Response:
        """Where a session has got to; where none is named, what a session begins as."""
        if not sessions_named(request):
            return json_response(Standing())
        name, owner = session_named(request, None), caller_of(request).owner
        return json_response(await self._lane.run(lambda sessions: _standing(sessions, name, owner)))

    async def mcp(self, request: Request) -> Response:
        """MCP's tools/list and tools/call by JSON-RPC, as OpenEnv has them; a call by it is a step like any other."""
        named = sessions_named(request)
        session_id = session_named(request, None) if named else ""
        return json_response(await self._rpc.answer_text(await body_of(request), caller_of(request), session_id))

    async def tasks(self, request: Request) -> Response:
        """All tasks of a split."""
        return Response(_all_tasks(_known(_read_split(await body_of(request)).split)), media_type=JSON)

    async def num_tasks(self, request: Request) -> Response:
        """How many tasks a split has."""
        return json_response({"num_tasks": SIZES[_known(_read_split(await body_of(request)).split)]})

    async def task(self, request: Request) -> Response:
        """One task of a split, by its number."""
        body = _read_task(await body_of(request))
        try:
            return json_response({"task": task_spec(body.split, body.index)})
        except NoSuchTask as mistake:
            raise BadTask(str(mistake)) from None

    async def task_range(self, request: Request) -> Response:
        """Some tasks of a split, as a slice gives them."""
        body = _read_range(await body_of(request))
        chosen = range(SIZES[_known(body.split)])[body.start : body.stop]
        return json_response({"tasks": [task_spec(body.split, index) for index in chosen]})


def _standing(sessions: Sessions, name: str, owner: str) -> Standing:
    _, session_id = follow(sessions, name, owner)
    return standing(sessions.observe(session_id, owner).last, session_id) if session_id else Standing()


def _page(value: Any, about: str) -> Callable[[], Awaitable[Response]]:
    raw = encode(value)

    async def page() -> Response:
        return Response(raw, media_type=JSON)

    page.__doc__ = about
    return page


@cache
def _all_tasks(split: str) -> bytes:
    return encode({"tasks": [task_spec(split, index) for index in range(size_of(split))], "env_name": NAME})


def _known(split: str) -> str:
    try:
        size_of(split)
    except NoSuchTask as mistake:
        raise BadTask(str(mistake)) from None
    return split


def _inlined(schema: dict[str, Any]) -> Any:
    [found] = schema.get("$defs", {"": schema}).values()
    return found


_read_split = Reader(SplitBody)
_read_task = Reader(TaskBody)
_read_range = Reader(RangeBody)
