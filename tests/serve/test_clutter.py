"""Tool clutter: at every endpoint an episode lists the same tools as in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openenv.core.env_server.mcp_types import ListToolsAction, ListToolsObservation

import companyos
from companyos.company import EXTRAS
from companyos.core.calls import UNKNOWN_TOOL, Call
from companyos.env import make
from companyos.integrations.client import Company
from companyos.integrations.openenv.environment import CompanyTools
from companyos.serve.access.roles import MCP_PATH
from tests.serve.servers import AppClient, good, serving
from tests.serve.sockets import action, socket

PLAIN_EXTRAS = {tool.name for tool in EXTRAS if not tool.required}
SEED, CLUTTERED = next(
    (seed, env.task_id)
    for seed, env in enumerate(make("vendor_onboarding", seed=s, chaos={"tool_clutter": 1.0}) for s in range(50))
    if PLAIN_EXTRAS & set(env.toolbox.names)
)
PLAIN = make("vendor_onboarding", seed=SEED).task_id
RPC = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
Tools = dict[str, tuple[str, Any]]  # description and schema by name


def in_process(task_id: str) -> Tools:
    functions = (schema["function"] for schema in make(task_id).reset().tools)
    return {said["name"]: (said["description"], said["parameters"]) for said in functions}


def listed(tools: list[dict[str, Any]], schema: str = "inputSchema") -> Tools:
    return {tool["name"]: (tool["description"], tool[schema]) for tool in tools}


def by_manifest(api: AppClient, task_id: str) -> Tools:
    session_id = api.reset(task=task_id)["session_id"]
    found = good(api.get("/manifest", params={"session_id": session_id}))["tools"]
    return {one["function"]["name"]: (one["function"]["description"], one["function"]["parameters"]) for one in found}


def by_rpc(api: AppClient, task_id: str) -> Tools:
    session_id = api.reset(task=task_id)["session_id"]
    by_header = good(api.post("/mcp", RPC, headers={"x-session-id": session_id}))["result"]
    assert by_header == good(api.post("/tools/mcp", RPC | {"params": {"session_id": session_id}}))["result"]
    return listed(by_header["tools"])


def by_handle(api: AppClient, task_id: str) -> Tools:
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
    handle = good(api.post("/mcp", create))["result"]["session_id"]
    before = good(api.post("/mcp", RPC | {"params": {"session_id": handle}}))["result"]["tools"]
    assert listed(before) == in_process(PLAIN)
    socket(api, query=f"session_id={handle}").say("reset", {"task": task_id})
    return listed(good(api.post("/mcp", RPC | {"params": {"session_id": handle}}))["result"]["tools"])


def by_socket(api: AppClient, task_id: str) -> Tools:
    line = socket(api)
    line.say("reset", {"task": task_id})
    return listed(line.say("mcp", RPC)["data"]["result"]["tools"])


def by_tools_socket(api: AppClient, task_id: str) -> Tools:
    line = socket(api, "/tools/ws")
    line.say("reset", {"task": task_id})
    return listed(line.say("step", {"type": "list_tools"})["data"]["observation"]["tools"], "input_schema")


def by_mcp(api: AppClient, task_id: str) -> Tools:
    headers = {"accept": "application/json", "mcp-session-id": "m" * 32}
    begin = RPC | {"method": "tools/call", "params": {"name": "episode_begin", "arguments": {"task": task_id}}}
    assert not good(api.post(MCP_PATH, begin, headers=headers))["result"]["isError"]
    found = listed(good(api.post(MCP_PATH, RPC, headers=headers))["result"]["tools"])
    return {name: said for name, said in found.items() if not name.startswith("episode_")}


def by_openenv(api: AppClient, task_id: str) -> Tools:
    env = CompanyTools()
    env.reset(task=task_id)
    found = env.step(ListToolsAction())
    assert isinstance(found, ListToolsObservation)
    hands = listed(api.runner.run(env.mcp_client.list_tools()))
    assert hands == listed([tool.model_dump() for tool in found.tools], "input_schema")
    return hands


ENDPOINTS: list[Callable[[AppClient, str], Tools]] = [
    by_manifest,
    by_rpc,
    by_handle,
    by_socket,
    by_tools_socket,
    by_mcp,
    by_openenv,
]


@pytest.mark.parametrize("tools_at", ENDPOINTS)
def test_an_episode_has_the_same_tools_at_every_endpoint(tools_at: Callable[[AppClient, str], Tools]) -> None:
    assert in_process(CLUTTERED).keys() - in_process(PLAIN).keys()
    with AppClient(mcp_episodes=True) as api:
        for task_id in (PLAIN, CLUTTERED, PLAIN):
            found = tools_at(api, task_id)
            assert found == in_process(task_id)
            assert list(found) == list(in_process(task_id))


def test_a_client_of_ours_sees_the_tools_it_would_see_here_and_so_do_its_forks(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger") as server, Company(server.url) as company:
        for task_id in (CLUTTERED, PLAIN):
            assert company.reset(task_id).tools == make(task_id).reset().tools
            [twin] = company.fork()
            with twin:
                assert twin.step(Call("ticketdesk", "list_tickets")).tools == make(task_id).reset().tools


def test_before_an_episode_has_begun_those_are_listed_that_every_episode_has() -> None:
    with AppClient(mcp_episodes=True) as api:
        assert good(api.get("/manifest"))["tools"] == companyos.tools()
        assert listed(good(api.post("/mcp", RPC))["result"]["tools"]) == in_process(PLAIN)
        line = socket(api, "/tools/ws")
        assert len(line.say("step", {"type": "list_tools"})["data"]["observation"]["tools"]) == len(companyos.tools())
        assert good(api.post("/mcp", RPC | {"params": {"session_id": "nobody"}}))["error"]["code"] == -32602
        assert api.get("/manifest", params={"session_id": "nobody"}).status_code == 404


def test_a_reset_names_the_tools_and_an_extra_that_is_not_among_them_is_unknown() -> None:
    with AppClient(mcp_episodes=True) as api:
        for task_id in (PLAIN, CLUTTERED):
            begun = api.reset(task=task_id)
            assert begun["tools"] == list(make(task_id).toolbox.names)
            for tool in EXTRAS:
                code = good(api.step(begun["session_id"], Call(tool.app, tool.method, {})))["observation"]["code"]
                assert (code == UNKNOWN_TOOL) == (tool.name not in begun["tools"])


def test_another_worker_offers_the_same_tools(tmp_path: Path) -> None:
    settings = {"ledger": str(tmp_path / "ledger")}
    with AppClient(**settings) as one, AppClient(**settings) as other:
        session_id = one.reset(task=CLUTTERED)["session_id"]
        found = good(other.get("/manifest", params={"session_id": session_id}))["tools"]
        assert found == make(CLUTTERED).reset().tools
        line = socket(other, query=f"session_id={session_id}")
        extra = next(tool for tool in EXTRAS if tool.name in PLAIN_EXTRAS & set(make(CLUTTERED).toolbox.names))
        assert line.say("step", action(Call(extra.app, extra.method)))["data"]["observation"]["code"] == "ok"
