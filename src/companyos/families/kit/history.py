"""What a company has gathered over the years: tickets of all desks, a register, metrics, policies and forms.

Nothing here belongs to a case. References of closed years contain a slash, those of cases never do, so a search for a
case's reference finds only records of the case.
"""

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import ApprovalType, Entry, Person, Ticket
from companyos.company.apps.ticketdesk import Reason, Resolution
from companyos.core.world import DAY, World, stamp
from companyos.families.kit.backdrop import (
    COMPANY_TAX_NUMBERS,
    DEPARTMENTS,
    Backdrop,
    add_entry,
    add_metric,
    add_policy,
    add_ticket,
    add_vendor,
)
from companyos.families.kit.names import LEGAL_FORMS, TOWNS
from companyos.families.kit.office_policies import OFFICE_POLICIES

_YEARS = 4


class History(Struct, frozen=True):
    """How many records of each kind a company has."""

    people: int
    vendors: int
    tickets: int  # closed ones of past years; open ones of other desks come on top
    assets: int


# A company of the size "office" has 10,000 records that actors can see.
HISTORIES = {
    "small": History(people=24, vendors=6, tickets=0, assets=0),
    "office": History(people=300, vendors=1200, tickets=4400, assets=2800),
    "large": History(people=480, vendors=3500, tickets=6200, assets=2600),
}


def add_history(company: Backdrop, history: History, trades: dict[str, list[str]]) -> None:
    """Add everything but the people. The names of the firms in the register begin with a key and a value of `trades`."""
    vendors = _add_vendors(company, history.vendors, trades)
    _add_open_tickets(company, vendors[:_OPEN_ONBOARDINGS])
    _add_closed_tickets(company, vendors, history.tickets)
    _add_assets(company, history.assets)
    _add_metrics(company)
    _add_policies(company, versions=1 if history.tickets == 0 else 3)
    _add_forms(company.world)


# -- register ----------------------------------------------------------------------------------------------------------


def _add_vendors(company: Backdrop, count: int, trades: dict[str, list[str]]) -> list[Entry]:
    """Add firms to the register. Some have the same name but for a town or the legal form."""
    names = [
        f"{first_word} {trade}{town} {legal_form}"
        for first_word, second_words in trades.items()
        for trade in second_words
        for town in ("", *(f" {town}" for town in TOWNS))
        for legal_form in LEGAL_FORMS
    ]
    draw = company.world.streams.at("vendors")
    tax_numbers = draw.sample(COMPANY_TAX_NUMBERS, count)
    named = zip(draw.sample(names, count), tax_numbers, strict=True)
    return [add_vendor(company, name, f"TAX-{number}") for name, number in named]


_ASSETS = (
    # kind, names, the prefix of the references, keys of further details
    ("device", ("Notebook 14 inch", "Notebook 16 inch", "Phone", "Tablet", "Docking station", "Headset"), "DEV", "serial"),
    ("furniture", ("Desk", "Chair", "Shelf", "Whiteboard", "Cabinet", "Floor lamp"), "FUR", "room"),
    ("vehicle", ("Van", "Estate car", "Cargo bike"), "VEH", "plate"),
    ("badge", ("Visitor badge", "Garage badge", "Contractor badge"), "BDG", "gate"),
)


def _add_assets(company: Backdrop, count: int) -> None:
    """Add things that the company owns to the register, each with the year in which it was bought."""
    draw, people = company.world.streams.at("assets"), tuple(company.staff.values())
    for number in range(count):
        kind, names, prefix, detail = draw.pick(_ASSETS)
        bought = company.world.now - draw.between(1, _YEARS * 365) * DAY
        details = {"holder": draw.pick(people), "bought": stamp(bought)[:10], detail: f"{draw.between(1000, 99_999)}"}
        status = draw.pick(("in use", "in use", "in store", "discarded"))
        add_entry(company, kind, draw.pick(names), f"{prefix}-{stamp(bought)[:4]}/{number:04}", status, details)


# -- tickets -----------------------------------------------------------------------------------------------------------

_OPEN_ONBOARDINGS = 6
_WORK = (
    # kind, desk, job title of the assignee, subjects
    (
        "expense_report",
        "finance",
        "Finance Clerk",
        ("Trade fair travel", "Team offsite", "Client dinner", "Train passes", "Hotel in May"),
    ),
    (
        "bug_escalation",
        "engineering",
        "Support Engineer",
        ("Checkout errors", "Slow search", "Login loop", "Lost mails", "Blank page"),
    ),
    (
        "license_renewal",
        "procurement",
        "Procurement Lead",
        ("Design suite", "CRM seats", "Chat licences", "Test farm", "Map tiles"),
    ),
    (
        "handbook_update",
        "people",
        "HR Lead",
        ("Parental leave", "Remote work", "Expense rules", "Onboarding guide", "Dress code"),
    ),
    (
        "vendor_check",
        "finance",
        "Finance Clerk",
        ("Bank details", "VAT number", "Payment terms", "Credit line", "Tax residence"),
    ),
)


