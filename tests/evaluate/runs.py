"""Runs to test with: a few tasks of several families, worked by somebody who draws lots."""

from functools import cache
from pathlib import Path

from companyos.evaluate.run import evaluate, on_processes
from companyos.evaluate.suite import suite

AGENT = "jittered"
TRIALS = 2


@cache
def few_tasks(size: int = 4) -> tuple[str, ...]:
    """Tasks of several families, of which each has two in a row."""
    return suite("smoke").tasks[:: 24 // size]


def write_suite(folder: Path, size: int = 4) -> Path:
    """A suite of one's own."""
    path = folder / "few.txt"
    path.write_text("\n".join(few_tasks(size)))
    return path


def small_run(folder: Path, agent: str = AGENT, trials: int = TRIALS) -> Path:
    """A finished run of a few tasks."""
    run = folder / "run"
    evaluate(agent, str(write_suite(folder)), trials, run, on_processes(1))
    return run
