"""The tasks of an update of GRPO. Half of them are twins: the same seed with one fact changed, and another right ending.

A policy that ignores the fact succeeds on one twin and fails on the other, so ignoring facts does not pay.
"""

from collections.abc import Mapping
from itertools import accumulate, count

from companyos.assurance.twins import twins_with_other_ending
from companyos.chaos import Chaos
from companyos.core.world import Draw, Streams
from companyos.env import task_named
from companyos.families import family

SEEDS = 100_000  # seeds of the train split that are used, per family

Lesson = tuple[str, ...]  # task ids: a single task, or two twins


def lessons(run: int, update: int, size: int, weights: Mapping[str, float], chaos: Chaos) -> list[Lesson]:
    """Return `size` tasks for one update, twins first. Families are drawn in proportion to their weights.

    The same arguments give the same tasks, so a resumed run sees the tasks that it would have seen.
    """
    for name in weights:
        family(name)
    streams, pairs = Streams(f"lessons/{run}"), size // 4
    alone = [(_task(streams.at(update, "alone", i), weights, chaos),) for i in range(size - 2 * pairs)]
    return [*(_twins(streams, update, i, weights, chaos) for i in range(pairs)), *alone]


def _twins(streams: Streams, update: int, place: int, weights: Mapping[str, float], chaos: Chaos) -> Lesson:
    for attempt in count():
        draw = streams.at(update, "twins", place, attempt)
        task_id = _task(draw, weights, chaos)
        others = twins_with_other_ending(task_id)
        if others:  # some tasks have no twin with another right ending
            return task_id, draw.pick(others)[1]
    raise AssertionError("there is always a next number")


def _task(draw: Draw, weights: Mapping[str, float], chaos: Chaos) -> str:
    *bounds, total = accumulate(weights.values())
    luck = draw.random() * total
    name = list(weights)[sum(bound <= luck for bound in bounds)]
    return str(task_named(name, draw.between(0, SEEDS - 1), chaos))
