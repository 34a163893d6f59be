"""The calls in a model's reply are found; any other reply costs exactly one step."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.agents.llm.replies import (
    MAX_CALLS,
    NOTHING,
    ModelMessage,
    ModelReply,
    NotAReply,
    RequestedCall,
    parse_call_line,
    parse_tool_calls,
    read_reply,
)
from companyos.company import TOOLBOX
from companyos.core.calls import BAD_ACTION, BAD_ARGUMENTS, UNKNOWN_TOOL, Call
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.families import FAMILIES
from tests.agents.fakes import completion, function, tool_call
from tests.helpers import STEADY, task_id

READ = Call("ticketdesk", "get_ticket", {"ticket_id": "T-1"})


def code_of_reply(requested: RequestedCall) -> str:
    """Return the code of the company's reply to a call."""
    return make(task_id()).step(requested.action).code


def from_tools(*calls: Any, content: str = "") -> ModelMessage:
    return parse_tool_calls(read_reply(completion(content, *calls).body), TOOLBOX)


def from_text(text: str) -> ModelMessage:
    return parse_call_line(ModelReply(text), TOOLBOX)


# -- valid calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_of_an_expert_can_be_written_in_both_forms(family: str) -> None:
    for turn in play(make(family, seed=3, chaos=0.5), make_agent("expert")).turns:
        for message in (from_tools(tool_call(turn.call)), from_text(write_line(turn.call))):
            assert [requested.action for requested in message.calls] == [turn.call]
            assert not message.calls[0].wrong


@pytest.mark.parametrize("name", ["ticketdesk_get_ticket", "ticketdesk.get_ticket", "get_ticket"])
@pytest.mark.parametrize("arguments", ['{"ticket_id": "T-1"}', {"ticket_id": "T-1"}])
def test_a_tool_is_found_with_any_spelling_of_its_app(name: str, arguments: Any) -> None:
    assert from_tools(function(name, arguments)).calls[0].action == READ


@pytest.mark.parametrize("arguments", ["", None, "{}"])
def test_a_tool_without_arguments_needs_none(arguments: Any) -> None:
    assert from_tools(function("ticketdesk_wait", arguments)).calls[0].action == Call("ticketdesk", "wait", {})


def test_several_tool_calls_are_made_in_order_up_to_a_limit() -> None:
    calls = [Call("ticketdesk", "get_ticket", {"ticket_id": f"T-{n}"}) for n in range(MAX_CALLS + 5)]
    assert [requested.action for requested in from_tools(*map(tool_call, calls)).calls] == calls[:MAX_CALLS]


@pytest.mark.parametrize(
    "text",
    [
        "get_ticket T-1",
        "  get_ticket T-1  \n",
        "Sure! Let me look at the ticket first.\n\n```\nget_ticket T-1\n```\nThen I wait for the reply.",
        "> get_ticket T-1",
        "- `get_ticket T-1`",
        "wait for it, I will read it first:\nget_ticket T-1\nwait",
        "<think>I could just\nwithdraw A-1\nbut no.</think>get_ticket T-1",
        '{"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": "T-1"}}',
    ],
)
def test_a_call_is_found_among_other_words(text: str) -> None:
    assert [requested.action for requested in from_text(text).calls] == [READ]


def test_text_before_the_call_is_kept_and_text_after_it_is_dropped() -> None:
    message = from_text("I look first.\nget_ticket T-1\n[Thu 2026-01-15 12:13, step 1 of 65] ok\nT-1; title=Imagined")
    assert (message.thought, message.calls[0].arguments) == ("I look first.", "get_ticket T-1")


# -- invalid calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (function("ticketdesk_get_ticket", "{"), BAD_ACTION),
        (function("ticketdesk_get_ticket", '{"ticket_id": "T-1"'), BAD_ACTION),
        (function("ticketdesk_get_ticket", "[1]"), BAD_ACTION),
        (function("ticketdesk_get_ticket", "T-1"), BAD_ACTION),
        (function("ticketdesk_get_ticket", 7), BAD_ACTION),
        (function("ticketdesk_get_ticket", '{"ticket_id": "\\ud800"}'), BAD_ACTION),
        (function("ticketdesk_get_ticket", "[" * 100_000), BAD_ACTION),
        (function("ticketdesk_get_ticket", "{}"), BAD_ARGUMENTS),
        (function("ticketdesk_get_ticket", '{"ticket_id": "T-1", "force": true}'), BAD_ARGUMENTS),
        (function("ticketdesk_comment", json.dumps({"ticket_id": "T-1", "text": "x" * 100_000})), BAD_ARGUMENTS),
        (function("ticketdesk_dance", "{}"), UNKNOWN_TOOL),
        (function("dance", "{}"), UNKNOWN_TOOL),
        (function("", "{}"), UNKNOWN_TOOL),
        (function("é" * 10_000, "{}"), UNKNOWN_TOOL),
        ({"id": "x", "type": "function"}, BAD_ACTION),
        ({"function": {"arguments": "{}"}}, BAD_ACTION),
        ({"function": None}, BAD_ACTION),
        (None, BAD_ACTION),
        ("get_ticket T-1", BAD_ACTION),
    ],
)
def test_a_broken_tool_call_is_an_invalid_call_that_later_requests_can_contain(call: Any, code: str) -> None:
    [requested] = from_tools(call).calls
    assert code_of_reply(requested) == code
    assert (code == BAD_ACTION) == bool(requested.wrong)
    # Servers parse the conversation, and refuse all of it if a name or the arguments are invalid.
    assert msgspec.json.decode(requested.arguments, type=dict) is not None
    assert 0 < len(requested.name) <= 64
    assert requested.name.isascii()


