"""Endings: what is asked of a case however it ends, put together in one place for all families."""

import msgspec

from companyos.company import Metric, Person
from companyos.core.world import DAY, World
from companyos.families.kit.case import Case
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse
from companyos.families.kit.citations import Facts as Facts  # families import it from here
from companyos.families.kit.family import Ending
from companyos.families.kit.goals import (
    Ended,
    Fresh,
    Goal,
    MeasuredSince,
    Milestone,
    ReadFresh,
    Requested,
    Signature,
    SignedFor,
    TicketHas,
    TicketIs,
)


class Worth(msgspec.Struct, frozen=True):
    """What the milestones of an ending pay: the same wherever a case is all there is to do."""

    priority: float = 1.0
    unblocked: float = 1.0
    verified: float = 1.5
    outcome: float = 1.0
    refreshed: float = 1.0
    read: float = 0.5
    requested: float = 2.0
    approved: float = 3.0


def ending(
    world: World,
    case: Case,
    resolution: str,
    reason: str,
    decider: str,
    facts: Facts,
    sets: tuple[str, str] | None = None,
    measured: tuple[str, ...] = (),
    rivals: Facts = (),
    signed: tuple[Signature, ...] = (),
    cost_center: bool = False,
    worth: Worth = Worth(),  # noqa: B008 - it is frozen
) -> Ending:
    """How a case ends when all is done right.

    `sets` is the field that records the outcome, and its value; `measured` are the metrics that must be fresh, the most
    telling first; `rivals` are those that do not follow from `facts` (see `citations`); `signed` is to be signed, in this
    order, and the last is linked; `cost_center` says whether the ticket's may be put right.
    """
    ticket_id = case.ticket_id
    common = shared(world, case, worth)
    verified = TicketIs(ticket_id, "verified", case.roles["entry"])
    goals: list[Goal] = [
        Ended(ticket_id, resolution, reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + 4),
        CitesNoOther(ticket_id, facts, rivals),
        verified,
    ]
    milestones = list(common[:PREPARATIONS])
    if sets:
        outcome = TicketIs(ticket_id, *sets)
        goals.append(outcome)
        milestones.append(Milestone("outcome recorded", worth.outcome, outcome))
    if measured:
        metric, *beside = measured  # the first is worth all: the sum of an ending is bounded
        goals.append(Fresh(metric, tuple(beside)))
        milestones += _fresh_data(world, case, metric, worth.refreshed, worth.read)
    if signed:
        # No signature without the one before it: whoever signs asks for that, so only the last needs a goal of its own.
        first, last = signed[0], signed[-1]
        goals.append(SignedFor(ticket_id, last.form, last.says))
        milestones.append(Milestone("valid request", worth.requested, Requested(ticket_id, first.form, says=first.says)))
        asked = Requested(ticket_id, last.form, signed=True, says=last.says)
        milestones.append(Milestone("approved", worth.approved, asked))
    allowed: tuple[tuple[str, str | None], ...] = (("blocked_by", None),)
    if sets:
        allowed += (sets,)
    if cost_center:
        allowed += (("cost_center", world.get(Person, case.roles["requester"]).cost_center),)
    name = f"{resolution}/{reason}"
    return Ending(name, resolution, reason, decider, tuple(goals), tuple(milestones), allowed, signed, shared=common)


PREPARATIONS = 3  # milestones that every ending has: priority set, unblocked, verified


def shared(world: World, case: Case, worth: Worth) -> tuple[Milestone, ...]:
    """The milestones that may pay while the episode runs, computed from the case and never from its right ending.

    These are the preparations that every ending needs, and fresh data of every figure that some ending of this case
    rests on. The figures share the worth of one figure. The divisor is a power of two, so that the sums stay exact.
    """
    ticket_id = case.ticket_id
    prepared = (
        Milestone("priority set", worth.priority, TicketHas(ticket_id, "priority")),
        Milestone("unblocked", worth.unblocked, TicketIs(ticket_id, "blocked_by", None)),
        Milestone("verified", worth.verified, TicketIs(ticket_id, "verified", case.roles["entry"])),
    )
    figures = _figures(world, case)
    parts = 1 << max(0, len(figures) - 1).bit_length()
    fresh = (_fresh_data(world, case, metric, worth.refreshed / parts, worth.read / parts) for metric in figures)
    return (*prepared, *(milestone for pair in fresh for milestone in pair))


def _figures(world: World, case: Case) -> list[str]:
    """The metrics that play a role in a case. A dot in a role's name marks the case of a linked ticket."""
    return [name for role, name in case.roles.items() if "." not in role and world.peek(Metric, name) is not None]


def _fresh_data(world: World, case: Case, metric: str, refreshed: float, read: float) -> tuple[Milestone, Milestone]:
    since = world.now - world.get(Metric, metric).max_age_days * DAY
    return (
        Milestone("data refreshed", refreshed, MeasuredSince(metric, since)),
        Milestone("fresh data read", read, ReadFresh(case.actor, metric, since)),
    )
