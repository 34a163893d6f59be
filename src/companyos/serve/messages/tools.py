"""Tools under a single name such as `ticketdesk_get_ticket`, for hosts that do not know app and method."""

from typing import Any

import msgspec

from companyos.company import Toolbox
from companyos.core.calls import OK, Call
from companyos.env.observations import Observation
from companyos.serve.messages.bodies import agent_observation


def listed(toolbox: Toolbox, schema_key: str = "inputSchema") -> list[dict[str, Any]]:
    """Return the tools as MCP lists them. `schema_key` is the name of the schema field, which differs in OpenEnv."""
    functions = (schema["function"] for schema in toolbox.schemas)
    return [{"name": tool["name"], "description": tool["description"], schema_key: tool["parameters"]} for tool in functions]


def call_named(name: str, arguments: dict[str, Any]) -> Call:
    """Return the call to a tool by its single name. An unknown name gives a call that the company answers as invalid."""
    app, _, method = name.partition("_")  # the name of an app has no underscore
    return Call(app, method, arguments)


def tool_result(obs: Observation) -> dict[str, Any]:
    """Return the result of a call in the form of MCP. OpenEnv's clients read `data`. Agents see it, so it has no reward."""
    return {
        "content": [{"type": "text", "text": obs.text}],
        "structuredContent": msgspec.to_builtins(agent_observation(obs)),
        "isError": obs.code != OK,
        "data": obs.text,
        "done": obs.done,
    }
