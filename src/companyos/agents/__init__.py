"""Agents that work tasks: experts, baselines, adversaries and language models. `make(name, seed)` returns one by name."""

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
    """Return a new agent for one episode of any family."""
    if not isinstance(name, str) or name not in AGENTS:
        raise BadChoice("agent", name, AGENTS)
    return AGENTS[name](seed)


__all__ = ["AGENTS", "Agent", "make", "play"]
