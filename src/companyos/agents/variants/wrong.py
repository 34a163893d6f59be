"""Wrong variants: needless outcomes, citations of facts that did not apply, and changes to other people's records."""

from collections.abc import Callable
from typing import Any, get_args

from companyos.agents.variants.closing import ClosingContext, ClosingProgram, Variant, cite_more, no_calls, read, write
from companyos.company import Approval, Comment, Entry, Metric, Person, Policy, Ticket
from companyos.company.apps.ticketdesk import FINISHED, Reason, Resolution
from companyos.core.calls import Call
from companyos.core.world import Record
from companyos.families.kit import moves

# The fields of a ticket that record its outcome by naming another record, with the type of that record.
OUTCOME_FIELDS: dict[str, type[Record]] = {"duplicate_of": Ticket, "escalated_to": Person, "waiting_on": Person}

# -- writes ----------------------------------------------------------------------------------------------------------------


def _fills(*fields: str) -> Variant:
    """Fills those of these fields that are empty with random records."""

    def variant(context: ClosingContext) -> ClosingProgram:
        empty = [field for field in fields if getattr(context.ticket, field) is None]
        for field in empty:
            yield from write(context, field, context.draw.pick(context.all_but_ticket(OUTCOME_FIELDS[field])).id)
        return context.closing if empty else None

    return variant


def _wrong_cost_center(context: ClosingContext) -> ClosingProgram:
    yield from write(context, "cost_center", context.draw.pick(context.other_cost_centers()))
    return context.closing


def _other_assignee(context: ClosingContext) -> ClosingProgram:
    others = [person.id for person in context.all_but_ticket(Person) if person.id != context.ticket.assignee]
    yield from write(context, "assignee", context.draw.pick(others))
    return context.closing


def _another_ticket(context: ClosingContext) -> ClosingProgram:
    """Changes the priority of an open ticket of the same desk that is not part of the task."""
    desk = context.ticket.desk
    others = [ticket for ticket in _foreign_tickets(context) if ticket.desk == desk and ticket.status not in FINISHED]
    if not others:
        return None
    other = yield from read(context.draw.pick(others))
    value = "low" if other["priority"] != "low" else "high"
    yield from moves.read("ticketdesk.update_ticket", ticket_id=other["id"], field="priority", value=value)
    return context.closing


def _comment_elsewhere(context: ClosingContext) -> ClosingProgram:
    other = context.draw.pick(_foreign_tickets(context))
    yield from moves.read("ticketdesk.comment", ticket_id=other.id, text="For your information.")
    return context.closing


def _foreign_tickets(context: ClosingContext) -> list[Ticket]:
    """Return the tickets that are not part of the task."""
    own = {context.env.setting.case.ticket_id, *context.env.setting.linked}
    return [ticket for ticket in context.world.all(Ticket) if ticket.id not in own]


def pending_request(context: ClosingContext) -> ClosingProgram:
    """Requests a signature that is not needed, and closes the ticket while the request is pending."""
    if not context.ends_episode:
        return None  # it would be rejected before the end
    form = context.draw.pick((yield from moves.rows("approvalflow.list_approval_types")))
    data = dict.fromkeys(form["required"], "none") | {"ticket_id": context.ticket.id}
    approver = context.draw.pick([person.id for person in context.all_but_ticket(Person) if person.id != context.actor])
    request = {"approval_type": form["id"], "approver": approver, "data": data}
    reply = yield Call("approvalflow", "submit_approval", request)
    return context.closing if reply.ok else None


# -- evidence --------------------------------------------------------------------------------------------------------------


def _other_terms(context: ClosingContext) -> ClosingProgram:
    """Cites other terms of a policy besides the one that applied."""
    policies = [policy for policy, field in context.cited_records(Policy) if field in policy.terms]
    return (yield from cite_more(context, policies, lambda policy: policy.terms))


