"""Descriptions: the API for /docs and /openapi.json, from the types of the bodies themselves."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from companyos.serve import bodies
from companyos.serve.errors import ServeError

_TYPES: tuple[Any, ...] = (
    bodies.ResetBody, bodies.StepBody, bodies.RolloutBody, bodies.ForkBody, bodies.CloseBody,
    bodies.ResetReply, bodies.StepReply, bodies.RolloutReply, bodies.ForkReply, bodies.CloseReply, bodies.ErrorReply,
)  # fmt: skip
LOOKS = ("render", "inspect")  # places that show a session, by GET
_PLACE = "#/components/schemas/"
_SESSION = {
    "in": "header",
    "name": "X-Session-Id",
    "schema": {"type": "string"},
    "description": "the session, unless body or query (`session_id`) name it",
}


class Operation(msgspec.Struct, frozen=True):
    """What is said of one place: what it takes, what it gives, and by which errors it refuses."""

    summary: str
    body: Any = None
    reply: Any = None
    errors: tuple[type[ServeError], ...] = ()
    of_session: bool = True
    leads_to: tuple[str, ...] = ()  # places that take the session which this one gives

    def written(self) -> dict[str, Any]:
        """As OpenAPI has it."""
        said: dict[str, Any] = {"summary": self.summary, "responses": {"200": _content(self.reply, "so it is")}}
        if self.of_session:
            said["parameters"] = [_SESSION]
        if self.body is not None:
            needed = any(field.required for field in msgspec.structs.fields(self.body))
            said["requestBody"] = _content(self.body, "in JSON") | {"required": needed}
        if self.leads_to:
            said["responses"]["200"]["links"] = {place: _link(place) for place in self.leads_to}
        for status in sorted({error.status for error in self.errors}):
            codes = ", ".join(f"`{error.code}`" for error in self.errors if error.status == status)
            said["responses"][str(status)] = _content(bodies.ErrorReply, codes)
        return said


def described(app: FastAPI, posts: Mapping[str, Operation]) -> Callable[[], dict[str, Any]]:
    """The whole description, made once: FastAPI knows its own places, these are the others."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(get_openapi(title=app.title, version=app.version, routes=app.routes))
            written = {path: one.written() | {"operationId": path.strip("/")} for path, one in posts.items()}
            made["paths"] = {path: {"post": one} for path, one in written.items()} | made["paths"]
            _, schemas = msgspec.json.schema_components(_TYPES, ref_template=_PLACE + "{name}")
            made.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return made

    return openapi


def _link(place: str) -> dict[str, Any]:
    session_id = "$response.body#/session_id"
    body = {} if place in LOOKS else {"requestBody": {"session_id": session_id}}
    return {"operationId": place, "parameters": {_SESSION["name"]: session_id}, **body}


def _content(kind: Any, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(kind)}}}


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"{_PLACE}{kind.__name__}"} if kind in _TYPES else {"type": "object"}
