"""Helpers for tests of runs: a few tasks of several families, played by an agent that chooses at random."""

import os
import subprocess
import sys
from pathlib import Path

from companyos.evaluate.runs.run import evaluate, on_processes
from companyos.evaluate.suites.suite import suite

AGENT = "jittered"
TRIALS = 2


def few_tasks(size: int = 4) -> tuple[str, ...]:
    """Tasks of several families."""
    return suite("smoke").tasks[:: 24 // size]


def own_suite(folder: Path, size: int = 4) -> str:
    """Write a small suite to a file and return its path, as a person would give it on the command line."""
    path = folder / "few.txt"
    path.write_text("\n".join(few_tasks(size)))
    return str(path)


def small_run(folder: Path, agent: str = AGENT, trials: int = TRIALS, size: int = 4) -> Path:
    """A finished run of a few tasks."""
    run = folder / "run"
    evaluate(agent, own_suite(folder, size), trials, run, on_processes(1))
    return run


def begin(suite_name: str, run: Path, workers: int = 2) -> subprocess.Popen[bytes]:
    """Start a run in another process, with a process group of its own."""
    words = ["eval", "--agent", AGENT, "--suite", suite_name, "--trials", TRIALS, "--workers", workers, "--out", run]
    return subprocess.Popen(
        [sys.executable, "-m", "companyos", *map(str, words)],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
