"""Endings: what is asked of a case however it ends, put together in one place for all families."""

import msgspec

from companyos.apps import Metric, Person
from companyos.families.case import Case
from companyos.families.citations import Cites, CitesNoOther, CitesNothingFalse
from companyos.families.citations import Facts as Facts  # families import it from here
from companyos.families.family import Ending
from companyos.families.goals import (
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
from companyos.world import DAY, World


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
    verified = TicketIs(ticket_id, "verified", case.roles["entry"])
    goals: list[Goal] = [
        Ended(ticket_id, resolution, reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + 4),
        CitesNoOther(ticket_id, facts, rivals),
        verified,
    ]
    milestones = [
        Milestone("priority set", worth.priority, TicketHas(ticket_id, "priority")),
        Milestone("unblocked", worth.unblocked, TicketIs(ticket_id, "blocked_by", None)),
        Milestone("verified", worth.verified, verified),
    ]
    if sets:
        outcome = TicketIs(ticket_id, *sets)
        goals.append(outcome)
        milestones.append(Milestone("outcome recorded", worth.outcome, outcome))
    if measured:
        metric, *beside = measured  # the first is worth all: the sum of an ending is bounded
        since = world.now - world.get(Metric, metric).max_age_days * DAY
        goals.append(Fresh(metric, tuple(beside)))
        milestones.append(Milestone("data refreshed", worth.refreshed, MeasuredSince(metric, since)))
        milestones.append(Milestone("fresh data read", worth.read, ReadFresh(case.actor, metric, since)))
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
    return Ending(name, resolution, reason, decider, tuple(goals), tuple(milestones), allowed, signed)
