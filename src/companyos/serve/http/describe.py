"""Descriptions: the API for /docs and /openapi.json, from the types of the bodies themselves."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from companyos.serve.errors import ServeError
from companyos.serve.messages import bodies

_TYPES: tuple[Any, ...] = (
    bodies.ResetBody, bodies.StepBody, bodies.RolloutBody, bodies.ForkBody, bodies.CloseBody,
    bodies.ResetReply, bodies.StepReply, bodies.RolloutReply, bodies.ForkReply, bodies.CloseReply, bodies.ErrorReply,
)  # fmt: skip
DOCS = "/docs"
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


class Place(msgspec.Struct, frozen=True):
    """One place of the API, as people read about it."""

    method: str
    path: str
    summary: str
    takes: tuple[tuple[str, str, bool, str], ...]  # fields of the body and of the query: name, type, needed, what it is
    gives: tuple[str, ...]  # fields of the reply
    refuses: tuple[tuple[str, str], ...]  # status, codes


def places(described: Mapping[str, Any]) -> list[Place]:
    """All places of a description, in their order."""
    kinds = described["components"]["schemas"]
    return [
        _place(method.upper(), path, said, kinds)
        for path, methods in described["paths"].items()
        for method, said in methods.items()
    ]


def listing(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    """The description as plain text: for a server that has no pages."""

    async def docs(_: Request) -> Response:
        lines = [f"{one.method:4} {one.path:24} {one.summary}" for one in places(app.openapi())]
        return PlainTextResponse("\n".join([f"{app.title} {app.version}; /openapi.json says more", "", *lines, ""]))

    return docs


def _place(method: str, path: str, said: Mapping[str, Any], kinds: Mapping[str, Any]) -> Place:
    body, reply = _schema(said.get("requestBody", {}), kinds), _schema(said["responses"].get("200", {}), kinds)
    needed = body.get("required", ())
    fields = [(name, _type(one), name in needed, one.get("description", "")) for name, one in _fields(body).items()]
    asked = [
        (one["name"], _type(one["schema"]), bool(one.get("required")), one.get("description", "") or one["in"])
        for one in said.get("parameters", ())
    ]
    refused = [(status, one["description"]) for status, one in said["responses"].items() if status >= "4"]
    summary = said.get("description") or said.get("summary", "")
    return Place(method, path, summary, (*fields, *asked), tuple(_fields(reply)), tuple(refused))


def _schema(said: Mapping[str, Any], kinds: Mapping[str, Any]) -> Mapping[str, Any]:
    found = said.get("content", {}).get("application/json", {}).get("schema", {})
    schema: Mapping[str, Any] = kinds[found["$ref"].removeprefix(_PLACE)] if "$ref" in found else found
    return schema


def _fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


def _type(schema: Mapping[str, Any]) -> str:
    """In few words: `integer`, `string or null`, `list of StepBody`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_PLACE)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def _link(place: str) -> dict[str, Any]:
    session_id = "$response.body#/session_id"
    body = {} if place in LOOKS else {"requestBody": {"session_id": session_id}}
    return {"operationId": place, "parameters": {_SESSION["name"]: session_id}, **body}


def _content(kind: Any, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(kind)}}}


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"{_PLACE}{kind.__name__}"} if kind in _TYPES else {"type": "object"}
