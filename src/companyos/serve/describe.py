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

    def written(self) -> dict[str, Any]:
        """As OpenAPI has it."""
        said: dict[str, Any] = {"summary": self.summary, "responses": {"200": _content(self.reply, "so it is")}}
        if self.of_session:
            said["parameters"] = [_SESSION]
        if self.body is not None:
            said["requestBody"] = {"content": {"application/json": {"schema": _reference(self.body)}}}
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
            made["paths"] = {path: {"post": one.written()} for path, one in posts.items()} | made["paths"]
            _, schemas = msgspec.json.schema_components(_TYPES, ref_template=_PLACE + "{name}")
            made.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return made

    return openapi


def _content(kind: Any, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(kind)}}}


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"{_PLACE}{kind.__name__}"} if kind in _TYPES else {"type": "object"}
