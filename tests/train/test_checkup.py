"""Checkups play the same held-out tasks every time, and compute metrics as evaluation does."""

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.core.task import TaskId
from companyos.env import make
from companyos.train.runs.checkup import METRICS, checkup_of
from tests.helpers import FAMILY

FAMILIES = (FAMILY, "bug_escalation")


def test_tasks_are_held_out_and_always_the_same() -> None:
    checkup, again = (checkup_of(FAMILIES, 0.5, 6, 4) for _ in range(2))
    assert checkup == again
    assert len(checkup.ids) == len(set(checkup.ids)) == 6 + 2 * 4
    assert {TaskId.parse(task_id).split for task_id in checkup.ids} == {"validation"}
    assert checkup_of(FAMILIES, 0.5, 4, 2).tasks == checkup.tasks[:4]


def test_the_expert_has_the_best_metrics_and_an_idle_agent_the_worst() -> None:
    checkup = checkup_of(FAMILIES, 0.5, 4, 2)
    expert = checkup.numbers(play(make(task_id), make_agent("expert")) for task_id in checkup.ids)
    assert [expert[name] for name in ("success", "pair_pass", "invalid_calls", "recovery")] == [1.0, 1.0, 0.0, 1.0]
    assert set(METRICS) <= expert.keys()
    assert expert["families"] == dict.fromkeys(sorted(FAMILIES), 1.0)
    idle = checkup.numbers(play(make(task_id), make_agent("null")).transcript() for task_id in checkup.ids)
    assert [idle[name] for name in ("success", "score", "pair_pass")] == [0.0, 0.0, 0.0]


def test_tasks_of_pairs_count_only_for_pairs() -> None:
    checkup = checkup_of(FAMILIES, 0.0, 2, 2)
    agents = {task_id: "expert" if task_id in checkup.tasks else "null" for task_id in checkup.ids}
    numbers = checkup.numbers(play(make(task_id), make_agent(name)) for task_id, name in agents.items())
    assert (numbers["success"], numbers["pair_pass"]) == (1.0, 0.0)
