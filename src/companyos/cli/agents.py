"""The kinds of agents that the command line knows beyond those of `companyos.evaluate`."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from companyos.evaluate.runs.roster import AgentFactory, add_agent_kind

_MODEL = Path("results/fifth/model")


def add_trained_models() -> None:
    """Make `local:DIR`, a model on this machine, an agent that can be measured."""
    add_agent_kind("local", "DIR", _local)


def trained_model_here() -> str:
    """Return the name of the trained model of this checkout, or an empty text if this machine cannot run it."""
    if not _MODEL.is_dir() or find_spec("torch") is None:
        return ""
    return "" if _local(str(_MODEL), {}).lacks((), 1) else f"local:{_MODEL}"


def _local(folder: str, options: Mapping[str, str]) -> AgentFactory:
    from companyos.train.runs.local import open_local  # imported only when it is asked for: it takes time

    return open_local(folder, options)
