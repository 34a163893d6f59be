"""Vendor onboarding: may this firm become a supplier, and who signs for it?

What makes it hard: the checks have an order, each one looks at another system, and the first that applies decides. The
compliance score, which decides most often, may be out of date, and its minimum depends on the data that the vendor handles.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import ApprovalType, Entry, Person
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Draw, Streams, World, stamp
from companyos.families.kit import casework, endings, moves, working
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, Firm, add_vendor, one_line, set_metric
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    SIGNED_REQUEST,
    Signature,
)
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket
from companyos.families.kit.working import compare
from companyos.families.vendor_rules import BRIEFS, add_vendor_policies

FORM = "vendor_onboarding"  # the id of the form, and the kind of the tickets

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this vendor, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one. In the target of a trouble,
    `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.86, 0.14), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    conflict: Annotated[
        bool, Fact(odds=(0.85, 0.15), shown_in=(("Entry", "entry", "owner"),)), "the requester owns the firm"
    ]
    insurance: Annotated[
        Literal["valid", "expired"],
        Fact(odds=(0.83, 0.17), shown_in=(("Entry", "entry", "insurance_until"),)),
        "whether the firm's insurance is still valid",
    ]
    personal_data: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Entry", "entry", "data_class"),)),
        "the firm would handle personal data, so its minimum score is higher",
    ]
    score: Annotated[
        Literal["low", "middle", "high"],
        Fact(odds=(0.2, 0.3, 0.5), shown_in=(("Source", "score", "value"), ("Metric", "score", "value"))),
        "the true compliance score: below both minimums, between them, or above both",
    ]
    amount: Annotated[
        Literal["small", "large", "huge"],
        Fact(odds=(0.4, 0.4, 0.2), shown_in=(("Ticket", "ticket", "amount"),)),
        "whose signing limit covers the amount: the department head's, only the CFO's, or nobody's",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    score_stale: Annotated[bool, Trouble(dial="stale", target=("score",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("score",))]
    head_away: Annotated[bool, Trouble(dial="absence", target=("head",))]
    head_deputy_away: Annotated[bool, Trouble(dial="absence", target=("head_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(dial="rejections", target=("head", "head_deputy", "head_third", "cfo", "controller", "treasurer")),
    ]
    contract_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=contract"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    firm = company.firms.pop(0)
    department = draw.pick(DEPARTMENTS)
    requester = world.get(Person, staff[f"{department} Associate"])
    minimum = draw.pick((60, 65, 70))
    terms = {"minimum": minimum, "minimum_personal": minimum + draw.pick((10, 15)), "max_age_days": draw.between(7, 14)}
    policy = add_vendor_policies(company, terms)
    world.put_at_start(_form(policy.id))
    entry = _add_entries(company, firm, requester, causes)
    _set_score(world, entry.details["score_metric"], terms, causes)
    # The records and people of the case: ids by role. `head_third` signs if `head` and `head_deputy` are away.
    roles = {
        "requester": requester.id,
        "entry": entry.id,  # what the ticket is about
        "score": entry.details["score_metric"],
        "form": FORM,
        "policy": policy.id,
        "head": staff[f"Head of {department}"],
        "head_deputy": staff[f"Deputy Head of {department}"],
        "head_third": staff[f"{department} Manager"],
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "treasurer": staff["Treasurer"],
        "compliance": staff["Compliance Officer"],
    }
    amount = _draw_amount(world, causes, world.get(Person, roles["head"]), world.get(Person, roles["cfo"]))
    roles |= _add_tickets(company, draw, firm, requester, amount, causes)
    lead = world.get(Person, staff["Vendor Desk Lead"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], vendor=firm.name, lead=lead.name)
    return Case(roles["ticket"], staff["Vendor Analyst"], brief, roles)


def _add_tickets(
    company: Backdrop, draw: Draw, firm: Firm, requester: Person, amount: int, causes: Causes
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same vendor, a decoy and a blocker. Return their ids by role."""
    ticket = open_ticket(
        company,
        draw,
        requester,
        title=f"Onboard {firm.name}",
        kind=FORM,
        desk="vendor",
        assignee=company.staff["Vendor Analyst"],
        subject=firm.name,
        reference=firm.reference,
        amount=amount,
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Onboard {firm.namesake}",
        subject=firm.namesake,
        reference=firm.reference if causes.duplicate else firm.namesake_reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Vendor Desk Lead"],
        amount=draw.between(8, 60) * 250,
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    decoy_firm = company.firms.pop(0)
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="vendor_check",
        title=f"Onboard {decoy_firm.name}",
        subject=decoy_firm.name,
        reference=decoy_firm.reference,
    )


