"""Requests: what doors read from them beside their own bodies, and how they answer."""

from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from companyos.serve.access.roles import Caller
from companyos.serve.errors import Malformed
from companyos.serve.messages.wire import JSON, encode


def caller_of(request: Request) -> Caller:
    caller: Caller = request.scope["state"]["caller"]
    return caller


def sessions_named(request: Request, in_body: str | None = None) -> set[str]:
    """The sessions that header, query and body name."""
    named = {in_body, caller_of(request).session_id}
    if request.scope["query_string"]:
        named.add(request.query_params.get("session_id"))
    return {name for name in named if name}


def session_named(request: Request, in_body: str | None) -> str:
    """The one session that a request is about."""
    named = sessions_named(request, in_body)
    if len(named) != 1:
        what = "which session is not said" if not named else "several sessions are named"
        raise Malformed(f"{what}; name one in the header X-Session-Id, in the body or in the query as session_id")
    return named.pop()


async def body_of(request: Request) -> bytes:
    """What Starlette's own `body()` gives, at a third of its price: nearly every body comes in one piece."""
    pieces, more = [], True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def json_response(value: Any) -> Response:
    return Response(encode(value), media_type=JSON)
