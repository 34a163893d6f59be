"""Bad input: each kind of it is answered at every door by the same stable code, and by nothing that tells of our insides."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from companyos.core.calls import EPISODE_OVER, Call
from companyos.env import make
from companyos.serve.mcp.hosts import PLACE
from tests.helpers import task_id
from tests.serve.doors import Door
from tests.serve.sockets import Socket, action, socket

LIST = Call("ticketdesk", "list_tickets")


class Client(ABC):
    """Somebody at a door, who holds at most one session there."""

    def __init__(self, door: Door, **headers: str) -> None:
        self.door = door
        self.headers = dict(headers)
        self.session_id = ""

    @abstractmethod
    def begin(self, **chosen: Any) -> str:
        """Begins an episode; the code of the error, or nothing."""

    @abstractmethod
    def step(self, call: Call) -> str:
        """Makes a call; the code of the error, or nothing."""

    def post(self, place: str, body: Any) -> httpx.Response:
        reply = self.door.post(place, body, headers=self.headers)
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
    def __init__(self, door: Door, **headers: str) -> None:
        super().__init__(door, accept="application/json", **headers)
        self.session_id = "m" * 32

    def begin(self, **chosen: Any) -> str:
        return self.step(Call("episode", "begin", chosen))

    def step(self, call: Call) -> str:
        self.headers["mcp-session-id"] = self.session_id
        params = {"name": f"{call.app}_{call.method}", "arguments": call.params}
        reply = self.post(PLACE, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).json()
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
            line = socket(self.door, "/ws", query, **self.headers)
            if line.first["type"] != "websocket.accept":
                return {"type": "error", "data": {"reason": code_of(json.loads(line.hear()["body"]))}}
            self._line, self._at = line, self.session_id
        return self._line.say(kind, data)


def reason_of(reply: dict[str, Any]) -> str:
    if reply["type"] == "error":
        return str(reply["data"]["reason"])
    over = reply["data"].get("observation", {}).get("code") == EPISODE_OVER
    return "session_over" if over else ""


DOORS: dict[str, Callable[..., Client]] = {
    "rest": OverRest,
    "rollout": OverRollout,
    "mcp": OverMcp,
    "socket": OverSocket,
}
at_every_door = pytest.mark.parametrize("client", DOORS.values(), ids=DOORS)


def code_of(reply: dict[str, Any]) -> str:
    return str(reply["error"]["code"]) if "error" in reply else ""


@at_every_door
def test_an_unknown_session(client: Callable[..., Client]) -> None:
    with Door(mcp_episodes=True) as door:
        one = client(door)
        assert one.begin() == ""
        one.session_id = "nobody"
        assert one.step(LIST) == "unknown_session"


@at_every_door
def test_an_ended_session(client: Callable[..., Client]) -> None:
    with Door(mcp_episodes=True) as door:
        one = client(door)
        assert one.begin(task=task_id()) == ""
        for _ in range(make(task_id()).max_steps):
            assert one.step(LIST) == ""
        assert one.step(LIST) == "session_over"


@at_every_door
@pytest.mark.parametrize(
    "chosen", [{"seed": -1}, {"chaos": 2}, {"reward": "generous"}, {"luck": 1}, {"task": task_id(), "seed": 1}]
)
def test_a_malformed_beginning(client: Callable[..., Client], chosen: dict[str, Any]) -> None:
    with Door(mcp_episodes=True) as door:
        assert client(door).begin(**chosen) == "malformed"


@at_every_door
def test_a_task_that_there_is_not(client: Callable[..., Client]) -> None:
    with Door(mcp_episodes=True) as door:
        assert client(door).begin(task="space_travel") == "bad_task"


@at_every_door
def test_arguments_nested_too_deep(client: Callable[..., Client]) -> None:
    deep: Any = 1
    for _ in range(90):
        deep = [deep]
    with Door(mcp_episodes=True) as door:
        one = client(door)
        assert one.begin() == ""
        assert one.step(Call("ticketdesk", "list_tickets", {"page": deep})) == "malformed"


@at_every_door
def test_over_capacity(client: Callable[..., Client]) -> None:
    with Door(mcp_episodes=True, capacity=1) as door:
        assert client(door).begin() == ""
        assert client(door).begin() == "over_capacity"


@at_every_door
def test_too_large(client: Callable[..., Client]) -> None:
    with Door(mcp_episodes=True, body_limit=2000) as door:
        one = client(door)
        assert one.begin() == ""
        assert one.step(Call("ticketdesk", "list_tickets", {"page": "x" * 2000})) == "too_large"


@at_every_door
def test_a_wrong_token(client: Callable[..., Client]) -> None:
    with Door(mcp_episodes=True, tokens=("alice", "bob")) as door:
        alice = client(door, authorization="Bearer alice")
        assert alice.begin() == ""
        for token, code in (("Bearer eve", "wrong_token"), ("", "wrong_token"), ("Bearer bob", "unknown_session")):
            other = client(door, authorization=token)
            other.session_id = alice.session_id
            assert other.step(LIST) == code
        assert alice.step(LIST) == ""
