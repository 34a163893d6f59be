"""Contract renewal: should the company keep this contract, and can it still give notice?

What makes it hard: dates, and an amendment that may not be binding. The contract renews by itself unless notice is given in
time. The notice period and the next amount are those of the contract, or of an amendment that is binding only if it was
countersigned in time. Only Legal knows when that was. Only Finance knows the budget, and answers after Legal. The terms that
apply decide both whether notice is still possible and whether the contract is wanted.
"""

from datetime import date
from functools import partial
from typing import Annotated, Literal

from companyos.company import Entry, Mind, Person, Ticket
from companyos.core.calls import Procedure
from companyos.core.world import Draw, Streams, World, stamp
from companyos.families.contract_papers import (
    ContractDeal,
    add_papers,
    add_tickets,
    draw_countersigned,
    draw_dates,
    draw_deal,
)
from companyos.families.contract_rules import (
    BRIEFS,
    LAWYER,
    NOTICE_FORM,
    OFFICER,
    RENEWAL_FORM,
    STATEMENTS,
    USAGE,
    add_contract_policies,
    hire,
    notice_form,
    renewal_form,
)
from companyos.families.kit import casework, endings, moves
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, one_line, set_metric, tell
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Signature,
)

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this contract, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.91, 0.09), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    frame: Annotated[
        Literal["holds", "ends"],
        Fact(odds=(0.89, 0.11), shown_in=(("Entry", "framework", "ends"),)),
        "whether the framework agreement ends before the day of renewal",
    ]
    gap: Annotated[
        Literal["wide", "between", "past"],
        Fact(odds=(0.3, 0.4, 0.3), shown_in=(("Entry", "entry", "renews_on"),)),
        "the days until the renewal: more than both notice periods, between them, or less than both",
    ]
    amended: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Mind", "lawyer", "knows"),)),
        "the amendment was countersigned in time and is binding; only Legal knows",
    ]
    used: Annotated[
        bool,
        Fact(odds=(0.25, 0.75), shown_in=(("Source", "usage", "value"), ("Metric", "usage", "value"))),
        "the contract is used enough",
    ]
    budget: Annotated[
        Literal["ample", "tight"],
        Fact(odds=(0.57, 0.43), shown_in=(("Mind", "officer", "knows"),)),
        "whether the budget suffices for the higher of the two amounts, or only for the lower; only Finance knows",
    ]
    annex: Annotated[
        Literal["valid", "ends"],
        Fact(odds=(0.8, 0.2), shown_in=(("Entry", "entry", "data_annex_ends"),)),
        "whether the data annex ends before the day of renewal",
    ]
    value: Annotated[
        Literal["low", "high"],
        Fact(
            odds=(0.55, 0.45),
            shown_in=(("Entry", "entry", "amount"), ("Entry", "amendment", "amount"), ("Mind", "officer", "knows")),
        ),
        "whose signing limit lies between the two amounts: the Procurement Lead's or the CFO's",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    usage_stale: Annotated[bool, Trouble(dial="stale", target=("usage",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("usage",))]
    lead_away: Annotated[bool, Trouble(dial="absence", target=("lead",))]
    lead_deputy_away: Annotated[bool, Trouble(dial="absence", target=("lead_deputy",))]
    counsel_away: Annotated[bool, Trouble(dial="absence", target=("counsel",))]
    counsel_deputy_away: Annotated[bool, Trouble(dial="absence", target=("counsel_deputy",))]
    cfo_away: Annotated[bool, Trouble(dial="absence", target=("cfo",))]
    controller_away: Annotated[bool, Trouble(dial="absence", target=("controller",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"],
        Trouble(
            dial="rejections",
            target=(
                *("lead", "lead_deputy", "lead_third"),
                *("counsel", "counsel_deputy", "counsel_third"),
                *("cfo", "controller", "treasurer"),
            ),
        ),
    ]
    supplier_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=supplier_no"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    department = draw.pick(DEPARTMENTS)
    requester = world.get(Person, staff[f"{department} Associate"])
    minimum = draw.pick((40, 50, 60))
    policy = add_contract_policies(company, {"minimum_usage": minimum})
    world.put_at_start(renewal_form())
    world.put_at_start(notice_form())
    deal = draw_deal(company, draw)
    # The records and people of the case: ids by role. `lead_third` signs if `lead` and `lead_deputy` are away.
    roles = {
        "requester": requester.id,
        "form": RENEWAL_FORM,
        "policy": policy.id,
        "head": staff[f"Head of {department}"],
        "ceo": staff["CEO"],
        "compliance": staff["Compliance Officer"],
        "lawyer": staff[LAWYER],
        "officer": staff[OFFICER],
        "lead": staff["Procurement Lead"],
        "lead_deputy": staff["Deputy Procurement Lead"],
        "lead_third": staff["Contracts Manager"],
        "counsel": staff["Legal Counsel"],
        "counsel_deputy": staff["Deputy Legal Counsel"],
        "counsel_third": staff["Associate Counsel"],
        "cfo": staff["CFO"],
        "controller": staff["Finance Controller"],
        "treasurer": staff["Treasurer"],
    }
    roles |= add_tickets(company, draw, deal, requester, causes.duplicate)
    roles |= _add_papers(company, draw, deal, roles, causes)
    band = (minimum, 98) if causes.used else (5, minimum - 1)
    usage = streams.at("usage", str(causes.used)).between(*band)
    set_metric(world, roles["usage"], usage)
    manager = world.get(Person, roles["lead_third"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], contract=deal.name, manager=manager.name)
    return Case(roles["ticket"], staff["Contracts Analyst"], brief, roles)


def _add_papers(company: Backdrop, draw: Draw, deal: ContractDeal, roles: dict[str, str], causes: Causes) -> dict[str, str]:
    """Add the contract and its amendments, and what Legal and Finance know about them. Return their ids by role."""
    world, streams, ticket = company.world, company.world.streams, roles["ticket"]
    limit = world.get(Person, roles["lead" if causes.value == "low" else "cfo"]).limit or 0
    amount_draw = streams.at("amounts", causes.value)
    lower, higher = limit * amount_draw.between(60, 100) // 100, limit * amount_draw.between(101, 150) // 100
    dates = draw_dates(streams, deal, causes.gap, causes.frame, causes.annex)
    papers = add_papers(company, draw, deal, world.get(Ticket, ticket).opened, (lower, higher), dates)
    countersigned_on = draw_countersigned(streams.at("countersigned", str(causes.amended)), papers.amendment, causes.amended)
    budget_draw = streams.at("committed", causes.budget, causes.value)
    budget = (
        budget_draw.between(higher, higher * 4 // 3) if causes.budget == "ample" else budget_draw.between(lower, higher - 1)
    )
    # the names under which Legal and Finance state what they know
    legal_name, finance_name = STATEMENTS[LAWYER], STATEMENTS[OFFICER]
    tell(world, roles["lawyer"], ticket, {legal_name: countersigned_on})
    tell(world, roles["officer"], ticket, {finance_name: str(budget)}, after={roles["lawyer"]: legal_name})
    return {
        "entry": papers.contract.id,  # what the ticket is about
        "framework": papers.framework.id,
        "amendment": papers.amendment.id,
        "draft": papers.draft.id,
        "usage": papers.contract.details["usage_metric"],
    }


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles, contract = case.roles, world.get(Entry, case.roles["entry"])
    ending = partial(endings.ending, world, case, cost_center=True)
    renewal_date = (contract.id, "renews_on")
    if causes.duplicate:
        facts: CitedFacts = ((roles["earlier"], "reference"), (roles["earlier"], "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", roles["earlier"]))
    if causes.frame == "ends":
        to_requester = ("waiting_on", roles["requester"])
        return ending(
            "cannot_be_done",
            "not_covered",
            decider="desk",
            facts=((roles["framework"], "ends"), renewal_date),
            sets=to_requester,
        )
    terms = world.get(Entry, roles["amendment"]) if causes.amended else contract  # the paper whose terms apply
    amount = int(terms.details["amount"])
    other_papers = [roles[name] for name in ("entry", "amendment", "draft") if roles[name] != terms.id]
    must_not_cite = tuple((other_paper, field) for other_paper in other_papers for field in ("amount", "notice_days"))
    ending = partial(ending, must_be_fresh=(roles["usage"],), must_not_cite=must_not_cite)
    legal_statement, finance_statement = (
        (ANSWER + roles[role], STATEMENTS[name]) for role, name in (("lawyer", LAWYER), ("officer", OFFICER))
    )
    funded = int(world.get(Mind, roles["officer"]).knows[case.ticket_id][STATEMENTS[OFFICER]]) >= amount
    if not (causes.used and funded):
        opened = date.fromisoformat(stamp(world.get(Ticket, case.ticket_id).opened)[:10])
        days_left = (date.fromisoformat(contract.details["renews_on"]) - opened).days
        if days_left < int(terms.details["notice_days"]):
            facts = (renewal_date, (terms.id, "notice_days"), legal_statement)
            return ending("escalated", "too_late", decider="head", facts=facts, sets=("escalated_to", roles["head"]))
        if not causes.used:
            facts = ((roles["usage"], "value"), (roles["policy"], "minimum_usage"), (SIGNED_REQUEST, "status"))
            return ending("declined", "unused", decider="Legal Counsel", facts=facts, signed=(_request(NOTICE_FORM, terms),))
    facts = ((terms.id, "amount"), finance_statement, (SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"))
    if not funded:
        return ending("declined", "no_budget", decider="Legal Counsel", facts=facts, signed=(_request(NOTICE_FORM, terms),))
    if causes.annex == "ends":
        sets = ("waiting_on", roles["compliance"])
        return ending(
            "on_hold", "document_expired", decider="desk", facts=((contract.id, "data_annex_ends"), renewal_date), sets=sets
        )
    if amount > (world.get(Person, roles["cfo"]).limit or 0):
        facts_beyond: CitedFacts = ((terms.id, "amount"), (roles["cfo"], "limit"))
        return ending(
            "escalated", "beyond_authority", decider="CEO", facts=facts_beyond, sets=("escalated_to", roles["ceo"])
        )
    decider = "CFO" if amount > (world.get(Person, roles["lead"]).limit or 0) else "Procurement Lead"
    return ending("completed", "all_checks_passed", decider=decider, facts=facts, signed=(_request(RENEWAL_FORM, terms),))


def _request(form: str, terms: Entry) -> Signature:
    """Return the request that must be signed. It names the contract or amendment whose terms apply."""
    field = "amount" if form == RENEWAL_FORM else "notice_days"
    return Signature(form, (("terms", terms.id), (field, terms.details[field])))


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.


class ContractNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Contract renewal"

    contract: moves.Shown
    amendment: str  # the id of the signed amendment

    def statement(self, job_title: str) -> moves.Move[moves.Shown]:
        """Return the comment in which the person with this job title states what only they know."""
        person = yield from moves.read("datahub.get_approver", role=job_title)
        name = STATEMENTS[job_title]
        return (yield from moves.ask_person(self.ticket["id"], person["id"], name, f"Could you state {name}, please?"))


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "contract")
    query = ticket["subject"] if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    contract_id = next(row["id"] for row in listed if row["reference"] == ticket["reference"])
    contract = yield from moves.read("datahub.get_entry", entry_id=contract_id)
    amendments = [row for row in listed if row["reference"].startswith(f"{ticket['reference']}/")]
    signed = next(row["id"] for row in amendments if row["status"] == "signed")
    notes = ContractNotes(ticket, policies, approved, style, contract, signed)
    yield from notes.read_rule("order of checks")
    yield from casework.prepare(ticket, contract["id"], style)
    if style.chooses("ask Legal before it is needed"):
        yield from notes.read_rule("departments")
        yield from notes.statement(LAWYER)
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (contract, "party"))


def _decide(notes: ContractNotes) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket, contract = notes.ticket, notes.contract
    duplicate = yield from casework.mark_duplicate(ticket)
    if duplicate is not None:
        return duplicate
    yield from notes.read_rule("departments")
    framework = yield from moves.read("datahub.get_entry", entry_id=contract["framework"])
    if framework["ends"] < contract["renews_on"]:
        yield from notes.send_back()
        return "cannot_be_done", "not_covered", moves.cite((framework, "ends"), (contract, "renews_on"))
    usage_rule = yield from moves.read("datahub.read_policy", policy_id=notes.policies[USAGE])
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=contract["usage_metric"])
    usage = yield from moves.fresh_reading(contract["usage_metric"])
    used = usage["value"] >= usage_rule["minimum_usage"]
    yield from notes.read_rule("terms and notice")
    legal_comment = yield from notes.statement(LAWYER)
    terms = yield from _terms_that_apply(notes, legal_comment)
    finance_comment = (yield from notes.statement(OFFICER)) if used else None
    if finance_comment and int(finance_comment["committed"]) >= int(terms["amount"]):
        decision = yield from _renew(notes, terms, usage, finance_comment)
    elif moves.days_between(ticket["opened"], contract["renews_on"]) < int(terms["notice_days"]):
        decision = yield from _stay_bound(notes, terms, legal_comment)
    else:
        yield from notes.read_rule("signing")
        request = yield from _signed(notes, NOTICE_FORM, "Legal Counsel", terms, usage)
        if finance_comment:
            evidence = moves.cite((terms, "amount"), (finance_comment, "committed"), (request, "decided_by"))
        else:
            evidence = moves.cite((usage, "value"), (usage_rule, "minimum_usage"))
        decision = "declined", "no_budget" if finance_comment else "unused", evidence + moves.cite((request, "status"))
    yield from moves.fresh_reading(usage["id"])  # it may have become too old during the wait
    return decision


def _stay_bound(notes: ContractNotes, terms: moves.Shown, legal_comment: moves.Shown) -> moves.Move[Decision]:
    """Escalate a contract that is not wanted but for which notice would be too late."""
    requester = yield from moves.read("datahub.get_person", person_id=notes.ticket["requester"])
    head = yield from moves.read("datahub.get_approver", role=f"Head of {requester['department']}")
    yield from notes.record("escalated_to", head["id"])
    evidence = moves.cite((notes.contract, "renews_on"), (terms, "notice_days"), (legal_comment, "countersigned"))
    return "escalated", "too_late", evidence


def _renew(
    notes: ContractNotes, terms: moves.Shown, usage: moves.Shown, finance_comment: moves.Shown
) -> moves.Move[Decision]:
    """Decide on a contract that is wanted: find what prevents its renewal, or get the renewal signed."""
    contract = notes.contract
    if contract["data_annex_ends"] < contract["renews_on"]:
        officer = yield from moves.read("datahub.get_approver", role="Compliance Officer")
        yield from notes.record("waiting_on", officer["id"])
        return "on_hold", "document_expired", moves.cite((contract, "data_annex_ends"), (contract, "renews_on"))
    yield from notes.read_rule("signing")
    amount = int(terms["amount"])
    lead = yield from moves.read("datahub.get_approver", role="Procurement Lead")
    cfo = yield from moves.read("datahub.get_approver", role="CFO")
    if amount > cfo["limit"]:
        ceo = yield from moves.read("datahub.get_approver", role="CEO")
        yield from notes.record("escalated_to", ceo["id"])
        return "escalated", "beyond_authority", moves.cite((terms, "amount"), (cfo, "limit"))
    request = yield from _signed(notes, RENEWAL_FORM, "CFO" if amount > lead["limit"] else "Procurement Lead", terms, usage)
    evidence = moves.cite((terms, "amount"), (finance_comment, "committed"), (request, "status"), (request, "decided_by"))
    return "completed", "all_checks_passed", evidence


def _terms_that_apply(notes: ContractNotes, legal_comment: moves.Shown) -> moves.Move[moves.Shown]:
    """Return the amendment if it was countersigned in time, else the contract."""
    amendment: moves.Shown = yield from moves.read("datahub.get_entry", entry_id=notes.amendment)
    days_waited = moves.days_between(amendment["sent_on"], legal_comment["countersigned"])
    return amendment if days_waited <= int(amendment["open_days"]) else notes.contract


def _signed(
    notes: ContractNotes, form: str, job_title: str, terms: moves.Shown, usage: moves.Shown
) -> moves.Move[moves.Shown]:
    """Return an approved request that names these terms, and link it to the ticket."""
    ticket, contract = notes.ticket, notes.contract
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    if form == RENEWAL_FORM and ticket["cost_center"] != requester["cost_center"]:
        yield from notes.record("cost_center", requester["cost_center"])
    if form in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[form])
    else:
        approver = yield from moves.read("datahub.get_approver", role=job_title)
        form_data = {
            "ticket_id": ticket["id"],
            "subject": ticket["subject"],
            "reference": ticket["reference"],
            "terms": terms["id"],
            "amount": int(terms["amount"]),
            "notice_days": int(terms["notice_days"]),
            "renews_on": contract["renews_on"],
            "usage": usage["value"],
            "cost_center": requester["cost_center"],
            "file_no": contract["file_no"],
            "supplier_no": contract["supplier_no"],
        }
        request = yield from moves.get_signed(form, approver, form_data, metric=contract["usage_metric"])
    yield from notes.record("approval", request["id"])
    return request


FAMILY = Family(
    name="contract_renewal",
    phrase="contract renewal",
    causes=Causes,
    actor="Contracts Analyst",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 65, 25: 95, 50: 121, 75: 146, 100: 170},
)
