"""Tests of chats and prompts: what a language model reads and writes."""

import json
from functools import cache
from hashlib import sha256
from importlib.resources import files

import msgspec
import pytest

import companyos
from companyos.assurance.twins import twin_tasks
from companyos.company import Mind
from companyos.data.demos import Demo, as_chat, episodes
from companyos.env import make
from companyos.env.chat import PROMPT_VERSION, SYSTEM, messages
from companyos.families import FAMILIES
from tests.helpers import task_id


@cache
def demos() -> list[Demo]:
    return list(episodes(30, chaos=(0.0, 0.5, 1.0)))


def test_messages_alternate_between_what_is_said_and_what_is_called() -> None:
    for demo in demos():
        first, second, *rest = as_chat(demo).messages
        assert first == {"role": "system", "content": SYSTEM}
        assert second == {"role": "user", "content": make(demo.task_id).reset().text}
        assert [message["role"] for message in rest] == ["assistant", "tool"] * demo.steps


def test_every_call_stands_in_its_message_and_every_observation_after_it() -> None:
    for demo in demos():
        env = make(demo.task_id)
        said = as_chat(demo).messages[2:]
        for turn, asked, answer in zip(demo.transcript.turns, said[::2], said[1::2], strict=True):
            [call] = asked["tool_calls"]
            app, method = call["function"]["name"].split("_", 1)
            assert companyos.Call(app, method, json.loads(call["function"]["arguments"])) == turn.call
            assert (answer["tool_call_id"], answer["name"]) == (call["id"], call["function"]["name"])
            assert answer["content"] == env.step(turn.call).text


def test_a_row_has_what_trainers_with_tools_ask_for() -> None:
    for demo in demos():
        row = msgspec.to_builtins(as_chat(demo))
        tools = json.loads(row["tools"])
        assert tools == make(demo.task_id).toolbox.schemas
        called = {call["function"]["name"] for message in row["messages"] for call in message.get("tool_calls", ())}
        assert called <= {tool["function"]["name"] for tool in tools}
        assert len(row["trainable"]) == len([m for m in row["messages"] if m["role"] == "assistant"])


# -- nothing leaks -----------------------------------------------------------------------------------------------------

KEYS: dict[str, set[str]] = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}


def test_no_message_shows_the_task_id_a_reward_a_goal_or_a_cause() -> None:
    for demo in demos():
        said = as_chat(demo).messages
        for message in said:
            assert set(message) == KEYS[message["role"]]
        setting = make(demo.task_id).setting
        stated = {name for mind in setting.world.all(Mind) for facts in mind.knows.values() for name in facts}
        causes = [
            f"{name}={value}" for name, value in msgspec.structs.asdict(setting.causes).items() if name not in stated
        ]  # what a colleague states when asked may be called as the cause is
        hidden = [demo.task_id, demo.canary, "reward", setting.ending.name, *setting.ending.named_goals, *causes]
        assert not [word for word in hidden if word in json.dumps(said)], demo.task_id


def test_messages_do_not_depend_on_how_rewards_are_counted() -> None:
    for one, other in zip(episodes(6), episodes(6, reward="sparse"), strict=True):
        assert one.total != other.total
        assert as_chat(one).messages == as_chat(other).messages


@pytest.mark.parametrize("family", FAMILIES)
def test_twins_begin_with_the_same_messages(family: str) -> None:
    base = make(family, seed=5, chaos=0.5)
    twins = [make(other) for _, _, other in twin_tasks(base.task_id)]
    assert twins
    for twin in twins:
        assert messages(twin.transcript()) == messages(base.transcript())


def test_an_episode_that_has_not_begun_is_two_messages() -> None:
    assert len(messages(make(task_id()).transcript())) == 2


@pytest.mark.parametrize(("form", "digest"), [("tools", "127eb70a0608ba29"), ("text", "7fcdb1b445135350")])
def test_a_prompt_of_this_version_never_changes(form: str, digest: str) -> None:
    """A changed prompt needs a new version, because results with different prompts cannot be compared."""
    assert PROMPT_VERSION == 1
    assert sha256((files("companyos.env") / "prompts" / f"{form}-1.txt").read_bytes()).hexdigest()[:16] == digest
