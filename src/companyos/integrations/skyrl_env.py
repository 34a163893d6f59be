"""A text environment for `skyrl_gym`, registered as `companyos`.

The dataset has one row for each task (see `rows`), with the columns that SkyRL needs; `task_id` chooses the task. The first
messages come from the task, so SkyRL uses the `prompt` of a row only to measure its length. In a reply of the
model, the first line that is a call is made. A reply without a call costs a step, too.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import skyrl_gym
from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from companyos.agents.llm.replies import step_by_line
from companyos.chaos import Chaos
from companyos.data.splits import CHAOS
from companyos.env import CompanyEnv, make
from companyos.env.chat import Message, prompt, tools_in_full
from companyos.integrations.lists import tasks_of

NAME = "companyos"


def rows(tasks: str = "train", chaos: Chaos = CHAOS) -> Iterator[dict[str, Any]]:
    """Yield one row of a dataset for each task of a split or a suite."""
    for task_id in tasks_of(tasks, chaos):
        yield {"env_class": NAME, "prompt": _opening(make(task_id)), "task_id": task_id}


def _opening(env: CompanyEnv) -> list[Message]:
    system = prompt("text").format(tools=tools_in_full(env.toolbox))
    return [{"role": "system", "content": system}, {"role": "user", "content": env.look().text}]


class CompanyOS(BaseTextEnv):
    """One episode. SkyRL makes one for each rollout. The reward is the score, at the end."""

    def __init__(self, env_config: Any, extras: Mapping[str, Any]) -> None:
        super().__init__()
        self.company = make(extras["task_id"], reward="score")
        self.max_turns = self.company.max_steps

    def init(self, prompt: list[Message]) -> tuple[list[Message], dict[str, Any]]:
        self.company.reset()
        return _opening(self.company), {"task_id": self.company.task_id}

    def step(self, action: str) -> BaseTextEnvStepOutput:
        obs = step_by_line(self.company, action)
        self.turns = self.company.step_count
        messages = [] if obs.done else [{"role": "user", "content": obs.text}]
        metadata = {"code": obs.code, "success": bool(self.company.success)}
        return BaseTextEnvStepOutput(observations=messages, reward=obs.reward, done=obs.done, metadata=metadata)

    def get_metrics(self) -> dict[str, Any]:
        return {"success": float(bool(self.company.success)), "steps": self.company.step_count}


skyrl_gym.register(id=NAME, entry_point=f"{__name__}:CompanyOS")
