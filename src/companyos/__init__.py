"""CompanyOS: a simulated company in which agents work on tasks and are graded by the state they leave behind."""

from typing import Any

from companyos import agents
from companyos.assurance.prove import Proof, prove
from companyos.assurance.replay import replay
from companyos.assurance.twins import Twin, do, twins
from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.core.episode import Transcript
from companyos.core.errors import ReplayDiffers, Unsolvable
from companyos.core.task import BENCHMARK_VERSION
from companyos.data import demos
from companyos.env import CompanyEnv, make
from companyos.env.batch import Batch
from companyos.env.multi_actor import chairs, cooperate, play_round
from companyos.families import installed

__version__ = "0.1.0"


def families() -> list[str]:
    """Return the names of all families, the kinds of work that an agent can be given."""
    return list(installed())


def tools() -> list[dict[str, Any]]:
    """Return all tools as OpenAI-style function schemas, named `<app>_<method>`."""
    return TOOLBOX.schemas


__all__ = [
    "BENCHMARK_VERSION",
    "Batch",
    "Call",
    "CompanyEnv",
    "Proof",
    "ReplayDiffers",
    "Transcript",
    "Twin",
    "Unsolvable",
    "agents",
    "chairs",
    "cooperate",
    "demos",
    "do",
    "families",
    "make",
    "play_round",
    "prove",
    "replay",
    "tools",
    "twins",
]
