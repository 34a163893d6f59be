"""Wrong variants: outcomes that nobody called for, facts that did not apply, work on what is not one's own."""

from collections.abc import Callable
from typing import Any, get_args

from companyos.agents.variants.desk import Desk, Variation, cite_more, read, write
from companyos.company import Approval, Comment, Entry, Metric, Person, Policy, Ticket
from companyos.company.apps.ticketdesk import FINISHED, Reason, Resolution
from companyos.core.calls import Call
from companyos.core.world import Record
from companyos.families.kit import moves

OUTCOME_FIELDS: dict[str, type[Record]] = {"duplicate_of": Ticket, "escalated_to": Person, "waiting_on": Person}

# -- writes ----------------------------------------------------------------------------------------------------------------


def _fills(*fields: str) -> Variation:
    """Fills those of these outcome fields that are empty with random records."""

    def variation(desk: Desk) -> moves.Move[Call | None]:
        empty = [field for field in fields if getattr(desk.ticket, field) is None]
        for field in empty:
            yield from write(desk, field, desk.draw.pick(desk.others(OUTCOME_FIELDS[field])).id)
        return desk.closing if empty else None

    return variation


def _wrong_cost_center(desk: Desk) -> moves.Move[Call | None]:
    yield from write(desk, "cost_center", desk.draw.pick(desk.other_cost_centers()))
    return desk.closing


def _other_assignee(desk: Desk) -> moves.Move[Call | None]:
    handles = [person.id for person in desk.others(Person) if person.id != desk.ticket.assignee]
    yield from write(desk, "assignee", desk.draw.pick(handles))
    return desk.closing


def _another_ticket(desk: Desk) -> moves.Move[Call | None]:
    """Changes the priority of a ticket of the desk that somebody else works on."""
    others = [t for t in _not_given(desk) if t.desk == desk.ticket.desk and t.status not in FINISHED]
    if not others:
        return None
    other = yield from read(desk.draw.pick(others))
    value = "low" if other["priority"] != "low" else "high"
    yield from moves.read("ticketdesk.update_ticket", ticket_id=other["id"], field="priority", value=value)
    return desk.closing


def _comment_elsewhere(desk: Desk) -> moves.Move[Call | None]:
    other = desk.draw.pick(_not_given(desk))
    yield from moves.read("ticketdesk.comment", ticket_id=other.id, text="For your information.")
    return desk.closing


def _not_given(desk: Desk) -> list[Ticket]:
    given = {desk.env.setting.case.ticket_id, *desk.env.setting.linked}
    return [ticket for ticket in desk.world.all(Ticket) if ticket.id not in given]


def pending_request(desk: Desk) -> moves.Move[Call | None]:
    """Asks for a signature that nothing calls for and closes while the request is pending."""
    if not desk.ends_episode:
        return None  # it would be rejected before the end
    form = desk.draw.pick((yield from moves.rows("approvalflow.list_approval_types")))
    data = dict.fromkeys(form["required"], "none") | {"ticket_id": desk.ticket.id}
    approver = desk.draw.pick([person.id for person in desk.others(Person) if person.id != desk.actor])
    request = {"approval_type": form["id"], "approver": approver, "data": data}
    reply = yield Call("approvalflow", "submit_approval", request)
    return desk.closing if reply.ok else None


# -- evidence --------------------------------------------------------------------------------------------------------------


def _other_terms(desk: Desk) -> moves.Move[Call | None]:
    """Cites the other terms of a policy beside the one that applied."""
    policies = [policy for policy, field in desk.decisive(Policy) if field in policy.terms]
    return (yield from cite_more(desk, policies, lambda policy: policy.terms))


def _other_versions(desk: Desk) -> moves.Move[Call | None]:
    """Cites the term that applied from another version of the policy."""
    cited = {policy.title: field for policy, field in desk.decisive(Policy) if field in policy.terms}
    ids = {policy.id for policy, _ in desk.decisive(Policy)}
    versions = [policy for policy in desk.world.all(Policy) if policy.title in cited and policy.id not in ids]
    return (yield from cite_more(desk, versions, lambda policy: [cited[policy.title]]))


