"""Harmless variants: extra reads, other habits, true but unrelated citations, and mistakes that were undone."""

from companyos.agents.variants.closing import CITABLE, READ_BY, ClosingContext, Shown, Variation, cite_more, read, write
from companyos.agents.variants.wrong import OUTCOME_FIELDS, pending_request
from companyos.company import Metric, Person, Policy, Ticket
from companyos.core.calls import Call
from companyos.core.world import Record
from companyos.families.kit import moves


def _extra_reads(context: ClosingContext) -> moves.Move[Call | None]:
    for kind in READ_BY:
        records = context.others(kind)
        if records:
            yield from read(context.draw.pick(records))
    yield from moves.read("ticketdesk.get_history", ticket_id=context.ticket.id)
    yield from moves.read("ticketdesk.my_changes")
    return context.closing


def _comments(context: ClosingContext) -> moves.Move[Call | None]:
    yield from moves.read("ticketdesk.comment", ticket_id=context.ticket.id, text="Closing this one now.")
    return context.closing


def _refreshes(context: ClosingContext) -> moves.Move[Call | None]:
    metric = context.draw.pick(context.others(Metric))
    yield from moves.read("datahub.refresh_data", metric_name=metric.id)
    return context.closing


def _takes_up(context: ClosingContext) -> moves.Move[Call | None]:
    yield from write(context, "status", context.draw.pick(("open", "in_progress")))
    return context.closing


# -- evidence --------------------------------------------------------------------------------------------------------------


def _reordered(context: ClosingContext) -> moves.Move[Call | None]:
    yield from ()  # makes this a generator, which a program must be, although it makes no call
    return context.closed_with(evidence=context.draw.shuffled(context.cited))


def _cited_twice(context: ClosingContext) -> moves.Move[Call | None]:
    yield from ()
    return context.closed_with(evidence=[*context.cited, context.draw.pick(context.cited)])


def _numbers_as_text(context: ClosingContext) -> moves.Move[Call | None]:
    yield from ()
    as_text = [
        citation | {"value": str(citation["value"])} if type(citation["value"]) is int else citation
        for citation in context.cited
    ]
    return context.closed_with(evidence=as_text)


def _with_a_note(context: ClosingContext) -> moves.Move[Call | None]:
    yield from ()
    return context.closed_with(note="Checked against the policies.")


def _own_ticket_cited(context: ClosingContext) -> moves.Move[Call | None]:
    """Cites fields of the ticket itself, also those that the evidence needs from another record."""
    fields = ["reference", "status", *sorted({field for _, field in context.facts} - {"reference", "status"})]
    return (yield from cite_more(context, [context.ticket], lambda _: fields))


def _unrelated(context: ClosingContext) -> moves.Move[Call | None]:
    """Cites up to four true facts that nobody could take for a decisive one."""
    citations: list[Shown] = []
    for kind in context.draw.shuffled(list(READ_BY)):
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

    Its field is not a field of the evidence, it is not a term of a cited policy, and the family does not forbid citing it.
    """
    if (
        field in {cited for _, cited in context.facts} | _CHANGING_FIELDS
        or (record.id, field) in context.named_must_not_cite
    ):
        return False
    titles = {policy.title for policy, cited in context.decisive(Policy) if cited in policy.terms}
    return not (isinstance(record, Policy) and record.title in titles and field in record.terms)


_CHANGING_FIELDS = {"presence", "age_days", "measured_at", "pipeline", "value"}  # may change within minutes


# -- writes ----------------------------------------------------------------------------------------------------------------


def _outcome_put_back(context: ClosingContext) -> moves.Move[Call | None]:
    empty = [field for field in OUTCOME_FIELDS if getattr(context.ticket, field) is None]
    if not empty:
        return None
    field = context.draw.pick(empty)
    yield from write(context, field, context.draw.pick(context.others(OUTCOME_FIELDS[field])).id)
    yield from write(context, field, "")
    return context.closing


def _cost_center_put_back(context: ClosingContext) -> moves.Move[Call | None]:
    before = context.ticket.cost_center or ""
    yield from write(context, "cost_center", context.draw.pick(context.other_cost_centers()))
    yield from write(context, "cost_center", before)
    return context.closing


def _own_cost_center(context: ClosingContext) -> moves.Move[Call | None]:
    if context.ticket.cost_center is not None:
        return None
    requester = yield from read(context.world.get(Person, context.ticket.requester))
    yield from write(context, "cost_center", requester["cost_center"])
    return context.closing


def _another_priority(context: ClosingContext) -> moves.Move[Call | None]:
    """Sets another priority where the ticket had none and nobody else has set one."""
    if context.env.setting.world.get(Ticket, context.ticket.id).priority is not None:
        return None
    if any(change.after.id == context.ticket.id and change.actor != context.actor for change in context.world.journal):
        return None
    yield from write(context, "priority", context.draw.pick(("low", "normal", "high")))
    return context.closing


def _request_withdrawn(context: ClosingContext) -> moves.Move[Call | None]:
    closing = yield from pending_request(context)
    if closing is not None:
        for row in (yield from moves.rows("approvalflow.list_approvals", status="pending")):
            yield from moves.ask("approvalflow.withdraw", approval_id=row["id"])
    return closing


HARMLESS: dict[str, Variation] = {
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
