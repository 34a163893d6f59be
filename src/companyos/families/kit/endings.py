"""Builds the `Ending` of a case, that is, the goals and milestones that a right solution reaches, for all families."""

import msgspec

from companyos.company import Metric, Person
from companyos.core.world import DAY, World
from companyos.families.kit.case import Case
from companyos.families.kit.citations import CitedFacts as CitedFacts  # families import it from here
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse
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
    """The rewards of the milestones of an ending. All families use the defaults, except those with several cases a task."""

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
    facts: CitedFacts,
    sets: tuple[str, str] | None = None,
    must_be_fresh: tuple[str, ...] = (),
    must_not_cite: CitedFacts = (),
    signed: tuple[Signature, ...] = (),
    cost_center: bool = False,
    worth: Worth = Worth(),  # noqa: B008 - it is frozen
) -> Ending:
    """Return the right ending of a case.

    `decider` says who decides: an office (job title), or `desk` if the agent's desk decides itself.
    `facts` are the decisive facts: the evidence must cite all of them.
    `sets` is the ticket's field that records the outcome, and its value.
    `must_be_fresh` are the metrics that must be fresh at the end, the most important one first.
    `must_not_cite` are further facts that must not be cited. `citations.py` already forbids the same field of a similar
    record and other terms of a decisive policy.
    `signed` are the requests that must be approved, in this order; the ticket must link to the last one.
    `cost_center` allows the agent to correct the ticket's cost centre.
    """
    ticket_id = case.ticket_id
    shared = shared_milestones(world, case, worth)
    # `case.roles` maps names to ids of records. `entry` is the register entry that the ticket is about.
    verified = TicketIs(ticket_id, "verified", case.roles["entry"])
    goals: list[Goal] = [
        Ended(ticket_id, resolution, reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + MAX_EXTRA_CITATIONS),
        CitesNoOther(ticket_id, facts, must_not_cite),  # no rival of a decisive fact; see `citations.py`
        verified,
    ]
    milestones = list(shared[:PREPARATION_COUNT])
    if sets:
        outcome = TicketIs(ticket_id, *sets)
        goals.append(outcome)
        milestones.append(Milestone("outcome recorded", worth.outcome, outcome))
    if must_be_fresh:
        # Only the first metric pays, because the milestones of an ending have a maximum sum.
        metric, *other_metrics = must_be_fresh
        goals.append(Fresh(metric, tuple(other_metrics)))
        milestones += _fresh_data(world, case, metric, worth.refreshed, worth.read)
    if signed:
        # Each signer checks that the request before it was approved, so only the last request needs a goal.
        # `says` are the fields that a request must contain, and their values.
        first, last = signed[0], signed[-1]
        goals.append(SignedFor(ticket_id, last.form, last.says, last.by))
        requested = Requested(ticket_id, first.form, says=first.says, by=first.by)
        milestones.append(Milestone("valid request", worth.requested, requested))
        approved = Requested(ticket_id, last.form, signed=True, says=last.says, by=last.by)
        milestones.append(Milestone("approved", worth.approved, approved))
    # Changes of the ticket that are not damage: a field and its new value (None: emptied).
    allowed_changes: tuple[tuple[str, str | None], ...] = (("blocked_by", None),)
    if sets:
        allowed_changes += (sets,)
    if cost_center:
        allowed_changes += (("cost_center", world.get(Person, case.roles["requester"]).cost_center),)
    name = f"{resolution}/{reason}"
    return Ending(name, resolution, reason, decider, tuple(goals), tuple(milestones), allowed_changes, signed, shared=shared)


MAX_EXTRA_CITATIONS = 4  # true, unrelated facts that the evidence may cite besides the decisive ones
PREPARATION_COUNT = 3  # the first shared milestones, which every ending has: priority set, unblocked, verified


def shared_milestones(world: World, case: Case, worth: Worth) -> tuple[Milestone, ...]:
    """Return the milestones that pay during the episode. The others would reveal the right ending, so they pay at its end.

    These are the preparations that every ending needs, and fresh data of every metric that some ending of this case
    depends on. The metrics share the reward of one metric. The divisor is a power of two, so that the sums stay exact.
    """
    ticket_id = case.ticket_id
    prepared = (
        Milestone("priority set", worth.priority, TicketHas(ticket_id, "priority")),
        Milestone("unblocked", worth.unblocked, TicketIs(ticket_id, "blocked_by", None)),
        Milestone("verified", worth.verified, TicketIs(ticket_id, "verified", case.roles["entry"])),
    )
    metrics = _metrics(world, case)
    parts = 1 << max(0, len(metrics) - 1).bit_length()  # the smallest power of two that is at least the number of metrics
    fresh = (_fresh_data(world, case, metric, worth.refreshed / parts, worth.read / parts) for metric in metrics)
    return (*prepared, *(milestone for pair in fresh for milestone in pair))


def _metrics(world: World, case: Case) -> list[str]:
    """Return the metrics in `case.roles`. A role with a dot in its name belongs to the case of a linked ticket."""
    return [name for role, name in case.roles.items() if "." not in role and world.peek(Metric, name) is not None]


def _fresh_data(world: World, case: Case, metric: str, refreshed: float, read: float) -> tuple[Milestone, Milestone]:
    """Return the milestones that a metric is refreshed and then read. `refreshed` and `read` are their rewards."""
    since = world.now - world.get(Metric, metric).max_age_days * DAY
    return (
        Milestone("data refreshed", refreshed, MeasuredSince(metric, since)),
        Milestone("fresh data read", read, ReadFresh(case.actor, metric, since)),
    )
