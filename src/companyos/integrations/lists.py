"""Helpers that several frameworks share: lists of tasks, and the end of an episode that a framework has stopped."""

from collections.abc import Iterable, Iterator
from typing import Any

from companyos.agents.routine import WAIT
from companyos.chaos import Chaos
from companyos.data.splits import CHAOS, TASK_COUNTS, task_at
from companyos.env import CompanyEnv, make
from companyos.evaluate.suites.suite import suite


def tasks_of(name: str, chaos: Chaos = CHAOS) -> Iterator[str]:
    """Return the task ids of a split at a dose of chaos, or of a suite, which has its own doses."""
    if name in TASK_COUNTS:
        return (str(task_at(name, number, chaos)) for number in range(TASK_COUNTS[name]))
    return iter(suite(name).tasks)


def closed(env: CompanyEnv) -> CompanyEnv:
    """End an episode, if it has not ended, and return it. An agent that stops early has given up: the rest is waiting."""
    while not env.done:
        env.step(WAIT)
    return env


def replayed(task_id: str, actions: Iterable[Any]) -> CompanyEnv:
    """Make these calls in a new episode and return it at its end."""
    env = make(task_id, reward="score")
    for action in actions:
        env.step(action)
    return closed(env)
