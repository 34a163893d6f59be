"""Descriptions: the API for /docs and /openapi.json, from the types of the bodies themselves."""

from collections.abc import Callable
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


def takes(body: Any = None, of_session: bool = True) -> dict[str, Any]:
    """What FastAPI is to say of a request with this body."""
    said: dict[str, Any] = {"parameters": [_SESSION]} if of_session else {}
    if body is not None:
        said["requestBody"] = {"content": {"application/json": {"schema": _reference(body)}}}
    return said


def gives(reply: Any, *errors: type[ServeError]) -> dict[int | str, dict[str, Any]]:
    """What FastAPI is to say of the replies: this one, and these errors."""
    found: dict[int | str, dict[str, Any]] = {200: _content(reply, "so it is")}
    for status in sorted({error.status for error in errors}):
        codes = ", ".join(f"`{error.code}`" for error in errors if error.status == status)
        found[status] = _content(bodies.ErrorReply, codes)
    return found


def described(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The whole description, made once."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(get_openapi(title=app.title, version=app.version, routes=app.routes))
            _, schemas = msgspec.json.schema_components(_TYPES, ref_template=_PLACE + "{name}")
            made.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return made

    return openapi


def _content(kind: Any, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(kind)}}}


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"{_PLACE}{kind.__name__}"} if kind in _TYPES else {"type": "object"}