def _add_entries(company: Backdrop, firm: Firm, requester: Person, causes: Causes) -> Entry:
    """Add the firm and its namesake to the register. Return the firm's entry."""
    world = company.world
    add_vendor(company, firm.namesake, firm.namesake_reference)
    entry = add_vendor(company, firm.name, firm.reference)
    days_ago = world.streams.at("insurance").between(3, 90)
    until = {"valid": entry.details["insurance_until"], "expired": stamp(world.now - days_ago * DAY)[:10]}
    details = entry.details | {
        "data_class": "personal" if causes.personal_data else "standard",
        "insurance_until": until[causes.insurance],
    }
    if causes.conflict:
        details["owner"] = requester.id
    return world.put_at_start(replace(entry, details=details))


def _set_score(world: World, metric: str, terms: dict[str, int], causes: Causes) -> None:
    """Set the compliance score to a value in the range that the cause `score` names."""
    minimum, minimum_personal = terms["minimum"], terms["minimum_personal"]
    bands = {"low": (38, minimum - 1), "middle": (minimum, minimum_personal - 1), "high": (minimum_personal, 97)}
    value = world.streams.at("score", causes.score).between(*bands[causes.score])
    set_metric(world, metric, value, terms["max_age_days"])


def _draw_amount(world: World, causes: Causes, head: Person, cfo: Person) -> int:
    """Draw the amount of the ticket from the range that the cause `amount` names."""
    head_limit, cfo_limit = head.limit or 0, cfo.limit or 0
    bands = {"small": (2000, head_limit), "large": (head_limit + 1, cfo_limit), "huge": (cfo_limit + 1, 2 * cfo_limit)}
    return world.streams.at("amount", causes.amount).between(*bands[causes.amount])


def _form(policy_id: str) -> ApprovalType:
    """Return the form that the head of the department or the CFO signs. `policy_id` is the policy on the minimum score."""
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
        stricter_by="data_class",  # for personal data the minimum is `minimum_personal`
        attachment="certificate",
    )


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case, cost_center=True)
    earlier, entry, score = roles["earlier"], roles["entry"], roles["score"]
    if causes.duplicate:
        facts: CitedFacts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.conflict:
        sets = ("escalated_to", roles["compliance"])
        return ending(
            "escalated", "conflict_of_interest", decider="Compliance Officer", facts=((entry, "owner"),), sets=sets
        )
    if causes.insurance == "expired":
        sets = ("waiting_on", roles["requester"])
        return ending("on_hold", "document_expired", decider="desk", facts=((entry, "insurance_until"),), sets=sets)
    if causes.score == "low" or (causes.score == "middle" and causes.personal_data):
        minimum = "minimum_personal" if causes.personal_data else "minimum"
        facts = ((score, "value"), (roles["policy"], minimum))
        return ending("declined", "below_minimum", decider="desk", facts=facts, must_be_fresh=(score,))
    if causes.amount == "huge":
        facts = ((roles["ticket"], "amount"), (roles["cfo"], "limit"))
        return ending("cannot_be_done", "beyond_authority", decider="board", facts=facts, must_be_fresh=(score,))
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), (score, "value"))
    decider = "head" if causes.amount == "small" else "CFO"
    return ending(
        "completed", "all_checks_passed", decider=decider, facts=facts, must_be_fresh=(score,), signed=(Signature(FORM),)
    )


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.
# `compare` and the functions of `working` also write down what the expert compares, as working lines.


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "vendor")
    yield from moves.read("datahub.read_policy", policy_id=policies["Vendor onboarding: order of checks"])
    query = " ".join(ticket["subject"].split()[:2]) if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    entry_id = yield from moves.entry_of(ticket, listed)
    entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    yield from casework.prepare(ticket, entry["id"], style)
    decision = yield from _decide(ticket, entry, policies, approved, so_far.now, style)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (entry, "reference"))