def _other_versions(context: ClosingContext) -> ClosingProgram:
    """Cites the same term of another version of the policy."""
    cited = {policy.title: field for policy, field in context.cited_records(Policy) if field in policy.terms}
    ids = {policy.id for policy, _ in context.cited_records(Policy)}
    versions = [policy for policy in context.world.all(Policy) if policy.title in cited and policy.id not in ids]
    return (yield from cite_more(context, versions, lambda policy: [cited[policy.title]]))


def _same_field(kind: type[Record], class_of: Callable[[Any], str] = lambda record: "") -> Variant:
    """Cites a decisive field of another record of the same kind and class. `class_of` splits a kind into classes."""

    def variant(context: ClosingContext) -> ClosingProgram:
        decisive = [(record, field) for record, field in context.cited_records(kind) if record.id != context.ticket.id]
        if not decisive:
            return None
        record, field = context.draw.pick(decisive)
        cited = {record_id for record_id, cited_field in context.cited_fields if cited_field == field}
        rivals = [
            rival for rival in context.all_but_ticket(kind) if class_of(rival) == class_of(record) and rival.id not in cited
        ]
        return (yield from cite_more(context, rivals, lambda _: [field]))

    return variant


def _entry_kind(entry: Entry) -> str:
    return entry.kind


def _metric_name(metric: Metric) -> str:
    """Return `compliance_score` for the metric `compliance_score.acme`."""
    return metric.id.partition(".")[0]


def _unsigned_request(context: ClosingContext) -> ClosingProgram:
    """Cites the agent's own rejected or withdrawn request besides the signed one."""
    fields = [field for _, field in context.cited_records(Approval)]
    requests = [
        request
        for request in context.world.all(Approval)
        if request.requester == context.actor and request.status != "approved"
    ]
    return (yield from cite_more(context, requests, lambda _: fields))


def _own_statement(context: ClosingContext) -> ClosingProgram:
    """Repeats a statement of somebody else in a comment, and cites the comment, too."""
    answers = context.cited_records(Comment)
    if not answers:
        return None
    answer, field = context.draw.pick(answers)
    statement = {"text": "Noted.", "facts": {field: answer.facts[field]}}
    comment = yield from moves.read("ticketdesk.comment", ticket_id=context.ticket.id, **statement)
    return context.closed_with(evidence=[*context.cited, *moves.cite((comment, field))])


def _named_rival(context: ClosingContext) -> ClosingProgram:
    """Cites a fact that the family declares as `must_not_cite` for this ending."""
    if not context.family_must_not_cite:
        return None
    record_id, field = context.draw.pick(context.family_must_not_cite)
    record = context.world.lookup(record_id)
    return (yield from cite_more(context, [record] if record else [], lambda _: [field]))


def _false_citation(context: ClosingContext) -> ClosingProgram:
    yield from no_calls()
    wrong = {"record": context.ticket.id, "field": "subject", "value": f"{context.ticket.subject} 2"}
    return context.closed_with(evidence=[*context.cited, wrong])


def _one_citation_less(context: ClosingContext) -> ClosingProgram:
    yield from no_calls()
    return context.closed_with(evidence=context.draw.shuffled(context.cited)[1:])


def _five_citations_more(context: ClosingContext) -> ClosingProgram:
    shown = yield from read(context.ticket)
    citations = moves.cite(*((shown, field) for field in ("subject", "kind", "desk", "title", "requester")))
    return context.closed_with(evidence=[*context.cited, *citations])


def _another_word(field: str, words: tuple[str, ...]) -> Variant:
    """Closes with another resolution or reason."""

    def variant(context: ClosingContext) -> ClosingProgram:
        yield from no_calls()
        others = [word for word in words if word != context.closing.params[field]]
        return context.closed_with(**{field: context.draw.pick(others)})

    return variant


# By name. The name is also the seed of the variant's random draws.
WRONG: dict[str, Variant] = {
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
    "cites the same figure of something else": _same_field(Metric, _metric_name),
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
