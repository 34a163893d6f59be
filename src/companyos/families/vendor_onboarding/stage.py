"""Stages a vendor case: the firm in the register, its tickets and score, the forms, and the papers with the rules."""

from msgspec.structs import replace

from companyos.company import ApprovalType, Entry, Person
from companyos.core.world import DAY, Draw, Streams, World, stamp
from companyos.families.kit.backdrop import (
    DEPARTMENTS,
    DESK_RULES,
    Backdrop,
    Firm,
    add_person,
    add_policy,
    add_vendor,
    one_line,
    set_metric,
)
from companyos.families.kit.case import Case
from companyos.families.kit.rulings import Written, explain, write_papers
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket
from companyos.families.vendor_onboarding.causes import FORM, SECOND_FORM, Causes
from companyos.families.vendor_onboarding.facts import amount_of, draw_numbers, score_of
from companyos.families.vendor_onboarding.rules import RULES

TOPIC = RULES.language.vocabulary.topic
FIGURES, AMENDMENT = f"{TOPIC}: figures", f"{TOPIC}: amendment"


def hire(company: Backdrop) -> None:
    """Add deputies of the offices that sign by some rulebook and have no delegate."""
    for office, department, desk in (
        ("Procurement Lead", "Procurement", "procurement"),
        ("Compliance Officer", "Compliance", "compliance"),
        ("CTO", "Engineering", "engineering"),
        ("HR Lead", "People", "people"),
    ):
        deputy = add_person(company, f"Deputy {office}", department, desk, office)
        holder = company.world.get(Person, company.staff[office])
        company.world.put_at_start(replace(holder, delegate=deputy.id))


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as its rules and facts say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    firm = company.firms.pop(0)
    department = draw.pick(DEPARTMENTS)
    requester = world.get(Person, staff[f"{department} Associate"])
    ages = _Ages(streams)
    written, explanation = write_papers(company, RULES, RULES.book(causes, streams), _new_words(causes), ages.of)
    for title, text in PROCEDURE.items():
        add_policy(company, title, text)
    _add_forms(world)
    entry, namesake = _add_entries(company, firm, requester, causes, ages)
    max_age_days = streams.at("max age").between(7, 14)
    set_metric(world, entry.details["score_metric"], score_of(causes, streams), max_age_days)
    roles = _people(company, department, requester) | _papers(written) | {
        "entry": entry.id,  # what the ticket is about
        "model": namesake.id,  # an unrelated entry of the same kind
        "score": entry.details["score_metric"],
        "form": FORM,
    }
    amount = _draw_amount(world, streams, causes, roles)
    roles |= _add_tickets(company, draw, firm, requester, amount, causes)
    explain(world, roles["policy_owner"], roles["ticket"], explanation)
    lead = world.get(Person, staff["Vendor Desk Lead"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], vendor=firm.name, lead=lead.name)
    return Case(roles["ticket"], staff["Vendor Analyst"], brief, roles, written.reserved, streams.key)


def _new_words(causes: Causes) -> bool:
    return RULES.variants(causes)["wording"] == "new"


def _people(company: Backdrop, department: str, requester: Person) -> dict[str, str]:
    """Return the people of the case by role. `head_third` signs if `head` and `head_deputy` are away."""
    job_titles = {
        "head": f"Head of {department}",
        "head_deputy": f"Deputy Head of {department}",
        "head_third": f"{department} Manager",
        "cfo": "CFO",
        "controller": "Finance Controller",
        "treasurer": "Treasurer",
        "ceo": "CEO",
        "cto": "CTO",
        "hr": "HR Lead",
        "procurement": "Procurement Lead",
        "procurement_deputy": "Deputy Procurement Lead",
        "compliance": "Compliance Officer",
        "compliance_deputy": "Deputy Compliance Officer",
        "policy_owner": "Vendor Desk Lead",
    }
    return {"requester": requester.id} | {role: company.staff[title] for role, title in job_titles.items()}


def _papers(written: Written) -> dict[str, str]:
    """Return the roles of the papers with figures. `policy` is the one whose terms can drift."""
    roles = {"policy": written.papers[FIGURES], "older": written.older[FIGURES]}
    return roles | ({"amendment": written.papers[AMENDMENT]} if AMENDMENT in written.papers else {})


