"""The retail domain of tau2-bench: the reference tool calls of its tasks, without language models.

It uses NVIDIA's package of tau2-bench, the one on PyPI that contains code and data.
"""

from collections.abc import Callable
from typing import Any

from loguru import logger
from tau2.data_model.message import ToolCall
from tau2.domains.retail.environment import get_environment, get_tasks

from companyos.bench.peers.peer import Peer

TASKS = 12


class Retail(Peer):
    name = "tau2 retail"
    module = "tau2"
    step_includes = "a tool call carried out, its reply as JSON text; no user, and graded only after the episode"
    text = True

    def __init__(self) -> None:
        logger.disable("tau2")  # it would print each reply
        self._tasks = [task for task in get_tasks() if task.evaluation_criteria.actions][:TASKS]
        self.scripts = [[_call(action) for action in task.evaluation_criteria.actions] for task in self._tasks]

    def open(self) -> None:
        """Do nothing: `begin` builds an environment for each task, as tau2's orchestrator does."""

    def begin(self, env: Any, number: int) -> Any:
        env, start = get_environment(), self._tasks[number].initial_state
        if start is not None:
            env.set_state(start.initialization_data, start.initialization_actions, start.message_history or [])
        return env

    def stepper(self, env: Any) -> Callable[[Any], Any]:
        step: Callable[[Any], Any] = env.get_response
        return step


def _call(action: Any) -> ToolCall:
    return ToolCall(id=action.action_id, name=action.name, arguments=action.arguments)


PEERS = (Retail,)
