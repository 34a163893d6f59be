"""Tests of tools: schemas, checks of arguments, refusals and pages."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

import companyos
from companyos.company import ALL_TOOLS, KINDS, TOOLBOX, Tool, Toolbox
from companyos.company.apps.tool import App, Ref, page_of, reference
from companyos.core.calls import Call
from companyos.core.errors import Refused
from companyos.core.world import Record, Streams, World
from tests.helpers import say, staged

# The tools that the original had, with the parameters that it required.
SEED = {
    "ticketdesk_list_tickets": [],
    "ticketdesk_search_tickets": ["query"],
    "ticketdesk_get_ticket": ["ticket_id"],
    "ticketdesk_update_ticket": ["ticket_id", "field", "value"],
    "datahub_list_metrics": [],
    "datahub_query_metric": ["metric_name"],
    "datahub_refresh_data": ["metric_name"],
    "datahub_get_approver": ["role"],
    "approvalflow_list_approval_types": [],
    "approvalflow_submit_approval": ["approval_type", "approver", "data"],
    "approvalflow_check_status": ["approval_id"],
    "approvalflow_escalate": ["approval_id", "reason"],
    "approvalflow_list_approvals": [],
}
TOOLS = list(ALL_TOOLS)
NAMES = [tool.name for tool in TOOLS]


def function(tool: Tool) -> dict[str, Any]:
    found = tool.schema["function"]
    assert isinstance(found, dict)
    return found


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object inside a schema, itself included."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nodes(part)


# -- schemas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SEED)
def test_the_original_tools_require_exactly_what_the_original_required(name: str) -> None:
    tool = next(tool for tool in TOOLS if function(tool)["name"] == name)
    parameters = function(tool)["parameters"]
    assert parameters.get("required", []) == SEED[name] == tool.required
    assert set(SEED[name]) <= set(parameters["properties"])


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_a_schema_is_a_closed_object_without_references(tool: Tool) -> None:
    parameters = function(tool)["parameters"]
    assert parameters["type"] == "object"
    assert parameters["additionalProperties"] is False
    assert "$ref" not in msgspec.json.encode(tool.schema).decode()
    for node in nodes(parameters["properties"]):
        if "properties" in node:
            assert node["additionalProperties"] is False


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_a_schema_follows_from_the_signature(tool: Tool) -> None:
    parameters = function(tool)["parameters"]
    assert list(parameters["properties"]) == list(tool.hints)
    assert parameters.get("required", []) == tool.required
    assert function(tool)["name"] == f"{tool.app}_{tool.method}"
    assert function(tool)["description"] == tool.description


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_a_tool_tells_the_agent_what_it_does(tool: Tool) -> None:
    assert tool.description.endswith(".")
    assert "\n    " not in tool.description


def test_the_front_door_lists_every_tool_once_as_an_openai_function() -> None:
    schemas = companyos.tools()
    names = [schema["function"]["name"] for schema in schemas]
    assert all(schema["type"] == "function" for schema in schemas)
    assert len(set(names)) == len(names) == len(list(TOOLBOX))
    assert msgspec.json.decode(msgspec.json.encode(schemas)) == schemas


def test_argument_names_mean_the_same_kind_of_record_everywhere() -> None:
    kinds: dict[str, set[type[Record]]] = {}
    for tool in TOOLS:
        for name, hint in tool.hints.items():
            kind = reference(hint)
            if kind is not None:
                assert kind in KINDS
                kinds.setdefault(name, set()).add(kind)
    assert all(len(found) == 1 for found in kinds.values())
    assert {"ticket_id", "metric_name", "approval_id", "approver"} <= set(kinds)


# -- calls -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS, ids=NAMES)
def test_an_argument_that_is_not_in_the_schema_is_a_bad_argument(tool: Tool) -> None:
    env = staged()
    before = env.digest()
    reply = say(env, tool.name, zzz=1)
    assert (reply.ok, reply.code, reply.data) == (False, "bad_arguments", None)
    assert tool.name in reply.message
    assert env.digest() == before


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.required], ids=lambda tool: str(tool.name))
def test_a_required_argument_that_is_missing_is_a_bad_argument_named_in_the_reply(tool: Tool) -> None:
    reply = say(staged(), tool.name)
    assert reply.code == "bad_arguments"
    assert f"`{tool.required[0]}`" in reply.message


@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool.hints], ids=lambda tool: str(tool.name))
def test_an_argument_of_the_wrong_type_is_a_bad_argument(tool: Tool) -> None:
    env = staged()
    before = env.digest()
    for name in tool.hints:
        wrong: dict[str, Any] = {name: [[]]}
        assert say(env, tool.name, **wrong).code == "bad_arguments"
    assert env.digest() == before


@pytest.mark.parametrize("tool", [t for t in TOOLS if "page" in t.hints], ids=lambda tool: str(tool.name))
def test_a_page_beyond_the_last_is_refused(tool: Tool) -> None:
    env = staged()
    arguments = {"query": "a", "ticket_id": env.setting.case.ticket_id}
    params = {name: arguments[name] for name in tool.required}
    before = env.digest()
    reply = say(env, tool.name, **params, page=9999)
    assert reply.code == "no_such_page"
    assert env.digest() == before


@pytest.mark.parametrize("page", [0, -1, 10_000, 1.5, "1", None])
def test_a_page_is_a_whole_number_from_1_to_99(page: Any) -> None:
    assert say(staged(), "ticketdesk.list_tickets", page=page).code == "bad_arguments"


def test_an_unknown_app_or_method_is_answered_with_those_there_are() -> None:
    env = staged()
    before = env.digest()
    app = say(env, "payroll.pay")
    method = say(env, "ticketdesk.delete_ticket")
    assert app.code == method.code == "unknown_tool"
    assert "ticketdesk, datahub, approvalflow" in app.message
    assert "list_tickets" in method.message
    assert "resolve_ticket" in method.message
    assert env.digest() == before


# -- a toolbox of one's own --------------------------------------------------------------------------------------------


class Lamp(Record, frozen=True):
    """Something to switch."""

    lit: bool = False


lamps = App("lamps")


@lamps.tool(minutes=3, writes=True)
def switch(world: World, lamp_id: Annotated[str, Ref(Lamp)], lit: bool = True) -> Lamp:
    """Switch a lamp."""
    if lamp_id == "broken":
        raise Refused("broken", "it does not work")
    if lamp_id == "bug":
        raise ValueError("our own mistake")
    world.find(Lamp, lamp_id)
    return world.put(Lamp(lamp_id, lit))


@lamps.tool()
def brightness(world: World, percent: Annotated[int, Meta(ge=0, le=100)]) -> dict[str, Any]:
    """Tell how bright it is."""
    return {"percent": percent, "who": world.actor, "why": world.why}


def room() -> World:
    world = World(Streams("room"), 0, (Lamp,))
    world.put_at_start(Lamp("L-1"))
    return world


BOX = Toolbox((lamps,))


def test_a_tool_is_one_function_and_all_else_follows() -> None:
    tool = BOX.tools["lamps", "switch"]
    assert (tool.name, tool.minutes, tool.writes, tool.target) == ("lamps.switch", 3, True, "lamp_id")
    assert tool.schema["function"] == {
        "name": "lamps_switch",
        "description": "Switch a lamp.",
        "parameters": {
            "type": "object",
            "properties": {"lamp_id": {"type": "string"}, "lit": {"type": "boolean", "default": True}},
            "required": ["lamp_id"],
            "additionalProperties": False,
        },
    }


def test_a_call_that_works_replies_with_the_record_as_it_is_shown() -> None:
    world = room()
    reply = BOX.call(world, "@a.b", Call("lamps", "switch", {"lamp_id": "L-1"}))
    assert (reply.ok, reply.code, reply.data) == (True, "ok", {"id": "L-1", "lit": True})
    assert (world.journal[0].actor, world.journal[0].why) == ("@a.b", "lamps.switch")


def test_a_refusal_is_a_reply_and_a_bug_is_not() -> None:
    world = room()
    reply = BOX.call(world, "@a.b", Call("lamps", "switch", {"lamp_id": "broken"}))
    assert (reply.ok, reply.code, reply.message, reply.data) == (False, "broken", "it does not work", None)
    assert BOX.call(world, "@a.b", Call("lamps", "switch", {"lamp_id": "L-2"})).code == "not_found"
    with pytest.raises(ValueError, match="our own mistake"):
        BOX.call(world, "@a.b", Call("lamps", "switch", {"lamp_id": "bug"}))


@pytest.mark.parametrize("percent", [-1, 101, "50", 0.5, True, None])
def test_bounds_in_a_hint_are_bounds_of_the_call(percent: Any) -> None:
    assert BOX.call(room(), "@a.b", Call("lamps", "brightness", {"percent": percent})).code == "bad_arguments"
    right = BOX.call(room(), "@a.b", Call("lamps", "brightness", {"percent": 50}))
    assert right.data == {"percent": 50, "who": "@a.b", "why": "lamps.brightness"}


# -- pages -----------------------------------------------------------------------------------------------------------


def numbered(shown: Sequence[int]) -> list[dict[str, Any]]:
    return [{"n": number} for number in shown]


@pytest.mark.parametrize(("total", "pages"), [(0, 1), (1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_pages_hold_ten_and_together_hold_all_in_order(total: int, pages: int) -> None:
    found = [page_of(range(total), page, numbered) for page in range(1, pages + 1)]
    assert all((page["pages"], page["total"]) == (pages, total) for page in found)
    assert [line["n"] for page in found for line in page["rows"]] == list(range(total))
    assert all(len(page["rows"]) == 10 for page in found[:-1])
    with pytest.raises(Refused) as refusal:
        page_of(range(total), pages + 1, numbered)
    assert refusal.value.code == "no_such_page"
