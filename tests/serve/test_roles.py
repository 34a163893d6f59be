"""Roles: an agent may only step in its own session; a trainer may do everything else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute

from companyos.core.calls import Call
from companyos.env import make, run_expert, task_named
from companyos.families import FAMILIES
from companyos.families.kit.family import write_value
from companyos.integrations.client import Company
from companyos.serve.access.roles import MCP_PATH
from tests.helpers import FAMILY
from tests.serve.servers import AS_ADMIN, AppClient, body_of, code_of, good, serving
from tests.serve.sockets import Socket, action, socket, tool_action

TRAINER = {"authorization": "Bearer trainer"}
TASK = str(task_named(FAMILY, 7, 0.5))
LIST = Call("ticketdesk", "list_tickets")
# What is open to the agent of one session. Any other place, those of tomorrow included, is not.
OPEN = {
    "/step", "/render", "/manifest", "/close", "/health", "/ready", "/docs", "/openapi.json", "/list_environments", MCP_PATH,
    "/ws", "/mcp", "/state", "/schema", "/metadata",
    "/tools/ws", "/tools/mcp", "/tools/state", "/tools/schema", "/tools/metadata", "/tools/health",
}  # fmt: skip
TRAINERS_WORDS = ("task_id", "reward", "success", "agent_token", "progress", TASK)


@pytest.fixture
def api() -> Iterator[AppClient]:
    with AppClient(tokens=("trainer",), mcp_episodes=True) as one:
        yield one


def begun(api: AppClient, **body: Any) -> tuple[str, dict[str, str]]:
    """A session that a trainer has begun, and the header that its agent sends."""
    reply = good(api.post("/reset", {"task": TASK} | body, headers=TRAINER))
    assert reply["task_id"] == TASK
    return reply["session_id"], {"authorization": f"Bearer {reply['agent_token']}"}


def shows_nothing(text: str) -> bool:
    return not [word for word in TRAINERS_WORDS if f'"{word}"' in text]


def rpc(api: AppClient, place: str, headers: dict[str, str], method: str, **params: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    found = good(api.post(place, body, headers=headers | {"accept": "application/json"}))
    assert shows_nothing(str(found).replace("'", '"'))
    return found


def test_every_place_that_is_not_for_agents_is_closed_to_them(api: AppClient) -> None:
    name, agent = begun(api)
    seen = set()
    for route in api.app.routes:
        if not isinstance(route, Route):
            continue
        for method in route.methods or ():
            if method in ("GET", "POST") and route.path not in OPEN:
                ask = api.get if method == "GET" else api.post
                reply = ask(route.path, params={"session_id": name}, headers=agent)
                assert code_of(reply) == (403, "not_for_agents"), route.path
                seen.add(route.path)
    assert {"/reset", "/fork", "/rollout", "/inspect", "/metrics", "/companyos/task"} <= seen
    sockets = {route.path for route in api.app.routes if isinstance(route, WebSocketRoute)}
    assert sockets == {"/ws", "/tools/ws"}
    assert code_of(api.get("/nowhere", headers=agent)) == (403, "not_for_agents")


def test_an_agent_steps_to_the_end_and_is_sent_no_task_no_reward_and_no_verdict(api: AppClient) -> None:
    name, agent = begun(api)
    env = make(TASK)
    run_expert(env)
    for number, turn in enumerate(env.turns, 1):
        reply = api.post("/step", body_of(name, turn.call), headers=agent)
        assert good(reply)["turn"] == number
        assert shows_nothing(reply.text)
    assert good(reply)["done"]
    over = api.post("/step", body_of(name, LIST), headers=agent)
    assert code_of_over(over)
    assert shows_nothing(over.text)
    trainers = api.post("/step", body_of(name, LIST), headers=TRAINER).json()["result"]
    assert (trainers["success"], "reward" in trainers) == (True, True)
    for view in ("text", "html", "json"):
        assert shows_nothing(api.get("/render", params={"view": view}, headers=agent).text)
    assert good(api.get("/state", headers=agent))["step_count"] == len(env.turns)
    assert good(api.post("/close", {}, headers=agent))["closed"]


def code_of_over(reply: httpx.Response) -> bool:
    return reply.status_code == 409 and reply.json()["error"]["code"] == "session_over"


def test_an_agents_token_is_for_one_session(api: AppClient) -> None:
    (one, agent), (other, _) = begun(api), begun(api)
    assert good(api.post("/step", {"app": "ticketdesk", "method": "list_tickets"}, headers=agent))["session_id"] == one
    for place, body in (("/step", body_of(other, LIST)), ("/close", {"session_id": other})):
        assert code_of(api.post(place, body, headers=agent)) == (422, "malformed")  # two are named
        elsewhere = agent | {"x-session-id": other}
        assert api.post(place, body | {"session_id": None}, headers=elsewhere).status_code == 404
    assert code_of(api.get("/render", params={"session_id": other}, headers=agent)) == (422, "malformed")
    assert code_of(api.get("/render", headers=agent | {"x-session-id": other})) == (404, "unknown_session")


@pytest.mark.parametrize("change", ["", "x", "agent.", "agent..", "{token}0", "{other}", "\xff"])
def test_a_token_that_was_made_up_opens_nothing(api: AppClient, change: str) -> None:
    (name, agent), (other, _) = begun(api), begun(api)
    token = agent["authorization"].removeprefix("Bearer ")
    forged = change.format(token=token, other=token.replace(name, other))
    headers = {"authorization": f"Bearer {forged}".encode("latin-1")}
    assert code_of(api.post("/step", body_of(other, LIST), headers=headers)) == (401, "wrong_token")


def test_without_tokens_too_an_agents_token_makes_an_agent() -> None:
    with AppClient() as api:
        reply = api.reset(task=TASK)
        agent = {"authorization": f"Bearer {reply['agent_token']}"}
        assert code_of(api.post("/fork", {}, headers=agent)) == (403, "not_for_agents")
        assert shows_nothing(api.post("/step", body_of(reply["session_id"], LIST), headers=agent).text)


def test_workers_and_restarts_that_share_a_key_know_each_others_agents(tmp_path: Path) -> None:
    settings = {"ledger": str(tmp_path / "ledger"), "tokens": ("trainer",)}
    with AppClient(**settings, watch_key="shared") as one, AppClient(**settings, watch_key="shared") as other:
        name, agent = begun(one)
        assert good(other.post("/step", body_of(name, LIST), headers=agent))["turn"] == 1
    with AppClient(**settings, watch_key="another") as stranger:
        assert code_of(stranger.post("/step", body_of(name, LIST), headers=agent)) == (401, "wrong_token")


# -- sockets and MCP ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/ws", "/tools/ws"])
def test_at_a_socket_an_agent_steps_and_cannot_reset(api: AppClient, place: str) -> None:
    name, agent = begun(api)
    line = socket(api, place, **agent)
    made = {"/ws": action(LIST), "/tools/ws": tool_action(LIST)}[place]
    heard = line.say("step", made)["data"]
    assert (heard["reward"], heard["done"]) == (None, False)
    assert "success" not in str(heard)
    refused = line.say("reset", {"task": TASK})["data"]
    assert refused["reason"] == "not_for_agents"
    create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}}
    assert line.say("mcp", create)["data"]["result"] == {"session_id": name}
    stranger = socket(api, place, query="session_id=" + begun(api)[0], **agent)
    assert Socket.said(stranger.hear())["data"]["reason"] == "unknown_session"


def test_by_rpc_an_agent_calls_tools_and_begins_nothing(api: AppClient) -> None:
    name, agent = begun(api)
    call = {"name": "ticketdesk_list_tickets", "arguments": {}}
    assert not rpc(api, "/mcp", agent, "tools/call", **call)["result"]["isError"]
    for headers in (agent, agent | {"x-session-id": "nobody"}):
        made = rpc(api, "/mcp", headers, "openenv/session/create", task=FAMILY)
        assert made.get("result", {}).get("session_id") in (name, "nobody")  # the one that is named, and none that was begun
    assert len(api.app.state.sessions) == 1


def test_an_mcp_host_with_an_agents_token_plays_that_session_and_begins_none(api: AppClient) -> None:
    name, agent = begun(api)
    call = {"name": "ticketdesk_list_tickets", "arguments": {}}
    result = rpc(api, MCP_PATH, agent, "tools/call", **call)["result"]
    assert result["_meta"]["companyos"] == {"session_id": name, "turn": 1, "done": False}
    refused = rpc(api, MCP_PATH, agent, "tools/call", name="episode_begin", arguments={"task": FAMILY})["result"]
    assert refused["_meta"]["companyos"] == {"error": "not_for_agents"}
    assert "error" in rpc(api, MCP_PATH, agent, "prompts/get", name="brief", arguments={"task": FAMILY})
    brief = rpc(api, MCP_PATH, agent, "prompts/get", name="brief")["result"]["messages"][0]["content"]["text"]
    assert brief.endswith(make(TASK).reset().task)
    assert len(api.app.state.sessions) == 1


# -- overrides ---------------------------------------------------------------------------------------------------------


def test_trying_every_value_of_every_fact_tells_nobody_which_one_is_so() -> None:
    """The attack: a value was refused exactly where the seed has it, so that 60 resets told 60 facts."""
    tried = 0
    with AppClient() as api:
        for name, family in FAMILIES.items():
            plain = str(task_named(name, 5, 0.5))
            for cause in family.specs()[:6]:
                replies = []
                for value in cause.alternatives:
                    task = f"{plain}-{cause.name}.{write_value(value)}"
                    reply = good(api.post("/reset", {"task": task}))
                    assert reply.pop("task_id") == task
                    replies.append({key: reply[key] for key in reply if key not in ("session_id", "agent_token")})
                    tried += 1
                assert all(reply == replies[0] for reply in replies)
    assert tried > 60


def test_a_trainer_is_told_the_one_id_of_a_task(api: AppClient) -> None:
    causes = make(TASK).setting.causes
    task = f"{TASK}-duplicate.{write_value(causes.duplicate)}"
    assert good(api.post("/reset", {"task": task}, headers=TRAINER))["task_id"] == TASK
    assert good(api.get("/inspect", params={"session_id": begun(api)[0]}, headers=AS_ADMIN))["task_id"] == TASK


# -- the client --------------------------------------------------------------------------------------------------------


def test_a_trainer_hands_its_agents_token_to_a_client_that_needs_no_other(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger", TOKENS="trainer") as server, Company(server.url, "trainer") as trainer:
        trainer.reset(TASK)
        with httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {trainer.agent_token}"}) as agent:
            reply = agent.post("/step", json={"app": LIST.app, "method": LIST.method})
            assert reply.json()["session_id"] == trainer.session_id
            assert agent.post("/fork", json={}).status_code == 403
