"""Which tasks an update learns from."""

from collections import Counter

import pytest

from companyos.assurance.twins import same_ending
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.env import make
from companyos.train.data.tasks import lessons
from tests.helpers import FAMILY

BOTH = {FAMILY: 3.0, "expense_report": 1.0}


def test_half_of_the_tasks_are_twins_that_begin_alike_and_end_differently() -> None:
    found = lessons(0, 5, 16, BOTH, 0.5)
    assert [len(lesson) for lesson in found] == [2] * 4 + [1] * 8
    for one, other in found[:4]:
        ours, theirs = make(one), make(other)
        assert ours.reset() == theirs.reset()
        assert not same_ending(ours, theirs)


def test_the_tasks_follow_from_run_and_update_and_are_of_the_train_split() -> None:
    assert lessons(0, 5, 8, BOTH, 0.5) == lessons(0, 5, 8, BOTH, 0.5)
    drawn = [lesson[0] for run in range(2) for update in range(3) for lesson in lessons(run, update, 8, BOTH, 0.25)]
    assert len(set(drawn)) == len(drawn)
    assert {(TaskId.parse(task).split, TaskId.parse(task).doses) for task in drawn} == {("train", "25")}


def test_families_are_drawn_by_their_weights() -> None:
    weights = BOTH | {"bug_escalation": 0.0}
    drawn = Counter(TaskId.parse(task).family for n in range(120) for [task] in lessons(0, n, 3, weights, 0.0))
    assert drawn.keys() == BOTH.keys()
    assert 0.68 < drawn[FAMILY] / drawn.total() < 0.82


def test_a_family_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadTask, match="unknown family 'gardening'"):
        lessons(0, 0, 4, {"gardening": 1.0}, 0.0)
