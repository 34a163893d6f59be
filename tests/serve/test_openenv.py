"""OpenEnv: its own server with our environment and our server give the same replies; its validator passes."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openenv.cli._validation import validate_running_environment
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.data.splits import TASK_COUNTS
from companyos.env import make, run_expert, task_named
from companyos.families import SHORT_FAMILIES
from companyos.integrations.openenv.environment import CompanyEnvironment, CompanyTools
from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState
from companyos.integrations.openenv.schemas import schemas
from companyos.serve.messages.tools import call_named
from tests.serve.servers import AppClient, code_of, good, serving
from tests.serve.sockets import Socket, action, socket, tool_action

TASK = str(task_named("vendor_onboarding", 8, 0.5))


@contextmanager
def theirs(kind: type[Environment], act: type, obs: type) -> Iterator[Socket]:
    """A socket to OpenEnv's own server."""
    app = create_app(kind, act, obs, env_name="companyos", max_concurrent_envs=4, state_cls=CompanyState)
    with asyncio.Runner() as runner:
        yield Socket(runner, app)


def calls(task_id: str) -> list[Call]:
    env = make(task_id)
    run_expert(env)
    return [turn.call for turn in env.turns]


def without_ids(reply: dict[str, Any]) -> dict[str, Any]:
    """A reply without what is ours alone: session ids, and what we say of an error beside OpenEnv's words."""
    data = reply["data"]
    if reply["type"] == "error":
        words = "Invalid JSON" if data["code"] == "INVALID_JSON" else data["message"]  # parsers word it as they like
        return {"type": "error", "message": words, "code": data["code"], "errors": bool(data.get("errors"))}
    if reply["type"] == "observation" and "session_id" in data.get("metadata", {}):
        rest = {name: value for name, value in data.items() if name != "metadata"}
        return {"type": "observation", "data": rest | {"observation": data["observation"] | {"metadata": {}}}}
    if reply["type"] == "mcp" and "error" in data:
        words = {"message": data["error"]["message"].split(":")[0], "code": data["error"]["code"]}
        return {"type": "mcp", "data": data | {"error": words}}
    return reply


def rpc(method: Any, request_id: int = 1, **params: Any) -> dict[str, Any]:
    return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}}


SOME_CALL: dict[str, Any] = {"name": "ticketdesk_list_tickets", "arguments": {"page": 1}}
MISTAKES: list[Any] = [
    {"type": "dance"},
    {},
    {"type": "state", "data": {}},
    {"type": "reset", "data": None},
    {"type": "reset", "data": {"colour": "red"}},
    {"type": "reset", "data": {"task": "gardening"}},
    {"type": "reset", "data": {"chaos": 3}},
    {"type": "reset", "data": {"seed": "seven"}},
    {"type": "reset", "data": {"split": "test", "index": 1000}},
    {"type": "reset", "data": {"reward": "gold"}},
    {"type": "step"},
    {"type": "step", "data": {}},
    {"type": "step", "data": []},
    {"type": "mcp", "data": {}},
    {"type": "mcp", "data": {"jsonrpc": "1.0", "method": "tools/list"}},
    rpc("tools/dance"),
    rpc("tools/call"),
    rpc("tools/list", 7),
]
COMPANY_SCRIPT: list[Any] = [
    {"type": "step", "data": action(Call("ticketdesk", "list_tickets"))},  # before any reset
    rpc("tools/call", **SOME_CALL),
    *MISTAKES,
    {"type": "reset"},
    {"type": "reset", "data": {"seed": 3, "episode_id": "mine", "chaos": None}},
    {"type": "state"},
    {
        "type": "reset",
        "data": {"split": "validation", "index": 12, "progress": True, "reward": "score", "episode_id": "mine"},
    },
    {"type": "step", "data": action(Call("ticketdesk", "list_tickets"))},
    *MISTAKES,
    {"type": "step", "data": {"app": "ticketdesk", "method": "list_tickets", "colour": "red"}},
    {"type": "step", "data": {"app": "ticketdesk"}},
    {"type": "step", "data": {"app": "ticketdesk", "method": 7}},
    {
        "type": "step",
        "data": {"app": "ticketdesk", "method": "fly", "params": {"to": "the moon"}, "metadata": {"why": ["not"]}},
    },
    {"type": "step", "data": {"app": "ticketdesk", "method": "get_ticket", "params": {"ticket": 7}}},
    rpc("tools/call", **SOME_CALL),
    rpc("tools/call", name="nothing", arguments={}),
    {"type": "state"},
    {"type": "reset", "data": {"task": TASK, "episode_id": "mine"}},
    *({"type": "step", "data": action(call)} for call in calls(TASK)),
    {"type": "step", "data": action(Call("ticketdesk", "list_tickets"))},  # after the end
    rpc("tools/call", **SOME_CALL),
    {"type": "state"},
]
TOOLS_SCRIPT: list[Any] = [
    {"type": "step", "data": {"type": "list_tools"}},  # before any reset
    *MISTAKES,
    {"type": "reset", "data": {"task": TASK, "episode_id": "mine"}},
    *MISTAKES,
    {"type": "step", "data": {"type": "list_tools", "tool_name": "x"}},
    {"type": "step", "data": {"type": "call_tool"}},
    {"type": "step", "data": {"type": "fly_tool", "tool_name": "x"}},
    {"type": "step", "data": {"tool_name": "ticketdesk_list_tickets"}},
    {"type": "step", "data": {"tool_name": "fly", "arguments": {}}},
    {"type": "step", "data": {"tool_name": "ticketdesk_get_ticket", "arguments": {"ticket": 7}}},
    {"type": "step", "data": {"tool_name": "ticketdesk_get_ticket", "arguments": None}},
    *({"type": "step", "data": tool_action(call)} for call in calls(TASK)),
    {"type": "step", "data": {"type": "list_tools"}},  # after the end
    {"type": "step", "data": {"tool_name": "ticketdesk_list_tickets"}},
    {"type": "state"},
]


