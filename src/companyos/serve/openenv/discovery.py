"""The HTTP endpoints that OpenEnv's hosts and its validator use before they begin, or without a socket."""

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import msgspec
from fastapi import FastAPI, Request, Response

from companyos.core.errors import BadTask
from companyos.data.splits import TASK_COUNTS, size_of
from companyos.serve import errors
from companyos.serve.errors import InvalidTask
from companyos.serve.http.describe import Operation
from companyos.serve.http.requests import body_of, client_of, json_response, session_id_of, session_ids_in
from companyos.serve.messages.wire import JSON, Reader, encode
from companyos.serve.openenv.catalog import METADATA, NAME, schemas, task_spec
from companyos.serve.openenv.protocol import DIALECTS, StateMessage, state_message
from companyos.serve.openenv.rpc import JsonRpc
from companyos.serve.sessions.handles import resolve
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.work_queue import WorkQueue

_STATE_ERRORS = (errors.UnknownSession, errors.OtherVersion, errors.Malformed, errors.OverCapacity, errors.LedgerDown)
_RPC_ERRORS = (errors.Malformed, errors.TooLarge, errors.TooSlow)
_TASK_ERRORS = (InvalidTask, errors.Malformed, errors.TooLarge, errors.TooSlow)


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
        """Add the endpoints to the app."""

        def add(
            path: str,
            answer: Callable[..., Awaitable[Response]],
            errors_raised: Any = (),
            body: Any = None,
            takes_session: bool = False,
            reply_type: str = "object",
        ) -> None:
            """Add one endpoint and its description: a POST endpoint if it takes a body, else a GET endpoint."""
            operation = Operation("", errors=errors_raised).as_openapi()
            operation["responses"]["200"]["content"] = {JSON: {"schema": {"type": reply_type}}}
            extra = {"parameters": operation["parameters"]} if takes_session else {}
            if body is not None:
                extra["requestBody"] = {"content": {JSON: {"schema": _inlined(msgspec.json.schema(body))}}}
            methods, responses = ["GET"] if body is None else ["POST"], operation["responses"]
            app.add_api_route(
                path, answer, methods=methods, response_class=Response, responses=responses, openapi_extra=extra
            )

        for dialect in DIALECTS:
            add(
                f"{dialect.prefix}/schema",
                _fixed_reply(schemas(dialect.name), "The JSON schemas of actions, observations and states."),
            )
            add(f"{dialect.prefix}/metadata", _fixed_reply(METADATA, "The name and a description of this environment."))
            add(f"{dialect.prefix}/state", self.state, _STATE_ERRORS, takes_session=True)
            # JSON-RPC reports errors inside its replies, so any body is accepted.
            add(f"{dialect.prefix}/mcp", self.mcp, _RPC_ERRORS, Any, takes_session=True)
        add("/tools/health", _fixed_reply({"status": "healthy"}, "Return `healthy` while the process answers."))
        add("/list_environments", _fixed_reply([NAME], "The names of the environments: there is one."), reply_type="array")
        splits = [{"name": name, "type": name} for name in TASK_COUNTS]
        add(f"/{NAME}/splits", _fixed_reply(splits, "The splits of the tasks."), reply_type="array")
        for path, answer, body in (
            ("tasks", self.tasks, SplitBody),
            ("num_tasks", self.num_tasks, SplitBody),
            ("task", self.task, TaskBody),
            ("task_range", self.task_range, RangeBody),
        ):
            add(f"/{NAME}/{path}", answer, _TASK_ERRORS, body)

    async def state(self, request: Request) -> Response:
        """Return the state of a session; without one, the state before the first reset."""
        if not session_ids_in(request):
            return json_response(StateMessage())
        name, owner = session_id_of(request), client_of(request).owner
        return json_response(await self._queue.run(lambda sessions: _state_of(sessions, name, owner)))

    async def mcp(self, request: Request) -> Response:
        """MCP's tools/list and tools/call as JSON-RPC, in OpenEnv's form. A tools/call is a normal step."""
        session_id = session_id_of(request) if session_ids_in(request) else ""
        return json_response(await self._rpc.answer_text(await body_of(request), client_of(request), session_id))

    async def tasks(self, request: Request) -> Response:
        """Return all tasks of a split."""
        return Response(_all_tasks(_existing_split(_read_split(await body_of(request)).split)), media_type=JSON)

    async def num_tasks(self, request: Request) -> Response:
        """Return how many tasks a split has."""
        return json_response({"num_tasks": TASK_COUNTS[_existing_split(_read_split(await body_of(request)).split)]})

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
        chosen = range(TASK_COUNTS[_existing_split(body.split)])[body.start : body.stop]
        return json_response({"tasks": [task_spec(body.split, index) for index in chosen]})


def _state_of(sessions: Sessions, name: str, owner: str) -> StateMessage:
    """Return the state of the session that `name` names: a session id or a handle."""
    _, session_id = resolve(sessions, name, owner)
    return state_message(sessions.observe(session_id, owner).last, session_id) if session_id else StateMessage()


def _fixed_reply(value: Any, summary: str) -> Callable[[], Awaitable[Response]]:
    """Return an endpoint that always returns this value. FastAPI takes the summary from its docstring."""
    raw = encode(value)

    async def page() -> Response:  # its name is part of the ids in /openapi.json
        return Response(raw, media_type=JSON)

    page.__doc__ = summary
    return page


@cache
def _all_tasks(split: str) -> bytes:
    return encode({"tasks": [task_spec(split, index) for index in range(size_of(split))], "env_name": NAME})


def _existing_split(split: str) -> str:
    """Return the name `split`, or raise `InvalidTask` if there is no such split."""
    try:
        size_of(split)
    except BadTask as mistake:
        raise InvalidTask(str(mistake)) from None
    return split


def _inlined(schema: dict[str, Any]) -> Any:
    """Return a schema without a reference. msgspec puts the schema of a struct, the only one here, into `$defs`."""
    [definition] = schema.get("$defs", {"": schema}).values()
    return definition


_read_split = Reader(SplitBody)
_read_task = Reader(TaskBody)
_read_range = Reader(RangeBody)
