"""MCP: hosts with the official client, over HTTP and stdio, and requests that are not valid MCP."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

import companyos
from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.env import make, task_named
from companyos.families import FAMILIES
from companyos.serve.access.roles import MCP_PATH
from companyos.serve.ledger import SqliteLedger
from companyos.serve.sessions.sessions import Sessions
from tests.helpers import task_id
from tests.serve.servers import AppClient, Expert, code_of, good, result_of, serving, solo

LIST, BEGIN = "ticketdesk_list_tickets", "episode_begin"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "by hand", "version": "0"}}
TASKS = [str(task_named(name, seed, 0.5)) for seed, name in enumerate(FAMILIES, 1)]
Connect = Callable[[], AbstractAsyncContextManager[ClientSession]]


@asynccontextmanager
async def over_http(url: str, **headers: str) -> AsyncIterator[ClientSession]:
    async with (
        httpx.AsyncClient(headers=headers, timeout=30) as client,
        streamable_http_client(f"{url}{MCP_PATH}", http_client=client) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        yield session


@asynccontextmanager
async def over_stdio(ledger: Path, *flags: str) -> AsyncIterator[ClientSession]:
    command = [sys.executable, "-m", "companyos", "mcp", "--ledger", str(ledger), *flags]
    # The client passes on no more of the environment than it has to.
    server = StdioServerParameters(command=command[0], args=command[1:], env={"PYTHONPATH": ":".join(sys.path)})
    with ledger.with_name("log").open("w") as log:
        async with stdio_client(server, log) as (read, write), ClientSession(read, write) as session:
            yield session


def through_both(ledger: Path, job: Callable[[Connect], Coroutine[Any, Any, None]]) -> None:
    """The same work over HTTP, with a server in a process of its own, and over stdio."""
    with serving(ledger, MCP_EPISODES="1") as server:
        asyncio.run(job(lambda: over_http(server.url)))
    asyncio.run(job(lambda: over_stdio(ledger, "--episodes")))
    assert "Traceback" not in ledger.with_name("log").read_text()


def aside(result: CallToolResult) -> dict[str, Any]:
    """What is for the trainer."""
    assert result.meta is not None
    found: dict[str, Any] = result.meta["companyos"]
    return found


def text(result: CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


def as_rest(result: CallToolResult) -> dict[str, Any]:
    return {"observation": (result.structuredContent or {}) | {"text": text(result)}, **aside(result)}


async def call(host: ClientSession, made: Call, **meta: Any) -> CallToolResult:
    return await host.call_tool(f"{made.app}_{made.method}", made.params, meta={"companyos": meta} if meta else None)


async def play(host: ClientSession, expert: Expert) -> None:
    while expert.call is not None:
        expert.hear(as_rest(await call(host, expert.call)))


async def begin(host: ClientSession, **chosen: Any) -> Expert:
    return Expert(as_rest(await host.call_tool("episode_begin", chosen)))


def digest(ledger: Path, session_id: str) -> str:
    """From the ledger alone, as anybody would who takes over."""
    kept = SqliteLedger(str(ledger))
    try:
        return Sessions(kept).observe(session_id).env.digest()
    finally:
        kept.close()


# -- hosts -------------------------------------------------------------------------------------------------------------


def test_a_host_finds_tools_and_prompt_and_plays_whole_episodes_that_are_as_in_process(tmp_path: Path) -> None:
    async def job(connect: Connect) -> None:
        async with connect() as host:
            begun = await host.initialize()
            assert begun.serverInfo.name == "companyos"
            assert "episode_begin" in str(begun.instructions)
            listed = {tool.name: tool for tool in (await host.list_tools()).tools}
            for schema in companyos.tools():
                tool = listed.pop(schema["function"]["name"])
                assert (tool.description, tool.inputSchema) == tuple(schema["function"].values())[1:]
            assert set(listed) == {"episode_begin", "episode_look"}
            for task in TASKS:
                expert = await begin(host, task=task)
                await play(host, expert)
                assert result_of(expert, digest(tmp_path / "ledger", expert.session_id)) == solo(task)
                assert expert.success

    through_both(tmp_path / "ledger", job)


def test_the_prompt_has_the_brief_and_begins_what_it_is_asked_for(tmp_path: Path) -> None:
    async def job(connect: Connect) -> None:
        async with connect() as host:
            await host.initialize()
            [prompt] = (await host.list_prompts()).prompts
            assert [argument.name for argument in prompt.arguments or []] == ["task", "seed", "chaos"]
            for given, task in (
                ({}, task_id(0, "0")),
                ({"task": "expense_report", "seed": "3", "chaos": "0.5"}, "expense_report-v4-train-3-50"),
                ({}, "expense_report-v4-train-3-50"),
            ):
                [message] = (await host.get_prompt("brief", given)).messages
                assert isinstance(message.content, TextContent)
                assert message.content.text.endswith(make(task).reset().task)
            assert as_rest(await host.call_tool(LIST))["turn"] == 1
            for wrong in ({"task": "space_travel"}, {"seed": "many"}, {"chaos": "7"}):
                with pytest.raises(McpError, match=r"bad_task|malformed"):
                    await host.get_prompt("brief", wrong)
            assert as_rest(await host.call_tool(LIST))["turn"] == 2

    through_both(tmp_path / "ledger", job)


def test_tools_that_are_not_there_and_bad_arguments_cost_what_they_cost_in_process(tmp_path: Path) -> None:
    calls = [
        Call("ticketdesk", "fly"),
        Call("fly", ""),
        Call("", "", {"a": 1}),
        Call("episode", "win"),
        Call("ticketdesk", "get_ticket", {"ticket": 1}),
        Call("ticketdesk", "get_ticket", {"ticket_id": "T-0"}),
        Call("ticketdesk", "wait", {"minutes": "many"}),
        Call("datahub", "x" * 300, {"deep": [[[[]]]]}),
        Call("datahub", "Ü\n%s{}", {"\x00": None}),
    ]

    async def job(connect: Connect) -> None:
        env = make(TASKS[0])
        async with connect() as host:
            await host.initialize()
            expert = await begin(host, task=TASKS[0])
            for bad in calls:
                result, obs = as_rest(await call(host, bad)), env.step(bad)
                assert result["observation"]["text"] == obs.text
                assert (result["turn"], result["reward"], result["done"]) == (obs.step, obs.reward, obs.done)
            assert digest(tmp_path / "ledger", expert.session_id) == env.digest()
            assert as_rest(await host.call_tool(LIST))["turn"] == len(calls) + 1

    through_both(tmp_path / "ledger", job)


def test_the_agent_reads_no_reward_and_no_verdict_and_hears_when_it_is_over(tmp_path: Path) -> None:
    async def job(connect: Connect) -> None:
        async with connect() as host:
            await host.initialize()
            expert = await begin(host, task=TASKS[1])
            while expert.call is not None:
                result = await call(host, expert.call)
                shown = str(result.content) + str(result.structuredContent)
                assert not [word for word in ("reward", "success", expert.session_id, expert.task_id) if word in shown]
                expert.hear(as_rest(result))
            assert "The episode is over." in str(result.content)
            again = await host.call_tool(LIST)
            assert (again.isError, aside(again)["error"], aside(again)["success"]) == (True, "session_over", True)
            looked = await host.call_tool("episode_look")
            assert text(looked).endswith(text(result))
            assert aside(looked) == {name: value for name, value in aside(result).items() if name != "reward"}
            assert (await begin(host)).session_id != expert.session_id

    through_both(tmp_path / "ledger", job)


def test_a_session_outlives_the_server_and_any_worker_answers(tmp_path: Path) -> None:
    async def job() -> None:
        async with over_http(server.url) as host:
            await host.initialize()
            expert = await begin(host, task=TASKS[2])
            while expert.call is not None:
                if len(expert.rewards) in (2, 5):
                    server.kill()
                    server.start()
                expert.hear(as_rest(await call(host, expert.call)))
            assert result_of(expert, digest(tmp_path / "ledger", expert.session_id)) == solo(TASKS[2])

    with serving(tmp_path / "ledger", WORKERS="2", MCP_EPISODES="1") as server:
        asyncio.run(job())


def test_over_stdio_a_named_session_goes_on_where_it_was(tmp_path: Path) -> None:
    async def job() -> None:
        expert: Expert | None = None
        for _ in range(2):
            async with over_stdio(tmp_path / "ledger", "--episodes", "--session", "mine") as host:
                await host.initialize()
                expert = expert or await begin(host, task=TASKS[3])
                for _ in range(3):
                    assert expert.call is not None
                    expert.hear(as_rest(await call(host, expert.call)))
        async with over_stdio(tmp_path / "ledger", "--episodes", "--session", "another") as host:
            await host.initialize()
            assert aside(await host.call_tool(LIST)) == {"error": "not_begun"}

    asyncio.run(job())


def test_a_turn_sent_twice_happens_once(tmp_path: Path) -> None:
    async def job(connect: Connect) -> None:
        async with connect() as host:
            await host.initialize()
            await begin(host)
            listing, other = Call("ticketdesk", "list_tickets"), Call("ticketdesk", "my_changes")
            first = await call(host, listing, turn=1)
            assert await call(host, listing, turn=1) == first
            for made, turn, code in ((other, 1, "turn_taken"), (other, 5, "turn_ahead"), (other, "next", "malformed")):
                assert aside(await call(host, made, turn=turn))["error"] == code
            assert aside(await call(host, other, turn=2))["turn"] == 2

    through_both(tmp_path / "ledger", job)


# -- who chooses the episode -------------------------------------------------------------------------------------------


def test_a_model_cannot_begin_an_episode_or_ask_for_its_progress_unless_the_server_offers_it() -> None:
    """The attack: over MCP the model called `episode_begin` with overrides and `progress=true` itself."""
    with AppClient() as api:
        wire = Wire(api).initialize()
        assert BEGIN not in str(good(wire.post("tools/list"))["result"]["tools"])
        assert BEGIN not in str(good(Wire(api).post("initialize", **HELLO))["result"]["instructions"])
        assert not good(wire.post("prompts/list"))["result"]["prompts"][0].get("arguments")
        first = wire.call(LIST)["_meta"]["companyos"]
        asked = wire.call(BEGIN, task=TASKS[1], progress=True)
        assert asked["structuredContent"]["code"] == "unknown_tool"  # a step like any other mistake, in the same episode
        assert asked["_meta"]["companyos"]["session_id"] == first["session_id"]
        assert asked["_meta"]["companyos"]["turn"] == 2
        assert len(api.app.state.sessions) == 1
    with AppClient(mcp_episodes=True) as api:
        refused = Wire(api).initialize().call(BEGIN, task=TASKS[1], progress=True)
        assert refused["_meta"]["companyos"] == {"error": "malformed"}
        assert "COMPANYOS_PROGRESS" in refused["content"][0]["text"]


def test_over_http_the_address_chooses_the_episode() -> None:
    with AppClient() as api:
        wire = Wire(api, query="task=expense_report&seed=3&chaos=0.5").initialize()
        looked = wire.call("episode_look")
        assert looked["structuredContent"]["task"] == make("expense_report", seed=3, chaos=0.5).reset().task
        assert wire.call(LIST)["_meta"]["companyos"]["turn"] == 1
        wrong = Wire(api, query="task=space_travel").initialize().call(LIST)
        assert wrong["_meta"]["companyos"] == {"error": "bad_task"}


def test_over_stdio_the_command_chooses_the_episode(tmp_path: Path) -> None:
    async def job() -> None:
        async with over_stdio(tmp_path / "ledger", "expense_report", "--seed", "3", "--chaos", "0.5") as host:
            await host.initialize()
            assert BEGIN not in {tool.name for tool in (await host.list_tools()).tools}
            looked = await host.call_tool("episode_look")
            assert (looked.structuredContent or {})["task"] == make("expense_report", seed=3, chaos=0.5).reset().task
            assert aside(await host.call_tool(LIST))["turn"] == 1

    asyncio.run(job())
    command = [sys.executable, "-m", "companyos", "mcp", "space_travel"]
    refused = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert refused.returncode == 2
    assert "unknown family" in refused.stderr
    assert "Traceback" not in refused.stderr


# -- the api itself ---------------------------------------------------------------------------------------------------


class Wire:
    """JSON-RPC by hand, where the official client would be too well-behaved."""

    def __init__(self, api: AppClient, query: str = "", **headers: str) -> None:
        self._api = api
        self._place = f"{MCP_PATH}?{query}"
        self.headers = {"accept": "application/json, text/event-stream", **headers}

    def post(self, method: str, **params: Any) -> httpx.Response:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._api.post(self._place, body, headers=self.headers)

    def initialize(self) -> "Wire":
        reply = self.post("initialize", **HELLO)
        self.headers["mcp-session-id"] = reply.headers["mcp-session-id"]
        return self

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = good(self.post("tools/call", name=name, arguments=arguments))["result"]
        return found


def test_the_rest_api_knows_the_same_sessions() -> None:
    with AppClient(mcp_episodes=True) as api:
        wire = Wire(api).initialize()
        session_id = wire.call("episode_begin", seed=3)["_meta"]["companyos"]["session_id"]
        assert session_id.startswith(wire.headers["mcp-session-id"] + ".")
        assert good(api.step(session_id, Call("ticketdesk", "list_tickets")))["turn"] == 1
        assert wire.call(LIST)["_meta"]["companyos"]["turn"] == 2
        assert "companyos_steps_total 2.0" in api.get("/metrics").text


def test_mcp_sessions_do_not_mix() -> None:
    with AppClient(mcp_episodes=True) as api:
        one, two = Wire(api).initialize(), Wire(api).initialize()
        for wire, seed in ((one, 1), (two, 2)):
            wire.call("episode_begin", seed=seed)
        one.call(LIST)
        assert two.call(LIST)["_meta"]["companyos"]["turn"] == 1


def test_another_token_does_not_reach_the_session() -> None:
    with AppClient(mcp_episodes=True, tokens=("alice", "bob")) as api:
        alice = Wire(api, authorization="Bearer alice").initialize()
        alice.call("episode_begin")
        bob = Wire(api, **alice.headers | {"authorization": "Bearer bob"})
        assert bob.call(LIST)["_meta"]["companyos"] == {"error": "unknown_session"}
        assert code_of(Wire(api).post("tools/list")) == (401, "wrong_token")
        assert alice.call(LIST)["_meta"]["companyos"]["turn"] == 1


def test_without_a_session_tools_can_be_listed_but_not_called() -> None:
    with AppClient(mcp_episodes=True) as api:
        wire = Wire(api)
        assert len(good(wire.post("tools/list"))["result"]["tools"]) == len(TOOLBOX.schemas) + 2
        for name in (LIST, "episode_begin", "episode_look"):
            assert wire.call(name)["_meta"]["companyos"] == {"error": "malformed"}


@pytest.mark.parametrize("name", ["x", "x" * 33, "a b", "." * 32])
def test_a_session_id_that_we_never_gave_out_is_404(name: str) -> None:
    with AppClient(mcp_episodes=True) as api:
        wire = Wire(api)
        wire.headers["mcp-session-id"] = name
        assert code_of(wire.post("tools/list")) == (404, "unknown_session")


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"null", b"\xff", b"[]", b'{"method": 1}', b'{"a":' * 50_000, b"[" * 100_000, b"NaN", b'{"id": "\\ud800"}'],
)
def test_what_is_no_json_rpc_is_refused_and_costs_no_turn(raw: bytes) -> None:
    with AppClient(mcp_episodes=True) as api:
        wire = Wire(api).initialize()
        wire.call("episode_begin")
        for headers in (wire.headers, Wire(api).headers):
            reply = api.post(MCP_PATH, content=raw, headers=headers | {"content-type": "application/json"})
            assert reply.status_code in (400, 422), reply.text
        assert wire.call(LIST)["_meta"]["companyos"]["turn"] == 1


def test_what_is_too_large_or_of_another_method_or_origin_is_refused() -> None:
    with AppClient(mcp_episodes=True, body_limit=1000) as api:
        wire = Wire(api).initialize()
        assert code_of(wire.post("tools/list", cursor="x" * 1000)) == (413, "too_large")
        assert code_of(api.get(MCP_PATH)) == (405, "wrong_method")
        there = {"host": "127.0.0.1", "origin": "https://elsewhere.example"}
        assert api.post(MCP_PATH, {}, headers=wire.headers | there).status_code == 403


def test_arguments_nested_too_deep_cost_no_turn() -> None:
    deep: Any = 1
    for _ in range(90):
        deep = [deep]
    with AppClient(mcp_episodes=True) as api:
        wire = Wire(api).initialize()
        wire.call("episode_begin")
        assert wire.call(LIST, a=deep)["_meta"]["companyos"] == {"error": "malformed"}
        assert wire.call(LIST)["_meta"]["companyos"]["turn"] == 1


def test_a_bug_is_logged_and_tells_the_caller_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the cause is cfo_away")

    with AppClient(mcp_episodes=True) as api:
        wire = Wire(api).initialize()
        monkeypatch.setattr(Sessions, "create", broken)
        reply = wire.post("tools/call", name="episode_begin", arguments={})
        assert good(reply)["result"]["isError"]
    assert "cfo_away" not in reply.text
    assert "cfo_away" in caplog.text


def test_what_only_mcp_needs_is_not_loaded_with_the_server() -> None:
    check = "import sys, companyos.serve.app; assert not {'fastmcp', 'mcp', 'openenv'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_server_without_fastmcp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastmcp.server.dependencies", None)
    with AppClient() as api:
        for _ in range(2):
            reply = api.post(MCP_PATH, {"jsonrpc": "2.0", "id": 1, "method": "initialize"})
            assert code_of(reply) == (501, "no_mcp")
            assert 'pip install ".[serve]" in a checkout' in reply.json()["error"]["what_next"]
        assert good(api.post("/reset"))["done"] is False
