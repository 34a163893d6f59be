"""The leak law: before an agent has read what differs, nothing that it can fetch tells a task from its twins.

A twin is the same morning with one fact changed, so that another ending is right. Two sessions, one of each, make the same
calls up to the one whose reply differs in process. Whatever the agent of either can fetch on the way, at any api, is the
same to the byte, once ids and tokens are replaced. A api is one line in `ENDPOINTS`.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, cast

import httpx
import msgspec
import pytest
from fastmcp import Client
from starlette.routing import Route

from companyos.core.calls import Call
from companyos.env import make
from companyos.families import FAMILIES
from companyos.serve.access.roles import MCP_PATH, agent_of
from companyos.serve.ledger import MemoryLedger
from companyos.serve.mcp.server import McpClient, build_server
from companyos.serve.messages.bodies import reset_reply_for_agent
from companyos.serve.ops.logs import JsonLines
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.sessions import Session, Sessions
from companyos.serve.sessions.work_queue import WorkQueue
from tests.serve.pairs import TASKS, Pair, pairs
from tests.serve.servers import AppClient, body_of, good
from tests.serve.sockets import Socket, action, socket, tool_action

WRONG = Call("ticketdesk", "get_ticket", {"ticket": 1})
TRAINER = {"authorization": "Bearer trainer"}


def test_there_are_fifty_tasks_of_all_families_and_calls_that_twins_answer_alike() -> None:
    assert len({pair.task_id for pair in pairs()}) == TASKS
    assert {pair.task_id.split("-")[0] for pair in pairs()} == set(FAMILIES)
    assert len(pairs()) > TASKS
    assert sum(len(pair.calls) for pair in pairs()) > 2 * len(pairs())


# -- endpoints: an agent at each, all that it can fetch between two calls, and one call ------------------------------------


class Agent(Protocol):
    """Somebody who holds an agent's credential for one session."""

    secrets: tuple[str, ...]  # ids and tokens of its own, which differ of course

    def look(self) -> Iterator[bytes]:
        """All that can be fetched without making a call."""

    def step(self, call: Call) -> bytes:
        """One call."""

    def leave(self) -> None:
        """Hangs up."""


class RestApi:
    """Every place of the server, by GET and by POST, refused or not; errors and headers, too."""

    def __init__(self, api: AppClient, task_id: str) -> None:
        self._api = api
        begun = good(api.post("/reset", {"task": task_id}, headers=TRAINER))
        self.session_id, token = begun["session_id"], begun["agent_token"]
        self.headers = {"authorization": f"Bearer {token}", "x-request-id": "one"}
        self.secrets: tuple[str, ...] = (token, self.session_id)

    def look(self) -> Iterator[bytes]:
        for view in ("text", "html", "json"):
            yield self._get("/render", view=view)
        for wrong in ({"turn": 99}, {"turn": 0}, {"params": 1}, {"app": 7}, {"session_id": "nobody"}):
            yield self._post("/step", body_of(self.session_id, WRONG) | wrong)
        yield self._get("/render", view="4d")
        yield self._get("/state")
        yield self._get("/manifest")

    def everything(self) -> Iterator[bytes]:
        """Every other place there is."""
        for route in self._api.app.routes:
            if isinstance(route, Route) and route.path not in ("/step", "/close", MCP_PATH):
                yield self._get(route.path) if "GET" in (route.methods or ()) else self._post(route.path, {})

    def step(self, call: Call) -> bytes:
        return self._post("/step", body_of(self.session_id, call))

    def leave(self) -> None:
        good(self._api.post("/close", {}, headers=self.headers))

    def _get(self, place: str, **params: str) -> bytes:
        return told(self._api.get(place, params={"session_id": self.session_id, **params}, headers=self.headers))

    def _post(self, place: str, body: Any) -> bytes:
        return told(self._api.post(place, body, headers=self.headers))


def told(reply: httpx.Response) -> bytes:
    """A reply with its status and all of its headers."""
    return b"%d %r\n%s" % (reply.status_code, sorted(reply.headers.items()), reply.content)


