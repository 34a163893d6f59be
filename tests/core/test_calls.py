"""Tests of calls and replies: what counts as a call, and what becomes of everything else."""

import datetime
import decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.core.calls import BAD_ACTION, Call, Reply, as_json, parse
from tests.helpers import STEADY

WAIT = Call("ticketdesk", "wait", {"hours": 1})


class Hostile(dict[str, Any]):
    """A mapping that is not a dict."""


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def looped() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "action",
    [
        WAIT,
        {"app": "ticketdesk", "method": "wait", "params": {"hours": 1}},
        Hostile(app="ticketdesk", method="wait", params={"hours": 1}),
    ],
)
def test_a_call_may_come_as_itself_or_as_a_mapping(action: Any) -> None:
    assert parse(action) == WAIT


def test_a_call_without_params_has_none() -> None:
    assert parse({"app": "datahub", "method": "list_metrics"}) == Call("datahub", "list_metrics", {})


def test_a_parsed_call_equals_the_sent_one_and_shares_no_object_with_it() -> None:
    said: dict[str, Any] = {"app": "a", "method": "b", "params": {"data": {"x": 1}}}
    call = parse(said)
    said["params"]["data"]["x"] = 2
    assert call == Call("a", "b", {"data": {"x": 1}})
    mine = Call("a", "b", {"data": {"x": 1}})
    taken = parse(mine)
    mine.params["data"]["x"] = 2
    assert taken == Call("a", "b", {"data": {"x": 1}})


def test_a_calls_tool_is_its_app_and_method() -> None:
    assert WAIT.tool == "ticketdesk.wait"


INVALID_ACTIONS: list[Any] = [
    None,
    True,
    0,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "ticketdesk.wait",
    '{"app": "ticketdesk", "method": "wait"}',
    b"bytes",
    [],
    {},
    {"app": "ticketdesk"},
    {"app": "ticketdesk", "method": 5},
    {"app": "ticketdesk", "method": "wait", "params": None},
    {"app": "ticketdesk", "method": "wait", "params": []},
    {"app": "ticketdesk", "method": "wait", "params": {}, "why": "?"},
    {"app": "ticketdesk", "method": "wait", "params": {"hours": 10**5000}},
    {10**5000: 1},
    10**5000,
    -(2**70),
    {"app": "\ud800", "method": "wait"},
    {"app": "ticketdesk", "method": "wait", "params": {"\udfff": 1}},
    {1: 2},
    {None: 1},
    {(1, 2): 3},
    nested(100_000),
    looped(),
    object(),
    Call,
    lambda: None,
    {1, 2},
    decimal.Decimal("nan"),
    datetime.timedelta(days=1),
    msgspec.Raw(b"{"),
    msgspec.UNSET,
]


@pytest.mark.parametrize("number", range(len(INVALID_ACTIONS)))
def test_an_invalid_action_is_answered_in_one_line_that_says_what_a_call_is(number: int) -> None:
    reply = parse(INVALID_ACTIONS[number])
    assert isinstance(reply, Reply)
    assert (reply.ok, reply.code, reply.data) == (False, BAD_ACTION, None)
    assert '{"app": …, "method": …, "params": {…}}' in reply.message
    assert "\n" not in reply.message


@pytest.mark.parametrize("number", range(len(INVALID_ACTIONS)))
def test_an_invalid_action_can_be_written_to_a_transcript_and_is_invalid_there_too(number: int) -> None:
    kept = as_json(INVALID_ACTIONS[number])
    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept
    assert isinstance(parse(kept), Reply)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@STEADY
@given(json_values)
def test_any_json_value_is_kept_as_it_is(value: Any) -> None:
    assert as_json(value) == value


@STEADY
@given(st.text(max_size=10), st.text(max_size=10), st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_any_names_and_any_json_params_make_a_call(app: str, method: str, params: dict[str, Any]) -> None:
    assert parse({"app": app, "method": method, "params": params}) == Call(app, method, params)
