"""Builds the company of a task: people, tickets, metrics, policies, the register and forms. Families add their cases."""

from collections.abc import Callable

import msgspec

from companyos.company import KINDS, ApprovalType, Message, Mind, Person, Ticket
from companyos.company.people import inbox_counter, seen_counter
from companyos.core.world import DAY, Draw, Streams, World
from companyos.families.kit.backdrop import (
    DEPARTMENTS,
    Backdrop,
    add_metric,
    add_policy,
    add_ticket,
    add_vendor,
    draw_firms,
)
from companyos.families.kit.names import FIRST_NAMES, LAST_NAMES, pool

_PEOPLE = 24  # people in every company; families add their own specialists
_IDS = 40  # how many ids of tickets and of register entries there are, used and unused


def build_company(streams: Streams, split: str, actor: str, hire: Callable[[Backdrop], None] | None = None) -> Backdrop:
    """Build a company from its random streams: people, tickets, metrics, policies, the register and forms.

    `actor` is the job title of the person whom the agent plays; everybody else is simulated. `hire` adds the specialists
    of a family, who may include the actor.
    """
    draw = streams.at("company")
    day = draw.between(8, 300)
    day -= max(0, day % 7 - 3)  # Friday to Sunday become Thursday
    world = World(streams, day * DAY + draw.between(9 * 60, 13 * 60), KINDS)
    ticket_numbers = _id_numbers(draw)
    company = Backdrop(
        world=world,
        draw=draw,
        split=split,
        staff=_add_people(world, draw, split),
        firms=draw_firms(streams, split),
        ticket_ids=[f"T-{number}" for number in ticket_numbers],
        entry_ids=[f"E-{number}" for number in _id_numbers(streams.at("entries"))],
        policy_ids=[f"P-{number}" for number in streams.at("policies").sample(range(10, 100), 32)],
    )
    if hire is not None:
        hire(company)
    _add_other_tickets(company)
    _add_other_metrics(company)
    _add_other_policies(company)
    _add_other_forms(world)
    world.seats = (company.staff[actor],)  # the people whom agents play
    world.set_counter("message", draw.between(1000, 9000))
    world.set_counter("comment", draw.between(1000, 9000))
    _add_old_bulletins(company)
    world.set_counter("approval", draw.between(1200, 8000))
    return company


def _id_numbers(draw: Draw) -> list[int]:
    """Return distinct numbers in random order, so that an id tells nothing about its record."""
    return draw.sample(range(1100, 9900, 11), _IDS)


def _add_people(world: World, draw: Draw, split: str) -> dict[str, str]:
    """Add the people of every company. Return their handles by job title."""
    first_names = draw.sample(pool(FIRST_NAMES, split), _PEOPLE)
    last_names = draw.sample(pool(LAST_NAMES, split), _PEOPLE)
    handles = [f"@{first}.{last}".lower() for first, last in zip(first_names, last_names, strict=True)]
    head_limit = draw.between(10, 24) * 1000
    cfo_limit = draw.between(8, 16) * 10_000
    positions = [
        # job title, department, desk, job title of the manager, signing limit, job title of the delegate
        ("CEO", "Board", "board", None, cfo_limit, None),
        ("CFO", "Finance", "finance", "CEO", cfo_limit, "Finance Controller"),
        ("Finance Controller", "Finance", "finance", "CFO", 5000, "Treasurer"),
        ("Treasurer", "Finance", "finance", "CFO", 5000, None),
        ("CTO", "Engineering", "engineering", "CEO", head_limit, None),
        ("HR Lead", "People", "people", "CEO", head_limit, None),
        ("Procurement Lead", "Procurement", "procurement", "CFO", head_limit, None),
        ("Compliance Officer", "Compliance", "compliance", "CEO", None, None),
        ("Finance Clerk", "Finance", "finance", "Finance Controller", None, None),
        ("Support Engineer", "Engineering", "engineering", "CTO", None, None),
        ("Vendor Desk Lead", "Procurement", "vendor", "Procurement Lead", None, None),
        ("Vendor Analyst", "Procurement", "vendor", "Vendor Desk Lead", None, None),
    ]
    for department in DEPARTMENTS:
        desk = department.lower()
        positions += [
            (f"Head of {department}", department, desk, "CFO", head_limit, f"Deputy Head of {department}"),
            (f"Deputy Head of {department}", department, desk, f"Head of {department}", 3000, f"{department} Manager"),
            (f"{department} Manager", department, desk, f"Head of {department}", 1000, None),
            (f"{department} Associate", department, desk, f"{department} Manager", None, None),
        ]
    staff = {position[0]: handle for position, handle in zip(positions, handles, strict=True)}
    centers = dict(zip(sorted({position[1] for position in positions}), draw.sample(range(100, 1000), 10), strict=False))
    paces = draw.sample(range(12, 150), _PEOPLE)
    for i, (job_title, department, desk, manager, signing_limit, delegate) in enumerate(positions):
        world.put_at_start(
            Person(
                id=handles[i],
                name=f"{first_names[i]} {last_names[i]}",
                role=job_title,
                department=department,
                desk=desk,
                manager=staff.get(manager or ""),
                limit=signing_limit,
                delegate=staff.get(delegate or ""),
                cost_center=f"CC-{centers[department]}",
            )
        )
        world.put_at_start(Mind(handles[i], pace=paces[i]))
    return staff


