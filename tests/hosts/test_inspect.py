"""Inspect: `inspect eval` with a model behind an endpoint."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log

from companyos.evaluate.suites.suite import frozen_names, suite
from tests.agents.fakes import Endpoint, Expert, completion, endpoint, function
from tests.integrations.law import holds

TASKS = suite("smoke").tasks[:3]


def evaluated(server: Endpoint, folder: Path, samples: int) -> EvalLog:
    """The log of `inspect eval companyos/smoke`."""
    inspect = str(Path(sys.executable).parent / "inspect")
    model = ["--model", "openai-api/fake/expert", "--model-base-url", server.url]
    command = [inspect, "eval", "companyos/smoke", *model, "--limit", str(samples), "--log-dir", str(folder)]
    known = os.environ | {"FAKE_API_KEY": "none", "INSPECT_DISPLAY": "plain"}
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    [log] = list_eval_logs(str(folder))
    return read_eval_log(log)


def test_an_experts_episodes_give_the_scores_that_they_have_in_process(tmp_path: Path) -> None:
    with endpoint(Expert(TASKS)) as server:
        log = evaluated(server, tmp_path, len(TASKS))
    assert log.status == "success"
    found = {str(sample.id): sample.scores for sample in log.samples or ()}
    assert set(found) == set(TASKS)
    holds(lambda task_id: float((found[task_id] or {})["company_score"].as_float()), TASKS)
    assert log.results is not None
    assert {score.name: score.metrics["mean"].value for score in log.results.scores}["success"] == 1.0


@pytest.mark.parametrize(
    "said", [completion("Hm."), completion(None, function("ticketdesk_wait", "{")), completion(None, function("fly", "{}"))]
)
def test_whatever_a_model_says_instead_of_a_call_costs_a_step(tmp_path: Path, said: object) -> None:
    with endpoint(lambda request: said) as server:  # type: ignore[arg-type,return-value]
        log = evaluated(server, tmp_path, 1)
    assert log.status == "success"
    [sample] = log.samples or []
    assert sample.scores is not None
    assert sample.scores["success"].value == 0.0
    assert sample.scores["company_score"].metadata is not None
    assert sample.scores["company_score"].metadata["steps"] == len(server.requests) == len(sample.store["actions"])


def test_every_suite_is_a_task() -> None:
    from companyos.integrations.inspect_task import SUITE_TASKS

    assert list(SUITE_TASKS) == frozen_names()
    assert [sample.id for sample in SUITE_TASKS["smoke"]().dataset] == list(suite("smoke").tasks)
