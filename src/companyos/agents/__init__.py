"""Agents: who works the tasks. `make(name, seed)` gives one object for one episode."""

from collections.abc import Callable

from companyos.agents.adversaries import ADVERSARIES
from companyos.agents.agent import Agent, play
from companyos.agents.baselines import Expert, Jittered
from companyos.core.errors import BadChoice

AGENTS: dict[str, Callable[[int], Agent]] = {
    "expert": Expert,
    "jittered": Jittered,
    **{adversary.name: adversary.make for adversary in ADVERSARIES.values()},
}


def make(name: str, seed: int = 0) -> Agent:
    """An agent by name, for one episode of any family."""
    if not isinstance(name, str) or name not in AGENTS:
        raise BadChoice("agent", name, AGENTS)
    return AGENTS[name](seed)


__all__ = ["AGENTS", "Agent", "make", "play"]
