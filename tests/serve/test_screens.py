"""Pictures where there can be none: a server without pages, and doors that show words only."""

import asyncio

import pytest

from companyos.integrations.openenv.environment import CompanyEnvironment
from companyos.serve.errors import Malformed
from companyos.serve.ledger import NoLedger
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.sessions import Sessions
from tests.serve.doors import Door


def test_a_server_without_pages_says_so_and_begins_nothing() -> None:
    with Door() as door:
        refused = door.post("/reset", {"observation": "screenshot"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_screens")
        assert "companyos serve" in refused.json()["error"]["message"]
        assert len(door.app.state.sessions) == 0
        session_id = door.reset()["session_id"]
        assert door.get("/render", params={"session_id": session_id, "view": "png"}).status_code == 409


def test_doors_that_show_words_only_refuse_pictures() -> None:
    wanted = ResetBody(observation="screenshot")
    with pytest.raises(Malformed, match="not at this door"):
        asyncio.run(begin(Lane(Sessions(NoLedger())), Settings(), wanted, "", name="mcp"))
    with pytest.raises(Malformed, match="companyos serve"):
        CompanyEnvironment().reset(observation="screenshot")
