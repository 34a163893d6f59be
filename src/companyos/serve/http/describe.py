"""The description of the API for /docs and /openapi.json, made from the types of the bodies."""

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
LOOKS = ("render", "inspect")  # GET endpoints that show a session
_SCHEMAS = "#/components/schemas/"
_SESSION = {
    "in": "header",
    "name": "X-Session-Id",
    "schema": {"type": "string"},
    "description": "the session id; it may also be given as `session_id` in the body or the query",
}


class Operation(msgspec.Struct, frozen=True):
    """The description of one endpoint: what it takes, what it returns, and its errors."""

    summary: str
    body: Any = None
    reply: Any = None
    errors: tuple[type[ServeError], ...] = ()
    of_session: bool = True
    leads_to: tuple[str, ...] = ()  # endpoints that take the session which this one returns

    def written(self) -> dict[str, Any]:
        """Return the description in the format of OpenAPI."""
        written: dict[str, Any] = {"summary": self.summary, "responses": {"200": _content(self.reply, "success")}}
        if self.of_session:
            written["parameters"] = [_SESSION]
        if self.body is not None:
            needed = any(field.required for field in msgspec.structs.fields(self.body))
            written["requestBody"] = _content(self.body, "in JSON") | {"required": needed}
        if self.leads_to:
            written["responses"]["200"]["links"] = {name: _link(name) for name in self.leads_to}
        for status in sorted({error.status for error in self.errors}):
            codes = ", ".join(f"`{error.code}`" for error in self.errors if error.status == status)
            written["responses"][str(status)] = _content(bodies.ErrorReply, codes)
        return written


def described(app: FastAPI, posts: Mapping[str, Operation]) -> Callable[[], dict[str, Any]]:
    """Return a function that makes the whole description, once: FastAPI's own routes, and these POST endpoints."""
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(get_openapi(title=app.title, version=app.version, routes=app.routes))
            written = {path: post.written() | {"operationId": path.strip("/")} for path, post in posts.items()}
            made["paths"] = {path: {"post": operation} for path, operation in written.items()} | made["paths"]
            _, schemas = msgspec.json.schema_components(_TYPES, ref_template=_SCHEMAS + "{name}")
            made.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return made

    return openapi


class ApiEndpoint(msgspec.Struct, frozen=True):
    """One endpoint, as /docs shows it to people."""

    method: str
    path: str
    summary: str
    takes: tuple[tuple[str, str, bool, str], ...]  # fields of body and query: name, type, required, meaning
    gives: tuple[str, ...]  # fields of the reply
    refuses: tuple[tuple[str, str], ...]  # status, codes


def endpoints(described: Mapping[str, Any]) -> list[ApiEndpoint]:
    """Return all endpoints of a description, in order."""
    kinds = described["components"]["schemas"]
    return [
        _endpoint(method.upper(), path, operation, kinds)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def listing(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that shows the description as plain text, for a server without pages."""

    async def docs(_: Request) -> Response:
        lines = [f"{endpoint.method:4} {endpoint.path:24} {endpoint.summary}" for endpoint in endpoints(app.openapi())]
        return PlainTextResponse("\n".join([f"{app.title} {app.version}; details: /openapi.json", "", *lines, ""]))

    return docs


def _endpoint(method: str, path: str, operation: Mapping[str, Any], kinds: Mapping[str, Any]) -> ApiEndpoint:
    body, reply = _schema(operation.get("requestBody", {}), kinds), _schema(operation["responses"].get("200", {}), kinds)
    required = body.get("required", ())
    fields = [(name, _type(kind), name in required, kind.get("description", "")) for name, kind in _fields(body).items()]
    parameters = [
        (given["name"], _type(given["schema"]), bool(given.get("required")), given.get("description", "") or given["in"])
        for given in operation.get("parameters", ())
    ]
    errors = [(status, response["description"]) for status, response in operation["responses"].items() if status >= "4"]
    summary = operation.get("description") or operation.get("summary", "")
    return ApiEndpoint(method, path, summary, (*fields, *parameters), tuple(_fields(reply)), tuple(errors))


def _schema(content: Mapping[str, Any], kinds: Mapping[str, Any]) -> Mapping[str, Any]:
    found = content.get("content", {}).get("application/json", {}).get("schema", {})
    schema: Mapping[str, Any] = kinds[found["$ref"].removeprefix(_SCHEMAS)] if "$ref" in found else found
    return schema


def _fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    return properties


def _type(schema: Mapping[str, Any]) -> str:
    """Return a short name of a type, for example `integer`, `string or null`, `list of StepBody`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_SCHEMAS)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def _link(name: str) -> dict[str, Any]:
    session_id = "$response.body#/session_id"
    body = {} if name in LOOKS else {"requestBody": {"session_id": session_id}}
    return {"operationId": name, "parameters": {_SESSION["name"]: session_id}, **body}


def _content(kind: Any, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(kind)}}}


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"{_SCHEMAS}{kind.__name__}"} if kind in _TYPES else {"type": "object"}
