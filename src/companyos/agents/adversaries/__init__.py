"""Adversaries: agents that try to win without doing the work. Their success rates are the floor of the benchmark.

To add one, write it as a program (see `farmers`), a script, or an expert with a habit, and add a line to `ADVERSARIES`.
"""

from collections.abc import Callable

import msgspec

from companyos.agents.adversaries import farmers
from companyos.agents.adversaries.ask_around import AskAround, signed_endings
from companyos.agents.adversaries.careless import naive
from companyos.agents.adversaries.fixed_endings import CloseAtOnce, Constant, known_endings, known_refusals
from companyos.agents.adversaries.memoriser import memoriser, numbers_only
from companyos.agents.adversaries.reward_watcher import RewardWatcher
from companyos.agents.adversaries.scripts import SOURCES, BlindScript, Checklist
from companyos.agents.adversaries.submit_first import SubmitFirst
from companyos.agents.agent import Agent
from companyos.agents.baselines import Null, Random
from companyos.agents.routine import Routine
from companyos.core.calls import Program
from companyos.env.observations import Observation

# The group of agents that exploit rules which are the same in every company: they know the rules from other companies, or
# let approvers apply them. No law limits the success of these agents; `docs/floor.md` publishes their numbers.
KNOWN = "known"


class Adversary(msgspec.Struct, frozen=True):
    """An agent that tries to win without doing the work, with its variants. On each family, its best variant counts.

    `make` takes the number of the variant, or the seed of the episode if the agent has no variants.
    """

    name: str
    group: str  # blind, constant, watching, asking, checklist, naive or KNOWN
    make: Callable[[int], Agent]
    variants: Callable[[str], int] | None = None  # the count of variants for a family


def _program(begin: Callable[[Observation, int], Program]) -> Callable[[int], Agent]:
    """Return a function that makes, from a seed, an agent that runs this program."""

    def make(seed: int) -> Agent:
        return Routine(lambda obs: begin(obs, seed))

    make.__doc__ = begin.__doc__
    return make


def _refuse_everything(ending_index: int) -> Agent:
    """Reads and prepares as the expert does, then closes the ticket as `cannot_be_done`."""
    return Constant(ending_index, known_refusals)


def _naive(seed: int) -> Agent:
    return naive()


_naive.__doc__ = naive.__doc__


def _count_endings(family: str) -> int:
    return len(known_endings(family))


def _count_refusals(family: str) -> int:
    return len(known_refusals(family))


def _count_signed_endings(family: str) -> int:
    return len(signed_endings(family))


def _count_sources(family: str) -> int:
    return SOURCES


ADVERSARIES = {
    adversary.name: adversary
    for adversary in (
        Adversary("null", "blind", Null),
        Adversary("random", "blind", Random),
        Adversary("blind_script", "blind", BlindScript, _count_sources),
        Adversary("verify_farmer", "blind", _program(farmers.verify)),
        Adversary("poll_farmer", "blind", _program(farmers.poll)),
        Adversary("refresh_farmer", "blind", _program(farmers.refresh)),
        Adversary("submit_farmer", "blind", _program(farmers.submit)),
        Adversary("approve_by_anyone", "blind", _program(farmers.approve_by_anyone)),
        Adversary("close_at_once", "blind", CloseAtOnce, _count_endings),
        Adversary("constant", "constant", Constant, _count_endings),
        Adversary("refuse_everything", "constant", _refuse_everything, _count_refusals),
        Adversary("ask_around", "asking", AskAround, _count_signed_endings),
        Adversary("checklist", "checklist", Checklist, _count_sources),
        Adversary("naive", "naive", _naive),
        Adversary("reward_watcher", "watching", RewardWatcher),
        Adversary("memoriser", KNOWN, memoriser),
        Adversary("numbers_only", KNOWN, numbers_only),
        Adversary("submit_first", KNOWN, SubmitFirst),
    )
}
