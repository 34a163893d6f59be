"""The records of an offboarding: employees, notices, projects, assignments, a shared account, and the case's tickets."""

from typing import NamedTuple

from msgspec.structs import replace

from companyos.company import Entry, Person
from companyos.core.world import DAY, Draw, stamp
from companyos.families.kit.backdrop import Backdrop, add_entry, add_metric
from companyos.families.kit.names import pool
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket

OPEN = "open"  # the end of an assignment that has not ended
PROJECTS = [
    *("Aurora", "Basalt", "Copper", "Delta", "Estuary", "Falcon"),
    *("Gemini", "Horizon", "Icarus", "Jubilee", "Kepler", "Lagoon"),
]
ACCOUNTS = ("Payment gateway keys", "Domain registry login", "Code signing token", "Bank signing card")


class OffboardingRecords(NamedTuple):
    """The entries of a case, and some that are easily mistaken for them."""

    leaver: Entry
    namesake: Entry  # another employee of the same name
    last_notice: Entry
    first_notice: Entry
    past: Entry  # the leaver's assignment that ended
    present: Entry  # the leaver's assignment that has not ended
    unrelated_project: Entry  # one on which the leaver did not work
    account: Entry  # the shared account
    successor: Entry  # a holder of that account who may still be employed
    gone: Entry  # a holder who is not employed any more


def add_employee(company: Backdrop, name: str, department: str, handle: str, reference: str, status: str) -> Entry:
    """Add an employee to the register, with a metric of the final pay."""
    draw = company.world.streams.at("employee", reference)
    metric = f"final_pay.{reference.lower().replace('-', '_')}"
    add_metric(company, metric, f"Final pay of {reference}", "EUR", draw.between(1500, 8999), (1500, 8999))
    details = {
        "department": department,
        "handle": handle,
        "final_pay_metric": metric,
        "letter": f"LT-{draw.between(10_000, 99_999)}",
        "badge": f"BG-{draw.between(10_000, 99_999)}",
    }
    return add_entry(company, "employee", name, reference, status, details)


def add_records(company: Backdrop, draw: Draw, leaver: Person, successor: Person, gone: Person) -> OffboardingRecords:
    """Add the records of a case in which nothing prevents the closure. `employee_offboarding` then writes the facts."""
    references = [f"EMP-{number}" for number in draw.sample(range(10_000, 99_999), 4)]
    namesake = add_employee(company, leaver.name, draw.pick(("Sales", "Service")), "none", references.pop(), "left")
    employees = [
        add_employee(company, person.name, person.department, person.id, references.pop(), status)
        for person, status in ((leaver, "employed"), (successor, "employed"), (gone, "left"))
    ]
    numbers = draw.sample(range(1000, 10_000), 3)
    names = draw.sample(pool(PROJECTS, company.split), 3)
    projects = [_add_project(company, draw, name, number) for name, number in zip(names, numbers, strict=True)]
    leaver_entry, successor_entry, gone_entry = employees
    _add_assignment(company, successor_entry, projects[2], 1, since=_day(company, draw.between(300, 500)), until=OPEN)
    past, present = _add_assignments(company, draw, leaver_entry, projects)
    first_notice, last_notice = _add_notices(company, draw, leaver_entry)
    holders = [employee.reference for employee in draw.shuffled(employees)]
    account = Entry(
        company.entry_ids.pop(0),
        "account",
        draw.pick(ACCOUNTS),
        f"ACC-{draw.between(1000, 9999)}",
        "in use",
        {"holders": ", ".join(holders)},
    )
    company.world.put_at_start(account)
    return OffboardingRecords(
        leaver=leaver_entry,
        namesake=namesake,
        last_notice=last_notice,
        first_notice=first_notice,
        past=past,
        present=present,
        unrelated_project=projects[2],
        account=account,
        successor=successor_entry,
        gone=gone_entry,
    )


def _add_project(company: Backdrop, draw: Draw, name: str, number: int) -> Entry:
    """Add a project to the register."""
    details = {"sponsor": company.staff[draw.pick(("CTO", "CFO", "Procurement Lead"))]}
    return add_entry(company, "project", name, f"PRJ-{number}", "running", details)


def _add_assignments(company: Backdrop, draw: Draw, leaver: Entry, projects: list[Entry]) -> tuple[Entry, Entry]:
    """Add the leaver's past and present assignment, in random order. Return them in this order."""
    days_ago = {"past": draw.between(500, 800), "present": draw.between(60, 150)}
    numbers = dict(zip(days_ago, draw.shuffled((1, 2)), strict=True))
    assignments = {}
    for period in sorted(days_ago, key=numbers.__getitem__):
        project = projects[0] if period == "past" else projects[1]
        # `employee_offboarding` sets the day on which the past one ended.
        assignments[period] = _add_assignment(
            company, leaver, project, numbers[period], since=_day(company, days_ago[period]), until=OPEN
        )
    return assignments["past"], assignments["present"]


def _add_assignment(company: Backdrop, employee: Entry, project: Entry, number: int, since: str, until: str) -> Entry:
    """Add an assignment of an employee to a project. `number` ends its reference."""
    details = {"project": project.reference, "from": since, "until": until}
    name, reference = f"{employee.name} on {project.name}", f"{employee.reference}/{number}"
    return add_entry(company, "assignment", name, reference, "filed", details)


def _add_notices(company: Backdrop, draw: Draw, leaver: Entry) -> tuple[Entry, Entry]:
    """Add two notices and return them, the earlier one first. Their numbers and ids are in random order."""
    ages = (draw.between(60, 120), draw.between(15, 40))
    numbers = draw.shuffled((1, 2))
    notices = [
        Entry(
            "",
            "notice",
            f"Notice of {leaver.name}",
            f"{leaver.reference}/N{number}",
            draw.pick(("accepted", "withdrawn")),
            {"given": _day(company, age), "by": draw.pick(("letter", "mail"))},
        )
        for age, number in zip(ages, numbers, strict=True)
    ]
    for index in sorted((0, 1), key=numbers.__getitem__):
        notices[index] = company.world.put_at_start(replace(notices[index], id=company.entry_ids.pop(0)))
    return notices[0], notices[1]


def _day(company: Backdrop, age: int) -> str:
    """Return the date this number of days ago."""
    return stamp(company.world.now - age * DAY)[:10]


def add_tickets(
    company: Backdrop, draw: Draw, records: OffboardingRecords, kind: str, requester: str, duplicate: bool
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same person, a decoy and a blocker. Return their ids by role."""
    world, leaver = company.world, records.leaver
    ticket = open_ticket(
        company,
        draw,
        world.get(Person, requester),
        title=f"Offboard {leaver.name}",
        kind=kind,
        desk="people",
        assignee=company.staff["Offboarding Coordinator"],
        subject=leaver.name,
        reference=leaver.reference,
    )
    earlier = copy_ticket(
        company,
        ticket,
        reference=leaver.reference if duplicate else records.namesake.reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["People Partner"],
        opened=ticket.opened - draw.between(3, 14) * DAY,
    )
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="license_renewal",
        title=f"Offboard {records.gone.name}",
        subject=records.gone.name,
        reference=records.gone.reference,
    )
