"""The backdrop: a company with people, tickets, metrics, policies and forms, to which a family adds its case."""

from collections.abc import Callable
from functools import cache

import msgspec

from companyos.company import KINDS, ApprovalType, Entry, Message, Metric, Mind, Person, Policy, Source, Ticket
from companyos.company.apps.ticketdesk import Status
from companyos.company.people import inbox_counter, seen_counter
from companyos.core.world import DAY, Draw, Streams, World, stamp
from companyos.families.kit.names import FIRM, FIRST, FORM, LAST, TRADE, pool

DEPARTMENTS = ("Marketing", "Operations", "Research")
_PEOPLE = 24  # people in every company; families add their own specialists
_TICKETS = 40


class Firm(msgspec.Struct, frozen=True):
    """A firm, and its namesake: another firm of the same name with another legal form and another reference."""

    name: str
    namesake: str
    reference: str
    namesake_reference: str

    @property
    def slug(self) -> str:
        return self.name.lower().replace(" ", "_")


class Backdrop(msgspec.Struct, frozen=True):
    """A company under construction, as a family's `stage` function gets it."""

    world: World
    draw: Draw
    split: str
    offices: dict[str, str]  # job title -> the person's id
    firms: list[Firm]  # not yet used, as are the ids below: take them with `pop(0)`
    ticket_ids: list[str]
    entry_ids: list[str]
    policy_ids: list[str]


def build_company(streams: Streams, split: str, actor: str, hire: Callable[[Backdrop], None] | None = None) -> Backdrop:
    """Build a company from its random streams: people, tickets, metrics, policies, the register and forms.

    `actor` is the job of the person whom the agent plays; everybody else is simulated. `hire` adds the specialists of a
    family, who may include the actor.
    """
    draw = streams.at("company")
    start = draw.between(8, 300)
    start -= max(0, start % 7 - 3)  # Monday to Thursday
    world = World(streams, start * DAY + draw.between(9 * 60, 13 * 60), KINDS)
    numbers = _numbers(draw)
    company = Backdrop(
        world=world,
        draw=draw,
        split=split,
        offices=_people(world, draw, split),
        firms=_firms(streams.at("firms"), split),
        ticket_ids=[f"T-{number}" for number in numbers],
        entry_ids=[f"E-{number}" for number in _numbers(streams.at("entries"))],
        policy_ids=[f"P-{number}" for number in streams.at("policies").sample(range(10, 100), 32)],
    )
    if hire is not None:
        hire(company)
    _other_desks(company)
    _other_metrics(company)
    _other_policies(company)
    _forms(world)
    world.seats = (company.offices[actor],)
    world.set_counter("message", draw.between(1000, 9000))
    world.set_counter("comment", draw.between(1000, 9000))
    _bulletins(company)
    world.set_counter("approval", draw.between(1200, 8000))
    return company


def _numbers(draw: Draw) -> list[int]:
    """Return distinct numbers in random order, so that an id tells nothing about its record."""
    return draw.sample(range(1100, 9900, 11), _TICKETS)


