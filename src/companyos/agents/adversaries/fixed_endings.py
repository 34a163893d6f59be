"""Agents that decide beforehand how to close the ticket, and the endings that they choose from."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from companyos.agents.adversaries.scripts import expert_solution
from companyos.agents.routine import Routine
from companyos.company.programs import Subprogram, steered, stop_when_stuck
from companyos.core.calls import Call, Program, Reply
from companyos.env import CompanyEnv, run_expert
from companyos.env.observations import Observation
from companyos.families import EpisodeSoFar, ExpertStyle, family_of
from companyos.families.kit.moves import ticket_acted_on, ticket_in


class KnownEnding(msgspec.Struct, frozen=True):
    """How a ticket is closed: resolution, reason, and the offices that are asked to sign before."""

    resolution: str
    reason: str
    offices: tuple[str, ...]

    def __str__(self) -> str:
        signed = f" by {' and '.join(self.offices)}" if self.offices else ""
        return f"{self.resolution}/{self.reason}{signed}"


@lru_cache(maxsize=64)
def known_endings(family: str) -> tuple[KnownEnding, ...]:
    """Return the endings of a family's tickets, from the expert's solutions on the validation split."""
    return tuple(sorted({_ending(expert_solution(family, seed, chaos=0.0).calls) for seed in range(150)}, key=str))


@lru_cache(maxsize=64)
def known_refusals(family: str) -> tuple[KnownEnding, ...]:
    """Return the endings that say that the work cannot be done. A family without one gets `beyond_authority`."""
    refusals = tuple(ending for ending in known_endings(family) if ending.resolution == "cannot_be_done")
    return refusals or (KnownEnding("cannot_be_done", "beyond_authority", ()),)


def experts_ending(env: CompanyEnv) -> KnownEnding:
    """Let the expert solve a task, and return how it closed the ticket."""
    run_expert(env)
    return _ending([turn.call for turn in env.turns])


def _ending(calls: list[Call]) -> KnownEnding:
    """Return how the last of these calls closed the ticket, and who was asked to sign before."""
    closing = calls[-1].params
    return KnownEnding(closing["resolution"], closing["reason"], _offices(calls, closing["ticket_id"]))


def _offices(calls: list[Call], ticket_id: str) -> tuple[str, ...]:
    """Return the offices that an expert asked to sign for a ticket: each is the last office looked up before a request."""
    asked: dict[str, None] = {}
    looked_up = ""
    for call in calls:
        if call.method == "get_approver":
            looked_up = _office(call.params["role"])
        elif call.method == "submit_approval" and ticket_acted_on(call) == ticket_id:
            asked[looked_up] = None
    return tuple(asked)


def _office(role: str) -> str:
    """Return an office without its department: `Head` for `Head of Research`."""
    return role.split(" of ")[0]


class Constant(Routine):
    """Reads, prepares and cites as the expert does, but has its ending and signers fixed beforehand.

    `endings_of` returns the endings of a family, and `ending_index` chooses one of them (modulo their number).
    """

    def __init__(self, ending_index: int, endings_of: Callable[[str], tuple[KnownEnding, ...]] = known_endings) -> None:
        self._ending_index, self._endings_of = ending_index, endings_of
        super().__init__(self._work)

    def _work(self, obs: Observation) -> Program:
        family = family_of(obs.task)  # `obs.task` is the text of the brief
        endings = self._endings_of(family.name)
        ending = endings[self._ending_index % len(endings)]
        experts_calls: list[Call] = []
        so_far = EpisodeSoFar(obs.task, obs.now)
        ticket_id = ticket_in(so_far)

        def steer(call: Call) -> Subprogram[Reply]:
            experts_calls.append(call)
            if ticket_acted_on(call) == ticket_id:
                offices_asked = _offices(experts_calls, ticket_id)
                if call.method == "resolve_ticket":
                    call = _closing(ticket_id, ending, call.params["evidence"])
                elif ending.offices[: len(offices_asked)] != offices_asked:
                    # The expert asks an office that does not sign for the fixed ending: close now.
                    call = _closing(ticket_id, ending, [])
            return (yield call)

        return stop_when_stuck(steered(family.expert(so_far, ExpertStyle()), steer))


def _closing(ticket_id: str, ending: KnownEnding, evidence: list[Any]) -> Call:
    """Return the call that closes a ticket with this ending."""
    closing = {"resolution": ending.resolution, "reason": ending.reason, "evidence": evidence}
    return Call("ticketdesk", "resolve_ticket", {"ticket_id": ticket_id, **closing})


class CloseAtOnce(Routine):
    """Closes the brief's ticket with a fixed ending and reads nothing.

    `ending_index` chooses the ending among those of the family (modulo their number).
    """

    def __init__(self, ending_index: int) -> None:
        self._ending_index = ending_index
        super().__init__(self._close)

    def _close(self, obs: Observation) -> Program:
        endings = known_endings(family_of(obs.task).name)
        ending = endings[self._ending_index % len(endings)]
        while True:
            yield _closing(ticket_in(EpisodeSoFar(obs.task, obs.now)), ending, [])
