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
VIEW_ENDPOINTS = ("render", "inspect")  # they show a session, with GET
_SCHEMA_REFERENCE = "#/components/schemas/"  # before the name of a type
_SESSION_PARAMETER = {
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
    needs_session: bool = True
    leads_to: tuple[str, ...] = ()  # endpoints that take the session which this one returns

    def as_openapi(self) -> dict[str, Any]:
        """Return the description in the format of OpenAPI."""
        operation: dict[str, Any] = {"summary": self.summary, "responses": {"200": _content(self.reply, "success")}}
        if self.needs_session:
            operation["parameters"] = [_SESSION_PARAMETER]
        if self.body is not None:
            has_required_field = any(field.required for field in msgspec.structs.fields(self.body))
            operation["requestBody"] = _content(self.body, "in JSON") | {"required": has_required_field}
        if self.leads_to:
            operation["responses"]["200"]["links"] = {name: _link(name) for name in self.leads_to}
        for status in sorted({error.status for error in self.errors}):
            codes = ", ".join(f"`{error.code}`" for error in self.errors if error.status == status)
            operation["responses"][str(status)] = _content(bodies.ErrorReply, codes)
        return operation


def openapi_function(app: FastAPI, posts: Mapping[str, Operation]) -> Callable[[], dict[str, Any]]:
    """Return a function that returns the OpenAPI description of the app, with these POST endpoints. It is built once."""
    description: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not description:
            description.update(get_openapi(title=app.title, version=app.version, routes=app.routes))
            paths = {path: {"post": post.as_openapi() | {"operationId": path.strip("/")}} for path, post in posts.items()}
            description["paths"] = paths | description["paths"]
            _, schemas = msgspec.json.schema_components(_TYPES, ref_template=_SCHEMA_REFERENCE + "{name}")
            description.setdefault("components", {}).setdefault("schemas", {}).update(schemas)
        return description

    return openapi


class ApiEndpoint(msgspec.Struct, frozen=True):
    """One endpoint, as /docs shows it to people."""

    method: str
    path: str
    summary: str
    takes: tuple[tuple[str, str, bool, str], ...]  # fields of body and query: name, type, required, meaning
    gives: tuple[str, ...]  # fields of the reply
    refuses: tuple[tuple[str, str], ...]  # status, codes


def endpoints(description: Mapping[str, Any]) -> list[ApiEndpoint]:
    """Return all endpoints of an OpenAPI description, in its order."""
    schemas = description["components"]["schemas"]
    return [
        _endpoint(method.upper(), path, operation, schemas)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]


def text_docs(app: FastAPI) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that shows the description as plain text, for a server without pages."""

    async def docs(_: Request) -> Response:
        lines = [f"{endpoint.method:4} {endpoint.path:24} {endpoint.summary}" for endpoint in endpoints(app.openapi())]
        return PlainTextResponse("\n".join([f"{app.title} {app.version}; details: /openapi.json", "", *lines, ""]))

    return docs


def _endpoint(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> ApiEndpoint:
    body = _schema(operation.get("requestBody", {}), schemas)
    reply = _schema(operation["responses"].get("200", {}), schemas)
    required = body.get("required", ())
    fields = [
        (name, _type(schema), name in required, schema.get("description", "")) for name, schema in _fields(body).items()
    ]
    parameters = [
        (
            parameter["name"],
            _type(parameter["schema"]),
            bool(parameter.get("required")),
            parameter.get("description", "") or parameter["in"],
        )
        for parameter in operation.get("parameters", ())
    ]
    errors = [(status, response["description"]) for status, response in operation["responses"].items() if status >= "4"]
    summary = operation.get("description") or operation.get("summary", "")
    return ApiEndpoint(method, path, summary, (*fields, *parameters), tuple(_fields(reply)), tuple(errors))


def _schema(content: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a JSON body or reply. If it is a reference, return what it refers to."""
    schema: Mapping[str, Any] = content.get("content", {}).get("application/json", {}).get("schema", {})
    if "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(_SCHEMA_REFERENCE)]
    return schema


def _fields(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    return properties


def _type(schema: Mapping[str, Any]) -> str:
    """Return a short name of a type, for example `integer`, `string or null`, `list of StepBody`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_SCHEMA_REFERENCE)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "anything"))


def _link(name: str) -> dict[str, Any]:
    """Return an OpenAPI link: the endpoint `name` takes the session id of this reply."""
    session_id = "$response.body#/session_id"
    body = {} if name in VIEW_ENDPOINTS else {"requestBody": {"session_id": session_id}}
    return {"operationId": name, "parameters": {_SESSION_PARAMETER["name"]: session_id}, **body}


def _content(kind: Any, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": _reference(kind)}}}


def _reference(kind: Any) -> dict[str, Any]:
    return {"$ref": f"{_SCHEMA_REFERENCE}{kind.__name__}"} if kind in _TYPES else {"type": "object"}
