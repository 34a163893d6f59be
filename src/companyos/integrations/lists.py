"""Lists: which tasks a host goes through, and how an episode is closed that a host has ended."""

from collections.abc import Iterable, Iterator
from typing import Any

from companyos.agents.routine import WAIT
from companyos.chaos import Chaos
from companyos.data.splits import CHAOS, SIZES, task_at
from companyos.env import CompanyEnv, make
from companyos.evaluate.suites.suite import suite


def tasks_of(name: str, chaos: Chaos = CHAOS) -> Iterator[str]:
    """The tasks of a split at a dose, or those of a suite, whose doses are its own."""
    if name in SIZES:
        return (str(task_at(name, number, chaos)) for number in range(SIZES[name]))
    return iter(suite(name).tasks)


def closed(env: CompanyEnv) -> CompanyEnv:
    """The episode at its end. Who stops before that has given up: time passes until the budget is spent."""
    while not env.done:
        env.step(WAIT)
    return env


def replayed(task_id: str, actions: Iterable[Any]) -> CompanyEnv:
    """The episode in which these calls were made, at its end."""
    env = make(task_id, reward="score")
    for action in actions:
        env.step(action)
    return closed(env)
