"""Every call can be expressed by filling in its tool's form."""

from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.company import ALL_TOOLS, Tool
from companyos.core.calls import Call
from companyos.env import make, run_expert
from companyos.families import FAMILIES
from companyos.serve.errors import Malformed
from companyos.web.episode.forms import as_typed, form_arguments, read_call, typed_value
from companyos.web.site import SubmittedForm
from tests.helpers import STEADY

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)


def filled(tool: Tool, call: Call) -> SubmittedForm:
    """Return the form that a browser sends for a call."""
    pairs: list[tuple[str, str]] = []
    for argument in form_arguments(tool):
        if argument.name not in call.params:
            continue
        value = call.params[argument.name]
        if argument.kind == "citations":
            pairs += [(argument.name, msgspec.json.encode(fact).decode()) for fact in value]
        elif argument.kind == "pairs":
            pairs += [
                (f"{argument.name}.{name}", item if argument.texts_only else as_typed(item)) for name, item in value.items()
            ]
        elif argument.kind == "list":
            pairs.append((argument.name, " ".join(value)))
        elif argument.kind != "check" or value:
            pairs.append((argument.name, str(value)))
    return SubmittedForm(parse_qsl(urlencode(pairs).replace("%0A", "%0D%0A"), keep_blank_values=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_call_of_an_expert_can_be_filled_in(family: str) -> None:
    env = make(family, seed=3, chaos=0.75)
    run_expert(env)
    for turn in env.turns:
        tool = ALL_TOOLS.tools[turn.call.app, turn.call.method]
        assert read_call(tool, filled(tool, turn.call)) == turn.call


@STEADY
@given(SCALARS)
def test_typed_values_are_read_back_unchanged(value: Any) -> None:
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
    asked = {argument.name: argument for argument in form_arguments(tool)}
    assert list(asked) == list(tool.hints)
    assert [name for name, argument in asked.items() if argument.required] == tool.required
    empty = (
        read_call(tool, SubmittedForm([]))
        if not any(argument.kind == "number" and argument.required for argument in asked.values())
        else None
    )
    assert empty is None or set(empty.params) == set(tool.required)


def test_an_invalid_form_value_is_named() -> None:
    listing = ALL_TOOLS.tools["ticketdesk", "list_tickets"]
    with pytest.raises(Malformed, match="page is a whole number, not 'two'"):
        read_call(listing, SubmittedForm([("page", "two")]))
    closing = ALL_TOOLS.tools["ticketdesk", "resolve_ticket"]
    with pytest.raises(Malformed, match="evidence"):
        read_call(closing, SubmittedForm([("evidence", "{")]))
