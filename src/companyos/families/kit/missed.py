"""Missed goals in words: what should have been, and what is there instead."""

from collections.abc import Iterable
from functools import singledispatch
from typing import Any

from companyos.company import Approval, Entry, Metric, Ticket
from companyos.company.apps.datahub import age_days
from companyos.company.apps.ticketdesk import Citation
from companyos.company.facts import true_now
from companyos.core.world import World, clock_text
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse, records_named
from companyos.families.kit.family import LINKED, Ending, Linked
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Ended,
    Fresh,
    Goal,
    HandedTo,
    MeasuredSince,
    ReadFresh,
    Requested,
    SignedFor,
    TicketHas,
    TicketIs,
)

_TITLES = {
    "Ended": "Right ending",
    "Cites": "Deciding facts cited",
    "CitesNothingFalse": "Nothing false cited",
    "CitesNoOther": "No competing fact cited",
    "TicketIs": "Right value of",
    "TicketHas": "Filled in",
    "HandedTo": "Right assignee",
    "Fresh": "Metrics fresh",
    "MeasuredSince": "Metric measured again",
    "ReadFresh": "Newest measurement read",
    "Requested": "Request made",
    "SignedFor": "Signed request linked",
    "Linked": "Closed correctly",
}  # by the part of a goal's name before the colon


def goal_title(name: str) -> str:
    """Return a short title for a goal of a verdict: `TicketIs:verified` becomes `Right value of: verified`."""
    kind, colon, subject = name.partition(":")
    return f"{_TITLES.get(kind, in_words(kind))}{colon} {in_words(subject)}".strip()


def describe_goal(ending: Ending, name: str, reached: bool, world: World) -> str:
    """Return what a reached goal asked for; for a missed goal, what should have been and what is there instead."""
    if not reached:
        return missed(ending, name, world)
    return (
        ending.asks(name)
        .replace(f"{SIGNED_REQUEST}:", "signed ")
        .replace(SIGNED_REQUEST, "signed request")
        .replace(ANSWER, "answer of ")
    )


def missed(ending: Ending, name: str, world: World) -> str:
    """Return what a missed goal asked for and what is there instead. `name` is its name in a verdict."""
    if name.startswith(LINKED):
        return _missed_linked(next(linked for linked in ending.linked if f"{LINKED}{linked.name}" == name), world)
    return missed_goal(ending.named_goals[name], world)


def ending_in_words(resolution: str | None, reason: str | None) -> str:
    """Return a resolution and a reason as a person writes them: `on hold (document expired)`."""
    return f"{in_words(resolution)} ({in_words(reason)})" if resolution else "not closed"


def in_words(name: object) -> str:
    """Return a name without underscores: `on_hold` becomes `on hold`."""
    return str(name).replace("_", " ")


def with_article(noun: str) -> str:
    """Return a noun with "a" or "an" before it."""
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"


def _missed_linked(linked: Linked, world: World) -> str:
    ticket, right = world.get(Ticket, linked.ticket_id), linked.ending
    should = f"{ticket.id} should have been closed as {ending_in_words(right.resolution, right.reason)}"
    if ticket.resolution is None:
        return f"{should}, was not closed"
    if (ticket.resolution, ticket.reason) != (right.resolution, right.reason):
        return f"{should}, was closed as {ending_in_words(ticket.resolution, ticket.reason)}"
    faults = [missed_goal(goal, world) for goal in right.goals if not goal.holds(world)]
    return f"{ticket.id} was closed for the right reason, but {'; '.join(faults) or 'not correctly at that moment'}"


@singledispatch
def missed_goal(goal: Goal, world: World) -> str:
    """Return what a goal that does not hold asked for and what is there instead."""
    return f"this should have been so, and was not: {goal.asks}"


@missed_goal.register
def _(goal: TicketIs, world: World) -> str:
    is_now = getattr(world.get(Ticket, goal.ticket_id), goal.field)
    should = f"{goal.ticket_id}'s {in_words(goal.field)} should have been {_shown(goal.value)}"
    return f"{should}, was {_shown(is_now)}{_if_copy(world, is_now)}"


@missed_goal.register
def _(goal: TicketHas, world: World) -> str:
    return f"{goal.ticket_id}'s {in_words(goal.field)} should have been filled in, was empty"


@missed_goal.register
def _(goal: HandedTo, world: World) -> str:
    assignee = world.get(Ticket, goal.ticket_id).assignee
    return (
        f"{goal.ticket_id} should have been assigned to {goal.person} or their delegate, was assigned to {_shown(assignee)}"
    )


@missed_goal.register
def _(goal: Ended, world: World) -> str:
    ticket = world.get(Ticket, goal.ticket_id)
    should = f"{ticket.id} should have been closed as {ending_in_words(goal.resolution, goal.reason)}"
    if ticket.resolution is None:
        return f"{should}, was not closed"
    return f"{should}, was closed as {ending_in_words(ticket.resolution, ticket.reason)}"


