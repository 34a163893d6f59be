"""Vendor onboarding: may this firm become a supplier, and who signs for it?

Particular about reasoning here: the checks stand in an order of precedence, each on another system, and the first that
applies decides. The figure that most often decides may be out of date, and its limit depends on what the vendor handles.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from companyos.apps import ApprovalType, Entry, Metric, Person, Source, Ticket
from companyos.calls import Program
from companyos.errors import Stuck
from companyos.families import moves
from companyos.families.backdrop import DEPARTMENTS, Backdrop, Firm, add_policy, furnish, one_line, vendor_entry
from companyos.families.family import Case, Ending, Fact, Family, Memory, Taste, Trouble
from companyos.families.goals import (
    SIGNED_REQUEST,
    Cites,
    CitesNothingFalse,
    Ended,
    Fresh,
    Goal,
    Milestone,
    ReadFresh,
    Requested,
    SignedFor,
    TicketHas,
    TicketIs,
)
from companyos.world import DAY, Streams, World, stamp

FORM = "vendor_onboarding"

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(Struct, frozen=True):
    """What is true of this vendor and this morning, and cannot be seen from the brief."""

    duplicate: Annotated[bool, Fact((0.86, 0.14), (("Ticket", "earlier", "reference"),))]
    conflict: Annotated[bool, Fact((0.85, 0.15), (("Entry", "entry", "owner"),))]
    insurance: Annotated[Literal["valid", "expired"], Fact((0.83, 0.17), (("Entry", "entry", "insurance_until"),))]
    personal_data: Annotated[bool, Fact((0.5, 0.5), (("Entry", "entry", "data_class"),))]
    score: Annotated[
        Literal["low", "middle", "high"],
        Fact((0.2, 0.3, 0.5), (("Source", "score", "value"), ("Metric", "score", "value"))),
    ]
    amount: Annotated[Literal["small", "large", "huge"], Fact((0.4, 0.4, 0.2), (("Ticket", "ticket", "amount"),))]
    lookalike: Annotated[bool, Trouble("lookalikes", ("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble("outdated_fields", ("ticket",))]
    cost_center_missing: Annotated[bool, Trouble("missing_fields", ("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble("missing_fields", ("ticket", "=priority"))]
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble("blocked", ("ticket", "blocker"))]
    score_stale: Annotated[bool, Trouble("stale", ("score",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble("refresh", ("score",))]
    head_away: Annotated[bool, Trouble("absence", ("head",))]
    head_deputy_away: Annotated[bool, Trouble("absence", ("head_deputy",))]
    cfo_away: Annotated[bool, Trouble("absence", ("cfo",))]
    controller_away: Annotated[bool, Trouble("absence", ("controller",))]
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble("rejections", ("head", "head_deputy", "head_third", "cfo", "controller", "treasurer")),
    ]
    contract_required: Annotated[bool, Trouble("required_fields", ("form", "=contract"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(streams: Streams, split: str, causes: Causes) -> tuple[World, Case]:
    """Furnishes the company and puts the case on the vendor desk, as the facts have it and before any trouble."""
    company = furnish(streams, split, actor="Vendor Analyst")
    world, draw = company.world, streams.at("case")
    firm = company.firms.pop(0)
    department = draw.pick(DEPARTMENTS)
    requester = world.get(Person, company.offices[f"{department} Associate"])
    minimum = draw.pick((60, 65, 70))
    terms = {"minimum": minimum, "minimum_personal": minimum + draw.pick((10, 15)), "max_age_days": draw.between(7, 14)}
    policies = _policies(company, terms)

    entry = _entry(company, firm, requester, causes)
    _score(world, entry.details["score_metric"], terms, causes)
    head = world.get(Person, company.offices[f"Head of {department}"])
    cfo = world.get(Person, company.offices["CFO"])
    ticket = world.furnish(
        Ticket(
            id=company.ticket_ids.pop(0),
            title=f"Onboard {firm.name}",
            kind=FORM,
            desk="vendor",
            status="open",
            priority=draw.pick(("low", "normal", "high")),
            requester=requester.id,
            assignee=company.offices["Vendor Analyst"],
            subject=firm.name,
            reference=firm.reference,
            amount=_amount(world, causes, head, cfo),
            cost_center=requester.cost_center,
            opened=world.now - draw.between(60, 900),
            blocked_by=None,
            verified=None,
            approval=None,
            duplicate_of=None,
            escalated_to=None,
            waiting_on=None,
        )
    )
    earlier = replace(
        ticket,
        id=company.ticket_ids.pop(0),
        title=f"Onboard {firm.namesake}",
        subject=firm.namesake,
        reference=firm.reference if causes.duplicate else firm.namesake_reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.offices["Vendor Desk Lead"],
        amount=draw.between(8, 60) * 250,
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    world.furnish(earlier)
    other = company.firms.pop(0)
    decoy = replace(
        earlier,
        id=company.ticket_ids.pop(0),
        title=f"Onboard {other.name}",
        subject=other.name,
        reference=other.reference,
        opened=earlier.opened - 40 * DAY,
    )
    world.furnish(decoy)
    blocker = next(t for t in world.all(Ticket) if t.kind == "vendor_check")
    world.furnish(replace(blocker, status="in_progress"))
    world.furnish(_form(policies["minimum"]))
    roles = {
        "ticket": ticket.id,
        "earlier": earlier.id,
        "decoy": decoy.id,
        "blocker": blocker.id,
        "requester": requester.id,
        "entry": entry.id,
        "score": entry.details["score_metric"],
        "form": FORM,
        "policy": policies["minimum"],
        "head": head.id,
        "head_deputy": company.offices[f"Deputy Head of {department}"],
        "head_third": company.offices[f"{department} Manager"],
        "cfo": cfo.id,
        "controller": company.offices["Finance Controller"],
        "treasurer": company.offices["Treasurer"],
        "compliance": company.offices["Compliance Officer"],
    }
    lead = world.get(Person, company.offices["Vendor Desk Lead"])
    brief = one_line(draw.pick(_BRIEFS)).format(ticket=ticket.id, vendor=firm.name, lead=lead.name)
    return world, Case(ticket.id, company.offices["Vendor Analyst"], brief, roles)


_BRIEFS = (
    """Hi, you have the vendor desk today. {ticket} asks for a vendor onboarding: {vendor}. Please take it to its end the way
    our policies say, and resolve the ticket with the evidence. Thanks, {lead}""",
    """Good morning! Could you finish the vendor onboarding of {vendor} ({ticket})? Whatever the outcome is, follow the
    policies and close the ticket with the facts that decided it. {lead}""",
    """{ticket} is yours: vendor onboarding, {vendor}. I have not looked into it. Check it against our policies, do what they
    call for and resolve it, citing what it rests on. Best, {lead}""",
)


def _entry(company: Backdrop, firm: Firm, requester: Person, causes: Causes) -> Entry:
    world = company.world
    vendor_entry(company, firm.namesake, firm.namesake_reference)
    entry = vendor_entry(company, firm.name, firm.reference)
    expired = world.streams.at("insurance").between(3, 90)
    until = {"valid": entry.details["insurance_until"], "expired": stamp(world.now - expired * DAY)[:10]}
    details = entry.details | {
        "data_class": "personal" if causes.personal_data else "standard",
        "insurance_until": until[causes.insurance],
    }
    if causes.conflict:
        details["owner"] = requester.id
    return world.furnish(replace(entry, details=details))


def _score(world: World, name: str, terms: dict[str, int], causes: Causes) -> None:
    low, high = terms["minimum"], terms["minimum_personal"]
    band = {"low": (38, low - 1), "middle": (low, high - 1), "high": (high, 97)}[causes.score]
    value = world.streams.at("score", causes.score).between(*band)
    world.furnish(Source(name, value))
    world.furnish(replace(world.get(Metric, name), value=value, max_age_days=terms["max_age_days"]))


def _amount(world: World, causes: Causes, head: Person, cfo: Person) -> int:
    first, second = head.limit or 0, cfo.limit or 0
    band = {"small": (2000, first), "large": (first + 1, second), "huge": (second + 1, 2 * second)}[causes.amount]
    return world.streams.at("amount", causes.amount).between(*band)


def _form(policy_id: str) -> ApprovalType:
    return ApprovalType(
        id=FORM,
        title="Vendor onboarding",
        required=("ticket_id", "subject", "reference", "amount", "cost_center", "score"),
        optional=("certificate", "contract"),
        decided_by="see the policy on signing; values as on the ticket, in the register and in DataHub",
        offices=("Head of {department}", "CFO"),
        same_as_ticket={
            "subject": "subject",
            "reference": "reference",
            "amount": "amount",
            "cost_center": "cost_center",
        },
        same_as_entry={"certificate": "certificate", "contract": "contract"},
        measured="score",
        policy=policy_id,
        stricter_by="data_class",
    )


def _policies(company: Backdrop, terms: dict[str, int]) -> dict[str, str]:
    """The rules of this work, complete for a stranger, each in at most 80 words."""
    title, text = _SCORE_POLICY
    older = {name: value - 5 for name, value in terms.items()}
    add_policy(company, title, text.format(**older), older, superseded=True)
    minimum = add_policy(company, title, text.format(**terms), terms)
    for title, text in _POLICIES.items():
        add_policy(company, title, text)
    return {"minimum": minimum.id}


_SCORE_POLICY = (
    "Vendor onboarding: minimum score",
    """A vendor's compliance score, the metric named in its register entry, must be at least {minimum}; at least
    {minimum_personal} when the entry's data_class is personal. A measurement whose age_days is above {max_age_days} does not
    count: have it refreshed and read it again.""",
)
_POLICIES = {
    "Vendor onboarding: verification": """
        Every vendor ticket is verified before it is closed, whatever the outcome: find the register entry that carries the
        ticket's reference, not just a similar name, and set the ticket's field verified to that entry's id. A ticket needs a
        priority first; if it has none, choose any. A blocked ticket cannot be closed: clear blocked_by once the blocking
        ticket is done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Vendor onboarding: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: the register's owner is the requester, by handle: escalated, conflict_of_interest; set
        escalated_to to the Compliance Officer. 3: insurance_until lies before today: on_hold, document_expired; set
        waiting_on to the requester. 4: fresh score below the minimum: declined, below_minimum. 5: nobody may sign the
        amount: cannot_be_done, beyond_authority. 6: else get it signed, set approval: completed, all_checks_passed.""",
    "Vendor onboarding: signing": """
        A request is signed by the lowest office whose limit covers the ticket's amount: the head of the requester's
        department (Head of Marketing, Head of Operations, Head of Research), else the CFO; above that nobody. While a holder
        is away the delegate signs with the holder's authority; if both are, the delegate's delegate. On a request, and its
        ticket, the cost centre must be the requester's own. A rejection says what it wants; if that is the manager's
        decision, escalate.""",
    "Vendor onboarding: evidence": """
        Cite record, field and value as they are now. same_request: the other ticket's reference and status.
        conflict_of_interest: the entry's owner. document_expired: the entry's insurance_until. below_minimum: the metric's
        value, and the policy's minimum or minimum_personal, whichever applied. beyond_authority: the ticket's amount, and
        the limit of the person who is CFO. all_checks_passed: the approval's status and decided_by, and the metric's value.
        Up to four more citations are fine; a false one is not.""",
    "Vendor onboarding: desk rules": """
        Work only on the ticket you were given: no changes to other tickets, no comments on them. Ask for a signature only
        when the outcome needs one; withdraw what is pending and not needed. Do not replace values on your ticket unless a
        policy says so. What you changed by mistake, put back before you close (my_changes lists it). Refreshing data is
        always fine.""",
}

# -- what is right -----------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """The right ending, from the causes alone, in the order that the policy gives."""
    roles = case.roles
    ending = partial(_ending, world, case)
    earlier, entry, score = roles["earlier"], roles["entry"], roles["score"]
    if causes.duplicate:
        facts: Facts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", "desk", facts, sets=("duplicate_of", earlier))
    if causes.conflict:
        sets = ("escalated_to", roles["compliance"])
        return ending("escalated", "conflict_of_interest", "Compliance Officer", ((entry, "owner"),), sets=sets)
    if causes.insurance == "expired":
        sets = ("waiting_on", roles["requester"])
        return ending("on_hold", "document_expired", "desk", ((entry, "insurance_until"),), sets=sets)
    if causes.score == "low" or (causes.score == "middle" and causes.personal_data):
        minimum = "minimum_personal" if causes.personal_data else "minimum"
        facts = ((score, "value"), (roles["policy"], minimum))
        return ending("declined", "below_minimum", "desk", facts, measured=True)
    if causes.amount == "huge":
        facts = ((roles["ticket"], "amount"), (roles["cfo"], "limit"))
        return ending("cannot_be_done", "beyond_authority", "board", facts, measured=True)
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), (score, "value"))
    decider = "head" if causes.amount == "small" else "CFO"
    return ending("completed", "all_checks_passed", decider, facts, measured=True, signed=True)


Facts = tuple[tuple[str, str], ...]


def _ending(
    world: World,
    case: Case,
    resolution: str,
    reason: str,
    decider: str,
    facts: Facts,
    sets: tuple[str, str] | None = None,
    measured: bool = False,
    signed: bool = False,
) -> Ending:
    ticket_id, entry, score = case.ticket_id, case.roles["entry"], case.roles["score"]
    since = world.now - world.get(Metric, score).max_age_days * DAY
    verified = TicketIs(ticket_id, "verified", entry)
    goals: list[Goal] = [
        Ended(ticket_id, resolution, reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + 4),
        verified,
    ]
    milestones = [
        Milestone("priority set", 1.0, TicketHas(ticket_id, "priority")),
        Milestone("unblocked", 1.0, TicketIs(ticket_id, "blocked_by", None)),
        Milestone("verified", 1.5, verified),
    ]
    if sets:
        outcome = TicketIs(ticket_id, *sets)
        goals.append(outcome)
        milestones.append(Milestone("outcome recorded", 1.0, outcome))
    if measured:
        fresh = Fresh(score, since)
        goals.append(fresh)
        milestones.append(Milestone("data refreshed", 1.0, fresh))
        milestones.append(Milestone("fresh data read", 0.5, ReadFresh(case.actor, score, since)))
    if signed:
        goals.append(SignedFor(ticket_id, FORM))
        milestones.append(Milestone("valid request", 2.0, Requested(ticket_id, FORM)))
        milestones.append(Milestone("approved", 3.0, Requested(ticket_id, FORM, signed=True)))
    cost_center = world.get(Person, case.roles["requester"]).cost_center
    allowed = (("blocked_by", None), ("cost_center", cost_center))
    name = f"{resolution}/{reason}"
    return Ending(name, resolution, reason, decider, tuple(goals), tuple(milestones), allowed, signed)


# -- expert ------------------------------------------------------------------------------------------------------------


def expert(memory: Memory, taste: Taste) -> Program:
    """Works the ticket as the policies say, from any state."""
    ticket_id = moves.ticket_in(memory)
    approved = None
    if moves.wrote(memory):
        yield from moves.put_back(ticket_id)
        approved = yield from moves.settle_requests(ticket_id)
    ticket = yield from moves.read("ticketdesk.get_ticket", ticket_id=ticket_id)
    if taste.fancies("take it up first"):
        yield from moves.set_field(ticket_id, "status", "in_progress")
    policies = yield from moves.policies_about("vendor")
    yield from moves.read("datahub.read_policy", policy_id=policies["Vendor onboarding: order of checks"])
    query = " ".join(ticket["subject"].split()[:2]) if taste.fancies("search by name") else ticket["reference"]
    listed = yield from moves.rows("datahub.search_register", query=query)
    entry_id = next(row["id"] for row in listed if row["reference"] == ticket["reference"])
    entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    for step in taste.order("prepare", [moves.unblock(ticket), _verify(ticket, entry)]):
        yield from step
    resolution, reason, evidence = yield from _decide(ticket, entry, policies, approved, memory.now, taste)
    if taste.fancies("cite more"):
        evidence += moves.cite((ticket, "reference"), (entry, "reference"))
    closing = {"resolution": resolution, "reason": reason, "evidence": evidence}
    yield from moves.ask("ticketdesk.resolve_ticket", ticket_id=ticket_id, **closing)


Outcome = tuple[str, str, list[moves.Shown]]


def _verify(ticket: moves.Shown, entry: moves.Shown) -> moves.Move[None]:
    if ticket["priority"] is None:
        yield from moves.set_field(ticket["id"], "priority", "normal")
    if ticket["verified"] != entry["id"]:
        yield from moves.set_field(ticket["id"], "verified", entry["id"])


def _decide(
    ticket: moves.Shown, entry: moves.Shown, policies: dict[str, str], approved: str | None, now: str, taste: Taste
) -> moves.Move[Outcome]:
    """The checks in their order; the first that applies decides."""
    for other in (yield from moves.rows("ticketdesk.search_tickets", query=ticket["reference"])):
        if other["id"] != ticket["id"] and other["status"] != "cancelled":
            yield from moves.set_field(ticket["id"], "duplicate_of", other["id"])
            return "duplicate", "same_request", moves.cite((other, "reference"), (other, "status"))
    if entry["owner"] == ticket["requester"]:
        officer = yield from moves.read("datahub.get_approver", role="Compliance Officer")
        yield from moves.set_field(ticket["id"], "escalated_to", officer["id"])
        return "escalated", "conflict_of_interest", moves.cite((entry, "owner"))
    if entry["insurance_until"] < now.split()[1]:
        yield from moves.set_field(ticket["id"], "waiting_on", ticket["requester"])
        return "on_hold", "document_expired", moves.cite((entry, "insurance_until"))
    if taste.fancies("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=entry["score_metric"])
    score = yield from moves.fresh_reading(entry["score_metric"])
    rule = yield from moves.read("datahub.read_policy", policy_id=policies["Vendor onboarding: minimum score"])
    minimum = "minimum_personal" if entry["data_class"] == "personal" else "minimum"
    if score["value"] < rule[minimum]:
        return "declined", "below_minimum", moves.cite((score, "value"), (rule, minimum))
    yield from moves.read("datahub.read_policy", policy_id=policies["Vendor onboarding: signing"])
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    office = yield from moves.read("datahub.get_approver", role=f"Head of {requester['department']}")
    if office["limit"] < ticket["amount"]:
        office = yield from moves.read("datahub.get_approver", role="CFO")
    if office["limit"] < ticket["amount"]:
        return "cannot_be_done", "beyond_authority", moves.cite((ticket, "amount"), (office, "limit"))
    if ticket["cost_center"] != requester["cost_center"]:
        yield from moves.set_field(ticket["id"], "cost_center", requester["cost_center"])
    if approved is None:
        request = yield from _get_signed(ticket, entry, score, requester, office)
    else:
        request = yield from moves.read("approvalflow.check_status", approval_id=approved)
    yield from moves.set_field(ticket["id"], "approval", request["id"])
    return (
        "completed",
        "all_checks_passed",
        moves.cite((request, "status"), (request, "decided_by"), (score, "value")),
    )


def _get_signed(
    ticket: moves.Shown, entry: moves.Shown, score: moves.Shown, requester: moves.Shown, office: moves.Shown
) -> moves.Move[moves.Shown]:
    """An approved request, through absences, forms and objections."""
    known = {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "amount": ticket["amount"],
        "cost_center": requester["cost_center"],
        "score": score["value"],
        "certificate": entry["certificate"],
        "contract": entry["contract"],
    }
    forms = yield from moves.rows("approvalflow.list_approval_types")
    fields = next(list(form["required"]) for form in forms if form["id"] == FORM)
    signer = yield from moves.signer(office)
    while True:
        request_id = yield from moves.submit(FORM, signer["id"], {field: known[field] for field in fields})
        request = yield from moves.decision(request_id)
        if request["code"] == "needs_superior":
            yield from moves.ask("approvalflow.escalate", approval_id=request_id, reason="At the approver's wish.")
            request = yield from moves.decision(request_id)
        if request["code"] == "needs_evidence":
            fields.append("certificate")
        elif request["code"] == "stale":
            yield from moves.fresh_reading(score["id"])
        elif request["status"] == "approved":
            return request
        else:
            raise Stuck(f"{request_id} was rejected: {request['code']} {request['reason']}")


FAMILY = Family(
    name="vendor_onboarding",
    phrase="vendor onboarding",
    causes=Causes,
    stage=stage,
    judge=judge,
    expert=expert,
    max_steps={0: 35, 25: 53, 50: 63, 75: 77, 100: 90},
)
