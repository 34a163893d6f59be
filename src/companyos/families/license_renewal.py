"""Licence renewal: is it time, is it used, and which of the offers is the one to sign?

What makes it hard: dates, and a choice. Days count from the day on which the ticket was opened, not from today. The right
offer is the smallest one that was valid on that day, has enough seats for the measured use plus some headroom, and includes
a data agreement if the product needs one. The amount of this offer, not the ticket's, decides whether the budget suffices
and who signs. Each offer is right in some tasks and wrong in others.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Entry, Metric, Person, Source, Ticket
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Draw, Streams, World
from companyos.families import license_offers as offers
from companyos.families.kit import casework, endings, moves, working
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, add_person, add_ticket, one_line
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    SIGNED_REQUEST,
    Signature,
)
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket
from companyos.families.kit.working import PERCENT, compare
from companyos.families.license_offers import AGREED, BULK, LARGE, OFFERS, PLAIN, LicenseDeal
from companyos.families.license_rules import BRIEFS, FORM, LIMITS, add_license_policies, renewal_form

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this contract, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one. In the target of a trouble,
    `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.87, 0.13), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    days: Annotated[
        Literal["early", "due", "late"],
        Fact(odds=(0.14, 0.73, 0.13), shown_in=(("Source", "days", "value"), ("Metric", "days", "value"))),
        "days to expiry: too early to renew, due, or too late to give notice",
    ]
    used: Annotated[
        Literal["few", "fits", "grown"],
        Fact(odds=(0.14, 0.36, 0.50), shown_in=(("Source", "used", "value"), ("Metric", "used", "value"))),
        "the number of seats in use: few, about as many as bought, or more",
    ]
    personal: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Entry", "entry", "data_class"),)),
        "the product holds personal data, so an offer needs a data agreement",
    ]
    plain: Annotated[
        Literal["held", "over"],
        Fact(odds=(0.6, 0.4), shown_in=(("Entry", PLAIN, "issued"),)),
        "whether the plain offer was still valid when the ticket was opened",
    ]
    large: Annotated[
        Literal["held", "over"],
        Fact(odds=(0.4, 0.6), shown_in=(("Entry", LARGE, "issued"),)),
        "whether the large offer was still valid when the ticket was opened",
    ]
    price: Annotated[
        Literal["low", "high"],
        Fact(odds=(0.5, 0.5), shown_in=tuple(("Entry", offer, "amount") for offer in OFFERS)),
        "whether the offers are expensive; only the CFO may sign an expensive one",
    ]
    budget: Annotated[
        Literal["ample", "tight"],
        Fact(odds=(0.68, 0.32), shown_in=(("Source", "budget", "value"), ("Metric", "budget", "value"))),
        "whether the department's budget suffices for every offer, or only for the cheap ones",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    days_stale: Annotated[bool, Trouble(dial="stale", target=("days",))]
    used_stale: Annotated[bool, Trouble(dial="stale", target=("used",))]
    budget_stale: Annotated[bool, Trouble(dial="stale", target=("budget",))]
    days_refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("days",))]
    used_refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("used",))]
    lead_away: Annotated[bool, Trouble(dial="absence", target=("lead",))]
    lead_deputy_away: Annotated[bool, Trouble(dial="absence", target=("lead_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(dial="rejections", target=("lead", "lead_deputy", "lead_third", "cfo", "controller", "treasurer")),
    ]
    supplier_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=supplier_no"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    department = draw.pick(DEPARTMENTS)
    requester = world.get(Person, staff[f"{department} Associate"])
    deal = offers.draw_deal(company, draw)
    terms = {
        "window_days": draw.pick((75, 90, 120)),
        "minimum_share": draw.pick((50, 55)),
        "headroom": draw.pick((15, 20, 25)),
    }
    policy = add_license_policies(company, terms)
    world.put_at_start(renewal_form())
    offers.add_contract(company, draw, deal.namesake, deal.namesake_reference, deal.bought, "standard")
    data_class = "personal" if causes.personal else "standard"
    entry = offers.add_contract(company, draw, deal.product, deal.reference, deal.bought, data_class)
    # The records and people of the case: ids by role. `lead_third` signs if `lead` and `lead_deputy` are away.
    roles = {
        "requester": requester.id,
        "entry": entry.id,  # what the ticket is about
        "days": entry.details["days_metric"],
        "used": entry.details["used_metric"],
        "budget": f"budget_left.{department.lower()}",
        "form": FORM,
        "policy": policy.id,
        "lead": staff["Procurement Lead"],
        "lead_deputy": staff["Deputy Procurement Lead"],
        "lead_third": staff["Procurement Manager"],
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "treasurer": staff["Treasurer"],
    }
    limit = world.get(Person, roles["lead"]).limit or 0
    notice_days = int(entry.details["notice_days"])
    _set_metrics(world, roles, deal, terms, notice_days=notice_days, limit=limit, causes=causes)
    roles |= _add_tickets(company, draw, deal, requester, limit, causes)
    opened = world.get(Ticket, roles["ticket"]).opened
    expired = {PLAIN: causes.plain == "over", LARGE: causes.large == "over"}
    roles |= offers.add_offers(company, draw, deal, opened, limit=limit, price=causes.price, expired=expired)
    manager = world.get(Person, roles["lead_third"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], product=deal.product, manager=manager.name)
    return Case(roles["ticket"], staff["Procurement Analyst"], brief, roles)


def _hire(company: Backdrop) -> None:
    """Add the procurement desk and the delegates of its lead."""
    hire = partial(add_person, company, department="Procurement", desk="procurement")
    hire("Procurement Manager", manager="Procurement Lead", signing_limit=1000)
    hire("Procurement Analyst", manager="Procurement Manager")
    deputy = hire("Deputy Procurement Lead", manager="Procurement Lead", signing_limit=3000, delegate="Procurement Manager")
    lead = company.world.get(Person, company.staff["Procurement Lead"])
    company.world.put_at_start(replace(lead, delegate=deputy.id))


def _set_metrics(
    world: World,
    roles: dict[str, str],
    deal: LicenseDeal,
    terms: dict[str, int],
    notice_days: int,
    limit: int,
    causes: Causes,
) -> None:
    """Set the true value of each metric, drawn from the range that its cause names. `limit` is the lead's signing limit."""
    window, percent_needed = terms["window_days"], 100 + terms["headroom"]
    min_used = -(-deal.bought * terms["minimum_share"] // 100)  # rounded up
    # The largest number of seats in use for which each of these offers has enough seats.
    plain_max, agreed_max, large_max = (100 * deal.offered[offer] // percent_needed for offer in (PLAIN, AGREED, LARGE))
    bands = {
        "days": {"early": (window + 1, window + 90), "due": (notice_days, window), "late": (3, notice_days - 1)},
        "used": {
            "few": (deal.bought // 6, min_used - 1),
            "fits": (min_used, plain_max),
            "grown": (agreed_max + 1, (agreed_max + large_max) // 2),
        },
        "budget": {level: (limit * low // 1000, limit * high // 1000) for level, (low, high) in offers.BUDGETS.items()},
    }
    for role, ranges in bands.items():
        cause = getattr(causes, role)
        value = world.streams.at(role, cause).between(*ranges[cause])
        world.put_at_start(replace(world.get(Source, roles[role]), value=value))
        world.put_at_start(replace(world.get(Metric, roles[role]), value=value))


def _add_tickets(
    company: Backdrop, draw: Draw, deal: LicenseDeal, requester: Person, limit: int, causes: Causes
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same contract, a decoy, a blocker. Return their ids by role."""
    world = company.world
    ticket = add_ticket(
        company,
        requester,
        title=f"Renew {deal.product}",
        kind=FORM,
        desk="procurement",
        assignee=company.staff["Procurement Analyst"],
        subject=deal.product,
        reference=deal.reference,
        status="open",
        priority=draw.pick(("low", "normal", "high")),
        amount=limit * draw.between(50, 190) // 100,
        opened=world.now - draw.between(6, 20) * DAY - draw.between(0, 400),
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Renew {deal.namesake}",
        subject=deal.namesake,
        reference=deal.reference if causes.duplicate else deal.namesake_reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Procurement Manager"],
        amount=draw.between(8, 60) * 250,
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    decoy_product = f"{company.firms.pop(0).name.split()[0]} {draw.pick(offers.PRODUCTS)}"
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="vendor_check",
        title=f"Renew {decoy_product}",
        subject=decoy_product,
        reference=f"REF-{draw.between(10_000, 99_999)}",
    )


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case, cost_center=True)
    earlier, entry, policy, days, used = (roles[role] for role in ("earlier", "entry", "policy", "days", "used"))
    if causes.duplicate:
        facts: CitedFacts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.days == "early":
        return ending(
            "declined", "not_due", decider="desk", facts=((days, "value"), (policy, "window_days")), must_be_fresh=(days,)
        )
    if causes.days == "late":
        facts, sets = ((days, "value"), (entry, "notice_days")), ("escalated_to", roles["lead"])
        return ending("escalated", "too_late", decider="Procurement Lead", facts=facts, sets=sets, must_be_fresh=(days,))
    if causes.used == "few":
        facts = ((used, "value"), (entry, "seats"), (policy, "minimum_share"))
        return ending("declined", "unused", decider="desk", facts=facts, must_be_fresh=(used,))
    right_offer = _right_offer(causes)
    if right_offer is None:
        return ending(
            "cannot_be_done",
            "not_covered",
            decider="desk",
            facts=((used, "value"), (policy, "headroom")),
            must_be_fresh=(used,),
        )
    offer = world.get(Entry, roles[right_offer])
    if causes.budget == "tight" and not (causes.price == "low" and right_offer in (PLAIN, AGREED)):
        facts = ((roles["budget"], "value"), (offer.id, "amount"))
        must_not_cite = tuple((roles[name], "amount") for name in OFFERS if name != right_offer)
        return ending(
            "cannot_be_done",
            "no_budget",
            decider="desk",
            facts=facts,
            must_be_fresh=(roles["budget"],),
            must_not_cite=must_not_cite,
        )
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), (used, "value"))
    required_values = (("offer", offer.id), ("seats", offer.details["seats"]), ("amount", offer.details["amount"]))
    decider = "Procurement Lead" if causes.price == "low" or right_offer == PLAIN else "CFO"
    return ending(
        "completed",
        "all_checks_passed",
        decider=decider,
        facts=facts,
        must_be_fresh=(used,),
        signed=(Signature(FORM, required_values),),
    )


def _right_offer(causes: Causes) -> str | None:
    """Return the role of the right offer, or None if no offer suits."""
    if causes.used == "fits":
        return AGREED if causes.personal or causes.plain == "over" else PLAIN
    if causes.large == "held":
        return LARGE
    return None if causes.personal else BULK


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.
# `compare` and the functions of `working` also write down what the expert compares, as working lines.


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "licence")
    yield from moves.read("datahub.read_policy", policy_id=policies["Licence renewal: order of checks"])
    query = ticket["subject"] if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    entry_id = yield from moves.entry_of(ticket, listed)
    entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    yield from casework.prepare(ticket, entry["id"], style)
    decision = yield from _decide(ticket, entry, policies, approved, style)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (entry, "reference"))


def _decide(
    ticket: moves.Shown,
    entry: moves.Shown,
    policies: dict[str, str],
    approved: dict[str, str],
    style: ExpertStyle,
) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides.

    `policies` and `approved` are the policies and the approved requests of the ticket: ids by title and by form.
    """
    duplicate = yield from casework.mark_duplicate(ticket, aloud=True)
    if duplicate is not None:
        return duplicate
    limits = yield from moves.read("datahub.read_policy", policy_id=policies[LIMITS])
    if style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=entry["used_metric"])
    days = yield from moves.fresh_reading(entry["days_metric"])
    if (yield from compare(("days", days["value"]), ">", ("window", limits["window_days"]), "not due", "due")):
        return "declined", "not_due", moves.cite((days, "value"), (limits, "window_days"))
    if (yield from compare(("days", days["value"]), "<", ("notice", int(entry["notice_days"])), "too late", "in time")):
        lead = yield from moves.read("datahub.get_approver", role="Procurement Lead")
        yield from moves.set_field(ticket["id"], "escalated_to", lead["id"])
        return "escalated", "too_late", moves.cite((days, "value"), (entry, "notice_days"))
    used = yield from moves.fresh_reading(entry["used_metric"])
    used_times_100 = yield from working.compute(PERCENT, "*", used["value"])
    minimum_times_100 = yield from working.compute(limits["minimum_share"], "*", int(entry["seats"]))
    if (yield from compare(("used", used_times_100), "<", minimum_times_100, "hardly used", "used")):
        return "declined", "unused", moves.cite((used, "value"), (entry, "seats"), (limits, "minimum_share"))
    yield from moves.read("datahub.read_policy", policy_id=policies["Licence renewal: choice of offer"])
    percent_needed = yield from working.compute(PERCENT, "+", limits["headroom"])
    need = yield from working.compute(used["value"], "*", percent_needed)
    offer = yield from _choose_offer(ticket, entry, need, style)
    if offer is None:
        return "cannot_be_done", "not_covered", moves.cite((used, "value"), (limits, "headroom"))
    yield from moves.read("datahub.read_policy", policy_id=policies["Licence renewal: budget"])
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    budgets = yield from moves.rows("datahub.list_metrics", prefix="budget_left")
    budget_metric = next(row["id"] for row in budgets if row["id"].endswith(f".{requester['department'].lower()}"))
    budget = yield from moves.fresh_reading(budget_metric)
    if (yield from compare(("budget", budget["value"]), "<", ("offer", int(offer["amount"])), "too little", "enough")):
        return "cannot_be_done", "no_budget", moves.cite((budget, "value"), (offer, "amount"))
    yield from moves.read("datahub.read_policy", policy_id=policies["Licence renewal: signing"])
    yield from moves.correct_cost_center(ticket, requester)
    if FORM in approved:
        request = yield from moves.read("approvalflow.check_status", approval_id=approved[FORM])
    else:
        request = yield from _signed_request(ticket, entry, offer, used, requester)
    yield from moves.set_field(ticket["id"], "approval", request["id"])
    used = yield from moves.fresh_reading(used["id"])  # it may have become too old during the wait
    return (
        "completed",
        "all_checks_passed",
        moves.cite((request, "status"), (request, "decided_by"), (used, "value")),
    )


def _choose_offer(ticket: moves.Shown, entry: moves.Shown, need: int, style: ExpertStyle) -> moves.Move[moves.Shown | None]:
    """Return the smallest suitable offer, or None. `need` is the number of seats needed, in hundredths."""
    listed = yield from moves.search_entries(ticket["subject"])
    suitable = []
    for row in style.order("offers", [row for row in listed if row["kind"] == "offer"]):
        offer = yield from moves.read("datahub.get_entry", entry_id=row["id"])
        if (yield from _is_suitable(offer, ticket, entry, need)):
            suitable.append(offer)
    smallest = min(suitable, key=lambda offer: int(offer["seats"]), default=None)
    verdict = f"{smallest['id']}, {smallest['seats']} seats" if smallest is not None else "none"
    yield from working.note(("will do", *(offer["id"] for offer in suitable)), verdict)
    return smallest


def _is_suitable(offer: moves.Shown, ticket: moves.Shown, entry: moves.Shown, need: int) -> moves.Move[bool]:
    """Return whether an offer is for this contract, has a data agreement if needed, was valid, and has enough seats."""
    contract = ("contract", offer["contract"])
    if not (yield from compare(contract, "==", ticket["reference"], "ours", "another")):
        return False
    if entry["data_class"] == "personal":
        agreement = ("personal, agreement", offer["data_agreement"])
        if not (yield from working.check(agreement, offer["data_agreement"] == "included", "lawful", "no")):
            return False
    age = yield from working.days(offer["issued"], ticket["opened"])
    if not (yield from compare(("age", age), "<=", ("valid_days", int(offer["valid_days"])), "holds", "lapsed")):
        return False
    seats = yield from working.compute(PERCENT, "*", int(offer["seats"]))
    return (yield from compare(("seats", seats), ">=", ("need", need), "will do", "too few"))


def _signed_request(
    ticket: moves.Shown,
    entry: moves.Shown,
    offer: moves.Shown,
    used: moves.Shown,
    requester: moves.Shown,
) -> moves.Move[moves.Shown]:
    """Get a request for this offer signed by the lowest office whose limit covers its amount, and return it."""
    approver = yield from moves.read("datahub.get_approver", role="Procurement Lead")
    if not (yield from moves.covers(approver, int(offer["amount"]))):
        approver = yield from moves.read("datahub.get_approver", role="CFO")
    form_data = {
        "ticket_id": ticket["id"],
        "subject": ticket["subject"],
        "reference": ticket["reference"],
        "offer": offer["id"],
        "seats": int(offer["seats"]),
        "amount": int(offer["amount"]),
        "used": used["value"],
        "cost_center": requester["cost_center"],
        "master_agreement": entry["master_agreement"],
        "supplier_no": entry["supplier_no"],
    }
    return (yield from moves.get_signed(FORM, approver, form_data, metric=entry["used_metric"]))


FAMILY = Family(
    name="license_renewal",
    phrase="licence renewal",
    causes=Causes,
    actor="Procurement Analyst",
    hire=_hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 62, 25: 97, 50: 119, 75: 151, 100: 181},
)
