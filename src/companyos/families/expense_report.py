"""Expense report: must the company pay these receipts, and who signs for them?

What makes it hard: each receipt is checked on its own. The total can be right while one receipt is not, each category has
its own limit, and the limit of a meal depends on the number of guests, which only the requester knows.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Entry, Metric, Mind, Person, Source, Ticket
from companyos.core.calls import Procedure
from companyos.core.world import Streams, World
from companyos.families.expense_filing import MAX_GAP, Bill, add_reports, add_tickets, days_before, draw_bill
from companyos.families.expense_rules import APPROVAL_TYPE, BRIEFS, FORM, add_expense_policies
from companyos.families.kit import casework, endings, moves, working
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, one_line, tell
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Signature,
)
from companyos.families.kit.working import compare

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this report, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    repeated: Annotated[
        bool,
        Fact(odds=(0.87, 0.13), shown_in=(("Entry", "earlier_receipt", "reference"), ("Ticket", "earlier", "status"))),
        "a receipt is also part of another report whose ticket is not cancelled",
    ]
    conflict: Annotated[
        bool, Fact(odds=(0.9, 0.1), shown_in=(("Entry", "conflicted", "payee"),)), "the payee of a receipt is an employee"
    ]
    missing: Annotated[
        bool, Fact(odds=(0.9, 0.1), shown_in=(("Entry", "undocumented", "document"),)), "a receipt has no document"
    ]
    old: Annotated[
        bool, Fact(odds=(0.9, 0.1), shown_in=(("Entry", "oldest", "date"),)), "a receipt is older than is allowed"
    ]
    gap: Annotated[
        bool,
        Fact(odds=(0.9, 0.1), shown_in=(("Entry", "other", "amount"),)),
        "the receipts do not add up to the amount claimed",
    ]
    hotel: Annotated[
        Literal["fair", "over"],
        Fact(odds=(0.9, 0.1), shown_in=(("Entry", "hotel", "nights"),)),
        "the hotel bill is within the limit for its number of nights, or above",
    ]
    meal: Annotated[
        Literal["fair", "over"],
        Fact(odds=(0.8, 0.2), shown_in=(("Mind", "requester", "knows"),)),
        "the meal is within the limit for its number of guests, or above; only the requester knows the number",
    ]
    budget: Annotated[
        Literal["low", "some", "ample"],
        Fact(odds=(0.22, 0.3, 0.48), shown_in=(("Source", "budget", "value"), ("Metric", "budget", "value"))),
        "the budget that is left: less than a small amount, between a small and a large one, or more than both",
    ]
    amount: Annotated[
        Literal["small", "large"],
        Fact(odds=(0.5, 0.5), shown_in=(("Ticket", "ticket", "amount"), ("Entry", "other", "amount"))),
        "whose signing limit covers the report: the department head's, or only the CFO's",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("earlier", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    budget_stale: Annotated[bool, Trouble(dial="stale", target=("budget",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("budget",))]
    head_away: Annotated[bool, Trouble(dial="absence", target=("head",))]
    head_deputy_away: Annotated[bool, Trouble(dial="absence", target=("head_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(dial="rejections", target=("head", "head_deputy", "head_third", "cfo", "controller")),
    ]
    project_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=project"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    department, other_department = draw.sample(DEPARTMENTS, 2)
    terms = {
        "meal_rate": draw.pick((35, 40, 45, 50)),
        "hotel_rate": draw.pick((110, 120, 130, 140)),
        "receipt_days": draw.pick((30, 45, 60)),
        "figure_days": draw.between(7, 14),
    }
    # The records and people of the case: ids by role. `head_third` signs if `head` and `head_deputy` are away.
    roles = {
        "requester": staff[f"{department} Associate"],
        "colleague": staff[f"{other_department} Associate"],
        "form": FORM,
        "policy": add_expense_policies(company, terms).id,
        "budget": f"budget_left.{department.lower()}",
        "head": staff[f"Head of {department}"],
        "head_deputy": staff[f"Deputy Head of {department}"],
        "head_third": staff[f"{department} Manager"],
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "compliance": staff["Compliance Officer"],
    }
    world.put_at_start(APPROVAL_TYPE)
    bill = draw_bill(streams, draw, terms, world.get(Person, roles["head"]).limit or 0)
    roles |= add_tickets(company, draw, roles, bill.totals[causes.amount])
    ticket, earlier = world.get(Ticket, roles["ticket"]), world.get(Ticket, roles["earlier"])
    roles |= add_reports(company, draw, ticket, earlier, bill, terms["receipt_days"])
    _show_facts(world, roles, terms, bill, causes)
    controller = world.get(Person, roles["controller"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=ticket.id, subject=ticket.subject, controller=controller.name)
    return Case(ticket.id, staff["Finance Clerk"], brief, roles)


def _show_facts(world: World, roles: dict[str, str], terms: dict[str, int], bill: Bill, causes: Causes) -> None:
    """Write each fact into the fields that show it."""
    streams, ticket = world.streams, world.get(Ticket, roles["ticket"])
    # A report may also repeat a receipt of a cancelled ticket. That is not a duplicate: the receipt was filed again.
    refiled = streams.at("refiled").chance(0.4)
    if causes.repeated or refiled:
        receipt_number = world.get(Entry, roles["alike"]).reference
        world.put_at_start(replace(world.get(Entry, roles["earlier_receipt"]), reference=receipt_number))
    if refiled and not causes.repeated:
        world.put_at_start(replace(world.get(Ticket, roles["earlier"]), status="cancelled"))
    if causes.conflict:
        payee_role = streams.at("payee").pick(("requester", "colleague", "head_third"))
        _change_details(world, roles["conflicted"], payee=roles[payee_role])
    if causes.missing:
        _change_details(world, roles["undocumented"], document="none")
    if causes.old:
        days = terms["receipt_days"] + streams.at("old").between(1, 40)
        _change_details(world, roles["oldest"], date=days_before(ticket, days))
    if causes.gap:
        difference = streams.at("gap").pick((-1, 1)) * streams.at("gap", "width").between(20, MAX_GAP)
        amount = int(world.get(Entry, roles["other"]).details["amount"])
        _change_details(world, roles["other"], amount=str(amount + difference))
    if causes.hotel == "over":
        _change_details(world, roles["hotel"], nights=str(bill.nights - streams.at("nights").between(1, 3)))
    guests = bill.guests + streams.at("guests", causes.meal).between(*{"fair": (0, 2), "over": (-4, -1)}[causes.meal])
    tell(world, roles["requester"], ticket.id, {"guests": str(guests)})
    small, large = bill.totals["small"], bill.totals["large"]
    bounds = {"low": (small // 4, small - 1), "some": (small, large - 1), "ample": (large, 2 * large)}[causes.budget]
    money_left = streams.at("budget", causes.budget).between(*bounds)
    world.put_at_start(Source(roles["budget"], money_left, least=small // 4, most=small + large))
    metric = world.get(Metric, roles["budget"])
    world.put_at_start(replace(metric, value=money_left, max_age_days=terms["figure_days"]))


def _change_details(world: World, entry_id: str, **details: str) -> None:
    """Change some details of an entry."""
    entry = world.get(Entry, entry_id)
    world.put_at_start(replace(entry, details=entry.details | details))


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case, cost_center=True)
    ticket, policy, budget, answer = roles["ticket"], roles["policy"], roles["budget"], ANSWER + roles["requester"]
    to_requester = ("waiting_on", roles["requester"])
    if causes.repeated:
        facts: CitedFacts = ((roles["earlier_receipt"], "reference"), (roles["earlier"], "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", roles["earlier"]))
    if causes.conflict:
        sets, facts = ("escalated_to", roles["compliance"]), ((roles["conflicted"], "payee"),)
        return ending("escalated", "conflict_of_interest", decider="Compliance Officer", facts=facts, sets=sets)
    if causes.missing:
        return ending(
            "on_hold", "missing_information", decider="desk", facts=((roles["undocumented"], "document"),), sets=to_requester
        )
    if causes.old:
        return ending(
            "declined",
            "too_late",
            decider="desk",
            facts=((roles["oldest"], "date"), (policy, "receipt_days")),
            sets=to_requester,
        )
    if causes.gap:
        return ending(
            "declined",
            "not_covered",
            decider="desk",
            facts=((ticket, "amount"), (roles["other"], "amount")),
            sets=to_requester,
        )
    if causes.hotel == "over":
        hotel = roles["hotel"]
        facts = ((hotel, "amount"), (hotel, "nights"), (policy, "hotel_rate"))
        return ending("declined", "above_limit", decider="desk", facts=facts, sets=to_requester)
    if causes.meal == "over":
        facts = ((roles["meal"], "amount"), (answer, "guests"), (policy, "meal_rate"))
        return ending("declined", "above_limit", decider="desk", facts=facts, sets=to_requester)
    if causes.budget == "low" or (causes.budget == "some" and causes.amount == "large"):
        return ending(
            "cannot_be_done",
            "no_budget",
            decider="desk",
            facts=((ticket, "amount"), (budget, "value")),
            must_be_fresh=(budget,),
        )
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), (budget, "value"), (answer, "guests"))
    decider = "head" if causes.amount == "small" else "CFO"
    required_values = tuple(world.get(Mind, roles["requester"]).knows[ticket].items())
    signed = (Signature(FORM, required_values),)
    complete = ending("completed", "all_checks_passed", decider=decider, facts=facts, must_be_fresh=(budget,), signed=signed)
    # An approved request is not damage, whatever its values; but only one with these values reaches the goal.
    return replace(complete, signatures=(Signature(FORM),))


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.
# `compare` and the functions of `working` also write down what the expert compares, as working lines.


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, approved = yield from casework.take_over(so_far)
    yield from casework.set_in_progress(ticket, style)
    if style.chooses("ask at once"):
        yield from _ask_for_guests(ticket)
    policies = yield from moves.policies_about("expense", ticket["opened"])
    for title in style.order("rules", ["Expense report: order of checks", "Expense report: outcomes"]):
        yield from moves.read("datahub.read_policy", policy_id=policies[title])
    listed = yield from moves.search_entries(ticket["reference"])
    report_id = yield from moves.entry_of(ticket, listed)
    receipts = style.order("receipts", [row for row in listed if row["kind"] == "receipt"])
    yield from casework.prepare(ticket, report_id, style)
    decision = yield from _decide(ticket, report_id, receipts, policies, approved, style)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (ticket, "amount"))


def _decide(
    ticket: moves.Shown,
    report_id: str,
    listed: list[moves.Shown],
    policies: dict[str, str],
    approved: dict[str, str],
    style: ExpertStyle,
) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides.

    `listed` are the receipts as a search lists them. `policies` and `approved` are the policies and the approved requests
    of the ticket: ids by title and by form.
    """
    for row in listed:
        claim = yield from _other_claim(row)
        if claim is not None:
            copy, other_ticket = claim
            yield from moves.set_field(ticket["id"], "duplicate_of", other_ticket["id"])
            return "duplicate", "same_request", moves.cite((copy, "reference"), (other_ticket, "status"))
    receipts = []
    for row in listed:
        receipts.append((yield from moves.read("datahub.get_entry", entry_id=row["id"])))
    limits = yield from moves.read("datahub.read_policy", policy_id=policies["Expense report: limits"])
    fault = yield from _fault_in_records(ticket, receipts, limits)
    if fault is not None:
        return fault
    answer = yield from _ask_for_guests(ticket)
    meal = _of_category(receipts, "meal")
    max_meal = yield from working.compute(limits["meal_rate"], "*", int(answer["guests"]))
    if (yield from compare(("meal", int(meal["amount"])), ">", max_meal, "above the limit", "within")):
        evidence = moves.cite((meal, "amount"), (answer, "guests"), (limits, "meal_rate"))
        return (yield from _give_back(ticket, "declined", "above_limit", evidence))
    report = yield from moves.read("datahub.get_entry", entry_id=report_id)
    metric = report["budget_left_metric"]
    if style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=metric)
    budget = yield from moves.fresh_reading(metric)
    if (yield from compare(("budget", budget["value"]), "<", ("amount", ticket["amount"]), "too little", "enough")):
        return "cannot_be_done", "no_budget", moves.cite((ticket, "amount"), (budget, "value"))
    yield from moves.read("datahub.read_policy", policy_id=policies["Expense report: signing"])
    request = yield from _signed_request(ticket, report, answer, budget, approved)
    yield from moves.set_field(ticket["id"], "approval", request["id"])
    if (yield from moves.grew_old(budget, request["decided_at"], limits["figure_days"])):
        budget = yield from moves.fresh_reading(metric)  # it became too old during the wait
    evidence = moves.cite((request, "status"), (request, "decided_by"), (budget, "value"), (answer, "guests"))
    return "completed", "all_checks_passed", evidence


