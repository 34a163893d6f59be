"""The conversation shows a model its episode, and is shortened when it grows too long."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.agents.llm.conversation import Conversation, size_of
from companyos.agents.llm.replies import ModelMessage, parse_call_line, parse_tool_calls, read_reply
from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make
from companyos.env.chat import Message, messages, prompt
from companyos.env.line_syntax import write_line
from tests.agents.fakes import completion, tool_call
from tests.helpers import STEADY, task_id

PLENTY = 10**9  # characters
FORMS = ("tools", "text")


def message_with(form: str, *calls: Call, thought: str = "") -> ModelMessage:
    if form == "tools":
        return from_body(form, thought, *map(tool_call, calls))
    return from_body(form, "\n".join([thought, *map(write_line, calls)]))


def from_body(form: str, content: str, *calls: Any) -> ModelMessage:
    return (parse_tool_calls if form == "tools" else parse_call_line)(read_reply(completion(content, *calls).body), TOOLBOX)


def conversation(form: str, env: CompanyEnv, room: float = PLENTY, at_once: int = 1) -> tuple[Conversation, list[Message]]:
    """Replay an episode into a conversation, `at_once` calls per message. Return it with its last messages."""
    calls, again = [turn.call for turn in env.turns], make(env.task_id)
    talk, read = Conversation(form, prompt("tools"), again.reset().text), []
    for n in range(0, len(calls), at_once):
        talk.say(message_with(form, *calls[n : n + at_once], thought="Let me see."))
        for call in calls[n : n + at_once]:
            talk.hear(again.step(call))
        read = talk.messages(room)
    return talk, read


def solved(seed: int = 7, chaos: str = "50") -> CompanyEnv:
    return play(make(task_id(seed, chaos)), make_agent("expert"))


def own_calls(form: str, read: list[Message]) -> list[str]:
    if form == "text":
        return [message["content"].splitlines()[-1] for message in read if message["role"] == "assistant"]
    return [call["function"]["arguments"] for message in read for call in message.get("tool_calls", ())]


def test_with_tools_the_messages_are_those_of_the_training_data() -> None:
    env = solved()
    _, read = conversation("tools", env)
    for message in read:
        if message["role"] == "assistant":
            assert message.pop("content") == "Let me see."
            message["content"] = ""
    assert read == messages(env.transcript())


def test_in_text_form_the_replies_are_the_same() -> None:
    env = solved()
    _, read = conversation("text", env)
    assert [message["role"] for message in read] == ["system", "user", *["assistant", "user"] * len(env.turns)]
    assert own_calls("text", read) == [write_line(turn.call) for turn in env.turns]
    replies = [message["content"] for message in messages(env.transcript()) if message["role"] == "tool"]
    assert [message["content"] for message in read[3::2]] == replies


@pytest.mark.parametrize(("form", "share"), [("tools", 0.9), ("tools", 0.7), ("text", 0.9), ("text", 0.6), ("text", 0.4)])
def test_a_shortened_conversation_keeps_the_brief_all_calls_and_the_newest_reply(form: str, share: float) -> None:
    env = solved()
    _, whole = conversation(form, env)
    room = share * size_of(whole)
    _, read = conversation(form, env, room)
    assert size_of(read) <= room
    assert read[:2] == whole[:2]
    assert own_calls(form, read) == own_calls(form, whole)
    assert read[-1] == whole[-1]


@pytest.mark.parametrize("form", FORMS)
def test_the_oldest_turns_are_shortened_first(form: str) -> None:
    env = solved()
    _, whole = conversation(form, env)
    _, read = conversation(form, env, 0.8 * size_of(whole))
    shortened = [shorter != full for shorter, full in zip(read, whole, strict=True) if full["role"] != "assistant"]
    assert any(shortened)
    kept = [i for i, changed in enumerate(shortened) if not changed and len(whole[i]["content"]) > 250]
    changed = [i for i, changed in enumerate(shortened) if changed]
    assert [i for i in kept if i > 0] == [] or max(changed) < max(kept)


def test_a_shortened_conversation_keeps_its_beginning_for_some_turns() -> None:
    """So that the endpoint can cache it."""
    env = make(task_id(7, "50"))
    talk = Conversation("text", prompt("tools"), env.reset().text)
    read: list[list[Message]] = []
    for turn in solved().turns:
        talk.say(message_with("text", turn.call))
        talk.hear(env.step(turn.call))
        read.append(talk.messages(5000))
    same_beginning = [later[: len(earlier) - 1] == earlier[:-1] for earlier, later in pairwise(read)]
    assert 1 <= same_beginning.count(False) <= len(same_beginning) / 3


@pytest.mark.parametrize("form", FORMS)
def test_the_oldest_turns_are_dropped_if_the_calls_alone_are_too_long(form: str) -> None:
    env = solved()
    _, whole = conversation(form, env)
    _, read = conversation(form, env, 0.15 * size_of(whole))
    assert read[:2] == whole[:2]
    calls = own_calls(form, read)
    assert 0 < len(calls) < len(own_calls(form, whole))
    assert calls == own_calls(form, whole)[-len(calls) :]


def test_several_calls_of_one_message_are_answered_one_by_one() -> None:
    env = solved()
    _, read = conversation("tools", env, at_once=3)
    assert [message["role"] for message in read[2:6]] == ["assistant", "tool", "tool", "tool"]
    for message in read:
        if message["role"] == "assistant":
            at = read.index(message)
            answers = [answer["tool_call_id"] for answer in read[at + 1 : at + 1 + len(message["tool_calls"])]]
            assert answers == [call["id"] for call in message["tool_calls"]]
    identities = [message["tool_call_id"] for message in read if message["role"] == "tool"]
    assert len(set(identities)) == len(identities) == len(env.turns)


@pytest.mark.parametrize("form", FORMS)
def test_the_message_about_an_invalid_call_fits_its_form(form: str) -> None:
    env = make(task_id())
    talk = Conversation(form, prompt("tools"), env.reset().text)
    wrong = from_body("text", "get_ticket") if form == "text" else from_body("tools", "Hm.")
    talk.say(wrong)
    talk.hear(env.step(wrong.calls[0].action))
    *_, own, heard = talk.messages(PLENTY)
    assert own == {"role": "assistant", "content": "get_ticket" if form == "text" else "Hm."}
    assert heard["role"] == "user"
    assert re.fullmatch(r"\[.*, step 1 of \d+\] bad_action: " + re.escape(wrong.calls[0].wrong), heard["content"])


def test_no_message_is_empty_even_if_the_model_wrote_nothing() -> None:
    env = make(task_id())
    talk = Conversation("text", prompt("tools"), env.reset().text)
    talk.say(from_body("text", ""))
    talk.hear(env.step(""))
    assert all(message["content"] for message in talk.messages(PLENTY))


@STEADY
@given(st.integers(0, 30), st.integers(-1000, 20_000), st.sampled_from(FORMS), st.integers(1, 4))
def test_messages_are_well_formed_at_any_size_limit(seed: int, room: int, form: str, at_once: int) -> None:
    """Every tool call is answered, roles alternate, and nothing is longer than it was."""
    env = solved(seed)
    _, read = conversation(form, env, room, at_once if form == "tools" else 1)
    assert [message["role"] for message in read[:2]] == ["system", "user"]
    asked = [call["id"] for message in read for call in message.get("tool_calls", ())]
    assert asked == [message["tool_call_id"] for message in read if message["role"] == "tool"]
    spoken = [message["role"] for message in read if message["role"] != "tool"]
    assert all(role != next_role for role, next_role in pairwise(spoken)) or form == "tools"
    assert size_of(read) <= max(room, 0) + size_of(read[:2]) + 6000
