"""Bug escalation: which service causes these errors, and who has to repair it?

What makes it hard: the ticket names the service that shows the errors, but another service may cause them. The agent has to
follow the dependencies from service to service, and each step needs a fresh error rate and the limit of that service's tier.
Stopping early, going on behind a healthy service or trusting an old rate leads to the wrong service. How severe the bug is
depends on the reported service, or on something that only the reporter knows.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import Entry, Person, Source
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Draw, Streams, World
from companyos.families.bug_rules import BRIEFS, FORM, LIMITS, add_bug_policies, escalation_form
from companyos.families.bug_services import CHAIN, IN_HOUSE, MAINTENANCE, ServiceConditions, add_services
from companyos.families.kit import casework, endings, moves, working
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, one_line, tell
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    HandedTo,
    Milestone,
    Signature,
    TicketIs,
)
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket
from companyos.families.kit.working import compare

Place = Literal["none", "front", "middle", "deep"]  # a service by its place in `CHAIN`, or none of them
Refresh = Literal["quick", "slow", "fails", "fails_twice"]

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about these services, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    front: Annotated[
        Literal["low", "high", "double"],
        Fact(odds=(0.12, 0.58, 0.3), shown_in=(("Source", "front_rate", "value"), ("Metric", "front_rate", "value"))),
        "the error rate of the reported service: within its limit, above it, or above twice the limit",
    ]
    middle: Annotated[
        Literal["low", "high"],
        Fact(odds=(0.27, 0.73), shown_in=(("Source", "middle_rate", "value"), ("Metric", "middle_rate", "value"))),
        "the error rate of the service that the reported one depends on: within its limit or above",
    ]
    deep: Annotated[
        Literal["low", "high"],
        Fact(odds=(0.4, 0.6), shown_in=(("Source", "deep_rate", "value"), ("Metric", "deep_rate", "value"))),
        "the error rate of the service that the middle one depends on: within its limit or above",
    ]
    known: Annotated[
        Place,
        Fact(odds=(0.43, 0.19, 0.19, 0.19), shown_in=(("Ticket", "earlier", "reference"),)),
        "the service, if any, that already has an open ticket for these errors",
    ]
    outside: Annotated[
        Place,
        Fact(odds=(0.46, 0.18, 0.18, 0.18), shown_in=tuple(("Entry", place, "operated_by") for place in CHAIN)),
        "the service, if any, that another firm operates",
    ]
    works: Annotated[
        Place,
        Fact(odds=(0.46, 0.18, 0.18, 0.18), shown_in=tuple(("Entry", place, "status") for place in CHAIN)),
        "the service, if any, that is in maintenance already",
    ]
    customers: Annotated[
        Literal["one", "many"],
        Fact(odds=(0.6, 0.4), shown_in=(("Mind", "requester", "knows"),)),
        "how many customers are affected; only the reporter knows",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    assignee_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=assignee"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    front_stale: Annotated[bool, Trouble(dial="stale", target=("front_rate",))]
    middle_stale: Annotated[bool, Trouble(dial="stale", target=("middle_rate",))]
    deep_stale: Annotated[bool, Trouble(dial="stale", target=("deep_rate",))]
    front_refresh: Annotated[Refresh, Trouble(dial="refresh", target=("front_rate",))]
    deep_refresh: Annotated[Refresh, Trouble(dial="refresh", target=("deep_rate",))]
    front_on_call_away: Annotated[bool, Trouble(dial="absence", target=("front_on_call",))]
    middle_on_call_away: Annotated[bool, Trouble(dial="absence", target=("middle_on_call",))]
    deep_on_call_away: Annotated[bool, Trouble(dial="absence", target=("deep_on_call",))]
    cto_away: Annotated[bool, Trouble(dial="absence", target=("cto",))]
    platform_lead_away: Annotated[bool, Trouble(dial="absence", target=("platform_lead",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"], Trouble(dial="rejections", target=("cto", "platform_lead", "platform_deputy"))
    ]
    pager_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=pager"))]


def _culprit(causes: Causes) -> str | None:
    """Return the service that causes the errors: the last one before the first healthy one. None if `front` is healthy."""
    has_errors = [getattr(causes, place) != "low" for place in CHAIN]
    first_healthy = has_errors.index(False) if False in has_errors else len(CHAIN)
    return CHAIN[first_healthy - 1] if first_healthy else None


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    requester = world.get(Person, staff[f"{draw.pick(DEPARTMENTS)} Associate"])
    lowest = draw.pick((15, 18, 21))
    terms = {
        "limit_tier_1": lowest,
        "limit_tier_2": lowest + draw.between(9, 15),
        "limit_tier_3": lowest + draw.between(24, 36),
        "max_age_days": draw.between(7, 14),
    }
    policy = add_bug_policies(company, terms)
    world.put_at_start(escalation_form())
    rates = {place: getattr(causes, place) for place in CHAIN}
    services = add_services(company, draw, terms, ServiceConditions(rates, causes.outside, causes.works))
    # The records and people of the case: ids by role.
    roles = {
        "requester": requester.id,
        "entry": services["front"].id,  # what the ticket is about
        "form": FORM,
        "policy": policy.id,
        "support_lead": staff["Support Lead"],
        "vendor_lead": staff["Vendor Desk Lead"],
        "cto": staff["CTO"],
        "platform_lead": staff["Platform Lead"],
        "platform_deputy": staff["Platform Deputy"],
        "stand_in": staff["Duty Engineer"],  # the delegate of all engineers on call
    }
    for place in CHAIN:
        details = services[place].details
        roles |= {
            place: services[place].id,
            f"{place}_rate": details["error_rate_metric"],
            f"{place}_on_call": details["on_call"],
        }
    roles |= _add_tickets(company, draw, services, requester, causes)
    tell(world, requester.id, roles["ticket"], {"customers": causes.customers})
    lead = world.get(Person, staff["Support Lead"])
    brief_values = {"ticket": roles["ticket"], "service": services["front"].name, "lead": lead.name}
    return Case(roles["ticket"], staff["Support Engineer"], one_line(draw.pick(BRIEFS)).format(**brief_values), roles)


def _add_tickets(
    company: Backdrop, draw: Draw, services: dict[str, Entry], requester: Person, causes: Causes
) -> dict[str, str]:
    """Add the ticket, an earlier one about some service, a decoy and a blocker. Return their ids by role."""
    front = services["front"]
    ticket = open_ticket(
        company,
        draw,
        requester,
        title=f"Errors in {front.name}",
        kind=FORM,
        desk="engineering",
        assignee=company.staff["Support Lead"],
        subject=front.name,
        reference=front.reference,
    )
    earlier_service = services["stranger" if causes.known == "none" else causes.known]
    symptom, old_symptom = draw.sample(("Pages time out", "Orders hang", "Data arrives late", "Totals are off"), 2)
    earlier = copy_ticket(
        company,
        ticket,
        title=symptom,
        subject=symptom,
        reference=earlier_service.reference,
        requester=company.staff[f"{draw.pick(DEPARTMENTS)} Manager"],
        status=draw.pick(("open", "in_progress")),
        opened=ticket.opened - draw.between(1, 9) * DAY,
    )
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="license_renewal",
        title=old_symptom,
        subject=old_symptom,
        reference=services["neighbour"].reference,
        status="cancelled",
    )


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    place = _culprit(causes)
    if place is None:
        tier = world.get(Entry, roles["front"]).details["tier"]
        facts: CitedFacts = ((roles["front_rate"], "value"), (roles["policy"], f"limit_tier_{tier}"))
        return _ending(world, case, "front", "declined", "not_reproducible", decider="desk", facts=facts)
    ending = partial(_ending, world, case, place)
    culprit, earlier, on_call = roles[place], roles["earlier"], roles[f"{place}_on_call"]
    rate = (roles[f"{place}_rate"], "value")
    if causes.known == place:
        facts = (rate, (earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.outside == place:
        sets = ("escalated_to", roles["vendor_lead"])
        facts = (rate, (culprit, "operated_by"))
        return ending("cannot_be_done", "beyond_authority", decider="Vendor Desk Lead", facts=facts, sets=sets)
    if causes.works == place:
        facts = (rate, (culprit, "status"))
        return ending("on_hold", "not_due", decider="desk", facts=facts, sets=("waiting_on", on_call))
    answer = (ANSWER + roles["requester"], "customers")
    if causes.front != "double" and causes.customers == "one":
        return ending("completed", "all_checks_passed", decider="desk", facts=(rate, answer), handed_over=True)
    reason_for_severity = (roles["front_rate"], "value") if causes.front == "double" else answer
    facts = tuple(dict.fromkeys((rate, reason_for_severity, (SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"))))
    return ending("escalated", "above_limit", decider="CTO", facts=facts, handed_over=True, signed=True)


def _ending(
    world: World,
    case: Case,
    place: str,  # the service whose error rate decides
    resolution: str,
    reason: str,
    decider: str,
    facts: CitedFacts,
    sets: tuple[str, str] | None = None,
    handed_over: bool = False,
    signed: bool = False,
) -> Ending:
    """Return the usual ending, with two more goals: the error rate is fresh, and the ticket has the right assignee."""
    ticket_id, roles = case.ticket_id, case.roles
    rate, on_call = roles[f"{place}_rate"], roles[f"{place}_on_call"]
    required_values = (("service", roles[place]), ("error_rate", world.get(Source, rate).value))
    signatures = (Signature(FORM, required_values),) if signed else ()
    usual = endings.ending(
        world, case, resolution, reason, decider=decider, facts=facts, sets=sets, must_be_fresh=(rate,), signed=signatures
    )
    assignee_goal = HandedTo(ticket_id, on_call) if handed_over else TicketIs(ticket_id, "assignee", roles["support_lead"])
    milestones, allowed = usual.milestones, usual.allowed
    if handed_over:
        allowed += (("assignee", on_call), ("assignee", roles["stand_in"]))
    # With a signature this does not pay, because the milestones of an ending have a maximum sum.
    if handed_over and not signed:
        milestones += (Milestone("outcome recorded", endings.Worth().outcome, assignee_goal),)
    return replace(usual, goals=(*usual.goals, assignee_goal), milestones=milestones, allowed=allowed)


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.
# `compare` and the functions of `working` also write down what the expert compares, as working lines.


class BugNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Bug escalation"

    limits: moves.Shown


class CheckedService(Struct, frozen=True):
    """A service whose error rate the expert has compared with its limit."""

    entry: moves.Shown
    rate: moves.Shown
    limit: str  # the name of the policy's term
    above: bool  # whether the rate is above the limit


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, approved = yield from casework.take_over(so_far)
    if moves.wrote(so_far) and "assignee" in (yield from moves.fields_empty_at_start(ticket["id"])):
        ticket = {**ticket, "assignee": None}  # ignore an assignee who was set by earlier turns
    yield from casework.set_in_progress(ticket, style)
    policies = yield from moves.policies_about("bug", ticket["opened"])
    for topic in style.order("read up", ["culprit", "order of checks", "verification and assignee"]):
        yield from moves.read("datahub.read_policy", policy_id=policies[f"Bug escalation: {topic}"])
    limits = yield from moves.read("datahub.read_policy", policy_id=policies[LIMITS])
    query = ticket["subject"].split()[0] if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    entry_id = yield from moves.entry_of(ticket, listed)
    reported = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    yield from casework.prepare(ticket, reported["id"], style)
    notes = BugNotes(ticket, policies, approved, style, limits)
    decision = yield from _decide(notes, (yield from _check_chain(notes, reported)))
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (reported, "reference"))


def _check_chain(notes: BugNotes, entry: moves.Shown) -> moves.Move[list[CheckedService]]:
    """Check services from the reported one along the dependencies, up to the first one within its limit. Return them."""
    checked: list[CheckedService] = []
    while True:
        if notes.style.chooses(f"refresh in any case: step {len(checked)}"):
            yield from moves.ask("datahub.refresh_data", metric_name=entry["error_rate_metric"])
        rate = yield from moves.fresh_reading(entry["error_rate_metric"])
        limit = f"limit_tier_{entry['tier']}"
        above = yield from compare(("rate", rate["value"]), ">", (limit, notes.limits[limit]), "above", "within")
        checked.append(CheckedService(entry, rate, limit, above))
        if not above or not (yield from _has_dependency(entry)):
            return checked
        entry = yield from moves.read("datahub.get_entry", entry_id=entry["depends_on"])


def _has_dependency(entry: moves.Shown) -> moves.Move[bool]:
    """Return whether a service depends on another one."""
    depends_on = (entry["id"], "depends_on", entry["depends_on"])
    return (yield from working.check(depends_on, bool(entry["depends_on"]), "look there", "the last"))


def _decide(notes: BugNotes, checked: list[CheckedService]) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    above = [service for service in checked if service.above]
    if not above:
        yield from _keep_assigned(notes.ticket)
        return "declined", "not_reproducible", moves.cite((checked[0].rate, "value"), (notes.limits, checked[0].limit))
    culprit, rate = above[-1].entry, above[-1].rate
    yield from working.note(("last above", culprit["id"]), f"culprit {culprit['reference']}")
    other_ticket = yield from moves.other_live_ticket(notes.ticket, culprit["reference"], moves.FINISHED)
    if other_ticket is not None:
        yield from _record(notes.ticket, "duplicate_of", other_ticket["id"])
        return (
            "duplicate",
            "same_request",
            moves.cite((rate, "value"), (other_ticket, "reference"), (other_ticket, "status")),
        )
    if (yield from compare(("operated_by", culprit["operated_by"]), "!=", IN_HOUSE, "not ours", "ours")):
        lead = yield from moves.read("datahub.get_approver", role="Vendor Desk Lead")
        yield from _record(notes.ticket, "escalated_to", lead["id"])
        return "cannot_be_done", "beyond_authority", moves.cite((rate, "value"), (culprit, "operated_by"))
    if (yield from compare(("status", culprit["status"]), "==", MAINTENANCE, "wait", "go on")):
        yield from _record(notes.ticket, "waiting_on", culprit["on_call"])
        return "on_hold", "not_due", moves.cite((rate, "value"), (culprit, "status"))
    return (yield from _hand_over_bug(notes, checked[0], above[-1]))


def _hand_over_bug(notes: BugNotes, reported: CheckedService, culprit: CheckedService) -> moves.Move[Decision]:
    """Assign the ticket to the engineer on call for the culprit. Get a signature first if the bug is severe."""
    ticket, rate = notes.ticket, culprit.rate
    if notes.style.chooses("hand over first"):
        yield from _hand_over(ticket, culprit.entry)
    yield from moves.read("datahub.read_policy", policy_id=notes.policies["Bug escalation: severity"])
    decisive = (reported.rate, "value")  # the fact that decides whether the bug is severe
    twice_the_limit = yield from working.compute(notes.limits[reported.limit], "+", notes.limits[reported.limit])
    if not (yield from compare(("reported", reported.rate["value"]), ">", twice_the_limit, "severe", "ask")):
        question = "Are many customers affected by this, or just one?"
        answer = yield from moves.ask_person(ticket["id"], ticket["requester"], "customers", question)
        decisive = (answer, "customers")
        if (yield from compare(("customers", answer["customers"]), "==", "one", "not severe", "severe")):
            yield from _hand_over(ticket, culprit.entry)
            rate = yield from _fresh_rate(rate, answer["at"], notes.limits)
            return "completed", "all_checks_passed", moves.cite((rate, "value"), decisive)
    yield from moves.read("datahub.read_policy", policy_id=notes.policies["Bug escalation: signing"])
    if FORM in notes.approved:
        request = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[FORM])
    else:
        cto = yield from moves.read("datahub.get_approver", role="CTO")
        request = yield from moves.get_signed(FORM, cto, _form_data(ticket, culprit))
    link_request = moves.set_field(ticket["id"], "approval", request["id"])
    for step in notes.style.order("round off", [link_request, _hand_over(ticket, culprit.entry)]):
        yield from step
    rate = yield from _fresh_rate(rate, request["decided_at"], notes.limits)
    evidence = moves.cite((rate, "value"), (request, "status"), (request, "decided_by"))
    if decisive[0]["id"] != rate["id"]:
        evidence += moves.cite(decisive)
    return "escalated", "above_limit", evidence


def _form_data(ticket: moves.Shown, culprit: CheckedService) -> moves.Shown:
    """Return a value for each field that the form may ask for."""
    return {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "service": culprit.entry["id"],
        "error_rate": culprit.rate["value"],
        "runbook": culprit.entry["runbook"],
        "pager": culprit.entry["pager"],
    }


def _fresh_rate(rate: moves.Shown, now: str, limits: moves.Shown) -> moves.Move[moves.Shown]:
    """Return the reading, or a new one if it has become too old during a wait."""
    if (yield from moves.grew_old(rate, now, limits["max_age_days"])):
        rate = yield from moves.fresh_reading(rate["id"])
    return rate


def _hand_over(ticket: moves.Shown, culprit: moves.Shown) -> moves.Move[None]:
    """Assign the ticket to the person on call for a service, or to their delegate."""
    on_call = yield from moves.read("datahub.get_person", person_id=culprit["on_call"])
    assignee = yield from moves.signer(on_call)
    yield from moves.set_field(ticket["id"], "assignee", assignee["id"])


def _record(ticket: moves.Shown, field: str, value: str) -> moves.Move[None]:
    """Record an outcome on a ticket that is not handed over."""
    yield from _keep_assigned(ticket)
    yield from working.note(("then", field), value)
    yield from moves.set_field(ticket["id"], field, value)


def _keep_assigned(ticket: moves.Shown) -> moves.Move[None]:
    """Make sure that a ticket that is not handed over has an assignee."""
    field = ("assignee", ticket["assignee"])
    if (yield from working.check(field, ticket["assignee"] is None, "the Support Lead", "keep")):
        lead = yield from moves.read("datahub.get_approver", role="Support Lead")
        yield from moves.set_field(ticket["id"], "assignee", lead["id"])


FAMILY = Family(
    name="bug_escalation",
    phrase="bug escalation",
    causes=Causes,
    actor="Support Engineer",
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 63, 25: 86, 50: 112, 75: 139, 100: 170},
)
