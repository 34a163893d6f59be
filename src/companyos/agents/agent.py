"""The agent protocol: one object per episode, which receives observations and answers with calls."""

from typing import Protocol

import msgspec

from companyos.core.calls import Call
from companyos.env import CompanyEnv
from companyos.env.observations import Observation


class Agent(Protocol):
    """An object that chooses the next call."""

    def act(self, obs: Observation) -> Call: ...


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tokens and cost of one turn of a language model, as its endpoint reports them.

    An agent that counts them has a list `usage` with one entry for each call of `act`.
    """

    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    failures: int = 0  # failed requests
    note: str = ""  # what went wrong
    form: str = ""  # request format: `tools`, or `text` for a call as a line of text

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


def play(env: CompanyEnv, agent: Agent) -> CompanyEnv:
    """Let an agent play an episode from reset to the end, and return the environment."""
    obs = env.reset()
    while not obs.done:
        obs = env.step(agent.act(obs))
    return env
