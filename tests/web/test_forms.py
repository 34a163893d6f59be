"""Forms: whatever call somebody means, there is a way to fill it in."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.company import ALL_TOOLS, Tool
from companyos.core.calls import Call
from companyos.env import make, work
from companyos.families import FAMILIES
from companyos.serve.errors import Malformed
from companyos.web.episode.forms import as_typed, read_call, slots, typed_value
from companyos.web.site import Form
from tests.helpers import STEADY

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


def filled(tool: Tool, call: Call) -> Form:
    """A call as a browser sends its form."""
    pairs: list[tuple[str, str]] = []
    for slot in slots(tool):
        if slot.name not in call.params:
            continue
        value = call.params[slot.name]
        if slot.kind == "citations":
            pairs += [(slot.name, msgspec.json.encode(fact).decode()) for fact in value]
        elif slot.kind == "pairs":
            pairs += [(f"{slot.name}.{name}", item if slot.texts_only else as_typed(item)) for name, item in value.items()]
        elif slot.kind == "list":
            pairs.append((slot.name, " ".join(value)))
        elif slot.kind != "check" or value:
            pairs.append((slot.name, str(value)))
    return Form(parse_qsl(urlencode(pairs).replace("%0A", "%0D%0A"), keep_blank_values=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_of_an_expert_can_be_filled_in(family: str) -> None:
    env = make(family, seed=3, chaos=0.75)
    work(env)
    for turn in env.turns:
        tool = ALL_TOOLS.tools[turn.call.app, turn.call.method]
        assert read_call(tool, filled(tool, turn.call)) == turn.call


@STEADY
@given(SCALARS)
def test_what_is_typed_as_it_should_be_is_what_is_meant(value: Any) -> None:
    read = typed_value(as_typed(value))
    assert (type(read), read) == (type(value), value)


@STEADY
@given(st.text())
def test_anything_can_be_typed(text: str) -> None:
    assert isinstance(typed_value(text), str | int | float | None)


def test_a_number_is_typed_as_a_number_and_in_quotes_as_a_text() -> None:
    assert [typed_value(text) for text in ("900", '"900"', "Acme Ltd", "true", "[1]", '"Acme', "")] == [
        900,
        "900",
        "Acme Ltd",
        True,
        "[1]",
        '"Acme',
        "",
    ]


@pytest.mark.parametrize("tool", list(ALL_TOOLS), ids=lambda tool: tool.name)
def test_a_form_asks_for_every_argument_and_insists_on_what_the_signature_requires(tool: Tool) -> None:
    asked = {slot.name: slot for slot in slots(tool)}
    assert list(asked) == list(tool.hints)
    assert [name for name, slot in asked.items() if slot.required] == tool.required
    empty = (
        read_call(tool, Form([])) if not any(slot.kind == "number" and slot.required for slot in asked.values()) else None
    )
    assert empty is None or set(empty.params) == set(tool.required)


def test_what_is_no_call_is_said_and_costs_nothing() -> None:
    listing = ALL_TOOLS.tools["ticketdesk", "list_tickets"]
    with pytest.raises(Malformed, match="page is a whole number, not 'two'"):
        read_call(listing, Form([("page", "two")]))
    closing = ALL_TOOLS.tools["ticketdesk", "resolve_ticket"]
    with pytest.raises(Malformed, match="evidence"):
        read_call(closing, Form([("evidence", "{")]))
