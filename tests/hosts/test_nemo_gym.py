"""NeMo Gym: its web server, sessions and verification around our resources server."""

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from fastapi.testclient import TestClient
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf

from companyos.core.calls import Call
from companyos.data.splits import task_at
from companyos.integrations.lists import replayed
from companyos.integrations.nemo_gym.app import CompanyOSResourcesServer, rows
from tests.integrations.law import FEW, experts_calls, holds, score_of

HOST = {"host": "127.0.0.1", "port": 0}
RESPONSE = {
    "id": "r", "created_at": 0.0, "model": "expert", "object": "response", "output": [], "parallel_tool_calls": False,
    "tool_choice": "auto", "tools": [],
}  # fmt: skip
PARAMS: dict[str, Any] = {"responses_create_params": {"input": []}}


@pytest.fixture
def app() -> Any:
    config_type = CompanyOSResourcesServer.model_fields["config"].annotation
    client = ServerClient(head_server_config=BaseServerConfig(**HOST), global_config_dict=OmegaConf.create({}))
    config = config_type(name="companyos", entrypoint="app.py", domain="agent", **HOST)
    return CompanyOSResourcesServer(config=config, server_client=client).setup_webserver()


@pytest.fixture
def client(app: Any) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def played(client: TestClient, task_id: str, calls: list[Call]) -> dict[str, Any]:
    """What NeMo Gym's simple agent does: it seeds a session, posts every call, and has the end verified."""
    client.cookies.clear()
    assert client.post("/seed_session", json={"task_id": task_id, **PARAMS}).status_code == 200
    for call in calls:
        assert client.post(f"/{call.app}_{call.method}", json=call.params).status_code == 200
    answer = client.post("/verify", json={"task_id": task_id, "response": RESPONSE, **PARAMS})
    assert answer.status_code == 200, answer.text
    verified: dict[str, Any] = answer.json()
    return verified


def test_an_experts_episode_gives_the_score_that_it_has_in_process(client: TestClient) -> None:
    holds(lambda task_id: float(played(client, task_id, experts_calls(task_id))["reward"]), FEW)


def test_who_stops_before_the_end_has_given_up(client: TestClient) -> None:
    verified = played(client, FEW[0], experts_calls(FEW[0])[:3])
    assert verified["success"] is False
    assert verified["reward"] == score_of(replayed(FEW[0], experts_calls(FEW[0])[:3]))


def test_sessions_have_nothing_to_do_with_each_other(app: Any) -> None:
    with TestClient(app) as one, TestClient(app) as other:
        for client in (one, other):
            client.post("/seed_session", json={"task_id": FEW[0], **PARAMS})
        assert "step 1 of" in one.post("/ticketdesk_read_inbox", json={}).text
        assert "step 1 of" in other.post("/ticketdesk_read_inbox", json={}).text
        assert "step 2 of" in one.post("/no_such_tool", json={}).text


def test_a_row_names_its_task_and_has_its_tools() -> None:
    row = next(rows("validation", chaos=0.25))
    assert row["task_id"] == str(task_at("validation", 0, 0.25))
    params = NeMoGymResponseCreateParamsNonStreaming.model_validate(row["responses_create_params"])
    assert len(params.input) == 2
    assert "ticketdesk_resolve_ticket" in [tool["name"] for tool in row["responses_create_params"]["tools"]]


def test_the_configuration_names_the_server_and_its_agent() -> None:
    text = (files("companyos.integrations.nemo_gym") / "companyos.yaml").read_text()
    config = OmegaConf.create(text)
    agent = config.companyos_simple_agent.responses_api_agents.simple_agent
    assert agent.resources_server.name in config
    assert config.companyos_resources_server.resources_servers.companyos.entrypoint == "app.py"