def _add_open_tickets(company: Backdrop, vendors: list[Entry]) -> None:
    """Add recent tickets of other desks, one for each subject, and of the vendor desk, one for each of these vendors."""
    draw = company.draw
    for kind, desk, job_title, subjects in _WORK:
        for subject in subjects:
            _add_open_ticket(
                company,
                title=subject,
                kind=kind,
                desk=desk,
                assignee=company.staff[job_title],
                subject=subject,
                reference=f"REF-{stamp(company.world.now)[:4]}/{draw.between(10_000, 99_999)}",
            )
    for vendor in vendors:
        ticket = _add_open_ticket(
            company,
            title=f"Onboard {vendor.name}",
            kind="vendor_onboarding",
            desk="vendor",
            assignee=company.staff["Vendor Desk Lead"],
            subject=vendor.name,
            reference=vendor.reference,
        )
        if ticket.status == "done":
            company.world.put_at_start(
                replace(ticket, verified=vendor.id, priority="normal", resolution="completed", reason="all_checks_passed")
            )


def _add_open_ticket(
    company: Backdrop, *, title: str, kind: str, desk: str, assignee: str, subject: str, reference: str
) -> Ticket:
    """Add a ticket of the last two months. A few of these are done."""
    draw = company.draw
    department = draw.pick(DEPARTMENTS)
    return add_ticket(
        company,
        company.world.get(Person, company.staff[f"{department} Associate"]),
        title=title,
        kind=kind,
        desk=desk,
        assignee=assignee,
        subject=subject,
        reference=reference,
        status=draw.pick(("open", "in_progress", "done")),
        priority=draw.pick(("low", "normal", "high", None)),
        amount=draw.between(4, 400) * 250,
        opened=company.world.now - draw.between(1, 60) * DAY - draw.between(0, 400),
    )


_OUTCOMES: tuple[tuple[Resolution, Reason], ...] = (
    ("completed", "all_checks_passed"),
    ("completed", "all_checks_passed"),
    ("completed", "all_checks_passed"),
    ("declined", "not_covered"),
    ("declined", "above_limit"),
    ("cannot_be_done", "too_late"),
)


def _add_closed_tickets(company: Backdrop, vendors: list[Entry], count: int) -> None:
    """Add tickets that were closed in past years."""
    world, staff = company.world, company.staff
    draw = world.streams.at("closed tickets")
    requesters = tuple(person for person in world.all(Person) if person.manager)
    work = [(kind, desk, staff[job_title], subject) for kind, desk, job_title, subjects in _WORK for subject in subjects]
    analyst = staff["Vendor Analyst"]
    for number in range(count):
        opened = world.now - draw.between(61, _YEARS * 365) * DAY - draw.between(0, 400)
        if number % 5 == 0:
            vendor = draw.pick(vendors)
            kind, desk, assignee, subject = "vendor_onboarding", "vendor", analyst, vendor.name
            title, reference, verified = f"Onboard {vendor.name}", vendor.reference, vendor.id
        else:
            kind, desk, assignee, what = draw.pick(work)
            title = subject = f"{what}, {draw.pick(TOWNS)}"
            reference, verified = f"REF-{stamp(opened)[:4]}/{number:05}", None
        resolution, reason = draw.pick(_OUTCOMES)
        ticket = add_ticket(
            company,
            draw.pick(requesters),
            title=title,
            kind=kind,
            desk=desk,
            assignee=assignee,
            subject=subject,
            reference=reference,
            status="done",
            priority=draw.pick(("low", "normal", "high")),
            amount=draw.between(4, 400) * 250,
            opened=opened,
        )
        world.put_at_start(replace(ticket, verified=verified, resolution=resolution, reason=reason))


# -- metrics, policies and forms ---------------------------------------------------------------------------------------


def _add_metrics(company: Backdrop) -> None:
    draw, euros = company.draw, (500, 99_000)  # the range of outdated amounts
    for department in DEPARTMENTS:
        slug = department.lower()
        budget_left, spent = draw.between(10, 900) * 100, draw.between(50, 900) * 100
        add_metric(company, f"budget_left.{slug}", f"Budget left in {department}", "EUR", budget_left, euros)
        add_metric(company, f"headcount.{slug}", f"Headcount of {department}", "people", draw.between(5, 90))
        add_metric(company, f"spend_to_date.{slug}", f"Spend to date in {department}", "EUR", spent, euros)
    for service in ("checkout", "search", "login"):
        add_metric(company, f"error_rate.{service}", f"Errors per 10,000 calls of {service}", "per_10k", draw.between(1, 90))
    for product in ("design_suite", "crm", "chat"):
        add_metric(company, f"licence_days.{product}", f"Days to expiry of {product}", "days", draw.between(3, 200))


def _add_policies(company: Backdrop, versions: int) -> None:
    """Add policies that concern no case: the version in force of each, and older ones."""
    for policy in OFFICE_POLICIES[: None if versions > 1 else 5]:
        *old_numbers, number = policy.numbers[-versions:]
        for old_number in old_numbers:
            add_policy(company, policy.title, policy.text.format(n=old_number), superseded=True)
        add_policy(company, policy.title, policy.text.format(n=number))


def _add_forms(world: World) -> None:
    for form_id, title, decided_by, office in (
        ("expense_report", "Expense report", "the CFO", "CFO"),
        ("bug_escalation", "Bug escalation", "the CTO", "CTO"),
        ("license_renewal", "Licence renewal", "the Procurement Lead", "Procurement Lead"),
        ("handbook_update", "Handbook update", "the HR Lead", "HR Lead"),
    ):
        world.put_at_start(
            ApprovalType(
                id=form_id,
                title=title,
                required=("ticket_id", "subject", "amount"),
                optional=(),
                decided_by=decided_by,
                offices=(office,),
                same_as_ticket={"subject": "subject", "amount": "amount"},
            )
        )
