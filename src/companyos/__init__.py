"""CompanyOS: a company in a box, for agents to work in and to be graded on what they leave behind."""

from typing import Any

from companyos import agents, demos
from companyos.apps import TOOLBOX
from companyos.calls import Call
from companyos.env import CompanyEnv, make
from companyos.episode import Transcript
from companyos.errors import ReplayDiffers, Unsolvable
from companyos.families import installed
from companyos.proof import Proof, prove
from companyos.replay import replay
from companyos.task import BENCHMARK_VERSION
from companyos.together import chairs, cooperate, play_round
from companyos.twins import Twin, do, twins

__version__ = "0.1.0"


def families() -> list[str]:
    """The kinds of work there are."""
    return list(installed())


def tools() -> list[dict[str, Any]]:
    """Every tool as an OpenAI-style function, named `<app>_<method>`."""
    return TOOLBOX.schemas


__all__ = [
    "BENCHMARK_VERSION",
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