def test_a_reply_without_a_tool_call_is_an_invalid_call() -> None:
    message = from_tools(content="I think the ticket is fine.")
    assert [code_of_reply(requested) for requested in message.calls] == [BAD_ACTION]
    assert message.calls[0].action == message.thought == "I think the ticket is fine."
    assert not message.calls[0].name


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "an empty line is no call"),
        ("\n \n```\n```", "an empty line is no call"),
        ("\x1f", "an empty line is no call"),
        ("get_tickets T-1", "did you mean get_ticket?"),
        ("get_ticket(T-1)", "there is no tool 'get_ticket(T-1)'"),
        ("get_ticket", "ticket_id missing: get_ticket ticket_id"),
        ("Let me see.\nget_ticket", "ticket_id missing"),
        ("I think the ticket is fine.", "there is no tool 'I'"),
        ('get_ticket "T-1', "a quote is not closed"),
        ("{", "is not JSON"),
        ("<think>get_ticket T-1", "an empty line is no call"),
        ("comment T-1 " + "x" * 10_000, "at most 4000 characters"),
        ("x" * 500_000, "there is no tool"),
        ("hm\n" * 100_000 + "get_ticket T-1", "there is no tool 'hm'"),
    ],
)
def test_a_text_without_a_call_is_an_invalid_call_and_says_what_is_wrong(text: str, wrong: str) -> None:
    message = from_text(text)
    [requested] = message.calls
    assert wrong in requested.wrong
    assert code_of_reply(requested) == BAD_ACTION
    assert len(str(message)) < 5000


def test_a_reply_that_never_came_is_an_invalid_call() -> None:
    assert [code_of_reply(requested) for requested in NOTHING.calls] == [BAD_ACTION]


# -- arbitrary input ---------------------------------------------------------------------------------------------------

BODIES = [
    b"",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b"<html>",
    b"[" * 100_000,
    b"data: {}\n\ndata: [DONE]\n\n",
    b'{"error": "no"}',
    b'{"choices": 3}',
    b'{"choices": []}',
    b'{"choices": [{}]}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": "hello"}]}',
]


@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_not_a_chat_completion_raises(body: bytes) -> None:
    with pytest.raises(NotAReply) as why:
        read_reply(body)
    assert "\n" not in str(why.value)


@pytest.mark.parametrize(
    "usage",
    [None, [], "many", {"prompt_tokens": -1, "completion_tokens": 1e300}, {"prompt_tokens": 2**70}, {"prompt_tokens": "9"}],
)
def test_invalid_token_counts_are_read_as_0(usage: Any) -> None:
    reply = read_reply(json.dumps({"choices": [{"message": {"content": "x"}}], "usage": usage}).encode())
    assert (reply.tokens_in, reply.tokens_out) == (0, 0)


def test_a_text_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "get_ticket "}, {"type": "image"}, 7, {"type": "text", "text": "T-1"}]
    body = json.dumps({"choices": [{"message": {"content": parts}}]}).encode()
    assert parse_call_line(read_reply(body), TOOLBOX).calls[0].action == READ


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["get_ticket T-1", "{", "ticketdesk_wait"]),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=12,
)
FUNCTIONS = st.fixed_dictionaries({"function": st.fixed_dictionaries({"name": JSON, "arguments": JSON})}) | JSON
MESSAGES = st.fixed_dictionaries({"content": JSON, "tool_calls": st.lists(FUNCTIONS, max_size=3) | JSON})
COMPLETIONS = st.fixed_dictionaries(
    {"choices": st.lists(st.fixed_dictionaries({"message": MESSAGES | JSON})), "usage": JSON}
)


@STEADY
@given(st.binary(max_size=300) | (COMPLETIONS | JSON).map(lambda value: json.dumps(value).encode()))
@example(json.dumps({"choices": [{"message": {"tool_calls": [function("get_ticket", '{"ticket_id": 1e999}')]}}]}).encode())
@example(json.dumps({"choices": [{"message": {"tool_calls": [function("get_ticket", {"x": 2**80})]}}]}).encode())
def test_any_body_gives_a_step_or_not_a_reply(body: bytes) -> None:
    try:
        reply = read_reply(body)
    except NotAReply:
        return
    for message in (parse_tool_calls(reply, TOOLBOX), parse_call_line(reply, TOOLBOX)):
        env = make(task_id())
        for requested in message.calls:
            assert env.step(requested.action).step == len(env.turns)
            msgspec.json.encode([message.thought, requested.name, requested.arguments])  # it goes into the next request
        assert env.turns
        assert msgspec.json.decode(env.transcript().to_jsonl().splitlines()[0])


@STEADY
@given(st.text())
def test_any_text_of_a_model_is_one_step(text: str) -> None:
    [requested] = from_text(text).calls
    assert make(task_id()).step(requested.action).step == 1