def _people(world: World, draw: Draw, split: str) -> dict[str, str]:
    firsts = draw.sample(pool(FIRST, split), _PEOPLE)
    lasts = draw.sample(pool(LAST, split), _PEOPLE)
    handles = [f"@{first}.{last}".lower() for first, last in zip(firsts, lasts, strict=True)]
    head_limit = draw.between(10, 24) * 1000
    cfo_limit = draw.between(8, 16) * 10_000
    roles = [
        # role, department, desk, manager, limit, delegate
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
        roles += [
            (f"Head of {department}", department, desk, "CFO", head_limit, f"Deputy Head of {department}"),
            (f"Deputy Head of {department}", department, desk, f"Head of {department}", 3000, f"{department} Manager"),
            (f"{department} Manager", department, desk, f"Head of {department}", 1000, None),
            (f"{department} Associate", department, desk, f"{department} Manager", None, None),
        ]
    offices = {role[0]: handle for role, handle in zip(roles, handles, strict=True)}
    centers = dict(zip(sorted({role[1] for role in roles}), draw.sample(range(100, 1000), 10), strict=False))
    paces = draw.sample(range(12, 150), _PEOPLE)
    for i, (role, department, desk, manager, limit, delegate) in enumerate(roles):
        world.put_at_start(
            Person(
                id=handles[i],
                name=f"{firsts[i]} {lasts[i]}",
                role=role,
                department=department,
                desk=desk,
                manager=offices.get(manager or ""),
                limit=limit,
                delegate=offices.get(delegate or ""),
                cost_center=f"CC-{centers[department]}",
            )
        )
        world.put_at_start(Mind(handles[i], pace=paces[i]))
    return offices


def add_person(
    company: Backdrop,
    role: str,
    department: str,
    desk: str,
    manager: str,
    limit: int | None = None,
    delegate: str | None = None,
) -> Person:
    """Add a person, unless the job exists already, and return them. `manager` and `delegate` are jobs, too."""
    world, draw = company.world, company.world.streams.at("person", role)
    if role in company.offices:
        return world.get(Person, company.offices[role])
    firsts, lasts = pool(FIRST, company.split), pool(LAST, company.split)
    while True:
        name = draw.pick(firsts), draw.pick(lasts)
        handle = f"@{name[0]}.{name[1]}".lower()
        if world.peek(Person, handle) is None:
            break
    centers = {person.department: person.cost_center for person in world.all(Person)}
    while (center := f"CC-{draw.between(100, 999)}") in centers.values():
        pass
    company.offices[role] = handle
    world.put_at_start(Mind(handle, pace=draw.between(12, 149)))
    return world.put_at_start(
        Person(
            id=handle,
            name=" ".join(name),
            role=role,
            department=department,
            desk=desk,
            manager=company.offices[manager],
            limit=limit,
            delegate=company.offices[delegate] if delegate else None,
            cost_center=centers.get(department, center),
        )
    )


def tell(world: World, person_id: str, ticket_id: str, knows: dict[str, str], after: dict[str, str] | None = None) -> None:
    """Let a person know facts about a ticket that are in no record. The person states them there when asked.

    `after` maps other people to names of facts: the person answers only after those people have stated these facts there.
    """
    mind = world.get(Mind, person_id)
    waits = mind.after | {ticket_id: after} if after else mind.after
    world.put_at_start(msgspec.structs.replace(mind, knows=mind.knows | {ticket_id: knows}, after=waits))


def _firms(draw: Draw, split: str) -> list[Firm]:
    return _named_firms(draw, draw.sample(pool(FIRM, split), 16))


def add_firms(company: Backdrop) -> None:
    """Add the remaining firms of the name list, for tasks that consist of several cases."""
    streams, names = company.world.streams, pool(FIRM, company.split)
    known = streams.at("firms").sample(names, 16)  # the same stream as in `build_company`, so the same firms
    company.firms.extend(_named_firms(streams.at("more firms"), [name for name in names if name not in known]))


def _named_firms(draw: Draw, names: list[str]) -> list[Firm]:
    references = draw.sample(range(10_000, 99_999), 2 * len(names))
    firms = []
    for i, name in enumerate(names):
        stem = f"{name} {draw.pick(TRADE)}"
        forms = draw.sample(FORM, 2)
        numbers = [f"TAX-{references[2 * i + k]}" for k in (0, 1)]
        firms.append(Firm(f"{stem} {forms[0]}", f"{stem} {forms[1]}", numbers[0], numbers[1]))
    return firms


_WORK = (
    # kind, desk, assignee's job, subjects
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


def _other_desks(company: Backdrop) -> None:
    """Add tickets of other desks, five of each kind, and six of the vendor desk."""
    world, draw = company.world, company.draw
    for kind, desk, role, topics in _WORK:
        for topic in topics:
            _ticket(company, topic, kind, desk, company.offices[role], topic, f"REF-{draw.between(10_000, 99_999)}")
    for _ in range(6):
        firm = company.firms.pop(0)
        ticket = _ticket(
            company,
            f"Onboard {firm.name}",
            "vendor_onboarding",
            "vendor",
            company.offices["Vendor Desk Lead"],
            firm.name,
            firm.reference,
        )
        entry = add_vendor(company, firm.name, firm.reference)
        if ticket.status == "done":
            world.put_at_start(
                msgspec.structs.replace(
                    ticket, verified=entry.id, priority="normal", resolution="completed", reason="all_checks_passed"
                )
            )


def _ticket(company: Backdrop, title: str, kind: str, desk: str, assignee: str, subject: str, reference: str) -> Ticket:
    """Add a ticket that has nothing to do with the case."""
    draw = company.draw
    department = draw.pick(DEPARTMENTS)
    return add_ticket(
        company,
        company.world.get(Person, company.offices[f"{department} Associate"]),
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


def add_ticket(
    company: Backdrop,
    requester: Person,
    *,
    title: str,
    kind: str,
    desk: str,
    assignee: str,
    subject: str,
    reference: str,
    status: Status,
    priority: str | None,
    amount: int | None,
    opened: int,
) -> Ticket:
    """Add a ticket that nobody has worked on yet."""
    return company.world.put_at_start(
        Ticket(
            id=company.ticket_ids.pop(0),
            title=title,
            kind=kind,
            desk=desk,
            status=status,
            priority=priority,
            requester=requester.id,
            assignee=assignee,
            subject=subject,
            reference=reference,
            amount=amount,
            cost_center=requester.cost_center,
            opened=opened,
            blocked_by=None,
            verified=None,
            approval=None,
            duplicate_of=None,
            escalated_to=None,
            waiting_on=None,
        )
    )


def add_vendor(company: Backdrop, name: str, reference: str) -> Entry:
    """Add a vendor to the register, without any defect and with a compliance score that was measured within a day."""
    world, draw = company.world, company.draw
    slug = name.lower().replace(" ", "_")
    score = draw.between(40, 98)
    metric = add_metric(company, f"compliance_score.{slug}", f"Compliance score of {name}", "points", score, (35, 98))
    return world.put_at_start(
        Entry(
            id=company.entry_ids.pop(0),
            kind="vendor",
            name=name,
            reference=reference,
            status="prospect",
            details={
                "owner": draw.pick(
                    (*pool(_OUTSIDERS, company.split), company.offices["Support Engineer"], company.offices["Treasurer"])
                ),
                "data_class": draw.pick(("standard", "personal")),
                "insurance_until": stamp(world.now + draw.between(800, 1500) * DAY)[:10],  # beyond any wait
                "certificate": f"IC-{draw.between(10_000, 99_999)}",
                "contract": f"K-{draw.between(1000, 9999)}",
                "score_metric": metric.id,
            },
        )
    )


_OUTSIDERS = [
    *("Avery Holm", "Blake Ito", "Casey Lund", "Devon Marsh", "Ellis Noor", "Frankie Osei"),
    *("Gale Prior", "Harper Quade", "Indra Rask", "Jules Sato", "Kim Tran", "Lane Usher"),
]


def add_metric(company: Backdrop, name: str, title: str, unit: str, value: int, moves: tuple[int, int] = (0, 100)) -> Metric:
    """Add a metric that was measured recently and agrees with its source. `moves` is the range of its outdated values."""
    world, draw = company.world, company.draw
    world.put_at_start(Source(name, value, least=moves[0], most=moves[1]))
    return world.put_at_start(
        Metric(
            id=name,
            value=value,
            unit=unit,
            measured_at=world.now - draw.between(30, 1400),
            pipeline="idle",
            title=title,
            owner=draw.pick(("data-platform", "risk-office", "finance-data")),
            sources=(draw.pick(("ledger", "crm", "audit_feed")), draw.pick(("partner_api", "survey", "tickets"))),
            max_age_days=draw.between(7, 14),
        )
    )


def set_metric(world: World, name: str, value: int, max_age_days: int | None = None) -> None:
    """Change the true value of a metric and its measured value. `max_age_days`: how old a measurement may be."""
    metric = world.get(Metric, name)
    world.put_at_start(msgspec.structs.replace(world.get(Source, name), value=value))
    world.put_at_start(msgspec.structs.replace(metric, value=value, max_age_days=max_age_days or metric.max_age_days))


def add_entry(company: Backdrop, kind: str, name: str, reference: str, status: str, details: dict[str, str]) -> Entry:
    """Add an entry to the register, with the next free id."""
    return company.world.put_at_start(Entry(company.entry_ids.pop(0), kind, name, reference, status, details))


def change_entry(company: Backdrop, entry: Entry, status: str | None = None, **details: str) -> Entry:
    """Change the status or some details of an entry."""
    status = entry.status if status is None else status
    return company.world.put_at_start(msgspec.structs.replace(entry, status=status, details=entry.details | details))


def _other_metrics(company: Backdrop) -> None:
    draw = company.draw
    for department in DEPARTMENTS:
        slug, euros = department.lower(), (500, 99_000)
        left, spent = draw.between(10, 900) * 100, draw.between(50, 900) * 100
        add_metric(company, f"budget_left.{slug}", f"Budget left in {department}", "EUR", left, euros)
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


# Every family has a policy "desk rules" with this text.
DESK_RULES = """
    Work only on the ticket you were given; neither change nor comment on others. Ask for a signature only when the outcome
    needs one; withdraw what is pending and not needed. Set only what a policy names for the outcome; escalated_to and
    waiting_on name a person, in or away. Put back mistakes before closing (my_changes). Refreshing data is fine. Evidence
    is wrong if it also cites that field of another such record, or another term or version of that policy."""


def _other_policies(company: Backdrop) -> None:
    for title, text in _OTHER_POLICIES.items():
        add_policy(company, title, text)


def add_policy(
    company: Backdrop, title: str, text: str, terms: dict[str, int] | None = None, superseded: bool = False
) -> Policy:
    """Add a policy. Its text has at most 80 words; its `terms` are the numbers that the text sets."""
    world = company.world
    age = company.draw.between(20, 300) + (400 if superseded else 0)
    since = (world.now // DAY - age) * DAY
    status = "superseded" if superseded else "in force"
    return world.put_at_start(Policy(company.policy_ids.pop(0), title, status, since, one_line(text), terms or {}))


@cache
def one_line(text: str) -> str:
    """Return a text that is written on several lines of source as one line."""
    return " ".join(text.split())


def _forms(world: World) -> None:
    for name, title, decided_by, office in (
        ("expense_report", "Expense report", "the CFO", "CFO"),
        ("bug_escalation", "Bug escalation", "the CTO", "CTO"),
        ("license_renewal", "Licence renewal", "the Procurement Lead", "Procurement Lead"),
        ("handbook_update", "Handbook update", "the HR Lead", "HR Lead"),
    ):
        same = {"subject": "subject", "amount": "amount"}
        world.put_at_start(ApprovalType(name, title, ("ticket_id", "subject", "amount"), (), decided_by, (office,), same))


_BULLETINS = (
    "The canteen is closed on Friday.",
    "Please lock your screens when you leave your desk.",
    "The quarterly all-hands moves to the large hall.",
    "New badges can be picked up at the reception.",
)


def _bulletins(company: Backdrop) -> None:
    """Put old news into the inbox of the person whom the agent plays, marked as seen."""
    world = company.world
    for me in world.seats:
        for age, text in zip((2800, 300), company.draw.sample(_BULLETINS, 2), strict=True):
            at = world.now - age - company.draw.between(0, 200)
            world.put_at_start(
                Message(f"M-{world.count_up('message')}", me, company.offices["HR Lead"], at, "bulletin", None, text)
            )
        world.set_counter(inbox_counter(me), 2)
        world.set_counter(seen_counter(me), 2)
