"""A fake OpenAI-compatible endpoint on this machine, and models that answer through it."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import msgspec

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.core.calls import Call
from companyos.env import make
from companyos.env.line_syntax import write_line

Request = dict[str, Any]


class Response(msgspec.Struct, frozen=True):
    """An HTTP response. With `raw`, the body is sent without status line and headers."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = {}
    raw: bool = False
    seconds: float = 0.0  # before anything is sent
    a_byte_each: float = 0.0  # pause after each byte, in seconds


class Endpoint(ThreadingHTTPServer):
    """A real server. `answer` makes the response to a request; `requests` are those that came."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Callable[[Request], Response]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.busiest = self.busy = 0
        self.lock = Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection: some tests do that."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.requests.append(body)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.server.busy += 1
            self.server.busiest = max(self.server.busiest, self.server.busy)
        try:
            answer = self.server.answer(body)
            self._send(streamed(answer) if body.get("stream") else answer)
        finally:
            with self.server.lock:
                self.server.busy -= 1

    def _send(self, response: Response) -> None:
        time.sleep(response.seconds)
        if not response.raw:
            self.send_response(response.status)
            for name, value in {"content-length": str(len(response.body)), **response.headers}.items():
                self.send_header(name, value)
            self.end_headers()
        if response.a_byte_each:
            for byte in response.body:
                self.wfile.write(bytes([byte]))
                time.sleep(response.a_byte_each)
        self.wfile.write(response.body)
        if response.raw:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def endpoint(answer: Callable[[Request], Response]) -> Iterator[Endpoint]:
    server = Endpoint(answer)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


# -- replies of models -------------------------------------------------------------------------------------------------


def completion(content: str | None = None, *calls: Any, tokens: tuple[int, int] = (100, 10)) -> Response:
    """Return a chat completion with this text and these tool calls."""
    message = {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    about = {"id": "completion", "object": "chat.completion", "created": 0, "model": "fake"}
    return Response(json.dumps(about | {"choices": [choice], "usage": usage}).encode())


def streamed(response: Response) -> Response:
    """Return a chat completion as a stream of two events: all of the message, then its usage."""
    whole = json.loads(response.body)
    about = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    [choice] = whole["choices"]
    message = choice.pop("message")
    calls = [{"index": number, **call} for number, call in enumerate(message.get("tool_calls", ()))]
    delta = message | ({"tool_calls": calls} if calls else {})
    chunks = [about | {"choices": [choice | {"delta": delta}]}, about | {"choices": [], "usage": whole["usage"]}]
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return Response(events.encode(), headers={"content-type": "text/event-stream"})


def function(name: str, arguments: Any, identity: str = "x") -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_call(call: Call) -> dict[str, Any]:
    return function(f"{call.app}_{call.method}", msgspec.json.encode(call.params).decode())


def says(call: Call, request: Request) -> Response:
    """Return a call in the form that the request asks for."""
    return completion(None, tool_call(call)) if "tools" in request else completion(write_line(call))


def step_of(request: Request) -> int | None:
    """Return the step in the last observation of a request; None in a greeting."""
    found = re.match(r"\[.*?, step (\d+) of \d+\]", request["messages"][-1]["content"])
    return int(found[1]) if found else None


class Expert:
    """A model that repeats the expert's calls. If `instead` returns a response, it is sent in place of a call."""

    def __init__(
        self, task_ids: Iterable[str], instead: Callable[[Request], Response | None] = lambda request: None
    ) -> None:
        self._calls: dict[str, list[Call]] = {}
        self._instead = instead
        self._lock = Lock()
        self._made: dict[str, int] = {}
        for task_id in task_ids:
            env = make(task_id)
            brief = env.reset().text
            self._calls[brief] = [turn.call for turn in play(make(task_id), make_agent("expert")).turns]

    def __call__(self, request: Request) -> Response:
        brief = request["messages"][1]["content"]
        if brief not in self._calls:
            return completion("Yes, I am.")
        other = self._instead(request)
        if other is not None:
            return other
        with self._lock:
            number = self._made.get(brief, 0) if step_of(request) else 0
            self._made[brief] = number + 1
        return says(self._calls[brief][number], request)
