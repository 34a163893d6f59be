"""Harmless variants: more reading, other habits, true and unrelated facts, and mistakes that were put back."""

from companyos.agents.variants.desk import CITABLE, READ_BY, Desk, Shown, Variation, cite_more, read, write
from companyos.agents.variants.wrong import OUTCOME_FIELDS, pending_request
from companyos.company import Metric, Person, Policy, Ticket
from companyos.core.calls import Call
from companyos.core.world import Record
from companyos.families.kit import moves


def _extra_reads(desk: Desk) -> moves.Move[Call | None]:
    for kind in READ_BY:
        records = desk.others(kind)
        if records:
            yield from read(desk.draw.pick(records))
    yield from moves.read("ticketdesk.get_history", ticket_id=desk.ticket.id)
    yield from moves.read("ticketdesk.my_changes")
    return desk.closing


def _comments(desk: Desk) -> moves.Move[Call | None]:
    yield from moves.read("ticketdesk.comment", ticket_id=desk.ticket.id, text="Closing this one now.")
    return desk.closing


def _refreshes(desk: Desk) -> moves.Move[Call | None]:
    metric = desk.draw.pick(desk.others(Metric))
    yield from moves.read("datahub.refresh_data", metric_name=metric.id)
    return desk.closing


def _takes_up(desk: Desk) -> moves.Move[Call | None]:
    yield from write(desk, "status", desk.draw.pick(("open", "in_progress")))
    return desk.closing


# -- evidence --------------------------------------------------------------------------------------------------------------


def _reordered(desk: Desk) -> moves.Move[Call | None]:
    yield from ()
    return desk.closed_with(evidence=desk.draw.shuffled(desk.cited))


def _cited_twice(desk: Desk) -> moves.Move[Call | None]:
    yield from ()
    return desk.closed_with(evidence=[*desk.cited, desk.draw.pick(desk.cited)])


def _as_text(desk: Desk) -> moves.Move[Call | None]:
    yield from ()
    cited = [one | {"value": str(one["value"])} if type(one["value"]) is int else one for one in desk.cited]
    return desk.closed_with(evidence=cited)


def _with_a_note(desk: Desk) -> moves.Move[Call | None]:
    yield from ()
    return desk.closed_with(note="Checked against the policies.")


def _own_ticket_cited(desk: Desk) -> moves.Move[Call | None]:
    """Cites fields of the ticket itself, those among them that the evidence needs of another record."""
    fields = ["reference", "status", *sorted({field for _, field in desk.facts} - {"reference", "status"})]
    return (yield from cite_more(desk, [desk.ticket], lambda _: fields))


def _unrelated(desk: Desk) -> moves.Move[Call | None]:
    """Cites up to four true facts between which nobody had to choose."""
    more: list[Shown] = []
    for kind in desk.draw.shuffled(list(READ_BY)):
        records = list(desk.world.all(kind))
        if records and len(more) < 4:
            record = desk.draw.pick(records)
            shown = yield from read(record)
            fields = [field for field, value in shown.items() if isinstance(value, CITABLE)]
            more += moves.cite((shown, desk.draw.pick([field for field in fields if _is_unrelated(desk, record, field)])))
    return desk.closed_with(evidence=[*desk.cited, *more])


def _is_unrelated(desk: Desk, record: Record, field: str) -> bool:
    """Whether the evidence has no such field, no cited policy has such a term, and the family does not name it a rival."""
    if field in {named for _, named in desk.facts} | _CHANGING or (record.id, field) in desk.named_rivals:
        return False
    titles = {policy.title for policy, named in desk.decisive(Policy) if named in policy.terms}
    return not (isinstance(record, Policy) and record.title in titles and field in record.terms)


_CHANGING = {"presence", "age_days", "measured_at", "pipeline", "value"}  # may be different a few minutes later


# -- writes ----------------------------------------------------------------------------------------------------------------


def _outcome_put_back(desk: Desk) -> moves.Move[Call | None]:
    empty = [field for field in OUTCOME_FIELDS if getattr(desk.ticket, field) is None]
    if not empty:
        return None
    field = desk.draw.pick(empty)
    yield from write(desk, field, desk.draw.pick(desk.others(OUTCOME_FIELDS[field])).id)
    yield from write(desk, field, "")
    return desk.closing


def _cost_center_put_back(desk: Desk) -> moves.Move[Call | None]:
    before = desk.ticket.cost_center or ""
    yield from write(desk, "cost_center", desk.draw.pick(desk.other_cost_centers()))
    yield from write(desk, "cost_center", before)
    return desk.closing


def _own_cost_center(desk: Desk) -> moves.Move[Call | None]:
    if desk.ticket.cost_center is not None:
        return None
    requester = yield from read(desk.world.get(Person, desk.ticket.requester))
    yield from write(desk, "cost_center", requester["cost_center"])
    return desk.closing


def _another_priority(desk: Desk) -> moves.Move[Call | None]:
    """Sets another priority where the ticket had none and nobody else has set one."""
    if desk.env.setting.world.get(Ticket, desk.ticket.id).priority is not None:
        return None
    if any(change.after.id == desk.ticket.id and change.actor != desk.actor for change in desk.world.journal):
        return None
    yield from write(desk, "priority", desk.draw.pick(("low", "normal", "high")))
    return desk.closing


def _request_withdrawn(desk: Desk) -> moves.Move[Call | None]:
    closing = yield from pending_request(desk)
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
    "cites numbers as text": _as_text,
    "adds a note": _with_a_note,
    "cites the ticket itself": _own_ticket_cited,
    "cites unrelated facts": _unrelated,
    "fills an outcome field and clears it again": _outcome_put_back,
    "puts a wrong cost centre back": _cost_center_put_back,
    "fills an empty cost centre with the requester's": _own_cost_center,
    "sets another priority where there was none": _another_priority,
    "withdraws a needless request": _request_withdrawn,
}
