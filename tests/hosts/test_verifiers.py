"""verifiers: `vf-eval` with its own harness and a model behind an endpoint."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from companyos.data.splits import TASK_COUNTS, task_at
from companyos.env import make
from companyos.env.chat import SYSTEM
from companyos.integrations.lists import replayed
from companyos.integrations.verifiers_env import CompanyConfig, CompanyTaskset
from tests.agents.fakes import Endpoint, Expert, completion, endpoint
from tests.blocks import ROOT, blocks_of
from tests.integrations.law import FEW, holds, score_of

BIN = Path(sys.executable).parent


def evaluated(server: Endpoint, folder: Path, tasks: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    """The traces of `vf-eval companyos-verifiers`, by task. Its harness is set up with uv, as verifiers does it."""
    (folder / "tasks.txt").write_text("\n".join(tasks))
    client = ["--client.base-url", server.url, "--client.api-key-var", "FAKE_API_KEY", "--no-push", "-m", "expert"]
    where = ["--env.taskset.tasks", str(folder / "tasks.txt"), "--output-dir", str(folder / "runs")]
    agent = ["--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
    # uv is to trust whom the system trusts, as pip does.
    known = os.environ | {"FAKE_API_KEY": "none", "UV_SYSTEM_CERTS": "1", "PATH": f"{BIN}:{os.environ['PATH']}"}
    command = [str(BIN / "vf-eval"), "companyos-verifiers", *client, *where, *agent]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    [written] = (folder / "runs").glob("*/traces.jsonl")
    episodes = [json.loads(line) for line in written.read_text().splitlines()]
    return {episode["task"]["data"]["task_id"]: episode["traces"][0] for episode in episodes}


def test_an_experts_episodes_give_the_scores_that_they_have_in_process(tmp_path: Path) -> None:
    with endpoint(Expert(FEW[:2])) as server:
        traces = evaluated(server, tmp_path, FEW[:2])
    assert [trace["errors"] for trace in traces.values()] == [[], []]
    holds(lambda task_id: float(traces[task_id]["rewards"]["company_score"]["score"]), FEW[:2])
    for trace in traces.values():
        assert trace["stop_condition"] == "over"
        assert trace["metrics"] == {"success": 1.0, "invalid_calls": 0.0}


def test_who_stops_before_the_end_has_given_up(tmp_path: Path) -> None:
    with endpoint(lambda request: completion("I am done.")) as server:
        [trace] = evaluated(server, tmp_path, FEW[:1]).values()
    assert trace["errors"] == []
    assert trace["rewards"]["company_score"]["score"] == score_of(replayed(FEW[0], ()))
    assert trace["metrics"]["success"] == 0.0
    assert len(server.requests) == 1


def test_a_split_is_a_taskset_of_briefs() -> None:
    taskset = CompanyTaskset(CompanyConfig(id="companyos-verifiers", tasks="validation", chaos=0.25))
    first = next(iter(taskset))
    assert first.data.task_id == str(task_at("validation", 0, 0.25))
    assert first.data.prompt == make(first.data.task_id).look().text
    assert first.data.system_prompt == SYSTEM
    assert taskset.bounded
    assert TASK_COUNTS["validation"] == 500


def test_the_block_of_the_docs_evaluates_a_model(tmp_path: Path) -> None:
    [block] = [block for block in blocks_of(ROOT / "docs" / "start-here.md") if block.title == "needs verifiers"]
    [task_id] = re.findall(r"echo (\S+) > tasks.txt", block.code)
    with endpoint(Expert((task_id,))) as server:
        code = block.code.replace("http://127.0.0.1:8080/v1", server.url)
        known = os.environ | {"UV_SYSTEM_CERTS": "1", "PATH": f"{BIN}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code], env=known, capture_output=True, text=True, check=False, cwd=tmp_path
        )
    assert done.returncode == 0, done.stdout + done.stderr
    [written] = (tmp_path / "runs").glob("*/traces.jsonl")
    [trace] = json.loads(written.read_text())["traces"]
    assert trace["metrics"] == {"success": 1.0, "invalid_calls": 0.0}