class _Ages:
    """How many days ago things happened: papers, applications and lapses of an insurance."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self.figures = streams.at("age", "figures").between(45, 300)
        self.amendment = streams.at("age", "amendment").between(20, 30)

    def of(self, title: str, edition: int) -> int:
        """Return the age of a paper."""
        if title == FIGURES:
            return self.figures + (400 if edition else 0)
        return self.amendment if title == AMENDMENT else self._streams.at("age", title).between(20, 300)

    def applied(self, when: str) -> int:
        days = {
            "lately": (13, 18),  # after the amendment, and before the ticket was opened
            "between": (self.amendment + 1, 40),
            "long_ago": (self.figures + 5, self.figures + 60),
        }
        return self._streams.at("applied", when).between(*days[when])

    def insured(self, until: str) -> int:
        days = {"lapsed": (1, 4), "expired": (20, 90)}  # the ticket was opened 6 to 11 days ago
        return self._streams.at("insurance", until).between(*days[until])


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
        opened=company.world.now - draw.between(6 * DAY, 11 * DAY),
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Onboard {firm.namesake}",
        subject=firm.namesake,
        reference=firm.namesake_reference if causes.duplicate == "no" else firm.reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Vendor Desk Lead"],
        amount=draw.between(8, 60) * 250,
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    decoy_firm = company.firms.pop(0)
    roles = add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="vendor_check",
        title=f"Onboard {decoy_firm.name}",
        subject=decoy_firm.name,
        reference=decoy_firm.reference,
    )
    if causes.duplicate == "done":
        done = replace(earlier, status="done", resolution="completed", reason="all_checks_passed")
        company.world.put_at_start(done)
    return roles


def _add_entries(
    company: Backdrop, firm: Firm, requester: Person, causes: Causes, ages: _Ages
) -> tuple[Entry, Entry]:
    """Add the firm and its namesake to the register. Return their entries."""
    world = company.world
    namesake = add_vendor(company, firm.namesake, firm.namesake_reference)
    world.put_at_start(replace(namesake, details=namesake.details | _details(world, ages, "lately", framework=False)))
    entry = add_vendor(company, firm.name, firm.reference)
    owners = {"no": entry.details["owner"], "requester": requester.id, "manager": requester.manager or ""}
    details = entry.details | _details(world, ages, causes.applied, causes.framework)
    details |= {
        "data_class": "personal" if causes.personal_data else "standard",
        "owner": owners[causes.conflict],
    }
    if causes.insurance != "valid":
        details["insurance_until"] = _date(world, ages.insured(causes.insurance))
    return world.put_at_start(replace(entry, details=details)), namesake


def _details(world: World, ages: _Ages, applied: str, framework: bool) -> dict[str, str]:
    return {"framework": "yes" if framework else "no", "applied_on": _date(world, ages.applied(applied))}


def _date(world: World, days_ago: int) -> str:
    return stamp(world.now - days_ago * DAY)[:10]


def _draw_amount(world: World, streams: Streams, causes: Causes, roles: dict[str, str]) -> int:
    head, cfo = world.get(Person, roles["head"]), world.get(Person, roles["cfo"])
    draw = streams.at("amount", causes.amount)
    return amount_of(causes, draw, draw_numbers(streams), head.limit or 0, cfo.limit or 0)


def _add_forms(world: World) -> None:
    """Add the forms of the first and of the second signature. Approvers check values; the rules say who has to sign."""
    same = {field: field for field in ("subject", "reference", "amount", "cost_center")}
    world.put_at_start(
        ApprovalType(
            id=FORM,
            title="Vendor onboarding",
            required=("ticket_id", "subject", "reference", "amount", "cost_center", "score"),
            optional=("certificate", "contract"),
            decided_by="see the policy on signing; values as on the ticket, in the register and in DataHub",
            offices=("Head of {department}", "Procurement Lead", "CFO"),
            same_as_ticket=same,
            same_as_entry={"certificate": "certificate", "contract": "contract"},
            measured="score",
            attachment="certificate",
            any_office=True,
        )
    )
    world.put_at_start(
        ApprovalType(
            id=SECOND_FORM,
            title="Vendor onboarding, second signature",
            required=("ticket_id", "subject", "reference", "first"),
            optional=(),
            decided_by="see the policy on signing; first is the id of the signed vendor_onboarding request",
            offices=("Compliance Officer", "CTO", "HR Lead"),
            same_as_ticket={field: field for field in ("subject", "reference")},
            about=FORM,
            audit=SECOND_FORM,
            any_office=True,
        )
    )


# The policies that are the same in all companies: how the work is done, and not what is right.
PROCEDURE = {
    f"{TOPIC}: verification": """
        Every vendor ticket is verified before it is closed, whatever the outcome: find the register entry that
        carries the ticket's reference, not just a similar name, and set the ticket's field verified to that entry's
        id. A ticket needs a priority first; if it has none, choose any. A blocked ticket cannot be closed: clear
        blocked_by once the blocking ticket is done or cancelled; until then ask its assignee, in a comment to them on
        your own ticket.""",
    f"{TOPIC}: requests": """
        The departments are led by the Head of Marketing, Head of Operations and Head of Research. While a holder is away
        the delegate signs with the holder's authority; if both are, the delegate's delegate. A request's cost centre, and
        then the ticket's, must be the requester's own. A rejection says what it wants; if that is the manager's decision,
        escalate. A second signature is a request of the form vendor_countersignature, made after the first request was
        signed. Set approval to the request that was signed last. Approvers only check values: the rules say whom to ask,
        and whether to ask.""",
    f"{TOPIC}: citing": """
        Cite record, field and value as they are now. The score is the metric named in the entry; a measurement whose
        age_days is above the metric's max_age_days does not count: have it refreshed and read it again. A minimum is
        cited from the paper that sets it, by the name of the figure that applied, such as minimum or minimum_personal.
        The approval is the request that was signed last. Four more citations, true and unrelated (desk rules), are
        fine; what the rules could have asked for, but did not, is not.""",
    f"{TOPIC}: desk rules": DESK_RULES,
}

BRIEFS = (
    """Hi, you have the vendor desk today. {ticket} asks for a vendor onboarding: {vendor}. Please take it to its end the way
    our policies say, and resolve the ticket with the evidence. Thanks, {lead}""",
    """Good morning! Could you finish the vendor onboarding of {vendor} ({ticket})? Whatever the outcome is, follow the
    policies and close the ticket with the facts that decided it. {lead}""",
    """{ticket} is yours: vendor onboarding, {vendor}. I have not looked into it. Check it against our policies, do what they
    call for and resolve it, citing what it rests on. Best, {lead}""",
)