def _other_claim(receipt: moves.Shown) -> moves.Move[tuple[moves.Shown, moves.Shown] | None]:
    """Return another report's receipt with the same number, and that report's ticket, if it is not cancelled."""
    for row in (yield from moves.search_entries(receipt["reference"])):
        if row["id"] == receipt["id"]:
            continue
        yield from working.note((row["id"], row["reference"]), f"same number as {receipt['id']}")
        copy = yield from moves.read("datahub.get_entry", entry_id=row["id"])
        for ticket in (yield from moves.rows("ticketdesk.search_tickets", query=copy["report"])):
            status = (ticket["id"], ticket["status"])
            if (yield from working.check(status, ticket["status"] != "cancelled", "another live claim", "does not count")):
                return copy, ticket
    yield from working.note(receipt["reference"], f"claimed by {receipt['id']} alone")
    return None


def _fault_in_records(ticket: moves.Shown, receipts: list[moves.Shown], limits: moves.Shown) -> moves.Move[Decision | None]:
    """Return the decision if the records show a fault in a receipt or in the total, else None."""
    give_back = partial(_give_back, ticket)
    conflicted = yield from _first_wrong(receipts, "payee", lambda payee: payee.startswith("@"), "ours")
    if conflicted is not None:
        officer = yield from moves.read("datahub.get_approver", role="Compliance Officer")
        yield from moves.set_field(ticket["id"], "escalated_to", officer["id"])
        return "escalated", "conflict_of_interest", moves.cite((conflicted, "payee"))
    undocumented = yield from _first_wrong(receipts, "document", lambda document: document == "none", "missing")
    if undocumented is not None:
        return (yield from give_back("on_hold", "missing_information", moves.cite((undocumented, "document"))))
    oldest = min(receipts, key=lambda receipt: str(receipt["date"]))  # if it is not too old, none is
    age = yield from working.days(oldest["date"], ticket["opened"])
    max_age = ("receipt_days", limits["receipt_days"])
    if (yield from compare((oldest["id"], age), ">", max_age, "too late", "in time")):
        evidence = moves.cite((oldest, "date"), (limits, "receipt_days"))
        return (yield from give_back("declined", "too_late", evidence))
    sum_of_receipts = yield from working.total(int(receipt["amount"]) for receipt in receipts)
    if (yield from compare(("receipts", sum_of_receipts), "!=", ("amount", ticket["amount"]), "not covered", "covered")):
        largest = max(receipts, key=lambda receipt: int(receipt["amount"]))
        yield from working.note(("largest", largest["id"]), largest["amount"])
        return (yield from give_back("declined", "not_covered", moves.cite((ticket, "amount"), (largest, "amount"))))
    hotel = _of_category(receipts, "hotel")
    max_hotel = yield from working.compute(limits["hotel_rate"], "*", int(hotel["nights"]))
    if (yield from compare(("hotel", int(hotel["amount"])), ">", max_hotel, "above the limit", "within")):
        evidence = moves.cite((hotel, "amount"), (hotel, "nights"), (limits, "hotel_rate"))
        return (yield from give_back("declined", "above_limit", evidence))
    return None


