"""Tools by one name each: for hosts that know `ticketdesk_get_ticket` and not app and method."""

from typing import Any

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import OK, Call
from companyos.env.observations import Observation
from companyos.serve.messages.bodies import seen


def listed(toolbox: Toolbox, schema_key: str = "inputSchema") -> list[dict[str, Any]]:
    """A toolbox as MCP lists it; OpenEnv's observations call the schema by another name."""
    functions = (schema["function"] for schema in toolbox.schemas)
    return [{"name": said["name"], "description": said["description"], schema_key: said["parameters"]} for said in functions]


def call_named(name: str, arguments: dict[str, Any]) -> Call:
    """The call of a tool by its one name. A name that is none gives a call to nothing, which the company answers."""
    app, _, method = name.partition("_")  # no app has one in its own
    return Call(app, method, arguments)


def tool_result(obs: Observation) -> dict[str, Any]:
    """What a call gave, in MCP's form; `data` is what OpenEnv's clients hand on. Agents read it: it shows no reward."""
    return {
        "content": [{"type": "text", "text": obs.text}],
        "structuredContent": msgspec.to_builtins(seen(obs)),
        "isError": obs.code != OK,
        "data": obs.text,
        "done": obs.done,
    }
