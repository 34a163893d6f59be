"""Tasks: what an update learns from. Half of them are twins: one morning, one fact changed, another right ending.

Whoever takes a short cut does well on one of two twins and fails on the other, so that no short cut pays in both.
"""

from collections.abc import Mapping
from itertools import accumulate, count

from companyos.assurance.twins import opposites
from companyos.chaos import Chaos
from companyos.core.world import Draw, Streams
from companyos.env import task_named
from companyos.families import family

SEEDS = 100_000  # of a family, in the train split

Lesson = tuple[str, ...]  # task ids: one alone, or two twins


def lessons(run: int, update: int, size: int, weights: Mapping[str, float], chaos: Chaos) -> list[Lesson]:
    """The tasks of one update, `size` of them in all, of families in proportion to their weights; twins come first.

    The same arguments give the same tasks: a run that is resumed learns from what it would have learnt from.
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
        others = opposites(task_id)
        if others:  # in some cases no single fact would change what is right
            return task_id, draw.pick(others)[1]
    raise AssertionError("there is always a next number")


def _task(draw: Draw, weights: Mapping[str, float], chaos: Chaos) -> str:
    *bounds, total = accumulate(weights.values())
    luck = draw.random() * total
    name = list(weights)[sum(bound <= luck for bound in bounds)]
    return str(task_named(name, draw.between(0, SEEDS - 1), chaos))
