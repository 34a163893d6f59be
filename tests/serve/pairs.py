"""Pairs of a task and a twin with another right ending, with the calls that both answer alike."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from companyos.assurance.twins import twins_with_other_ending
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, run_expert, task_named
from companyos.families import FAMILIES

TASKS = 50
TWINS = 2  # of each task, of different causes
DOSES = (0.0, 0.5, 1.0)


class Pair(msgspec.Struct, frozen=True):
    """A task, a twin of it that has another right ending, and the calls that both answer alike."""

    task_id: str
    twin_id: str
    calls: tuple[Call, ...]


@cache
def pairs() -> tuple[Pair, ...]:
    """Twins of tasks of all families, in turn, over three doses."""
    found = []
    names = list(FAMILIES)
    for number in range(TASKS):
        task_id = str(task_named(names[number % len(names)], 100 + number, DOSES[number % len(DOSES)]))
        env = make(task_id)
        run_expert(env)
        calls = [turn.call for turn in env.turns]
        others = dict(reversed(twins_with_other_ending(task_id)))
        found += [Pair(task_id, twin, tuple(alike(task_id, twin, calls))) for twin in list(others.values())[:TWINS]]
    return tuple(found)


def alike(task_id: str, twin_id: str, calls: list[Call]) -> Iterator[Call]:
    """The calls whose replies do not tell the two apart."""
    ours, theirs = make(task_id), make(twin_id)
    assert ours.reset() == theirs.reset()
    for call in calls:
        if shown(ours, call) != shown(theirs, call):
            return
        yield call


def shown(env: CompanyEnv, call: Call) -> tuple[Any, ...]:
    obs = env.step(call)
    return obs.text, obs.code, msgspec.json.encode(obs.last_result), obs.message, obs.done