@pytest.mark.parametrize(
    ("path", "kind", "act", "obs", "script"),
    [
        ("/ws", CompanyEnvironment, CompanyAction, CompanyObservation, COMPANY_SCRIPT),
        ("/tools/ws", CompanyTools, CallToolAction, CallToolObservation, TOOLS_SCRIPT),
    ],
)
def test_our_socket_says_what_openenvs_own_says(
    path: str, kind: type[Environment], act: type, obs: type, script: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPANYOS_PROGRESS", "1")
    with AppClient(progress=True) as api, theirs(kind, act, obs) as known:
        ours = socket(api, path)
        for message in script:
            text = json.dumps(message)
            found, wanted = Socket.said(ours.send(text=text)), Socket.said(known.send(text=text))
            assert without_ids(found) == without_ids(wanted), text
        for text in ("{", "nonsense", '{"type": "reset"'):
            assert without_ids(Socket.said(ours.send(text=text))) == without_ids(Socket.said(known.send(text=text)))
        assert (
            ours.send(text='{"type": "close"}')["type"] == known.send(text='{"type": "close"}')["type"] == "websocket.close"
        )


@pytest.mark.parametrize("frame", [{"text": "[1]"}, {"text": "null"}, {"text": "[" * 100_000}, {"bytes": b"{}"}])
def test_frames_that_end_their_socket_do_not_end_ours(frame: dict[str, Any]) -> None:
    with AppClient() as api, theirs(CompanyEnvironment, CompanyAction, CompanyObservation) as known:
        ours = socket(api)
        assert Socket.said(known.send(**frame))["data"]["code"] == "SESSION_ERROR"
        assert known.hear()["type"] == "websocket.close"
        assert Socket.said(ours.send(**frame))["data"]["code"] in ("VALIDATION_ERROR", "INVALID_JSON")
        assert ours.say("reset")["type"] == "observation"


# -- what hosts look for -------------------------------------------------------------------------------------------------


def test_the_schemas_that_are_served_are_those_of_the_models() -> None:
    with AppClient() as api:
        assert good(api.get("/schema")) == schemas()["company"]
        assert good(api.get("/tools/schema")) == schemas()["tools"]
    assert schemas()["company"]["action"]["title"] == "CompanyAction"
    assert schemas()["tools"]["action"]["title"] == "CallToolAction"


def test_openenvs_validator_is_content(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger") as server:
        report = validate_running_environment(server.url)
    assert report["passed"], report
    assert [criterion["passed"] for criterion in report["criteria"]] == [True] * 6
    assert report["mode"] == "simulation"


def test_the_server_gets_by_without_openenv() -> None:
    code = "import sys, companyos.serve.run, companyos.serve.app; sys.exit('openenv' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_tasks_are_found_by_number_on_a_fresh_environment_and_over_http() -> None:
    env = CompanyEnvironment()
    assert env.list_splits() == ["train", "validation", "test"]
    assert [env.num_tasks(split) for split in env.list_splits()] == list(TASK_COUNTS.values())
    round_of_all = 2 * len(SHORT_FAMILIES)
    some = env.get_task_range("test", round_of_all, round_of_all + len(SHORT_FAMILIES))
    assert [task["family"] for task in some] == list(SHORT_FAMILIES)
    assert some[2] == env.get_task("test", round_of_all + 2) == env.list_tasks("test")[round_of_all + 2]
    assert env.get_task_range("validation", -1) == [env.get_task("validation", 499)]
    with pytest.raises(IndexError):
        env.get_task("test", 1000)
    with AppClient() as api:
        assert api.get("/list_environments").json() == ["companyos"]
        assert [split["name"] for split in api.get("/companyos/splits").json()] == list(TASK_COUNTS)
        assert good(api.post("/companyos/num_tasks", {"split": "test"})) == {"num_tasks": 1000}
        assert good(api.post("/companyos/task", {"split": "test", "index": round_of_all + 2})) == {"task": some[2]}
        some_of = {"split": "test", "start": round_of_all, "stop": round_of_all + len(SHORT_FAMILIES)}
        assert good(api.post("/companyos/task_range", some_of)) == {"tasks": some}
        assert len(good(api.post("/companyos/tasks", {"split": "validation"}))["tasks"]) == 500
        for place, body in (("num_tasks", {"split": "dev"}), ("tasks", {}), ("task", {"split": "test", "index": 1000})):
            assert code_of(api.post(f"/companyos/{place}", body))[0] == 422


def test_a_task_that_was_found_by_number_is_the_one_that_is_reset_to() -> None:
    env = CompanyEnvironment()
    wanted = make(env.get_task("validation", 8)["id"]).reset()
    assert env.reset(split="validation", index=8).text == wanted.text


def test_an_environment_plays_as_the_core_does_and_says_when_it_is_over() -> None:
    env, known = CompanyEnvironment(), make(TASK)
    assert env.reset(task=TASK, episode_id="mine").text == known.reset().text
    for call in calls(TASK):
        found, obs = env.step(CompanyAction(app=call.app, method=call.method, params=call.params)), known.step(call)
        assert (found.text, found.reward, found.done) == (obs.text, obs.reward, obs.done)
    assert found.metadata == {"success": True}
    again = env.step(CompanyAction(app="ticketdesk", method="list_tickets"))
    assert (again.code, again.reward, again.done) == ("episode_over", 0.0, True)
    assert env.state == CompanyState(episode_id="mine", step_count=obs.step, now=obs.now, max_steps=obs.max_steps, done=True)


def test_mcp_over_http_lists_tools_and_its_calls_are_steps() -> None:
    with AppClient() as api:
        for place in ("/mcp", "/tools/mcp"):
            listed = good(api.post(place, rpc("tools/list")["data"]))["result"]["tools"]
            assert {"name", "description", "inputSchema"} == set(listed[0])
            name = api.reset(task=TASK)["session_id"]
            known = make(TASK)
            for call in calls(TASK):
                params = {"name": f"{call.app}_{call.method}", "arguments": call.params, "session_id": name}
                result = good(api.post(place, rpc("tools/call", **params)["data"]))["result"]
                obs = known.step(call)
                assert (result["content"][0]["text"], result["done"]) == (obs.text, obs.done)
            assert api.digest(name) == known.digest()


def test_mcp_over_http_begins_and_ends_sessions_and_names_what_is_wrong() -> None:
    with AppClient() as api:
        made = good(api.post("/mcp", rpc("openenv/session/create", task=TASK)["data"]))["result"]["session_id"]
        assert good(api.get("/state", params={"session_id": made}))["step_count"] == 0
        closing = rpc("openenv/session/close", session_id=made)["data"]
        assert good(api.post("/mcp", closing))["result"] == {"session_id": made, "closed": True}
        for body, code in (
            (closing, -32602),
            (rpc("openenv/session/close")["data"], -32602),
            (rpc("openenv/session/create", task="gardening")["data"], -32603),
            (rpc("tools/call", **SOME_CALL)["data"], -32603),
            (rpc("tools/call", **SOME_CALL, session_id=made)["data"], -32602),
            (rpc("tools/call", **SOME_CALL, session_id=7)["data"], -32602),
            (rpc("tools/call", name="x", arguments=[])["data"], -32602),
            (rpc("tools/dance")["data"], -32601),
            ({}, -32600),
            ([], -32600),
        ):
            assert good(api.post("/mcp", body))["error"]["code"] == code, body
        assert good(api.post("/mcp", content=b"{"))["error"]["code"] == -32700
        assert good(api.post("/mcp", content=b"[" * 100_000))["error"]["code"] == -32700


def test_no_app_has_a_name_that_would_split_elsewhere() -> None:
    for (app, method), tool in TOOLBOX.tools.items():
        assert call_named(tool.schema["function"]["name"], {}) == Call(app, method)


def test_without_the_package_openenv_its_client_says_what_to_install() -> None:
    script = "import sys; sys.modules['openenv'] = None; import companyos.integrations.openenv.client"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.splitlines()[-1].endswith('need openenv: pip install ".[openenv]" in a checkout')
