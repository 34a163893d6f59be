"""Tests of determinism: a task id and a list of calls always give the same bytes, in every process and hash seed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import make
from companyos.families import FAMILIES
from tests.golden.write import FILE, digests, task_ids
from tests.helpers import task_id

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads(FILE.read_text())
TASKS = [task_id(seed, chaos, split) for seed in range(4) for chaos, split in
         (("0", "train"), ("50", "train"), ("100", "test"), ("f100", "validation"), ("a80j60s40", "train"))]  # fmt: skip


def episodes() -> dict[str, list[str]]:
    """Return the last digest, the return and the last reply of an expert's and a random agent's episodes of 20 tasks."""
    found = {}
    for task in TASKS:
        for agent in ("expert", "random"):
            env = play(make(task), make_agent(agent, 7))
            footer = env.transcript().footer
            found[f"{agent} {task}"] = [env.digest(), repr(footer.total), repr(env.turns[-1].reply.data)]
    return found


@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_other_processes_with_other_hash_seeds_come_to_the_same_digests(hash_seed: str) -> None:
    script = "import json; from tests.laws.test_determinism import episodes; print(json.dumps(episodes()))"
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(process.stdout) == episodes()


def test_the_same_episode_twice_in_one_process_is_the_same_transcript() -> None:
    for task in TASKS[:5]:
        one, other = (play(make(task), make_agent("jittered", 3)).transcript().to_jsonl() for _ in range(2))
        assert one == other


def test_the_golden_file_is_of_this_version_and_holds_50_tasks_of_each_family() -> None:
    assert GOLDEN["version"] == BENCHMARK_VERSION
    assert len(GOLDEN["digests"]) == 50 * len(FAMILIES)
    assert list(GOLDEN["digests"]) == task_ids()


@pytest.mark.parametrize("task", GOLDEN["digests"])
def test_a_task_is_for_ever_what_its_id_has_named(task: str) -> None:
    assert digests(task) == GOLDEN["digests"][task], (
        "this task is no longer what it was: if that is meant, raise BENCHMARK_VERSION with a line in the changelog "
        "that says why, and run `python -m tests.golden.write`"
    )
