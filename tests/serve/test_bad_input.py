"""Bad input: every endpoint answers each kind of it with the same stable code and no internal details."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from companyos.core.calls import EPISODE_OVER, Call
from companyos.env import make
from companyos.serve.access.roles import MCP_PATH
from tests.helpers import task_id
from tests.serve.servers import AppClient
from tests.serve.sockets import Socket, action, socket

LIST = Call("ticketdesk", "list_tickets")


class Client(ABC):
    """A client of one endpoint, with at most one session."""

    def __init__(self, api: AppClient, **headers: str) -> None:
        self.api = api
        self.headers = dict(headers)
        self.session_id = ""

    @abstractmethod
    def begin(self, **chosen: Any) -> str:
        """Begin an episode. Return the code of the error, or ""."""

    @abstractmethod
    def step(self, call: Call) -> str:
        """Make a call. Return the code of the error, or ""."""

    def post(self, place: str, body: Any) -> httpx.Response:
        reply = self.api.post(place, body, headers=self.headers)
        assert reply.status_code < 500 or reply.headers["retry-after"]
        assert "Traceback" not in reply.text
        return reply


class OverRest(Client):
    def begin(self, **chosen: Any) -> str:
        reply = self.post("/reset", chosen).json()
        self.session_id = reply.get("session_id", "")
        return code_of(reply)

    def step(self, call: Call) -> str:
        body = {"session_id": self.session_id, "app": call.app, "method": call.method, "params": call.params}
        return code_of(self.post("/step", body).json())


class OverRollout(OverRest):
    def step(self, call: Call) -> str:
        body = {"session_id": self.session_id, "app": call.app, "method": call.method, "params": call.params}
        reply = self.post("/rollout", {"steps": [body]}).json()
        return code_of(reply["answers"][0] if "answers" in reply else reply)


class OverMcp(Client):
    def __init__(self, api: AppClient, **headers: str) -> None:
        super().__init__(api, accept="application/json", **headers)
        self.session_id = "m" * 32

    def begin(self, **chosen: Any) -> str:
        return self.step(Call("episode", "begin", chosen))

    def step(self, call: Call) -> str:
        self.headers["mcp-session-id"] = self.session_id
        params = {"name": f"{call.app}_{call.method}", "arguments": call.params}
        reply = self.post(MCP_PATH, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).json()
        return str(reply["result"]["_meta"]["companyos"].get("error", "")) if "result" in reply else code_of(reply)


class OverSocket(Client):
    """OpenEnv's protocol. Another session is another socket, which resumes it; a wrong token gets no socket."""

    _line: Socket | None = None
    _at = ""

    def begin(self, **chosen: Any) -> str:
        reply = self._say("reset", chosen)
        self.session_id = self._at = reply["data"].get("metadata", {}).get("session_id", "")
        return reason_of(reply)

    def step(self, call: Call) -> str:
        if self._at != self.session_id:
            self._line = None
        return reason_of(self._say("step", action(call)))

    def _say(self, kind: str, data: Any) -> dict[str, Any]:
        if self._line is None:
            query = f"session_id={self.session_id}" if self.session_id else ""
            line = socket(self.api, "/ws", query, **self.headers)
            if line.first["type"] != "websocket.accept":
                return {"type": "error", "data": {"reason": code_of(json.loads(line.hear()["body"]))}}
            self._line, self._at = line, self.session_id
        return self._line.say(kind, data)


def reason_of(reply: dict[str, Any]) -> str:
    if reply["type"] == "error":
        return str(reply["data"]["reason"])
    over = reply["data"].get("observation", {}).get("code") == EPISODE_OVER
    return "session_over" if over else ""


ENDPOINTS: dict[str, Callable[..., Client]] = {
    "rest": OverRest,
    "rollout": OverRollout,
    "mcp": OverMcp,
    "socket": OverSocket,
}
at_every_endpoint = pytest.mark.parametrize("client", ENDPOINTS.values(), ids=ENDPOINTS)


def code_of(reply: dict[str, Any]) -> str:
    return str(reply["error"]["code"]) if "error" in reply else ""


@at_every_endpoint
def test_an_unknown_session(client: Callable[..., Client]) -> None:
    with AppClient(mcp_episodes=True) as api:
        one = client(api)
        assert one.begin() == ""
        one.session_id = "nobody"
        assert one.step(LIST) == "unknown_session"


@at_every_endpoint
def test_an_ended_session(client: Callable[..., Client]) -> None:
    with AppClient(mcp_episodes=True) as api:
        one = client(api)
        assert one.begin(task=task_id()) == ""
        for _ in range(make(task_id()).max_steps):
            assert one.step(LIST) == ""
        assert one.step(LIST) == "session_over"


@at_every_endpoint
@pytest.mark.parametrize(
    "chosen", [{"seed": -1}, {"chaos": 2}, {"reward": "generous"}, {"luck": 1}, {"task": task_id(), "seed": 1}]
)
def test_a_malformed_beginning(client: Callable[..., Client], chosen: dict[str, Any]) -> None:
    with AppClient(mcp_episodes=True) as api:
        assert client(api).begin(**chosen) == "malformed"


@at_every_endpoint
def test_a_task_that_there_is_not(client: Callable[..., Client]) -> None:
    with AppClient(mcp_episodes=True) as api:
        assert client(api).begin(task="space_travel") == "bad_task"


@at_every_endpoint
def test_arguments_nested_too_deep(client: Callable[..., Client]) -> None:
    deep: Any = 1
    for _ in range(90):
        deep = [deep]
    with AppClient(mcp_episodes=True) as api:
        one = client(api)
        assert one.begin() == ""
        assert one.step(Call("ticketdesk", "list_tickets", {"page": deep})) == "malformed"


@at_every_endpoint
def test_over_capacity(client: Callable[..., Client]) -> None:
    with AppClient(mcp_episodes=True, capacity=1) as api:
        assert client(api).begin() == ""
        assert client(api).begin() == "over_capacity"


@at_every_endpoint
def test_too_large(client: Callable[..., Client]) -> None:
    with AppClient(mcp_episodes=True, body_limit=2000) as api:
        one = client(api)
        assert one.begin() == ""
        assert one.step(Call("ticketdesk", "list_tickets", {"page": "x" * 2000})) == "too_large"


@at_every_endpoint
def test_a_wrong_token(client: Callable[..., Client]) -> None:
    with AppClient(mcp_episodes=True, tokens=("alice", "bob")) as api:
        alice = client(api, authorization="Bearer alice")
        assert alice.begin() == ""
        for token, code in (("Bearer eve", "wrong_token"), ("", "wrong_token"), ("Bearer bob", "unknown_session")):
            other = client(api, authorization=token)
            other.session_id = alice.session_id
            assert other.step(LIST) == code
        assert alice.step(LIST) == ""
