"""Tests of calls as lines of text: every call can be written and read back, and errors are clear."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.company import ALL_TOOLS
from companyos.core.calls import Call
from companyos.env.line_syntax import parse_line, unfinished, write_line
from tests.helpers import STEADY, played

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
FACTS = st.lists(st.fixed_dictionaries({"record": st.text(), "field": st.text(), "value": SCALARS}), max_size=3)
FORMS = st.dictionaries(st.from_regex("[a-z_]+", fullmatch=True), SCALARS, max_size=3)
VALUES = SCALARS | FACTS | FORMS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(), SCALARS, max_size=2)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Any tool with any arguments, sensible or not."""
    tool = draw(st.sampled_from(list(ALL_TOOLS)))
    return Call(tool.app, tool.method, {name: draw(VALUES) for name in tool.hints if draw(st.booleans())})


def said(line: str) -> dict[str, Any]:
    call = parse_line(line)
    assert isinstance(call, Call), call
    return call.params


@pytest.mark.parametrize("agent", ["expert", "random", "jittered"])
@pytest.mark.parametrize("seed", range(8))
def test_every_call_of_an_agent_is_read_back_as_it_was_written(agent: str, seed: int) -> None:
    for turn in played(agent, seed, seed / 8).turns:
        line = write_line(turn.call)
        assert parse_line(line) == turn.call
        assert line.split()[0] == turn.call.method, "a sensible call has a compact line"


@STEADY
@given(calls())
def test_any_call_is_one_line_and_is_read_back_as_it_was_written(call: Call) -> None:
    line = write_line(call)
    assert "\n" not in line
    assert parse_line(line) == call


@STEADY
@given(st.sampled_from([tool.method for tool in ALL_TOOLS]), st.text("ab1 T-@.=,:\"'\\{}[]\n\ud800") | st.text())
def test_no_text_is_too_odd_to_be_read(method: str, rest: str) -> None:
    assert isinstance(parse_line(f"{method} {rest}"), Call | str)
    unfinished(f"{method} {rest}")


def test_a_method_names_one_tool_so_its_app_may_be_left_out() -> None:
    assert len({tool.method for tool in ALL_TOOLS}) == len(list(ALL_TOOLS))
    assert parse_line("get_ticket T-1") == parse_line("ticketdesk.get_ticket T-1")


def test_arguments_come_in_order_or_by_name() -> None:
    in_order = parse_line("update_ticket T-1 priority normal")
    assert in_order == Call("ticketdesk", "update_ticket", {"ticket_id": "T-1", "field": "priority", "value": "normal"})
    assert parse_line("update_ticket value=normal field=priority ticket_id=T-1") == in_order
    assert parse_line("update_ticket value=normal T-1 priority") == in_order


def test_a_text_of_several_words_stands_in_quotes_of_either_kind() -> None:
    assert said('comment T-1 "It\'s \\"late\\"\\nnow"')["text"] == 'It\'s "late"\nnow'
    assert said("comment T-1 'say \"please\"'")["text"] == 'say "please"'
    assert said("comment T-1 don't")["text"] == "don't"


def test_an_empty_text_can_be_said() -> None:
    assert said("update_ticket T-1 blocked_by ''")["value"] == said("update_ticket T-1 blocked_by value=")["value"] == ""


def test_a_number_is_a_number_where_the_tool_wants_one() -> None:
    assert said("wait 24") == {"hours": 24}
    assert said("search_tickets 24 2") == {"query": "24", "page": 2}


def test_evidence_is_compact_or_json() -> None:
    json = '[{"record": "T-1", "field": "status", "value": "open"}, {"record": "m.x", "field": "value", "value": 7}]'
    compact = said("resolve_ticket T-1 declined below_minimum T-1:status=open,m.x:value=7")
    assert compact == said("resolve_ticket T-1 declined below_minimum evidence=T-1:status=open,m.x:value=7")
    assert compact == said(f"resolve_ticket T-1 declined below_minimum {json}")


def test_a_form_is_json_or_field_by_field() -> None:
    fields = said('submit_approval vendor_onboarding @a.b ticket_id=T-1 vendor="Acme Ltd" amount=900')
    assert fields["data"] == {"ticket_id": "T-1", "vendor": "Acme Ltd", "amount": 900}
    json = '{"ticket_id": "T-1", "vendor": "Acme Ltd", "amount": 900}'
    assert fields == said(f"submit_approval vendor_onboarding @a.b {json}")


def test_an_action_in_json_is_a_line_too() -> None:
    assert parse_line('{"app": "no", "method": "such", "params": {"x": 1}}') == Call("no", "such", {"x": 1})


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "an empty line is no call"),
        ("get_tiket T-1", "there is no tool 'get_tiket'; did you mean get_ticket?"),
        ("get_ticket", "ticket_id missing: get_ticket ticket_id"),
        ("get_ticket T-1 T-2", "too many arguments"),
        ("get_ticket T-1 ticket_id=T-2", "ticket_id is given twice"),
        ("get_ticket id=T-1", "there is no argument 'id'"),
        ("search_register Acme Ltd", "page is a whole number, not 'Ltd'; put a text of several words in quotes"),
        ('comment T-1 "unfinished', "a quote is not closed"),
        ("submit_approval form @a.b {oops}", "is not JSON"),
        ('submit_approval form @a.b b=2 data={"a": 1}', "data is given twice"),
        ('submit_approval form @a.b {"a": 1} b=2', "is given twice"),
        ("submit_approval form @a.b b=1 b=2", "b is given twice"),
        ("resolve_ticket T-1 declined below_minimum nonsense", "evidence is record:field=value"),
        ('{"app": 1}', "an action is"),
    ],
)
def test_an_invalid_line_says_what_is_wrong(line: str, why: str) -> None:
    answer = parse_line(line)
    assert isinstance(answer, str)
    assert why in answer
    assert "\n" not in answer


@pytest.mark.parametrize(
    ("line", "slot"),
    [
        ("get_tick", None),
        ("get_ticket ", ("ticket_id", "")),
        ("get_ticket T-", ("ticket_id", "T-")),
        ('search_register "Acme L', ("query", '"Acme L')),
        ("update_ticket T-1 value=", ("value", "")),
        ("resolve_ticket T-1 declined below_minimum T-1:st", ("evidence", "T-1:st")),
        ("submit_approval form @a.b ticket_id=T-1 am", ("data", "am")),
        ("submit_approval form @a.b amount=9", ("data", "amount=9")),
        ("get_ticket T-1 T-2", None),
    ],
)
def test_a_line_knows_which_argument_it_breaks_off_in(line: str, slot: tuple[str, str] | None) -> None:
    found = unfinished(line)
    assert (found[1:] if found else None) == slot
