"""Agents: whoever works a task. One object per episode; it sees observations and answers with calls."""

from typing import Protocol

import msgspec

from companyos.core.calls import Call
from companyos.env import CompanyEnv
from companyos.env.observations import Observation


class Agent(Protocol):
    """Anything that acts."""

    def act(self, obs: Observation) -> Call: ...


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one turn cost whoever asked a language model, as the endpoint says: nobody can recompute it from the calls.

    An agent that counts has them in `usage`, one for each of its acts.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    failures: int = 0  # requests that came to nothing
    note: str = ""  # what went wrong
    form: str = ""  # how it was asked: with tools, or for a line of text

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


def play(env: CompanyEnv, agent: Agent) -> CompanyEnv:
    """Lets an agent work an episode to its end."""
    obs = env.reset()
    while not obs.done:
        obs = env.step(agent.act(obs))
    return env
