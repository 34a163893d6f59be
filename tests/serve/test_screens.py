"""Screenshots on a server without pages, and at endpoints that show text only."""

import asyncio

import pytest

from companyos.integrations.openenv.environment import CompanyEnvironment
from companyos.serve.errors import Malformed
from companyos.serve.ledger import MemoryLedger
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.begin import begin
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.work_queue import WorkQueue
from tests.serve.servers import AppClient


def test_a_server_without_pages_says_so_and_begins_nothing() -> None:
    with AppClient() as api:
        refused = api.post("/reset", {"observation": "screenshot"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_screens")
        assert "companyos serve" in refused.json()["error"]["message"]
        assert len(api.app.state.sessions) == 0
        session_id = api.reset()["session_id"]
        assert api.get("/render", params={"session_id": session_id, "view": "png"}).status_code == 409


def test_endpoints_that_show_text_only_refuse_pictures() -> None:
    wanted = ResetBody(observation="screenshot")
    with pytest.raises(Malformed, match="only available at /reset and /ws"):
        asyncio.run(begin(WorkQueue(Sessions(MemoryLedger())), Settings(), wanted, "", name="mcp"))
    with pytest.raises(Malformed, match="companyos serve"):
        CompanyEnvironment().reset(observation="screenshot")
