"""Leaks: no door shows a cause, a goal, a part of the reward, or a twin's name."""

import json
import re
from typing import Any

import msgspec
import pytest

import companyos
from companyos.calls import Call
from companyos.env import make, task_named, work
from companyos.families import FAMILIES
from companyos.observe import Observation
from companyos.twins import twins
from tests.serve.doors import Door, body_of, good
from tests.serve.sockets import action, socket, tool_action

VIEWS = ("text", "html", "json")
TOOL_WORDS = set(re.findall(r"\w+", msgspec.json.encode(companyos.tools()).decode()))  # what every agent may read there
PARTS = {"milestones", "failed_call", "rejection", "efficiency", "parts", "verdict", "damage", "causes", "goals", "ending"}


def secrets_of(task_id: str) -> set[str]:
    """The names of what is hidden: causes, goals and milestones, parts of rewards; and the ids of twins."""
    setting = make(task_id).setting
    causes = set(msgspec.structs.asdict(setting.causes))
    goals = {*setting.ending.named_goals, *(milestone.name for milestone in setting.ending.milestones)}
    return causes | goals | PARTS | {twin.task_id for twin in twins(task_id)} | {setting.ending.name}


def as_sent(obs: Observation) -> dict[str, Any]:
    shown = ("task", "now", "step", "max_steps", "steps_remaining", "code", "message", "last_result", "text")
    return {name: getattr(obs, name) for name in shown}


@pytest.mark.parametrize("name", FAMILIES)
def test_replies_hold_what_passed_the_gate_and_nothing_that_is_hidden(name: str) -> None:
    task_id = str(task_named(name, 5, 1.0))
    env, known = make(task_id), make(task_id)
    work(known)
    with Door() as door:
        begun = good(door.post("/reset", {"task": task_id}))
        assert begun.pop("task_id") == task_id  # here alone, for the trainer
        where, replies = {"session_id": begun["session_id"]}, [begun]
        pages = [door.get("/render", params=where | {"view": view}).text for view in VIEWS]
        assert begun["observation"] == as_sent(env.reset())
        for number, turn in enumerate(known.turns):
            body = body_of(begun["session_id"], turn.call)
            together = good(door.post("/rollout", {"steps": [body]})) if number % 2 else None
            reply = together["answers"][0]["result"] if together else good(door.post("/step", body))
            assert reply["observation"] == as_sent(env.step(turn.call))
            assert set(reply) - {"success"} == {"session_id", "turn", "observation", "reward", "done"}
            replies.append(reply)
            pages += [door.get("/render", params=where | {"view": view}).text for view in VIEWS]
        again = body_of(begun["session_id"], Call("ticketdesk", "list_tickets"))
        pages += [door.post(place, where | more).text for place, more in (("/step", again), ("/fork", {}), ("/close", {}))]
        pages += [door.get(place).text for place in ("/metrics", "/health", "/manifest")]
    told = " ".join(reply["observation"]["text"] for reply in replies)
    hidden = {word for word in secrets_of(task_id) if word not in told and word not in TOOL_WORDS}
    assert len(hidden) > 10
    for page in (*pages, *(msgspec.json.encode(reply).decode() for reply in replies)):
        assert task_id not in page
        assert not {word for word in hidden if re.search(rf"\b{re.escape(word)}\b", page)}


@pytest.mark.parametrize("name", FAMILIES)
def test_sockets_in_either_dialect_and_mcp_show_nothing_that_is_hidden(name: str) -> None:
    task_id = str(task_named(name, 5, 1.0))
    known = make(task_id)
    work(known)
    with Door() as door:
        company, tools = socket(door), socket(door, "/tools/ws")
        pages = [json.dumps(one.say("reset", {"task": task_id})) for one in (company, tools)]
        for number, turn in enumerate(known.turns):
            params = tool_action(turn.call)
            rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            rpc |= {"params": {"name": params["tool_name"], "arguments": params["arguments"]}}
            by_mcp = number % 2 and company.say("mcp", rpc)
            pages += [json.dumps(by_mcp or company.say("step", action(turn.call))), json.dumps(tools.say("step", params))]
            pages += [json.dumps(one.say("state")) for one in (company, tools)]
        assert company.say("state")["data"]["done"]
    told = " ".join(Observation(known.scene, turn.now, 1, turn.reply, 0.0, False).text for turn in known.turns)
    shown = {*re.findall(r"\w+", f"{known.scene.task} {told}"), *TOOL_WORDS}
    hidden = secrets_of(task_id) - shown
    assert len(hidden) > 10
    for page in pages:
        assert task_id not in page
        assert not {word for word in hidden if re.search(rf"\b{re.escape(word)}\b", page)}
