"""Equality: an episode on a server equals the same episode in this process, however many others run beside it."""

import random
from collections.abc import Callable
from functools import cache
from itertools import cycle, islice
from typing import Any

import pytest

from companyos.core.calls import Call
from companyos.env import task_named
from companyos.families import FAMILIES
from companyos.serve.access.roles import MCP_PATH
from tests.serve.servers import AppClient, Expert, good, result_of, solo
from tests.serve.sockets import play, play_by_tools, socket

DOSES = (0.0, 0.5, 1.0, 0.25, 0.75)
TASKS = [
    str(task_named(name, number // len(FAMILIES), dose))
    for number, (name, dose) in enumerate(islice(zip(cycle(FAMILIES), cycle(DOSES + DOSES[:1]), strict=False), 200))
]
in_process = cache(solo)


def experts(api: AppClient, task_ids: list[str], reward: str = "dense") -> list[Expert]:
    return [Expert(api.reset(task=task_id, reward=reward)) for task_id in task_ids]


def results(api: AppClient, crew: list[Expert]) -> list[object]:
    return [result_of(expert, api.digest(expert.session_id)) for expert in crew]


# -- endpoints: each plays a whole task, or many side by side --------------------------------------------------------------


def by_steps(api: AppClient, task_ids: list[str]) -> list[Expert]:
    crew = experts(api, task_ids)
    for expert in crew:
        while expert.call is not None:
            expert.hear(good(api.post("/step", expert.body)))
    return crew


def by_rollout(api: AppClient, task_ids: list[str]) -> list[Expert]:
    crew = experts(api, task_ids)
    while at_work := [expert for expert in crew if expert.call is not None]:
        answers = good(api.post("/rollout", {"steps": [expert.body for expert in at_work]}))["answers"]
        for expert, answer in zip(at_work, answers, strict=True):
            expert.hear(answer["result"])
    return crew


def by_socket(api: AppClient, task_ids: list[str]) -> list[Expert]:
    return [play(socket(api), task_id) for task_id in task_ids]


def by_tools_socket(api: AppClient, task_ids: list[str]) -> list[Expert]:
    return [play_by_tools(socket(api, "/tools/ws"), task_id) for task_id in task_ids]


def by_mcp(api: AppClient, task_ids: list[str]) -> list[Expert]:
    return [_play_by_mcp(api, task_id, f"{number:032}") for number, task_id in enumerate(task_ids)]


def _play_by_mcp(api: AppClient, task_id: str, name: str) -> Expert:
    headers = {"accept": "application/json", "mcp-session-id": name}

    def tool(call: Call) -> dict[str, Any]:
        params = {"name": f"{call.app}_{call.method}", "arguments": call.params}
        rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = good(api.post(MCP_PATH, rpc, headers=headers))["result"]
        observation = {**result["structuredContent"], "text": result["content"][0]["text"]}
        return {"observation": observation, **result["_meta"]["companyos"]}

    expert = Expert(tool(Call("episode", "begin", {"task": task_id})))
    while expert.call is not None:
        expert.hear(tool(expert.call))
    return expert


ENDPOINTS: dict[str, Callable[[AppClient, list[str]], list[Expert]]] = {
    "steps": by_steps,
    "rollout": by_rollout,
    "socket": by_socket,
    "tools socket": by_tools_socket,
    "mcp": by_mcp,
}


@pytest.mark.parametrize("name", ENDPOINTS)
def test_two_hundred_tasks_are_as_in_process(name: str) -> None:
    assert len(set(TASKS)) == 200
    with AppClient(mcp_episodes=True) as api:
        crew = ENDPOINTS[name](api, TASKS)
        assert results(api, crew) == [in_process(task_id) for task_id in TASKS]
        assert all(expert.success for expert in crew)


def test_the_reward_that_was_asked_for_is_paid() -> None:
    with AppClient(mcp_episodes=True) as api:
        crew = experts(api, TASKS[:20], "score")
        for expert in crew:
            while expert.call is not None:
                expert.hear(good(api.post("/step", expert.body)))
        assert results(api, crew) == [solo(task_id, "score") for task_id in TASKS[:20]]


def test_sixteen_sessions_interleaved_at_random_do_not_mix() -> None:
    # Twice the same eight tasks, more sessions than there is room for in memory, and several requests at once.
    draw = random.Random(4)
    with AppClient(mcp_episodes=True, capacity=12, idle_seconds=1e-9) as api:
        crew = experts(api, TASKS[:8] * 2)
        while at_work := [expert for expert in crew if expert.call is not None]:
            chosen = draw.sample(at_work, min(len(at_work), draw.randint(1, 6)))
            for expert, reply in zip(chosen, api.post_together("/step", [one.body for one in chosen]), strict=True):
                expert.hear(good(reply))
        assert results(api, crew) == [solo(task_id) for task_id in TASKS[:8]] * 2