def _decide(
    ticket: moves.Shown,
    entry: moves.Shown,
    policies: dict[str, str],
    approved: dict[str, str],
    now: str,
    style: ExpertStyle,
) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides.

    `policies` and `approved` are the policies and the approved requests of the ticket: ids by title and by form.
    """
    duplicate = yield from casework.mark_duplicate(ticket, aloud=True)
    if duplicate is not None:
        return duplicate
    if (yield from compare(("owner", entry["owner"]), "==", ticket["requester"], "conflict", "no conflict")):
        officer = yield from moves.read("datahub.get_approver", role="Compliance Officer")
        yield from moves.set_field(ticket["id"], "escalated_to", officer["id"])
        return "escalated", "conflict_of_interest", moves.cite((entry, "owner"))
    if (yield from compare(("insurance", entry["insurance_until"]), "<", ("today", now.split()[1]), "expired", "runs")):
        yield from moves.set_field(ticket["id"], "waiting_on", ticket["requester"])
        return "on_hold", "document_expired", moves.cite((entry, "insurance_until"))
    if style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=entry["score_metric"])
    score = yield from moves.fresh_reading(entry["score_metric"])
    rule = yield from moves.read("datahub.read_policy", policy_id=policies["Vendor onboarding: minimum score"])
    minimum = "minimum_personal" if entry["data_class"] == "personal" else "minimum"
    yield from working.note(("data_class", entry["data_class"]), minimum)
    if (yield from compare(("score", score["value"]), "<", (minimum, rule[minimum]), "too low", "enough")):
        return "declined", "below_minimum", moves.cite((score, "value"), (rule, minimum))
    yield from moves.read("datahub.read_policy", policy_id=policies["Vendor onboarding: signing"])
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    approver = yield from moves.read("datahub.get_approver", role=f"Head of {requester['department']}")
    if not (yield from moves.covers(approver, ticket["amount"])):
        approver = yield from moves.read("datahub.get_approver", role="CFO")
        if not (yield from moves.covers(approver, ticket["amount"])):
            return "cannot_be_done", "beyond_authority", moves.cite((ticket, "amount"), (approver, "limit"))
    yield from moves.correct_cost_center(ticket, requester)
    if FORM in approved:
        request = yield from moves.read("approvalflow.check_status", approval_id=approved[FORM])
    else:
        form_data = _form_data(ticket, entry, score, requester)
        request = yield from moves.get_signed(FORM, approver, form_data, metric=entry["score_metric"])
    yield from moves.set_field(ticket["id"], "approval", request["id"])
    if (yield from moves.grew_old(score, request["decided_at"], rule["max_age_days"])):
        score = yield from moves.fresh_reading(score["id"])  # it became too old during the wait
    return (
        "completed",
        "all_checks_passed",
        moves.cite((request, "status"), (request, "decided_by"), (score, "value")),
    )


def _form_data(ticket: moves.Shown, entry: moves.Shown, score: moves.Shown, requester: moves.Shown) -> moves.Shown:
    """Return a value for each field that the form may ask for."""
    return {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "amount": ticket["amount"],
        "cost_center": requester["cost_center"],
        "score": score["value"],
        "certificate": entry["certificate"],
        "contract": entry["contract"],
    }


FAMILY = Family(
    name="vendor_onboarding",
    phrase="vendor onboarding",
    causes=Causes,
    actor="Vendor Analyst",
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 35, 25: 60, 50: 86, 75: 105, 100: 125},
)
