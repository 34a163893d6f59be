"""The HTTP endpoints that OpenEnv's hosts and its validator use before they begin, or without a socket."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from companyos.core.errors import BadTask
from companyos.data.splits import SIZES, size_of
from companyos.serve import errors
from companyos.serve.errors import InvalidTask
from companyos.serve.http.describe import Operation
from companyos.serve.http.requests import body_of, client_of, json_response, session_named, sessions_named
from companyos.serve.messages.wire import JSON, Reader, encode
from companyos.serve.openenv.catalog import METADATA, NAME, schemas, task_spec
from companyos.serve.openenv.protocol import DIALECTS, StateMessage, state_message
from companyos.serve.openenv.rpc import JsonRpc
from companyos.serve.sessions.handles import follow
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.work_queue import WorkQueue

_OF_LOOKING = (errors.UnknownSession, errors.OtherVersion, errors.Malformed, errors.OverCapacity, errors.LedgerDown)
_OF_CALLS = (errors.Malformed, errors.TooLarge, errors.TooSlow)
_OF_TASKS = (InvalidTask, errors.Malformed, errors.TooLarge, errors.TooSlow)


class SplitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a split."""

    split: str


class TaskBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names a task by its number in a split."""

    split: str
    index: int


class RangeBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names tasks of a split, as a slice does."""

    split: str
    start: int | None = None
    stop: int | None = None


class Discovery:
    """OpenEnv's HTTP endpoints other than reset and step."""

    def __init__(self, queue: WorkQueue, rpc: JsonRpc) -> None:
        self._queue = queue
        self._rpc = rpc

    def open(self, app: FastAPI) -> None:
        def add(
            path: str,
            answer: Callable[..., Awaitable[Response]],
            refusals: Any = (),
            body: Any = None,
            of_session: bool = False,
            reply: str = "object",
        ) -> None:
            written = Operation("", None, None, refusals).written()
            written["responses"]["200"]["content"] = {JSON: {"schema": {"type": reply}}}
            more = {"parameters": written["parameters"]} if of_session else {}
            if body is not None:
                more["requestBody"] = {"content": {JSON: {"schema": _inlined(msgspec.json.schema(body))}}}
            methods, responses = ["GET"] if body is None else ["POST"], written["responses"]
            app.add_api_route(
                path, answer, methods=methods, response_class=Response, responses=responses, openapi_extra=more
            )

        for dialect in DIALECTS:
            add(
                f"{dialect.prefix}/schema",
                _page(schemas(dialect.name), "The JSON schemas of actions, observations and states."),
            )
            add(f"{dialect.prefix}/metadata", _page(METADATA, "The name and a description of this environment."))
            add(f"{dialect.prefix}/state", self.state, _OF_LOOKING, of_session=True)
            # JSON-RPC reports errors inside its replies, so any body is accepted.
            add(f"{dialect.prefix}/mcp", self.mcp, _OF_CALLS, Any, of_session=True)
        add("/tools/health", _page({"status": "healthy"}, "Return `healthy` while the process answers."))
        add("/list_environments", _page([NAME], "The names of the environments: there is one."), reply="array")
        splits = [{"name": name, "type": name} for name in SIZES]
        add(f"/{NAME}/splits", _page(splits, "The splits of the tasks."), reply="array")
        for path, answer, body in (
            ("tasks", self.tasks, SplitBody),
            ("num_tasks", self.num_tasks, SplitBody),
            ("task", self.task, TaskBody),
            ("task_range", self.task_range, RangeBody),
        ):
            add(f"/{NAME}/{path}", answer, _OF_TASKS, body)

    async def state(self, request: Request) -> Response:
        """Return the state of a session; without one, the state before the first reset."""
        if not sessions_named(request):
            return json_response(StateMessage())
        name, owner = session_named(request, None), client_of(request).owner
        return json_response(await self._queue.run(lambda sessions: _standing(sessions, name, owner)))

    async def mcp(self, request: Request) -> Response:
        """MCP's tools/list and tools/call as JSON-RPC, in OpenEnv's form. A tools/call is a normal step."""
        named = sessions_named(request)
        session_id = session_named(request, None) if named else ""
        return json_response(await self._rpc.answer_text(await body_of(request), client_of(request), session_id))

    async def tasks(self, request: Request) -> Response:
        """Return all tasks of a split."""
        return Response(_all_tasks(_known(_read_split(await body_of(request)).split)), media_type=JSON)

    async def num_tasks(self, request: Request) -> Response:
        """Return how many tasks a split has."""
        return json_response({"num_tasks": SIZES[_known(_read_split(await body_of(request)).split)]})

    async def task(self, request: Request) -> Response:
        """Return one task of a split, by its number."""
        body = _read_task(await body_of(request))
        try:
            return json_response({"task": task_spec(body.split, body.index)})
        except BadTask as mistake:
            raise InvalidTask(str(mistake)) from None

    async def task_range(self, request: Request) -> Response:
        """Return the tasks `start` to `stop` of a split, as a Python slice."""
        body = _read_range(await body_of(request))
        chosen = range(SIZES[_known(body.split)])[body.start : body.stop]
        return json_response({"tasks": [task_spec(body.split, index) for index in chosen]})


def _standing(sessions: Sessions, name: str, owner: str) -> StateMessage:
    _, session_id = follow(sessions, name, owner)
    return state_message(sessions.observe(session_id, owner).last, session_id) if session_id else StateMessage()


def _page(value: Any, summary: str) -> Callable[[], Awaitable[Response]]:
    raw = encode(value)

    async def page() -> Response:
        return Response(raw, media_type=JSON)

    page.__doc__ = summary
    return page


@cache
def _all_tasks(split: str) -> bytes:
    return encode({"tasks": [task_spec(split, index) for index in range(size_of(split))], "env_name": NAME})


def _known(split: str) -> str:
    """Return the name of a split, or raise `InvalidTask` if there is no such split."""
    try:
        size_of(split)
    except BadTask as mistake:
        raise InvalidTask(str(mistake)) from None
    return split


def _inlined(schema: dict[str, Any]) -> Any:
    [definition] = schema.get("$defs", {"": schema}).values()
    return definition


_read_split = Reader(SplitBody)
_read_task = Reader(TaskBody)
_read_range = Reader(RangeBody)
