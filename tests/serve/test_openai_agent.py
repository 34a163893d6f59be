"""The example agent that asks an endpoint with the package `openai` makes the calls of the model behind it."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.runs.run import OUTCOMES_FILE
from tests.agents.fakes import Request, Response, completion, endpoint, function
from tests.blocks import ROOT
from tests.evaluate.runs import own_suite


def test_the_example_makes_the_calls_of_a_model_behind_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request) -> Response:
        assert "ticketdesk_list_tickets" in {tool["function"]["name"] for tool in request["tools"]}
        first = len(request["messages"]) == 1
        return completion(None, function("ticketdesk_list_tickets" if first else "ticketdesk_wait", "{}"))

    with endpoint(answer) as server:
        monkeypatch.setenv("BASE_URL", server.url)
        monkeypatch.setenv("MODEL", "fake")
        words = ["--suite", own_suite(tmp_path), "--workers", "1", "--out", str(tmp_path / "run")]
        command = [sys.executable, "-m", "companyos", "eval", "--agent", "examples/agents/openai_agent.py:Agent", *words]
        subprocess.run(command, cwd=ROOT, check=True)
    lines = (tmp_path / "run" / OUTCOMES_FILE).read_bytes().splitlines()
    outcomes = [msgspec.json.decode(line, type=Outcome) for line in lines]
    assert len(outcomes) == 4
    assert sum(outcome.steps for outcome in outcomes) == len(server.requests)
    assert all(outcome.steps == outcome.waits + 1 and not outcome.raised for outcome in outcomes)
    assert {request["model"] for request in server.requests} == {"fake"}
