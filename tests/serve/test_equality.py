"""Equality: an episode behind a door is the one in process, however many others are played beside it."""

import random

import pytest

from companyos.env import task_named
from companyos.families import FAMILIES
from tests.serve.doors import Door, Expert, good, result_of, solo

TASKS = [str(task_named(name, seed, chaos)) for name in FAMILIES for seed, chaos in ((1, 0.0), (2, 0.5), (3, 0.5), (4, 1.0))]


def experts(door: Door, task_ids: list[str], reward: str = "seed") -> list[Expert]:
    return [Expert(door.reset(task=task_id, reward=reward)) for task_id in task_ids]


def results(door: Door, crew: list[Expert]) -> list[object]:
    return [result_of(expert, door.digest(expert.session_id)) for expert in crew]


@pytest.mark.parametrize("reward", ["seed", "score"])
def test_twenty_tasks_over_rest_are_as_in_process(reward: str) -> None:
    with Door() as door:
        crew = experts(door, TASKS, reward)
        for expert in crew:
            while expert.call is not None:
                expert.hear(good(door.post("/step", expert.body)))
        assert results(door, crew) == [solo(task_id, reward) for task_id in TASKS]
        assert all(expert.success for expert in crew)


def test_twenty_tasks_by_rollout_are_as_in_process() -> None:
    with Door() as door:
        crew = experts(door, TASKS)
        while at_work := [expert for expert in crew if expert.call is not None]:
            answers = good(door.post("/rollout", {"steps": [expert.body for expert in at_work]}))["answers"]
            for expert, answer in zip(at_work, answers, strict=True):
                expert.hear(answer["result"])
        assert results(door, crew) == [solo(task_id) for task_id in TASKS]


def test_sixteen_sessions_interleaved_at_random_do_not_mix() -> None:
    # Twice the same eight tasks, more sessions than there is room for in memory, and several requests at once.
    draw = random.Random(4)
    with Door(capacity=12, idle_seconds=1e-9) as door:
        crew = experts(door, TASKS[:8] * 2)
        while at_work := [expert for expert in crew if expert.call is not None]:
            chosen = draw.sample(at_work, min(len(at_work), draw.randint(1, 6)))
            for expert, reply in zip(chosen, door.post_together("/step", [one.body for one in chosen]), strict=True):
                expert.hear(good(reply))
        assert results(door, crew) == [solo(task_id) for task_id in TASKS[:8]] * 2
