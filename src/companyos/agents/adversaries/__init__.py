"""Adversaries: policies that try to win without doing the work. What they reach is the floor.

To add one: write it as a program (see `farmers`), a script, or an expert with a habit, and give it a line in `ADVERSARIES`.
"""

from collections.abc import Callable

import msgspec

from companyos.agents.adversaries import farmers
from companyos.agents.adversaries.ask_around import AskAround, signed_closes
from companyos.agents.adversaries.careless import CloseAtOnce, Constant, closes, naive, refusals
from companyos.agents.adversaries.memoriser import memoriser, numbers_only
from companyos.agents.adversaries.reward_watcher import RewardWatcher
from companyos.agents.adversaries.scripts import SOURCES, BlindScript, Checklist
from companyos.agents.adversaries.submit_first import SubmitFirst
from companyos.agents.agent import Agent
from companyos.agents.baselines import Null, Random
from companyos.agents.routine import Routine
from companyos.core.calls import Program
from companyos.env.observations import Observation

# Known to beat constant rules: an agent that knows the rules of other companies knows those of this one, and approvers apply
# some rules themselves. No law bounds these agents; `docs/floor.md` publishes their numbers until rules vary.
KNOWN = "known"


class Adversary(msgspec.Struct, frozen=True):
    """A policy, and in how many variants it comes: of those the best one on a family counts.

    `make` takes the number of the variant where there are several, else the seed of the episode.
    """

    name: str
    group: str  # blind, constant, watching, asking, checklist, naive; `known`: of KNOWN
    make: Callable[[int], Agent]
    variants: Callable[[str], int] | None = None  # by family


def _program(begin: Callable[[Observation, int], Program]) -> Callable[[int], Agent]:
    def make(seed: int) -> Agent:
        return Routine(lambda obs: begin(obs, seed))

    make.__doc__ = begin.__doc__
    return make


def _refuse_everything(ending: int) -> Agent:
    """Reads and prepares as the expert does, then says that it cannot be done."""
    return Constant(ending, refusals)


def _naive(seed: int) -> Agent:
    return naive()


_naive.__doc__ = naive.__doc__


def _endings(family: str) -> int:
    return len(closes(family))


def _refusals(family: str) -> int:
    return len(refusals(family))


def _signed_endings(family: str) -> int:
    return len(signed_closes(family))


def _sources(family: str) -> int:
    return SOURCES


ADVERSARIES = {
    adversary.name: adversary
    for adversary in (
        Adversary("null", "blind", Null),
        Adversary("random", "blind", Random),
        Adversary("blind_script", "blind", BlindScript, _sources),
        Adversary("verify_farmer", "blind", _program(farmers.verify)),
        Adversary("poll_farmer", "blind", _program(farmers.poll)),
        Adversary("refresh_farmer", "blind", _program(farmers.refresh)),
        Adversary("submit_farmer", "blind", _program(farmers.submit)),
        Adversary("approve_by_anyone", "blind", _program(farmers.approve_by_anyone)),
        Adversary("close_at_once", "blind", CloseAtOnce, _endings),
        Adversary("constant", "constant", Constant, _endings),
        Adversary("refuse_everything", "constant", _refuse_everything, _refusals),
        Adversary("ask_around", "asking", AskAround, _signed_endings),
        Adversary("checklist", "checklist", Checklist, _sources),
        Adversary("naive", "naive", _naive),
        Adversary("reward_watcher", "watching", RewardWatcher),
        Adversary("memoriser", KNOWN, memoriser),
        Adversary("numbers_only", KNOWN, numbers_only),
        Adversary("submit_first", KNOWN, SubmitFirst),
    )
}