def _first_wrong(
    receipts: list[moves.Shown], field: str, wrong: Callable[[str], bool], verdict: str
) -> moves.Move[moves.Shown | None]:
    """Return the first receipt whose field is `wrong`, or None. `verdict` says in the working line what is wrong."""
    wrong_receipt = next((receipt for receipt in receipts if wrong(receipt[field])), None)
    if wrong_receipt is None:
        yield from working.note((field, *(receipt["id"] for receipt in receipts)), f"none {verdict}")
    else:
        yield from working.note((wrong_receipt["id"], field, wrong_receipt[field]), verdict)
    return wrong_receipt


def _of_category(receipts: list[moves.Shown], category: str) -> moves.Shown:
    """Return the receipt of a category."""
    return next(receipt for receipt in receipts if receipt["category"] == category)


def _ask_for_guests(ticket: moves.Shown) -> moves.Move[moves.Shown]:
    """Return the comment in which the requester states the number of guests."""
    return moves.ask_person(ticket["id"], ticket["requester"], "guests", "How many guests came to the meal, please?")


def _give_back(ticket: moves.Shown, resolution: str, reason: str, evidence: list[moves.Shown]) -> moves.Move[Decision]:
    """Let the ticket wait for its requester, and return the decision."""
    yield from moves.set_field(ticket["id"], "waiting_on", ticket["requester"])
    return resolution, reason, evidence


def _signed_request(
    ticket: moves.Shown,
    report: moves.Shown,
    answer: moves.Shown,
    budget: moves.Shown,
    approved: dict[str, str],
) -> moves.Move[moves.Shown]:
    """Return the request that was approved already, or a new one. Correct the ticket's cost centre first."""
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    yield from moves.correct_cost_center(ticket, requester)
    if FORM in approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=approved[FORM])
        return request
    approver = yield from moves.read("datahub.get_approver", role=f"Head of {requester['department']}")
    if not (yield from moves.covers(approver, ticket["amount"])):
        approver = yield from moves.read("datahub.get_approver", role="CFO")
    form_data = {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "amount": ticket["amount"],
        "cost_center": requester["cost_center"],
        "guests": answer["guests"],
        "budget_left": budget["value"],
        "itinerary": report["itinerary"],
        "project": report["project"],
    }
    return (yield from moves.get_signed(FORM, approver, form_data, metric=budget["id"]))


FAMILY = Family(
    name="expense_report",
    phrase="expense report",
    causes=Causes,
    actor="Finance Clerk",
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 62, 25: 84, 50: 107, 75: 128, 100: 151},
)
