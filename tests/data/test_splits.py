"""Tests of the splits as finite lists of tasks."""

import pytest

from companyos.core.errors import BadTask
from companyos.core.task import SPLITS
from companyos.data.splits import TASK_COUNTS, size_of, task_at
from companyos.env import make
from companyos.families import SHORT_FAMILIES


def test_no_task_is_in_two_splits_or_twice_in_one() -> None:
    tasks = [str(task_at(split, index)) for split in SPLITS for index in range(size_of(split))]
    assert len(tasks) == len(set(tasks)) == sum(TASK_COUNTS.values())


def test_the_same_seed_is_another_morning_in_another_split() -> None:
    briefs = {make(str(task_at(split, 0))).reset().task for split in SPLITS}
    assert len(briefs) == len(SPLITS)


def test_any_stretch_holds_all_families_alike() -> None:
    stretch = [task_at("test", index).family for index in range(15, 15 + 2 * len(SHORT_FAMILIES))]
    assert {stretch.count(name) for name in SHORT_FAMILIES} == {2}


def test_the_dose_can_be_chosen() -> None:
    second = len(SHORT_FAMILIES) + 1  # a round of all families, then one more
    assert str(task_at("validation", second)).endswith("-validation-1-50")
    assert str(task_at("validation", second, 1.0)).endswith("-validation-1-100")


@pytest.mark.parametrize(("split", "index"), [("train", -1), ("train", 10_000), ("validation", 500), ("dev", 0)])
def test_a_missing_split_or_index_is_refused_in_one_line(split: str, index: int) -> None:
    with pytest.raises(BadTask, match="split"):
        task_at(split, index)
