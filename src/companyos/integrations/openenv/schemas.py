"""Writes the JSON schemas of OpenEnv's messages to a file, so that the server can answer /schema without OpenEnv.

Run `python -m companyos.integrations.openenv.schemas`.
"""

import json
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation

from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState
from companyos.serve.openenv.catalog import SCHEMAS


def schemas() -> dict[str, Any]:
    """Return the schemas for both forms of an action (app and method, or tool), as OpenEnv's own server publishes them."""
    return {"company": _schema(CompanyAction, CompanyObservation), "tools": _schema(CallToolAction, CallToolObservation)}


def _schema(action: type[Action], observation: type[Observation]) -> dict[str, Any]:
    return {
        "action": action.model_json_schema(),
        "observation": observation.model_json_schema(),
        "state": CompanyState.model_json_schema(),
        "reset_observation": CompanyObservation.model_json_schema(),
    }


if __name__ == "__main__":
    SCHEMAS.write_text(json.dumps(schemas(), indent=1) + "\n")
