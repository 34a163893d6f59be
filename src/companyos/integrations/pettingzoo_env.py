"""A PettingZoo parallel environment in which the agents are departments, for tasks that cross departments.

In `parallel_env("data_deletion")` the first agent works on the task; the others play colleagues who have a part in it
(ADR 10). Each agent is named after its department; a second one in the same department has a number. Every agent writes
one call per round. An agent whose call is `wait` makes no step while others work, unless mail has arrived for it.

All agents share the reward of a round. All of them end when the ticket is resolved (terminated) or when the first agent has
used its budget (truncated). An agent that has used its own budget ends before (truncated).
"""

from functools import cache
from typing import Any

import numpy as np
from gymnasium.spaces import Text
from pettingzoo import ParallelEnv

from companyos.agents.llm.replies import ModelReply, RequestedCall, parse_call_line
from companyos.chaos import Chaos
from companyos.company import Person
from companyos.core.errors import BadChoice
from companyos.data.splits import CHAOS, size_of
from companyos.env import CompanyEnv, make, task_named
from companyos.env.multi_actor import chairs, play_round
from companyos.env.observations import Observation
from companyos.families import FAMILIES, SHORT_FAMILIES
from companyos.families.kit.goals import add_up
from companyos.integrations.gymnasium_env import MAX_ACTION_LENGTH, in_space, text_space

Infos = dict[str, dict[str, Any]]


@cache
def crossing() -> tuple[str, ...]:
    """Return the families whose work crosses departments: an agent can play more than one colleague."""
    return tuple(name for name in FAMILIES if len(chairs(str(task_named(name)))) > 1)


class CompanyOS(ParallelEnv[str, str, str]):
    """PettingZoo's parallel environment. `company` is the current episode."""

    company: CompanyEnv

    def __init__(self, family: str, chaos: Chaos = CHAOS, split: str = "train", reward: str = "dense") -> None:
        if family not in crossing():
            raise BadChoice("family whose work crosses departments", family, crossing())
        self.metadata = {"name": f"CompanyOS/{family}-v0", "render_modes": []}
        self._family, self._chaos, self._split, self._reward = family, chaos, split, reward
        # A split goes round the short families, and each round has the next seed. Tasks of a family have the same seeds.
        self._seed_count = size_of(split) // len(SHORT_FAMILIES)
        self._rng = np.random.default_rng()
        self._open(str(task_named(family, 0, chaos, split)))
        self.possible_agents = list(self._handles)
        self._observation_spaces = {agent: text_space() for agent in self.possible_agents}
        self._action_spaces = {agent: text_space(MAX_ACTION_LENGTH) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> Text:
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> Text:
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, str], Infos]:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        chosen_task = (options or {}).get("task_id")
        drawn_seed = int(self._rng.integers(self._seed_count))
        self._open(chosen_task or str(task_named(self._family, drawn_seed, self._chaos, self._split)))
        self.agents = list(self.possible_agents)
        observations = {agent: self.company.look(self._handles[agent]) for agent in self.agents}
        return self._texts(observations), {agent: self._info(obs, acted=False) for agent, obs in observations.items()}

    def step(
        self, actions: dict[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        company, agents = self.company, self.agents
        requests = {self._handles[agent]: self._parse(actions[agent]) for agent in agents if agent in actions}
        replies = play_round(company, {handle: request.action for handle, request in requests.items()})
        reward = add_up(obs.reward for obs in replies.values())
        observations, infos = {}, {}
        for agent in agents:
            handle = self._handles[agent]
            acted = handle in replies
            observations[agent] = requests[handle].with_parse_error(replies[handle]) if acted else company.look(handle)
            infos[agent] = self._info(observations[agent], acted)
        ended = {agent: company.done or not company.steps_left(self._handles[agent]) for agent in agents}
        terminated = dict.fromkeys(agents, company.resolved)
        truncated = {agent: ended[agent] and not company.resolved for agent in agents}
        self.agents = [agent for agent in agents if not ended[agent]]
        return self._texts(observations), dict.fromkeys(agents, reward), terminated, truncated, infos

    def handle(self, agent: str) -> str:
        """Return the handle (the id, such as `@ann.lee`) of the person whom an agent plays in this episode."""
        return self._handles[agent]

    def _open(self, task_id: str) -> None:
        """Begin an episode, and name its agents after their departments."""
        self.company = make(task_id, reward=self._reward, actors=chairs(task_id))
        self._handles: dict[str, str] = {}
        for handle in self.company.actors:
            department = self.company.world.get(Person, handle).department
            count = sum(agent.startswith(department) for agent in self._handles)
            self._handles[f"{department} {count + 1}" if count else department] = handle

    def _parse(self, text: str) -> RequestedCall:
        """Return the call that an agent has written."""
        return parse_call_line(ModelReply(text), self.company.toolbox).calls[0]

    def _texts(self, observations: dict[str, Observation]) -> dict[str, str]:
        return {agent: in_space(obs.text) for agent, obs in observations.items()}

    def _info(self, obs: Observation, acted: bool) -> dict[str, Any]:
        success = bool(self.company.success)
        return {"task_id": self.company.task_id, "code": obs.code, "acted": acted, "success": success}


parallel_env = CompanyOS
