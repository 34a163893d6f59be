"""Splits as finite lists of tasks, for frameworks that number their tasks. No task is in two splits."""

from companyos.chaos import Chaos
from companyos.core.errors import BadTask
from companyos.core.task import SPLITS, TaskId
from companyos.env import task_named
from companyos.families import SHORT_FAMILIES

TASK_COUNTS = dict(zip(SPLITS, (10_000, 500, 1_000), strict=True))
CHAOS = 0.5  # the default dose


def size_of(split: str) -> int:
    """Return the number of tasks in a split."""
    if split not in TASK_COUNTS:
        raise BadTask(f"unknown split {split!r}; valid: {', '.join(TASK_COUNTS)}")
    return TASK_COUNTS[split]


def task_at(split: str, index: int, chaos: Chaos = CHAOS, size: str = "office") -> TaskId:
    """Return a task by its number. Families take turns, so that every part of a split contains all of them equally."""
    if not 0 <= index < size_of(split):
        raise BadTask(f"split {split!r} has {size_of(split)} tasks, from 0; got {index}")
    seed, family_number = divmod(index, len(SHORT_FAMILIES))
    # The split is part of the key of all random draws, so equal seeds in two splits give unrelated tasks.
    return task_named(SHORT_FAMILIES[family_number], seed, chaos, split, size)
