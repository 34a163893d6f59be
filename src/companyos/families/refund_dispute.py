"""Refund dispute: what happened, whose records are right, and which terms applied on the day of the order?

What makes it hard: the customer, the shop, the carrier and the ledger disagree on when the goods were delivered and
returned, on what was paid, how it was paid, and on what was refunded. A policy says whose record takes precedence. The terms
of sale that were in force on the day of the order apply: only in this family a superseded policy may be the right one. Each
of the three versions is the most generous one in some tasks.
"""

from functools import partial
from typing import Annotated, Literal

from companyos.company import Entry, Person, Policy
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Streams, World
from companyos.families.kit import casework, endings, moves
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, change_entry, one_line, set_metric
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    SIGNED_REQUEST,
    Signature,
)
from companyos.families.refund_records import (
    OUR_CHANNELS,
    THEIR_CHANNELS,
    VERSIONS,
    RefundCalendar,
    RefundRecords,
    SalePeriods,
    add_records,
    add_tickets,
    add_versions,
    date_of,
    draw_calendar,
    draw_periods,
)
from companyos.families.refund_rules import (
    AMOUNTS,
    BRIEFS,
    FULL,
    GOODWILL,
    LIMITS,
    SIGNERS,
    TERMS_OF_SALE,
    add_refund_policies,
    hire,
    refund_form,
)

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this order, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one. In the target of a trouble,
    `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.91, 0.09), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    paid: Annotated[
        bool, Fact(odds=(0.9, 0.1), shown_in=(("Entry", "refund", "status"),)), "the refund has been paid already"
    ]
    rate: Annotated[
        Literal["low", "high"],
        Fact(odds=(0.88, 0.12), shown_in=(("Source", "refund_rate", "value"), ("Metric", "refund_rate", "value"))),
        "the share of this customer's orders that were refunded; a high share is treated as misuse",
    ]
    sent: Annotated[bool, Fact(odds=(0.11, 0.89), shown_in=(("Entry", "back", "status"),)), "the goods were really returned"]
    terms: Annotated[
        Literal["old", "mid", "new"],
        Fact(odds=(0.34, 0.33, 0.33), shown_in=(("Entry", "entry", "ordered"),)),
        "which version of the terms was in force on the day of the order",
    ]
    took: Annotated[
        Literal["prompt", "slow", "late", "later", "gone"],
        Fact(odds=(0.25, 0.3, 0.15, 0.2, 0.1), shown_in=(("Entry", "back", "date"),)),
        "the days until the return; for slow and later the refund depends on the version of the terms, else it does not",
    ]
    favour: Annotated[
        bool,
        Fact(odds=(0.65, 0.35), shown_in=(("Entry", "goodwill", "status"),)),
        "the customer has already had a goodwill refund",
    ]
    ours: Annotated[
        bool,
        Fact(odds=(0.23, 0.77), shown_in=(("Entry", "payment", "channel"),)),
        "the payment came through one of the company's own channels",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    rate_stale: Annotated[bool, Trouble(dial="stale", target=("refund_rate",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("refund_rate",))]
    lead_away: Annotated[bool, Trouble(dial="absence", target=("lead",))]
    lead_deputy_away: Annotated[bool, Trouble(dial="absence", target=("lead_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(dial="rejections", target=("lead", "lead_deputy", "lead_third", "cfo", "controller", "treasurer")),
    ]
    parcel_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=parcel"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    requester = staff[f"{draw.pick(DEPARTMENTS)} Associate"]
    limits = {"limit": draw.pick((30, 35, 40, 45)), "max_age_days": draw.between(7, 14)}
    misuse = add_refund_policies(company, limits)
    calendar, periods = draw_calendar(world.now // DAY, draw), draw_periods(draw)
    versions = add_versions(company, draw, calendar, periods)
    world.put_at_start(refund_form(FULL, "Full refund"))
    world.put_at_start(refund_form(GOODWILL, "Goodwill refund"))
    records = add_records(company, draw, calendar)
    # The records and people of the case: ids by role. `lead_third` signs if `lead` and `lead_deputy` are away.
    roles = {
        "requester": requester,
        "entry": records.order.id,  # what the ticket is about
        "payment": records.payment.id,
        "refund": records.refund.id,
        "delivery": records.delivery_scan.id,
        "back": records.return_scan.id,  # the scan of the return
        "goodwill": records.goodwill.id,
        "refund_rate": records.order.details["refund_rate_metric"],
        "form": FULL,
        "policy": misuse.id,
        "compliance": staff["Compliance Officer"],
        "lead": staff["Care Lead"],
        "lead_deputy": staff["Deputy Care Lead"],
        "lead_third": staff["Care Supervisor"],
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "treasurer": staff["Treasurer"],
    }
    roles |= {name: version.id for name, version in versions.items()}
    roles |= add_tickets(company, draw, records, requester, causes.duplicate)
    _show_facts(company, records, calendar, periods, causes)
    _set_rate(world, roles["refund_rate"], limits, causes)
    lead = world.get(Person, staff["Care Lead"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], customer=records.customer.name, lead=lead.name)
    return Case(roles["ticket"], staff["Care Agent"], brief, roles)


def _show_facts(
    company: Backdrop, records: RefundRecords, calendar: RefundCalendar, periods: SalePeriods, causes: Causes
) -> None:
    """Write each fact into the field that shows it."""
    streams = company.world.streams
    full, goodwill = periods.returns, periods.goodwills  # days, of the three versions, in rising order
    bands = {  # the days until the return, by `causes.took`
        "prompt": (2, full[0]),
        "slow": (full[0] + 1, full[1]),
        "late": (full[2] + 1, goodwill[0]),
        "later": (goodwill[1] + 1, goodwill[2]),
        "gone": (goodwill[2] + 1, goodwill[2] + 6),
    }
    days = streams.at("took", causes.took).between(*bands[causes.took])
    ordered = streams.at("ordered", causes.terms).between(*calendar.ordered[causes.terms])
    channel = streams.at("channel", str(causes.ours)).pick(OUR_CHANNELS if causes.ours else THEIR_CHANNELS)
    change_entry(company, records.order, ordered=date_of(ordered))
    returned = date_of(calendar.delivered + days)
    change_entry(company, records.return_scan, "scanned" if causes.sent else "announced", date=returned)
    change_entry(company, records.refund, "booked" if causes.paid else "reversed")
    change_entry(company, records.goodwill, "booked" if causes.favour else "reversed")
    change_entry(company, records.payment, channel=channel)


def _set_rate(world: World, metric: str, limits: dict[str, int], causes: Causes) -> None:
    """Set the share of refunded orders to a value on the side of the limit that the cause `rate` names."""
    band = {"low": (2, limits["limit"]), "high": (limits["limit"] + 1, 95)}[causes.rate]
    value = world.streams.at("rate", causes.rate).between(*band)
    set_metric(world, metric, value, limits["max_age_days"])


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case, cost_center=True)
    earlier, rate = roles["earlier"], roles["refund_rate"]
    to_requester = ("waiting_on", roles["requester"])
    if causes.duplicate:
        facts: CitedFacts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.paid:
        return ending("declined", "already_done", decider="desk", facts=((roles["refund"], "status"),), sets=to_requester)
    if causes.rate == "high":
        facts, sets = ((rate, "value"), (roles["policy"], "limit")), ("escalated_to", roles["compliance"])
        return ending(
            "escalated", "above_limit", decider="Compliance Officer", facts=facts, sets=sets, must_be_fresh=(rate,)
        )
    if not causes.sent:
        return ending(
            "on_hold", "missing_information", decider="desk", facts=((roles["back"], "status"),), sets=to_requester
        )
    return _judge_return(world, case, causes)


def _judge_return(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending for goods that were returned: the refund by the terms that apply, if it can be paid."""
    roles, version = case.roles, case.roles[causes.terms]
    ending = partial(endings.ending, world, case, cost_center=True)
    to_requester = ("waiting_on", roles["requester"])
    form = _form_owed(causes, {name: world.get(Policy, roles[name]).terms for name in VERSIONS})
    term = LIMITS[form or GOODWILL]  # the term that decides
    other_versions = [roles[name] for name in VERSIONS if name != causes.terms]
    must_not_cite: CitedFacts = tuple((other_version, term) for other_version in other_versions)
    if form is None:
        facts: CitedFacts = ((roles["back"], "date"), (roles["delivery"], "date"), (version, term))
        return ending("declined", "too_late", decider="desk", facts=facts, sets=to_requester, must_not_cite=must_not_cite)
    if form == GOODWILL and causes.favour:
        facts = ((roles["goodwill"], "status"), (version, "return_days"))
        must_not_cite = tuple((other_version, "return_days") for other_version in other_versions)
        return ending("declined", "not_covered", decider="desk", facts=facts, sets=to_requester, must_not_cite=must_not_cite)
    if not causes.ours:
        facts, sets = ((roles["payment"], "channel"),), ("escalated_to", roles["treasurer"])
        must_not_cite = ((roles["entry"], "channel"),)
        return ending(
            "cannot_be_done", "beyond_authority", decider="Treasurer", facts=facts, sets=sets, must_not_cite=must_not_cite
        )
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), (version, term))
    amount = world.get(Entry, roles["payment"]).details[AMOUNTS[form]]
    signature = Signature(form, (("terms", version), ("amount", amount)))
    signer = SIGNERS[form]
    return ending(
        "completed",
        "all_checks_passed",
        decider=signer,
        facts=facts,
        must_be_fresh=(roles["refund_rate"],),
        must_not_cite=must_not_cite,
        signed=(signature,),
    )


def _form_owed(causes: Causes, versions: dict[str, dict[str, int]]) -> str | None:
    """Return the form of the refund that the customer is owed, or None. `versions` are the terms of all versions."""
    applies = versions[causes.terms]
    return_is_shortest = applies["return_days"] == min(version["return_days"] for version in versions.values())
    goodwill_is_longest = applies["goodwill_days"] == max(version["goodwill_days"] for version in versions.values())
    if causes.took == "prompt" or (causes.took == "slow" and not return_is_shortest):
        return FULL
    if causes.took in ("slow", "late") or (causes.took == "later" and goodwill_is_longest):
        return GOODWILL
    return None


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.


class RefundNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Refund dispute"

    order: moves.Shown
    filed: dict[str, moves.Shown]  # the entries about the order, by name

    def read_filed(self, name: str) -> moves.Move[moves.Shown]:
        """Read the entry about the order that has this name."""
        entry: moves.Shown = yield from moves.read("datahub.get_entry", entry_id=self.filed[name]["id"])
        return entry


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "refund")
    listed = yield from moves.search_entries(ticket["reference"])
    filed = {row["name"]: row for row in listed}
    order_id = next(row["id"] for row in listed if row["reference"] == ticket["reference"])
    order = yield from moves.read("datahub.get_entry", entry_id=order_id)
    notes = RefundNotes(ticket, policies, approved, style, order, filed)
    for title in style.order("read up", ["order of checks", "whose word counts"]):
        yield from notes.read_rule(title)
    yield from casework.prepare(ticket, order["id"], style)
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (order, "reference"))


def _decide(notes: RefundNotes) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket, order = notes.ticket, notes.order
    duplicate = yield from casework.mark_duplicate(ticket)
    if duplicate is not None:
        return duplicate
    if notes.filed["Refund"]["status"] == "booked":
        yield from notes.send_back()
        return "declined", "already_done", moves.cite((notes.filed["Refund"], "status"))
    misuse = yield from notes.read_rule("misuse")
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=order["refund_rate_metric"])
    rate = yield from moves.fresh_reading(order["refund_rate_metric"])
    if rate["value"] > misuse["limit"]:
        officer = yield from moves.read("datahub.get_approver", role="Compliance Officer")
        yield from notes.record("escalated_to", officer["id"])
        return "escalated", "above_limit", moves.cite((rate, "value"), (misuse, "limit"))
    if notes.filed["Scan: return"]["status"] != "scanned":
        yield from notes.send_back()
        return "on_hold", "missing_information", moves.cite((notes.filed["Scan: return"], "status"))
    return_scan = yield from notes.read_filed("Scan: return")
    delivery_scan = yield from notes.read_filed("Scan: delivered")
    terms = yield from _terms_that_apply(notes)
    days_kept = moves.days_between(delivery_scan["date"], return_scan["date"])
    form = next((form for form in (FULL, GOODWILL) if days_kept <= terms[LIMITS[form]]), None)
    if form is None:
        yield from notes.send_back()
        return "declined", "too_late", moves.cite((return_scan, "date"), (delivery_scan, "date"), (terms, "goodwill_days"))
    yield from notes.read_rule("amounts and channels")
    if form == GOODWILL:
        for row in (yield from moves.search_entries(order["customer"])):
            if row["kind"] == "ledger" and row["status"] == "booked":
                yield from notes.send_back()
                return "declined", "not_covered", moves.cite((row, "status"), (terms, "return_days"))
    payment = yield from notes.read_filed("Payment")
    if payment["channel"] not in OUR_CHANNELS:
        treasurer = yield from moves.read("datahub.get_approver", role="Treasurer")
        yield from notes.record("escalated_to", treasurer["id"])
        return "cannot_be_done", "beyond_authority", moves.cite((payment, "channel"))
    form_values = {
        "amount": int(payment[AMOUNTS[form]]),
        "terms": terms["id"],
        "delivered": delivery_scan["date"],
        "returned": return_scan["date"],
        "refund_rate": rate["value"],
    }
    request = yield from _signed(notes, form, form_values)
    if moves.days_between(rate["measured_at"], request["decided_at"]) >= misuse["max_age_days"]:
        yield from moves.fresh_reading(rate["id"])  # it became too old during the wait
    evidence = moves.cite((request, "status"), (request, "decided_by"), (terms, LIMITS[form]))
    return "completed", "all_checks_passed", evidence


def _terms_that_apply(notes: RefundNotes) -> moves.Move[moves.Shown]:
    """Return the version of the terms of sale that was in force on the day of the order."""
    yield from notes.read_rule("which terms apply")
    listed = yield from moves.rows("datahub.search_policies", query=TERMS_OF_SALE)
    versions = []
    for row in notes.style.order("versions", [row for row in listed if row["title"] == TERMS_OF_SALE]):
        versions.append((yield from moves.read("datahub.read_policy", policy_id=row["id"])))
    in_force = [version for version in versions if version["since"][:10] <= notes.order["ordered"]]
    return max(in_force, key=lambda version: str(version["since"]))


def _signed(notes: RefundNotes, form: str, form_values: moves.Shown) -> moves.Move[moves.Shown]:
    """Return the approved request of this form, and link it to the ticket. `form_values`: values by field."""
    ticket, order = notes.ticket, notes.order
    yield from notes.read_rule("signing")
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    if ticket["cost_center"] != requester["cost_center"]:
        yield from notes.record("cost_center", requester["cost_center"])
    if form in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[form])
    else:
        approver = yield from moves.read("datahub.get_approver", role=SIGNERS[form])
        from_ticket = {"ticket_id": ticket["id"], "subject": ticket["subject"], "reference": ticket["reference"]}
        from_records = {"cost_center": requester["cost_center"], "invoice": order["invoice"], "parcel": order["parcel"]}
        request = yield from moves.get_signed(
            form, approver, from_ticket | from_records | form_values, metric=order["refund_rate_metric"]
        )
    yield from notes.record("approval", request["id"])
    return request


FAMILY = Family(
    name="refund_dispute",
    phrase="refund dispute",
    causes=Causes,
    actor="Care Agent",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 55, 25: 81, 50: 107, 75: 130, 100: 151},
)