class Exam(RestApi):
    """An agent of an exam, whose session is begun for it: no reset names a twin there."""

    def __init__(self, api: AppClient, task_id: str) -> None:
        super().__init__(api, task_id)
        session: Session = api.app.state.sessions.observe(self.session_id, agent_of(self.session_id))
        self._first = msgspec.json.encode(reset_reply_for_agent(self.session_id, session.last))

    def look(self) -> Iterator[bytes]:
        yield self._first
        yield from self.everything()


class Line:
    """OpenEnv's WebSocket, in one of its dialects."""

    path = "/ws"
    secrets: tuple[str, ...]

    def __init__(self, api: AppClient, task_id: str) -> None:
        self.secrets = (rest := RestApi(api, task_id)).secrets
        self._line: Socket = socket(api, self.path, **rest.headers)

    def look(self) -> Iterator[bytes]:
        yield self._say("state")
        yield self._say("reset", {"seed": 1})
        for method, params in (("tools/list", {}), ("openenv/session/create", {"seed": 1}), ("no", {}), ("tools/call", {})):
            yield self._say("mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        for frame in ("{", '{"type": "no"}', '{"type": "step", "data": {}}'):
            yield str(self._line.send(text=frame)).encode()

    def step(self, call: Call) -> bytes:
        return self._say("step", action(call))

    def leave(self) -> None:
        self._line.drop()

    def _say(self, kind: str, data: Any = None) -> bytes:
        return msgspec.json.encode(self._line.say(kind, data))


class ToolLine(Line):
    path = "/tools/ws"

    def step(self, call: Call) -> bytes:
        return self._say("step", tool_action(call))

    def look(self) -> Iterator[bytes]:
        yield from super().look()
        yield self._say("step", {"type": "list_tools"})


class Rpc(RestApi):
    """MCP's tools by OpenEnv's JSON-RPC."""

    place = "/mcp"

    def look(self) -> Iterator[bytes]:
        yield self.ask("tools/list")
        yield self.ask("openenv/session/create")
        yield self.ask("no")

    def step(self, call: Call) -> bytes:
        return self.ask("tools/call", name=f"{call.app}_{call.method}", arguments=call.params)

    def ask(self, method: str, **params: Any) -> bytes:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accepts = {"accept": "application/json", **self.headers}
        return told(self._api.post(self.place, body, headers=accepts))


class Host(Rpc):
    """An MCP host over HTTP."""

    place = MCP_PATH

    def look(self) -> Iterator[bytes]:
        for method in ("tools/list", "prompts/list", "resources/list", "no"):
            yield self.ask(method)
        yield self.ask("prompts/get", name="brief")
        yield self.ask("prompts/get", name="brief", arguments={"task": "expense_report"})
        yield self.ask("tools/call", name="episode_look", arguments={})


class Stdio:
    """The server that `companyos mcp` runs, in an exam; what carries its messages is FastMCP's."""

    def __init__(self, api: AppClient, task_id: str) -> None:
        self._runner = api.runner
        queue = WorkQueue(Sessions(MemoryLedger()))
        session = queue.sessions.create(make(task_id)._task, name="mine")
        self.secrets: tuple[str, ...] = (session.header.session_id,)
        guest = McpClient("mine", agent=True)
        self._client = cast("Any", Client(build_server(queue, Settings(), lambda: guest, lambda _: None)))
        self._runner.run(self._client.__aenter__())

    def look(self) -> Iterator[bytes]:
        client = self._client
        yield repr(self._runner.run(client.list_tools())).encode()
        yield repr(self._runner.run(client.list_prompts())).encode()
        yield repr(self._runner.run(client.get_prompt("brief"))).encode()
        yield self.step(Call("episode", "look"))

    def step(self, call: Call) -> bytes:
        made = self._client.call_tool_mcp(f"{call.app}_{call.method}", call.params)
        return str(self._runner.run(made).model_dump_json()).encode()

    def leave(self) -> None:
        self._runner.run(self._client.__aexit__(None, None, None))


ENDPOINTS: dict[str, Callable[[AppClient, str], Agent]] = {
    "REST": RestApi,
    "every place": Exam,
    "socket": Line,
    "tools socket": ToolLine,
    "RPC": Rpc,
    "MCP over HTTP": Host,
    "MCP over stdio": Stdio,
}
OFTEN, RARELY = 8, 1000  # calls between two looks around; there is one at the beginning and one at the end, too
DEAR = ("every place", "MCP over HTTP", "MCP over stdio")  # where looking around takes long


# -- the law -----------------------------------------------------------------------------------------------------------


def fetched(agent: Agent, calls: tuple[Call, ...], every: int) -> Iterator[bytes]:
    """All that an agent fetches along a list of calls; it looks around after each `every`th, and at both ends."""
    for number, call in enumerate(calls):
        if number % every == 0:
            yield from plain(agent, agent.look())
        yield from plain(agent, iter([agent.step(call)]))
    yield from plain(agent, agent.look())


def plain(agent: Agent, replies: Iterator[bytes]) -> Iterator[bytes]:
    for reply in replies:
        for secret in agent.secrets:
            reply = reply.replace(secret.encode(), b"mine")
        yield re.sub(rb"seconds\{[^\n]*", b"", reply)


@pytest.mark.parametrize("name", ENDPOINTS)
def test_nothing_that_an_agent_can_fetch_tells_twins_apart_before_it_has_read(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "companyos")
    compared = 0
    with AppClient(tokens=("trainer",), mcp_episodes=True) as api:
        for pair in pairs() if name == "REST" else once():
            traces, logs = [], []
            for task_id in (pair.task_id, pair.twin_id):
                caplog.clear()
                agent = ENDPOINTS[name](api, task_id)
                traces.append(list(fetched(agent, pair.calls, RARELY if name in DEAR else OFTEN)))
                agent.leave()
                logs.append([logged(record) for record in caplog.records if is_ours(record.name)])
            assert traces[0] == traces[1], f"{pair.task_id} and {pair.twin_id}"
            assert logs[0] == logs[1]
            compared += len(traces[0])
    assert compared > 4 * TASKS


def once() -> Iterable[Pair]:
    """One pair of each task."""
    return {pair.task_id: pair for pair in pairs()}.values()


def is_ours(logger: str) -> bool:
    return logger.startswith(("companyos", "uvicorn"))


def logged(record: logging.LogRecord) -> str:
    """A line of the log, without the time and the request's id."""
    line = msgspec.json.decode(JsonLines().format(record))
    return str({key: value for key, value in line.items() if key not in ("time", "ms", "request_id")})


def test_serving_a_twin_adds_no_line_to_the_metrics() -> None:
    for pair in pairs()[::10]:
        with AppClient(tokens=("trainer",)) as api:
            seen = []
            for task_id in (pair.task_id, pair.twin_id):
                list(fetched(RestApi(api, task_id), pair.calls, 100))
                page = api.get("/metrics", headers=TRAINER).text
                lines = [line for line in page.splitlines() if 'place="/metrics"' not in line]
                seen.append({line.rpartition(" ")[0] for line in lines})
            assert seen[0] == seen[1]


def test_the_law_finds_an_endpoint_that_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must be able to fail: a server that shows how many goals there are is found out."""
    pair = next(pair for pair in pairs() if goals(pair.task_id) != goals(pair.twin_id))
    sent = RestApi.step

    def leaking(self: RestApi, call: Call) -> bytes:
        session: Session = self._api.app.state.sessions.observe(self.session_id, None)
        return sent(self, call) + str(len(session.env.setting.ending.goals)).encode()

    monkeypatch.setattr(RestApi, "step", leaking)
    with AppClient(tokens=("trainer",)) as api:
        traces = [list(fetched(RestApi(api, task_id), (WRONG,), 1)) for task_id in (pair.task_id, pair.twin_id)]
    assert traces[0] != traces[1]


def goals(task_id: str) -> int:
    return len(make(task_id).setting.ending.goals)
