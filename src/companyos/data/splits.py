"""Splits: lists of tasks that have an end, for hosts that go through them by number. No task is in two of them."""

from companyos.chaos import Chaos
from companyos.core.errors import BadTask
from companyos.core.task import SPLITS, TaskId
from companyos.env import task_named
from companyos.families import SHORT_FAMILIES

SIZES = dict(zip(SPLITS, (10_000, 500, 1_000), strict=True))
CHAOS = 0.5  # unless another dose is asked for


def size_of(split: str) -> int:
    """How many tasks a split has."""
    if split not in SIZES:
        raise BadTask(f"unknown split {split!r}; valid: {', '.join(SIZES)}")
    return SIZES[split]


def task_at(split: str, index: int, chaos: Chaos = CHAOS) -> TaskId:
    """A task by its number: the families take turns, so that any stretch of a split holds them all alike."""
    if not 0 <= index < size_of(split):
        raise BadTask(f"split {split!r} has {size_of(split)} tasks, from 0; got {index}")
    turn, number = divmod(index, len(SHORT_FAMILIES))
    # The split is part of what randomness is keyed by: equal seeds in two splits have nothing to do with each other.
    return task_named(SHORT_FAMILIES[number], turn, chaos, split)
