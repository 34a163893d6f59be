"""Employee offboarding: may all accounts of this person be erased for good?

What makes it hard: the last step cannot be undone, and the approvers do not check what forbids it. So the agent has to find
out first, and most of it is known to other people only. Legal, Finance and IT each state one fact, in this order, and each
fact needs a second one. Legal names a project: the records show whether the leaver worked on it late enough. Finance names a
debt: a fresh metric shows whether the final pay covers it. IT names a shared account: other people's records show who may
take it over.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Metric, Person, Source
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Streams, World, stamp
from companyos.families.kit import casework, endings, moves
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, change_entry, one_line, tell
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
from companyos.families.offboarding_files import OPEN, OffboardingRecords, add_records, add_tickets
from companyos.families.offboarding_rules import (
    BRIEFS,
    CLOSURE,
    KIND,
    STATEMENTS,
    SUSPENSION,
    add_offboarding_policies,
    closure_form,
    hire,
    suspension_form,
)

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this person, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    duplicate: Annotated[
        bool,
        Fact(odds=(0.91, 0.09), shown_in=(("Ticket", "earlier", "reference"),)),
        "another open ticket asks for the same",
    ]
    stays: Annotated[
        bool, Fact(odds=(0.89, 0.11), shown_in=(("Entry", "last_notice", "status"),)), "the last notice was withdrawn"
    ]
    held: Annotated[
        Literal["none", "person", "project", "other"],
        Fact(odds=(0.31, 0.11, 0.38, 0.2), shown_in=(("Mind", "counsel", "knows"),)),
        "what is under legal hold: nothing, this person, one of their projects, or something else; only Legal knows",
    ]
    until: Annotated[
        Literal["early", "late"],
        Fact(odds=(0.55, 0.45), shown_in=(("Entry", "past", "until"),)),
        "whether the leaver was still on the project when the legal hold began",
    ]
    owed: Annotated[
        Literal["low", "mid", "high"],
        Fact(odds=(0.63, 0.25, 0.12), shown_in=(("Mind", "accountant", "knows"),)),
        "what the leaver owes; only the Payroll Accountant knows",
    ]
    pay: Annotated[
        Literal["low", "high"],
        Fact(odds=(0.5, 0.5), shown_in=(("Source", "final_pay", "value"), ("Metric", "final_pay", "value"))),
        "the final pay, which has to cover the debt",
    ]
    shared: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Mind", "administrator", "knows"),)),
        "the leaver holds a shared account; only the IT Administrator knows",
    ]
    heir: Annotated[
        bool,
        Fact(odds=(0.52, 0.48), shown_in=(("Entry", "successor", "status"),)),
        "another holder of the shared account may take it over",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    cost_center_outdated: Annotated[bool, Trouble(dial="outdated_fields", target=("ticket",))]
    cost_center_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=cost_center"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    pay_stale: Annotated[bool, Trouble(dial="stale", target=("final_pay",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("final_pay",))]
    cto_away: Annotated[bool, Trouble(dial="absence", target=("cto",))]
    it_lead_away: Annotated[bool, Trouble(dial="absence", target=("it_lead",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"], Trouble(dial="rejections", target=("cto", "it_lead", "it_duty"))
    ]
    badge_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=badge"))]


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    department, *other_departments = draw.shuffled(DEPARTMENTS)
    leaver, successor, gone = (world.get(Person, staff[f"{name} Associate"]) for name in (department, *other_departments))
    terms = {"withhold_percent": draw.pick((30, 40, 50)), "max_age_days": draw.between(7, 14)}
    policy = add_offboarding_policies(company, terms)
    world.put_at_start(closure_form())
    world.put_at_start(suspension_form())
    records = add_records(company, draw, leaver, successor, gone)
    # The records and people of the case: ids by role.
    roles = {
        "requester": staff[f"{department} Manager"],
        "entry": records.leaver.id,  # what the ticket is about
        "last_notice": records.last_notice.id,
        "first_notice": records.first_notice.id,
        "past": records.past.id,
        "present": records.present.id,
        "final_pay": records.leaver.details["final_pay_metric"],
        "account": records.account.id,
        "successor": records.successor.id,
        "gone": records.gone.id,
        "heir": successor.id,
        "form": CLOSURE,
        "policy": policy.id,
        "counsel": staff["Legal Counsel"],
        "accountant": staff["Payroll Accountant"],
        "administrator": staff["IT Administrator"],
        "controller": staff["Finance Controller"],
        "compliance": staff["Compliance Officer"],
        "cto": staff["CTO"],
        "it_lead": staff["IT Lead"],
        "it_duty": staff["IT Duty Manager"],
    }
    roles |= add_tickets(company, draw, records, KIND, roles["requester"], causes.duplicate)
    change_entry(company, records.last_notice, status="withdrawn" if causes.stays else "accepted")
    change_entry(company, records.successor, status="employed" if causes.heir else "left")
    _set_hold(company, records, roles, causes)
    _set_money(world, roles, terms, causes)
    # The administrator answers only after Legal and the accountant.
    answers_needed = {roles["counsel"]: "held", roles["accountant"]: "owed"}
    shared_account = {"shared": records.account.id if causes.shared else "none"}
    tell(world, roles["administrator"], roles["ticket"], shared_account, answers_needed)
    partner = world.get(Person, staff["People Partner"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], leaver=leaver.name, partner=partner.name)
    return Case(roles["ticket"], staff["Offboarding Coordinator"], brief, roles)


def _set_hold(company: Backdrop, records: OffboardingRecords, roles: dict[str, str], causes: Causes) -> None:
    """Let Legal know what is under hold and since when. Set the day on which the leaver left their past project."""
    world, streams = company.world, company.world.streams
    hold_began = world.now - streams.at("held_from").between(200, 400) * DAY
    bounds = {"early": (-90, -1), "late": (0, 90)}[causes.until]
    left_project = hold_began + streams.at("until", causes.until).between(*bounds) * DAY
    change_entry(company, records.past, until=stamp(left_project)[:10])
    unrelated = streams.at("other").pick((records.namesake.reference, records.unrelated_project.reference))
    project = records.past.details["project"]
    held = {"none": "none", "person": records.leaver.reference, "project": project, "other": unrelated}[causes.held]
    held_from = "none" if held == "none" else stamp(hold_began)[:10]
    tell(world, roles["counsel"], roles["ticket"], {"held": held, "held_from": held_from})


def _set_money(world: World, roles: dict[str, str], terms: dict[str, int], causes: Causes) -> None:
    """Let the Payroll Accountant know what is owed. Set the final pay."""
    pay_ranges = {"low": (2000, 2600), "high": (5200, 6400)}
    pay = world.streams.at("pay", causes.pay).between(*pay_ranges[causes.pay])
    world.put_at_start(replace(world.get(Source, roles["final_pay"]), value=pay))
    metric = world.get(Metric, roles["final_pay"])
    world.put_at_start(replace(metric, value=pay, max_age_days=terms["max_age_days"]))
    # What may be withheld from the lowest and the highest pay of each level.
    low, high = ([terms["withhold_percent"] * amount // 100 for amount in pay_ranges[level]] for level in ("low", "high"))
    # A low debt is covered by any pay, a middle one only by a high pay, a high one by none.
    debt_ranges = {"low": (40, low[0]), "mid": (low[1] + 1, high[0]), "high": (high[1] + 1, high[1] + 2000)}
    owed = world.streams.at("owed", causes.owed).between(*debt_ranges[causes.owed])
    tell(world, roles["accountant"], roles["ticket"], {"owed": str(owed)}, {roles["counsel"]: "held"})


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case, cost_center=True)
    if causes.duplicate:
        facts: CitedFacts = ((roles["earlier"], "reference"), (roles["earlier"], "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", roles["earlier"]))
    if causes.stays:
        facts, sets = ((roles["last_notice"], "status"),), ("waiting_on", roles["requester"])
        return ending(
            "declined", "not_due", decider="desk", facts=facts, sets=sets, must_not_cite=((roles["first_notice"], "status"),)
        )
    held, owed, shared = ((ANSWER + roles[role], name) for role, name in zip(_ROLES_WHO_STATE, STATEMENTS, strict=True))
    if causes.held == "person" or (causes.held == "project" and causes.until == "late"):
        on_project = causes.held == "project"
        facts = (held, (roles["past"], "until")) if on_project else (held,)
        must_not_cite: CitedFacts = ((roles["present"], "until"),) if on_project else ()
        sets = ("waiting_on", roles["counsel"])
        return ending(
            "on_hold",
            "contradicts_policy",
            decider="CTO",
            facts=facts,
            sets=sets,
            must_not_cite=must_not_cite,
            signed=(Signature(SUSPENSION),),
        )
    if causes.owed == "high" or (causes.owed == "mid" and causes.pay == "low"):
        facts, sets = (owed, (roles["final_pay"], "value")), ("escalated_to", roles["controller"])
        return ending(
            "escalated",
            "above_limit",
            decider="Finance Controller",
            facts=facts,
            sets=sets,
            must_be_fresh=(roles["final_pay"],),
        )
    if causes.shared and not causes.heir:
        other_holders = tuple((roles[name], "status") for name in ("successor", "gone"))
        facts, sets = (shared, (roles["account"], "holders"), *other_holders), ("escalated_to", roles["compliance"])
        return ending("cannot_be_done", "not_covered", decider="Compliance Officer", facts=facts, sets=sets)
    if causes.shared:
        facts, sets = (shared, (roles["successor"], "status")), ("waiting_on", roles["heir"])
        return ending("on_hold", "not_due", decider="desk", facts=facts, sets=sets)
    facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"), held, shared)
    return ending(
        "completed",
        "all_checks_passed",
        decider="CTO",
        facts=facts,
        must_be_fresh=(roles["final_pay"],),
        signed=(Signature(CLOSURE),),
    )


_ROLES_WHO_STATE = ("counsel", "accountant", "administrator")  # in the order of `STATEMENTS`


# -- expert ------------------------------------------------------------------------------------------------------------

# A `moves.Move` makes calls and then returns a value; `moves.Shown` is a record as a reply shows it: its fields by name.


class OffboardingNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Employee offboarding"

    leaver: moves.Shown
    papers: list[moves.Shown]  # the entries about the leaver, as a search of the register lists them

    def read_papers(self, kind: str) -> moves.Move[list[moves.Shown]]:
        """Read the entries of this kind about the leaver."""
        entries = []
        for row in self.style.order(kind, [row for row in self.papers if row["kind"] == kind]):
            entries.append((yield from moves.read("datahub.get_entry", entry_id=row["id"])))
        return entries

    def statement(self, name: str) -> moves.Move[moves.Shown]:
        """Return the comment in which the person who knows this fact states it."""
        author = yield from moves.read("datahub.get_approver", role=STATEMENTS[name])
        text = f"For the offboarding of {self.ticket['subject']}: could you state {name}, please?"
        return (yield from moves.ask_person(self.ticket["id"], author["id"], name, text))


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "offboarding")
    query = ticket["subject"] if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    papers = [row for row in listed if row["reference"].split("/")[0] == ticket["reference"]]
    entry_id = next(row["id"] for row in papers if row["kind"] == "employee")
    leaver = yield from moves.read("datahub.get_entry", entry_id=entry_id)
    notes = OffboardingNotes(ticket, policies, approved, style, leaver, papers)
    yield from notes.read_rule("order of checks")
    yield from casework.prepare(ticket, leaver["id"], style)
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (leaver, "reference"))


def _decide(notes: OffboardingNotes) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    ticket = notes.ticket
    duplicate = yield from casework.mark_duplicate(ticket)
    if duplicate is not None:
        return duplicate
    yield from notes.read_rule("notices")
    last_notice = max((yield from notes.read_papers("notice")), key=lambda notice: str(notice["given"]))
    if last_notice["status"] == "withdrawn":
        yield from notes.send_back()
        return "declined", "not_due", moves.cite((last_notice, "status"))
    yield from notes.read_rule("statements")
    held = yield from notes.statement("held")
    evidence_of_hold = yield from _evidence_of_hold(notes, held)
    if evidence_of_hold:
        return (yield from _suspend(notes, held, evidence_of_hold))
    owed = yield from notes.statement("owed")
    money_rule = yield from notes.read_rule("money owed")
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=notes.leaver["final_pay_metric"])
    pay = yield from moves.fresh_reading(notes.leaver["final_pay_metric"])
    if 100 * int(owed["owed"]) > money_rule["withhold_percent"] * pay["value"]:
        controller = yield from moves.read("datahub.get_approver", role="Finance Controller")
        yield from notes.record("escalated_to", controller["id"])
        return "escalated", "above_limit", moves.cite((owed, "owed"), (pay, "value"))
    shared = yield from notes.statement("shared")
    if shared["shared"] != "none":
        return (yield from _hand_over_account(notes, shared))
    form_values = {"held": held["held"], "owed": owed["owed"], "shared": shared["shared"], "final_pay": pay["value"]}
    request = yield from _signed(notes, CLOSURE, form_values)
    if moves.days_between(pay["measured_at"], request["decided_at"]) >= money_rule["max_age_days"]:
        yield from moves.fresh_reading(pay["id"])  # it became too old during the wait
    evidence = moves.cite((request, "status"), (request, "decided_by"), (held, "held"), (shared, "shared"))
    return "completed", "all_checks_passed", evidence


def _evidence_of_hold(notes: OffboardingNotes, held: moves.Shown) -> moves.Move[list[moves.Shown]]:
    """Return the evidence that the leaver is under legal hold; an empty list if they are not."""
    if held["held"] == "none":
        return []
    yield from notes.read_rule("legal holds")
    if held["held"] == notes.ticket["reference"]:
        return moves.cite((held, "held"))
    for assignment in (yield from notes.read_papers("assignment")):
        lasted_long_enough = assignment["until"] == OPEN or assignment["until"] >= held["held_from"]
        if assignment["project"] == held["held"] and lasted_long_enough:
            return moves.cite((held, "held"), (assignment, "until"))
    return []


def _suspend(notes: OffboardingNotes, held: moves.Shown, evidence: list[moves.Shown]) -> moves.Move[Decision]:
    """Get a suspension signed instead of a closure, so that nothing is erased."""
    wait_for_legal = notes.record("waiting_on", held["author"])
    get_signature = _signed(notes, SUSPENSION, {"held": held["held"]})
    for step in notes.style.order("suspend", [get_signature, wait_for_legal]):
        yield from step
    return "on_hold", "contradicts_policy", evidence


def _hand_over_account(notes: OffboardingNotes, shared: moves.Shown) -> moves.Move[Decision]:
    """Decide on a leaver with a shared account: find a holder who may take it over."""
    yield from notes.read_rule("shared accounts")
    account = yield from moves.read("datahub.get_entry", entry_id=shared["shared"])
    other_holders = []
    for reference in notes.style.order("holders", account["holders"].split(", ")):
        if reference != notes.ticket["reference"]:
            listed = yield from moves.search_entries(reference)
            other_holders.append(next(row for row in listed if row["reference"] == reference))
    for holder in other_holders:
        if holder["status"] == "employed":
            heir = yield from moves.read("datahub.get_entry", entry_id=holder["id"])
            yield from notes.record("waiting_on", heir["handle"])
            return "on_hold", "not_due", moves.cite((shared, "shared"), (heir, "status"))
    officer = yield from moves.read("datahub.get_approver", role="Compliance Officer")
    yield from notes.record("escalated_to", officer["id"])
    evidence = moves.cite((shared, "shared"), (account, "holders"), *((holder, "status") for holder in other_holders))
    return "cannot_be_done", "not_covered", evidence


def _signed(notes: OffboardingNotes, form: str, form_values: moves.Shown) -> moves.Move[moves.Shown]:
    """Return the approved request of this form, and link it to the ticket. `form_values`: values by field."""
    ticket, leaver = notes.ticket, notes.leaver
    yield from notes.read_rule("signing")
    requester = yield from moves.read("datahub.get_person", person_id=ticket["requester"])
    if ticket["cost_center"] != requester["cost_center"]:
        yield from notes.record("cost_center", requester["cost_center"])
    if form in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[form])
    else:
        approver = yield from moves.read("datahub.get_approver", role="CTO")
        from_ticket = {"ticket_id": ticket["id"], "subject": ticket["subject"], "reference": ticket["reference"]}
        from_records = {"cost_center": requester["cost_center"], "letter": leaver["letter"], "badge": leaver["badge"]}
        request = yield from moves.get_signed(
            form, approver, from_ticket | from_records | form_values, metric=leaver["final_pay_metric"]
        )
    yield from notes.record("approval", request["id"])
    return request


FAMILY = Family(
    name="employee_offboarding",
    phrase="employee offboarding",
    causes=Causes,
    actor="Offboarding Coordinator",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 74, 25: 102, 50: 121, 75: 146, 100: 170},
)
