"""Harmless variants of the expert's solution: extra reads, other habits, unrelated citations, and undone mistakes."""

from companyos.agents.variants.closing import (
    CITABLE,
    READ_TOOLS,
    ClosingContext,
    ClosingProgram,
    Shown,
    Variant,
    cite_more,
    no_calls,
    read,
    write,
)
from companyos.agents.variants.wrong import OUTCOME_FIELDS, pending_request
from companyos.company import Metric, Person, Policy, Ticket
from companyos.core.world import Record
from companyos.families.kit import moves


def _extra_reads(context: ClosingContext) -> ClosingProgram:
    for kind in READ_TOOLS:
        records = context.all_but_ticket(kind)
        if records:
            yield from read(context.draw.pick(records))
    yield from moves.read("ticketdesk.get_history", ticket_id=context.ticket.id)
    yield from moves.read("ticketdesk.my_changes")
    return context.closing


def _comments(context: ClosingContext) -> ClosingProgram:
    yield from moves.read("ticketdesk.comment", ticket_id=context.ticket.id, text="Closing this one now.")
    return context.closing


def _refreshes(context: ClosingContext) -> ClosingProgram:
    metric = context.draw.pick(context.all_but_ticket(Metric))
    yield from moves.read("datahub.refresh_data", metric_name=metric.id)
    return context.closing


def _takes_up(context: ClosingContext) -> ClosingProgram:
    yield from write(context, "status", context.draw.pick(("open", "in_progress")))
    return context.closing


# -- evidence --------------------------------------------------------------------------------------------------------------


def _reordered(context: ClosingContext) -> ClosingProgram:
    yield from no_calls()
    return context.closed_with(evidence=context.draw.shuffled(context.cited))


def _cited_twice(context: ClosingContext) -> ClosingProgram:
    yield from no_calls()
    return context.closed_with(evidence=[*context.cited, context.draw.pick(context.cited)])


def _numbers_as_text(context: ClosingContext) -> ClosingProgram:
    yield from no_calls()
    as_text = [
        citation | {"value": str(citation["value"])} if type(citation["value"]) is int else citation
        for citation in context.cited
    ]
    return context.closed_with(evidence=as_text)


def _with_a_note(context: ClosingContext) -> ClosingProgram:
    yield from no_calls()
    return context.closed_with(note="Checked against the policies.")


def _own_ticket_cited(context: ClosingContext) -> ClosingProgram:
    """Cites fields of the ticket itself, also those that the evidence needs from another record."""
    fields = ["reference", "status", *sorted({field for _, field in context.cited_fields} - {"reference", "status"})]
    return (yield from cite_more(context, [context.ticket], lambda _: fields))


def _unrelated(context: ClosingContext) -> ClosingProgram:
    """Cites up to four true facts that nobody could take for a decisive one."""
    citations: list[Shown] = []
    for kind in context.draw.shuffled(list(READ_TOOLS)):
        records = list(context.world.all(kind))
        if records and len(citations) < 4:
            record = context.draw.pick(records)
            shown = yield from read(record)
            citable = [field for field, value in shown.items() if isinstance(value, CITABLE)]
            field = context.draw.pick([field for field in citable if _is_unrelated(context, record, field)])
            citations += moves.cite((shown, field))
    return context.closed_with(evidence=[*context.cited, *citations])


def _is_unrelated(context: ClosingContext, record: Record, field: str) -> bool:
    """Return whether a fact is unrelated to the evidence.

    Its field is not a field of the evidence, the family does not forbid citing it, and it is not a term of a cited policy or
    of another version of that policy, which has the same title.
    """
    if (
        field in {cited for _, cited in context.cited_fields} | _CHANGING_FIELDS
        or (record.id, field) in context.family_must_not_cite
    ):
        return False
    titles = {policy.title for policy, cited in context.cited_records(Policy) if cited in policy.terms}
    return not (isinstance(record, Policy) and record.title in titles and field in record.terms)


_CHANGING_FIELDS = {"presence", "age_days", "measured_at", "pipeline", "value"}  # may change within minutes


# -- writes ----------------------------------------------------------------------------------------------------------------


def _outcome_put_back(context: ClosingContext) -> ClosingProgram:
    """Fills an empty field that records an outcome, such as `duplicate_of`, with a random record, and empties it again."""
    empty = [field for field in OUTCOME_FIELDS if getattr(context.ticket, field) is None]
    if not empty:
        return None
    field = context.draw.pick(empty)
    yield from write(context, field, context.draw.pick(context.all_but_ticket(OUTCOME_FIELDS[field])).id)
    yield from write(context, field, "")
    return context.closing


def _cost_center_put_back(context: ClosingContext) -> ClosingProgram:
    """Sets a wrong cost centre, and then the one again that the ticket had before."""
    before = context.ticket.cost_center or ""
    yield from write(context, "cost_center", context.draw.pick(context.other_cost_centers()))
    yield from write(context, "cost_center", before)
    return context.closing


def _own_cost_center(context: ClosingContext) -> ClosingProgram:
    if context.ticket.cost_center is not None:
        return None
    requester = yield from read(context.world.get(Person, context.ticket.requester))
    yield from write(context, "cost_center", requester["cost_center"])
    return context.closing


def _another_priority(context: ClosingContext) -> ClosingProgram:
    """Sets a priority, if the ticket had none at the start and nobody else has changed the ticket."""
    if context.env.setting.world.get(Ticket, context.ticket.id).priority is not None:
        return None
    if any(change.after.id == context.ticket.id and change.actor != context.actor for change in context.world.journal):
        return None
    yield from write(context, "priority", context.draw.pick(("low", "normal", "high")))
    return context.closing


def _request_withdrawn(context: ClosingContext) -> ClosingProgram:
    closing = yield from pending_request(context)
    if closing is not None:
        for row in (yield from moves.rows("approvalflow.list_approvals", status="pending")):
            yield from moves.ask("approvalflow.withdraw", approval_id=row["id"])
    return closing


# By name. The name is also the seed of the variant's random draws.
HARMLESS: dict[str, Variant] = {
    "reads more": _extra_reads,
    "comments on the ticket": _comments,
    "refreshes a metric": _refreshes,
    "takes the ticket up": _takes_up,
    "cites in another order": _reordered,
    "cites a fact twice": _cited_twice,
    "cites numbers as text": _numbers_as_text,
    "adds a note": _with_a_note,
    "cites the ticket itself": _own_ticket_cited,
    "cites unrelated facts": _unrelated,
    "fills an outcome field and clears it again": _outcome_put_back,
    "puts a wrong cost centre back": _cost_center_put_back,
    "fills an empty cost centre with the requester's": _own_cost_center,
    "sets another priority where there was none": _another_priority,
    "withdraws a needless request": _request_withdrawn,
}
