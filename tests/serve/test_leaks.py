"""Leaks: no endpoint shows a cause, a goal, a part of the reward, or the id of a twin. `ENDPOINTS` has one line for each."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec
import pytest

import companyos
from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.assurance.twins import twin_tasks
from companyos.core.calls import Call
from companyos.env import make, run_expert, task_named
from companyos.env.observations import Observation
from companyos.env.rewards import PROFILES
from companyos.families import FAMILIES
from companyos.serve.access.roles import MCP_PATH
from companyos.serve.ops.logs import JsonLines, TextLines
from tests.serve.servers import AppClient, body_of, good
from tests.serve.sockets import action, socket, tool_action

VIEWS = ("text", "html", "json")
LISTINGS = ("/metrics", "/health", "/manifest", "/openapi.json", "/docs", "/nowhere", "/step")
TOOL_WORDS = set(re.findall(r"\w+", msgspec.json.encode(companyos.tools()).decode()))  # what every agent may read there
PARTS = {"milestones", "failed_call", "rejection", "efficiency", "parts", "verdict", "damage", "causes", "goals", "ending"}
PLANTED = {"planted_part": 0.0123456789, "planted_other": 0.0009876543}
LIST = Call("ticketdesk", "list_tickets")


class Episode(msgspec.Struct, frozen=True):
    """Calls that win or lose a task, what their agent is told, and what must stay hidden from it."""

    task_id: str
    calls: tuple[Call, ...]
    told: tuple[Observation, ...]
    hidden: frozenset[str]


@cache
def episode(family: str, won: bool) -> Episode:
    task_id = str(task_named(family, 5, 1.0))
    env = make(task_id)
    if won:
        run_expert(env)
    else:
        play(env, make_agent("random", 1))
    assert env.success is won
    calls, again = tuple(turn.call for turn in env.turns), make(task_id)
    told = (again.reset(), *(again.step(call) for call in calls))
    known = TOOL_WORDS | set(re.findall(r"\w+", " ".join(obs.text for obs in told)))
    return Episode(task_id, calls, told, frozenset(secrets_of(task_id) - known))


def secrets_of(task_id: str) -> set[str]:
    """The names of what is hidden: causes, goals and milestones, parts of rewards; and the ids of twins."""
    setting = make(task_id).setting
    causes = set(msgspec.structs.asdict(setting.causes))
    goals = {*setting.ending.named_goals, *(milestone.name for milestone in setting.ending.milestones)}
    planted = {*PLANTED, *map(str, PLANTED.values())}
    return causes | goals | PARTS | planted | {twin for _, _, twin in twin_tasks(task_id)} | {setting.ending.name}


def as_sent(obs: Observation) -> dict[str, Any]:
    shown = ("task", "now", "step", "max_steps", "steps_remaining", "code", "message", "last_result", "text")
    return {name: getattr(obs, name) for name in shown}


# -- endpoints: each plays an episode to its end and beyond, and gives all that was shown, less the task id where it belongs


def by_steps(api: AppClient, played: Episode) -> Iterator[str]:
    begun = good(api.post("/reset", {"task": played.task_id, "reward": "planted"}))
    assert begun.pop("task_id") == played.task_id
    assert begun["observation"] == as_sent(played.told[0])
    yield written(begun)
    where = {"session_id": begun["session_id"]}
    for call, obs in zip(played.calls, played.told[1:], strict=True):
        reply = good(api.post("/step", body_of(begun["session_id"], call)))
        assert reply["observation"] == as_sent(obs)
        assert set(reply) - {"success"} == {"session_id", "turn", "observation", "reward", "done"}
        yield written(reply)
        yield from (api.get("/render", params=where | {"view": view}).text for view in VIEWS)
    again = body_of(begun["session_id"], LIST)
    for place, body in (("/step", again), ("/step", again | {"turn": 1}), ("/step", again | {"turn": 99}), ("/step", {})):
        yield api.post(place, body).text
    yield api.get("/inspect", params=where).text
    for place in ("/fork", "/close", "/close"):
        yield api.post(place, where).text
    for wrong in ("reward", "split", "chaos", "seed", "task", "luck"):
        yield api.post("/reset", {wrong: "nonsense"}).text


def by_rollout(api: AppClient, played: Episode) -> Iterator[str]:
    session_id = good(api.post("/reset", {"task": played.task_id, "reward": "planted"}))["session_id"]
    for call in (*played.calls, LIST):
        yield api.post("/rollout", {"steps": [body_of(session_id, call), body_of("nobody", call)]}).text


def by_mcp(api: AppClient, played: Episode) -> Iterator[str]:
    headers = {"accept": "application/json", "mcp-session-id": "m" * 32}

    def ask(method: str, **params: Any) -> str:
        return api.post(MCP_PATH, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers=headers).text

    def tool(call: Call) -> str:
        return ask("tools/call", name=f"{call.app}_{call.method}", arguments=call.params)

    begun = tool(Call("episode", "begin", {"task": played.task_id, "reward": "planted"}))
    trainers = f'"task_id":"{played.task_id}"'
    assert trainers in begun
    yield begun.replace(trainers, "")
    yield ask("prompts/get", name="brief")
    for call, obs in zip(played.calls, played.told[1:], strict=True):
        reply = tool(call)
        assert msgspec.json.decode(reply)["result"]["content"][0]["text"] == obs.text
        yield reply
        yield tool(Call("episode", "look"))
    yield from (tool(LIST), ask("prompts/get", name="brief"), ask("prompts/get", name="no"), ask("no"), ask("prompts/list"))
    for wrong in ("reward", "split", "chaos", "seed", "task", "luck"):
        yield tool(Call("episode", "begin", {wrong: "nonsense"}))


def by_socket(api: AppClient, played: Episode) -> Iterator[str]:
    """OpenEnv's protocol; every other call by its MCP message."""
    line = socket(api)
    yield written(line.say("reset", {"task": played.task_id, "reward": "planted"}))
    for number, call in enumerate((*played.calls, LIST)):
        params = {"name": tool_action(call)["tool_name"], "arguments": call.params}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        yield written(line.say("mcp", rpc) if number % 2 else line.say("step", action(call)))
        yield written(line.say("state"))
    yield from (written(line.say("reset", {wrong: "nonsense"})) for wrong in ("reward", "split", "chaos", "task", "luck"))


