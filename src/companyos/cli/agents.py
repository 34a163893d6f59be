"""The kinds of agents that the command line knows beyond those of `companyos.evaluate`."""

from collections.abc import Mapping

from companyos.evaluate.runs.roster import AgentFactory, add_agent_kind


def add_trained_models() -> None:
    """Make `local:DIR`, a model on this machine, an agent that can be measured."""
    add_agent_kind("local", "DIR", _local)


def _local(folder: str, options: Mapping[str, str]) -> AgentFactory:
    from companyos.train.runs.local import open_local  # imported only when it is asked for: it takes time

    return open_local(folder, options)
