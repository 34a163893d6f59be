"""Agents: whoever works a task. One object per episode; it sees observations and answers with calls."""

from typing import Protocol

from companyos.calls import Call
from companyos.env import CompanyEnv
from companyos.observe import Observation


class Agent(Protocol):
    """Anything that acts."""

    def act(self, obs: Observation) -> Call: ...


def play(env: CompanyEnv, agent: Agent) -> CompanyEnv:
    """Lets an agent work an episode to its end."""
    obs = env.reset()
    while not obs.done:
        obs = env.step(agent.act(obs))
    return env