@missed_goal.register
def _(goal: Fresh, world: World) -> str:
    stale = []
    for name in (goal.metric, *goal.beside):
        metric = world.get(Metric, name)
        age = age_days(metric, world.now)
        if age > metric.max_age_days:
            stale.append(f"{name} should have been at most {metric.max_age_days} days old, was {age} days old")
    return "; ".join(stale)


@missed_goal.register
def _(goal: MeasuredSince, world: World) -> str:
    measured = clock_text(world.get(Metric, goal.metric).measured_at)
    return f"{goal.metric} should have been measured again after {clock_text(goal.since)}, was last measured {measured}"


@missed_goal.register
def _(goal: ReadFresh, world: World) -> str:
    measured_at = world.get(Metric, goal.metric).measured_at
    if measured_at < goal.since:
        return f"{goal.metric} should have been refreshed and read, was last measured {clock_text(measured_at)}"
    return f"the measurement of {goal.metric} of {clock_text(measured_at)} should have been read, was not read"


@missed_goal.register
def _(goal: Requested, world: World) -> str:
    wanted = "approved" if goal.signed else "pending or approved"
    requests = [a for a in world.all(Approval) if a.ticket_id == goal.ticket_id and a.type == goal.form]
    is_now = ", ".join(f"{request.id} {request.status}" for request in requests) or "there was none"
    return f"{with_article(_form(goal.form, goal.says))} should have been {wanted}, but {is_now}"


@missed_goal.register
def _(goal: SignedFor, world: World) -> str:
    ticket = world.get(Ticket, goal.ticket_id)
    should = f"{ticket.id} should have linked an approved {_form(goal.form, goal.says)}"
    request = world.peek(Approval, ticket.approval) if ticket.approval else None
    if request is None:
        return f"{should}, linked none"
    values = _fields((field, request.data.get(field)) for field, _ in goal.says)
    return (
        f"{should}, linked {request.id}, {with_article(in_words(request.type))} request{values}, which is {request.status}"
    )


@missed_goal.register
def _(goal: Cites, world: World) -> str:
    evidence = world.get(Ticket, goal.ticket_id).evidence
    cited = {(citation.record, citation.field) for citation in evidence}
    lacking = [
        _fact(world, goal.ticket_id, named, field)
        for named, field in goal.facts
        if not any((record, field) in cited for record in records_named(world, goal.ticket_id, named))
    ]
    is_now = _listed(_citation(world, citation) for citation in evidence) or "nothing"
    return f"the evidence should have cited {_listed(lacking)}, cited {is_now}"


@missed_goal.register
def _(goal: CitesNothingFalse, world: World) -> str:
    evidence = world.get(Ticket, goal.ticket_id).evidence
    if len(evidence) > goal.most:
        return f"the evidence should have had at most {goal.most} citations, had {len(evidence)}"
    untrue = [_citation(world, citation) for citation in evidence if not true_now(world, citation)]
    return f"everything cited should have been true, and this was not: {_listed(untrue)}"


@missed_goal.register
def _(goal: CitesNoOther, world: World) -> str:
    decisive = _listed(_fact(world, goal.ticket_id, named, field) for named, field in goal.facts)
    rivals = [_citation(world, citation) for citation in goal.rivals_cited(world)]
    return f"the evidence should have been about {decisive}, but also cited what competes with that: {_listed(rivals)}"


def _fact(world: World, ticket_id: str, named: str, field: str) -> str:
    """Return a decisive fact in words, with the placeholders of records that do not exist at the start."""
    if named.startswith(SIGNED_REQUEST):
        signed = records_named(world, ticket_id, named)
        form = in_words(named[len(SIGNED_REQUEST) + 1 :])
        return f"{signed[0] if signed else f'the signed {form} request'.replace('  ', ' ')}'s {in_words(field)}"
    if named.startswith(ANSWER):
        return f"the answer of {named[len(ANSWER) :]} ({in_words(field)})"
    return f"{named}'s {in_words(field)}"


def _citation(world: World, citation: Citation) -> str:
    cited = f"{citation.record}'s {in_words(citation.field)} {_shown(citation.value)}"
    return f"{cited}{_if_copy(world, citation.record)}"


def _if_copy(world: World, record_id: object) -> str:
    """Return a remark if a register entry is a copy: the entry that it copies counts."""
    entry = world.peek(Entry, str(record_id))
    original = entry.details.get("copy_of") if entry else None
    return f" ({record_id} is a copy of {original})" if original else ""


def _form(form: str, says: Iterable[tuple[str, Any]]) -> str:
    return f"{in_words(form)} request{_fields(says)}"


def _fields(says: Iterable[tuple[str, Any]]) -> str:
    fields = [f"{in_words(field)} {_shown(value)}" for field, value in says]
    return f" ({', '.join(fields)})" if fields else ""


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _shown(value: object) -> str:
    return "empty" if value in (None, "") else str(value)
