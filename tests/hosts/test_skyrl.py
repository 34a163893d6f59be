"""SkyRL: skyrl_gym makes and steps episodes, with a model behind an endpoint."""

from typing import Any

import httpx
import pytest
import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv
from skyrl_gym.metrics import default_aggregate_metrics

from companyos.data.splits import task_at
from companyos.env.chat import Message
from companyos.integrations.skyrl_env import NAME, rows
from tests.agents.fakes import Expert, completion, endpoint
from tests.integrations.law import FEW, TASKS, holds
from tests.integrations.pages import run_blocks


def rollout(url: str, task_id: str) -> tuple[float, BaseTextEnv, dict[str, Any]]:
    """What SkyRL's generator does with an environment: it asks a model for texts until the episode is over."""
    env = skyrl_gym.make(NAME, env_config=None, extras={"task_id": task_id})
    messages: list[Message]
    messages, _ = env.init([])
    total, done, metadata = 0.0, False, {}
    while not done:
        answer = httpx.post(f"{url}/chat/completions", json={"messages": messages}).json()
        said = answer["choices"][0]["message"]["content"]
        step = env.step(said)
        messages += [{"role": "assistant", "content": said}, *step["observations"]]
        total, done, metadata = total + step["reward"], step["done"], step["metadata"]
    env.close()
    return total, env, metadata


def test_an_experts_episode_gives_the_score_that_it_has_in_process() -> None:
    with endpoint(Expert(TASKS)) as server:
        holds(lambda task_id: rollout(server.url, task_id)[0])


def test_it_is_told_whether_it_was_a_success_and_skyrl_adds_that_up() -> None:
    with endpoint(Expert(FEW)) as server:
        ended = [rollout(server.url, task_id) for task_id in FEW]
    assert all(metadata["success"] is True for _, _, metadata in ended)
    assert default_aggregate_metrics([env.get_metrics() for _, env, _ in ended])["success"] == 1.0


def test_who_writes_no_call_runs_out_of_steps() -> None:
    with endpoint(lambda request: completion("Let me think about that.")) as server:
        total, env, metadata = rollout(server.url, FEW[0])
    assert total < 0.5
    assert metadata == {"code": "bad_action", "success": False}
    assert env.turns == env.max_turns == len(server.requests)


@pytest.mark.parametrize("task_id", FEW)
def test_a_row_is_what_a_model_reads_first(task_id: str) -> None:
    env = skyrl_gym.make(NAME, env_config=None, extras={"task_id": task_id})
    opening, metadata = env.init([])
    assert [message["role"] for message in opening] == ["system", "user"]
    assert metadata == {"task_id": task_id}
    assert "resolve_ticket" in opening[0]["content"]


def test_a_dataset_has_a_row_for_each_task_of_a_split() -> None:
    first = next(rows("validation", chaos=0.25))
    assert first["task_id"] == str(task_at("validation", 0, 0.25))
    assert first["env_class"] == NAME
    env = skyrl_gym.make(NAME, env_config=None, extras=first)
    assert env.init(first["prompt"])[0] == first["prompt"]


def test_what_the_page_shows_runs() -> None:
    assert run_blocks("SkyRL") == 1
