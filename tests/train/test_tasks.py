"""The tasks of an update: half of them are twins, and families are drawn by weight."""

from collections import Counter

import pytest

from companyos.assurance.twins import same_ending
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.env import make
from companyos.train.data.tasks import lessons
from tests.helpers import FAMILY

WEIGHTS = {FAMILY: 3.0, "expense_report": 1.0}


def test_half_of_the_tasks_are_twins_with_equal_beginnings_and_different_endings() -> None:
    plan = lessons(0, 5, 16, WEIGHTS, 0.5)
    assert [len(lesson) for lesson in plan] == [2] * 4 + [1] * 8
    for task, twin in plan[:4]:
        env, twin_env = make(task), make(twin)
        assert env.reset() == twin_env.reset()
        assert not same_ending(env, twin_env)


def test_run_and_update_decide_the_tasks_which_are_of_the_train_split() -> None:
    assert lessons(0, 5, 8, WEIGHTS, 0.5) == lessons(0, 5, 8, WEIGHTS, 0.5)
    tasks = [
        lesson[0] for run_seed in range(2) for update in range(3) for lesson in lessons(run_seed, update, 8, WEIGHTS, 0.25)
    ]
    assert len(set(tasks)) == len(tasks)
    assert {(TaskId.parse(task).split, TaskId.parse(task).doses) for task in tasks} == {("train", "25")}


def test_families_are_drawn_by_their_weights() -> None:
    weights = WEIGHTS | {"bug_escalation": 0.0}
    counts = Counter(TaskId.parse(task).family for n in range(120) for [task] in lessons(0, n, 3, weights, 0.0))
    assert counts.keys() == WEIGHTS.keys()
    assert 0.68 < counts[FAMILY] / counts.total() < 0.82


def test_a_family_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadTask, match="unknown family 'gardening'"):
        lessons(0, 0, 4, {"gardening": 1.0}, 0.0)