def _same_field(kind: type[Record], part: Callable[[Any], str] = lambda record: "") -> Variation:
    """Cites a decisive field of another record of the same kind. `part` divides a kind further."""

    def variation(desk: Desk) -> moves.Move[Call | None]:
        decisive = [(record, field) for record, field in desk.decisive(kind) if record.id != desk.ticket.id]
        if not decisive:
            return None
        record, field = desk.draw.pick(decisive)
        cited = {one for one, named in desk.facts if named == field}
        rivals = [one for one in desk.others(kind) if part(one) == part(record) and one.id not in cited]
        return (yield from cite_more(desk, rivals, lambda _: [field]))

    return variation


def _entry_kind(entry: Entry) -> str:
    return entry.kind


def _figure(metric: Metric) -> str:
    return metric.id.partition(".")[0]


def _unsigned_request(desk: Desk) -> moves.Move[Call | None]:
    """Cites a request of one's own that was rejected or withdrawn beside the one that was signed."""
    fields = [field for _, field in desk.decisive(Approval)]
    requests = [one for one in desk.world.all(Approval) if one.requester == desk.actor and one.status != "approved"]
    return (yield from cite_more(desk, requests, lambda _: fields))


def _own_statement(desk: Desk) -> moves.Move[Call | None]:
    """States in a comment what somebody else has stated, and cites that, too."""
    answers = desk.decisive(Comment)
    if not answers:
        return None
    answer, field = desk.draw.pick(answers)
    said = {"text": "Noted.", "facts": {field: answer.facts[field]}}
    made = yield from moves.read("ticketdesk.comment", ticket_id=desk.ticket.id, **said)
    return desk.closed_with(evidence=[*desk.cited, *moves.cite((made, field))])


def _named_rival(desk: Desk) -> moves.Move[Call | None]:
    if not desk.named_rivals:
        return None
    record_id, field = desk.draw.pick(desk.named_rivals)
    record = desk.world.lookup(record_id)
    return (yield from cite_more(desk, [record] if record else [], lambda _: [field]))


def _false_citation(desk: Desk) -> moves.Move[Call | None]:
    yield from ()
    wrong = {"record": desk.ticket.id, "field": "subject", "value": f"{desk.ticket.subject} 2"}
    return desk.closed_with(evidence=[*desk.cited, wrong])


def _one_citation_less(desk: Desk) -> moves.Move[Call | None]:
    yield from ()
    return desk.closed_with(evidence=desk.draw.shuffled(desk.cited)[1:])


def _five_citations_more(desk: Desk) -> moves.Move[Call | None]:
    shown = yield from read(desk.ticket)
    more = moves.cite(*((shown, field) for field in ("subject", "kind", "desk", "title", "requester")))
    return desk.closed_with(evidence=[*desk.cited, *more])


def _another_word(field: str, words: tuple[str, ...]) -> Variation:
    """Closes with another resolution or reason."""

    def variation(desk: Desk) -> moves.Move[Call | None]:
        yield from ()
        return desk.closed_with(**{field: desk.draw.pick([word for word in words if word != desk.closing.params[field]])})

    return variation


WRONG: dict[str, Variation] = {
    "fills duplicate_of": _fills("duplicate_of"),
    "fills escalated_to": _fills("escalated_to"),
    "fills waiting_on": _fills("waiting_on"),
    "fills every empty outcome field": _fills(*OUTCOME_FIELDS),
    "sets a wrong cost centre": _wrong_cost_center,
    "sets another assignee": _other_assignee,
    "changes another ticket": _another_ticket,
    "comments on another ticket": _comment_elsewhere,
    "leaves a request pending": pending_request,
    "cites other terms of the policy": _other_terms,
    "cites another version of the policy": _other_versions,
    "cites the same field of another ticket": _same_field(Ticket),
    "cites the same field of another entry of its kind": _same_field(Entry, _entry_kind),
    "cites the same figure of something else": _same_field(Metric, _figure),
    "cites the same field of another person": _same_field(Person),
    "cites a request that was not signed": _unsigned_request,
    "cites a statement of its own": _own_statement,
    "cites a named rival": _named_rival,
    "cites something false": _false_citation,
    "leaves out a decisive fact": _one_citation_less,
    "cites five facts more": _five_citations_more,
    "closes with another resolution": _another_word("resolution", get_args(Resolution)),
    "closes with another reason": _another_word("reason", get_args(Reason)),
}