def by_tools_socket(api: AppClient, played: Episode) -> Iterator[str]:
    line = socket(api, "/tools/ws")
    yield written(line.say("reset", {"task": played.task_id, "reward": "planted"}))
    for call in (*played.calls, LIST):
        yield written(line.say("step", tool_action(call)))
        yield written(line.say("state"))


ENDPOINTS: dict[str, Callable[[AppClient, Episode], Iterator[str]]] = {
    "steps": by_steps,
    "rollout": by_rollout,
    "mcp": by_mcp,
    "socket": by_socket,
    "tools socket": by_tools_socket,
}


# -- the search --------------------------------------------------------------------------------------------------------


def written(reply: Any) -> str:
    return msgspec.json.encode(reply).decode()


def found_in(page: str, words: frozenset[str]) -> set[str]:
    return {word for word in words if word in page and re.search(rf"(?<!\w){re.escape(word)}(?!\w)", page)}


@pytest.mark.parametrize("won", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", ENDPOINTS)
def test_nothing_that_is_hidden_is_shown_or_logged(
    name: str, family: str, won: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(PROFILES, "planted", lambda _: dict(PLANTED))
    caplog.set_level("DEBUG")
    played = episode(family, won)
    with AppClient(mcp_episodes=True) as api:
        pages = list(ENDPOINTS[name](api, played))
        pages += [api.get(place).text for place in LISTINGS[:3]]
    ours = [record for record in caplog.records if record.name.startswith(("companyos", "uvicorn"))]
    pages += [lines().format(record) for record in ours for lines in (JsonLines, TextLines)]
    assert len(pages) > len(played.calls)
    assert len(played.hidden) > 10
    for page in pages:
        assert played.task_id not in page
        assert not found_in(page, played.hidden)


def test_pages_that_are_the_same_for_all_name_nothing_of_any_family() -> None:
    # Words of ours or of HTTP that are also the names or values of some cause.
    public = {"milestones", "plain", "origin", "sent", "small", "large"}
    with AppClient() as api:
        pages = [api.get(place).text for place in LISTINGS]
        ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        pages.append(api.post(MCP_PATH, ask, headers={"accept": "application/json"}).text)
    for family in FAMILIES:
        assert not [found for page in pages if (found := found_in(page, episode(family, True).hidden - public))]


def test_the_search_finds_what_is_shown() -> None:
    hidden = episode("vendor_onboarding", True).hidden
    with AppClient() as api:
        session_id = good(api.post("/reset", {"task": episode("vendor_onboarding", True).task_id}))["session_id"]
        whole = api.get("/inspect", params={"session_id": session_id}, headers={"authorization": "Bearer admin-token"})
    assert {"causes", "goals", "ending"} <= found_in(whole.text, hidden)
