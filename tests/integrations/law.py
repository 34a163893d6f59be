"""A law for every adapter: an expert episode through it gets the same score as in this process."""

from collections.abc import Callable

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make
from companyos.families import FAMILIES

TASKS = tuple(make(name, seed=seed, chaos=dose).task_id for name in FAMILIES for seed, dose in ((1, 0.0), (2, 0.5)))
FEW = TASKS[::7]  # for hosts that take their time


def in_process(task_id: str, agent: str = "expert") -> CompanyEnv:
    return play(make(task_id, reward="score"), make_agent(agent))


def experts_calls(task_id: str) -> list[Call]:
    return [turn.call for turn in in_process(task_id).turns]


def score_of(env: CompanyEnv) -> float:
    return env.turns[-1].reward


def holds(score_by_adapter: Callable[[str], float], tasks: tuple[str, ...] = TASKS) -> None:
    for task_id in tasks:
        expert = in_process(task_id)
        assert expert.success
        assert score_by_adapter(task_id) == score_of(expert), task_id
