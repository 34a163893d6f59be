"""The tasks of an update of GRPO. Half of them are twins: the same task with one fact changed, and another right ending.

A policy that ignores the fact decides the same on both twins, which is right on at most one of them. If it then prefers the
other decision, it gains on one twin what it loses on the other. Only a policy that uses the fact can win both.
"""

from collections.abc import Mapping
from itertools import accumulate, count

from companyos.assurance.twins import twins_with_other_ending
from companyos.chaos import Chaos
from companyos.core.world import Draw, Streams
from companyos.env import task_named
from companyos.families import family

SEEDS_PER_FAMILY = 100_000  # of the train split

Lesson = tuple[str, ...]  # task ids: a single task, or two twins


def lessons(run_seed: int, update: int, size: int, weights: Mapping[str, float], chaos: Chaos) -> list[Lesson]:
    """Return the lessons of one update, `size` tasks in all, twins first. Families are drawn in proportion to `weights`.

    The same arguments give the same tasks, so a resumed run sees the tasks that it would have seen.
    """
    for name in weights:
        family(name)  # raises `BadTask` if there is no such family
    streams, pairs = Streams(f"lessons/{run_seed}"), size // 4
    single_tasks = [(_task(streams.at(update, "alone", i), weights, chaos),) for i in range(size - 2 * pairs)]
    return [*(_twins(streams, update, i, weights, chaos) for i in range(pairs)), *single_tasks]


def _twins(streams: Streams, update: int, index: int, weights: Mapping[str, float], chaos: Chaos) -> Lesson:
    """Return the pair of twins with this index. Some tasks have no twin with another right ending: draw until one has."""
    for attempt in count():
        draw = streams.at(update, "twins", index, attempt)
        task_id = _task(draw, weights, chaos)
        twin_ids = [twin_id for _, twin_id in twins_with_other_ending(task_id)]
        if twin_ids:
            return task_id, draw.pick(twin_ids)
    raise AssertionError("there is always a next number")


def _task(draw: Draw, weights: Mapping[str, float], chaos: Chaos) -> str:
    """Draw a family by weight, and a seed. Return the id of the task."""
    *bounds, total = accumulate(weights.values())
    point = draw.random() * total
    name = list(weights)[sum(bound <= point for bound in bounds)]
    return str(task_named(name, draw.between(0, SEEDS_PER_FAMILY - 1), chaos))