_OTHER_TICKETS = (
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


def _add_other_tickets(company: Backdrop) -> None:
    """Add tickets of other desks, five of each kind, and six of the vendor desk."""
    world, draw = company.world, company.draw
    for kind, desk, job_title, subjects in _OTHER_TICKETS:
        for subject in subjects:
            _add_other_ticket(
                company,
                title=subject,
                kind=kind,
                desk=desk,
                assignee=company.staff[job_title],
                subject=subject,
                reference=f"REF-{draw.between(10_000, 99_999)}",
            )
    for _ in range(6):
        firm = company.firms.pop(0)
        ticket = _add_other_ticket(
            company,
            title=f"Onboard {firm.name}",
            kind="vendor_onboarding",
            desk="vendor",
            assignee=company.staff["Vendor Desk Lead"],
            subject=firm.name,
            reference=firm.reference,
        )
        entry = add_vendor(company, firm.name, firm.reference)
        if ticket.status == "done":
            world.put_at_start(
                msgspec.structs.replace(
                    ticket, verified=entry.id, priority="normal", resolution="completed", reason="all_checks_passed"
                )
            )


def _add_other_ticket(
    company: Backdrop, *, title: str, kind: str, desk: str, assignee: str, subject: str, reference: str
) -> Ticket:
    """Add a ticket that has nothing to do with the case."""
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


def _add_other_metrics(company: Backdrop) -> None:
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


_OTHER_POLICIES = {
    "Booking of travel": """Trips are booked by the travel office, two weeks ahead where possible. Trains go before flights
        on any way of less than five hours.""",
    "Visitors": """Visitors are announced at the reception a day ahead and wear a badge. Nobody leaves a visitor alone on a
        floor with customer data.""",
    "Company devices": """Laptops are replaced after four years. A lost device is reported to the service desk at once, at
        any hour. Private software does not belong on them.""",
    "Meeting rooms": """Rooms are booked in the calendar and given back when a meeting is called off. The large hall is
        for the all-hands and needs a week's notice.""",
    "Retention of records": """Invoices are kept for ten years, tickets for three. What is under legal hold is kept until
        the hold ends.""",
}


def _add_other_policies(company: Backdrop) -> None:
    for title, text in _OTHER_POLICIES.items():
        add_policy(company, title, text)


def _add_other_forms(world: World) -> None:
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


_BULLETINS = (
    "The canteen is closed on Friday.",
    "Please lock your screens when you leave your desk.",
    "The quarterly all-hands moves to the large hall.",
    "New badges can be picked up at the reception.",
)


def _add_old_bulletins(company: Backdrop) -> None:
    """Put two old bulletins into the inbox of the person whom the agent plays, marked as seen."""
    world = company.world
    for person_id in world.seats:
        for age, text in zip((2800, 300), company.draw.sample(_BULLETINS, 2), strict=True):  # ages in minutes
            world.put_at_start(
                Message(
                    id=f"M-{world.count_up('message')}",
                    to=person_id,
                    sender=company.staff["HR Lead"],
                    at=world.now - age - company.draw.between(0, 200),
                    topic="bulletin",
                    about=None,
                    text=text,
                )
            )
        world.set_counter(inbox_counter(person_id), 2)
        world.set_counter(seen_counter(person_id), 2)
