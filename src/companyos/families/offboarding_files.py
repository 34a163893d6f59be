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
    namesake: Entry
    last_notice: Entry
    first_notice: Entry
    past: Entry  # the leaver's assignment that ended
    present: Entry  # the one that did not end
    strange_project: Entry
    account: Entry
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
    """Add the records of a case in which nothing prevents the closure. `employee_offboarding` changes them by its facts."""
    references = [f"EMP-{number}" for number in draw.sample(range(10_000, 99_999), 4)]
    namesake = add_employee(company, leaver.name, draw.pick(("Sales", "Service")), "none", references.pop(), "left")
    employees = [
        add_employee(company, person.name, person.department, person.id, references.pop(), status)
        for person, status in ((leaver, "employed"), (successor, "employed"), (gone, "left"))
    ]
    numbers = draw.sample(range(1000, 10_000), 3)
    projects = [
        _add_project(company, draw, *known)
        for known in zip(draw.sample(pool(PROJECTS, company.split), 3), numbers, strict=True)
    ]
    _add_assignment(company, employees[1], projects[2], 1, _day(company, draw.between(300, 500)), OPEN)
    past, present = _add_assignments(company, draw, employees[0], projects)
    first, last = _add_notices(company, draw, employees[0])
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
        employees[0], namesake, last, first, past, present, projects[2], account, employees[1], employees[2]
    )


def _add_project(company: Backdrop, draw: Draw, name: str, number: int) -> Entry:
    details = {"sponsor": company.offices[draw.pick(("CTO", "CFO", "Procurement Lead"))]}
    return add_entry(company, "project", name, f"PRJ-{number}", "running", details)


def _add_assignments(company: Backdrop, draw: Draw, leaver: Entry, projects: list[Entry]) -> tuple[Entry, Entry]:
    """Add the leaver's past and present assignment, in random order."""
    since = {"past": draw.between(500, 800), "present": draw.between(60, 150)}
    numbers = dict(zip(since, draw.shuffled((1, 2)), strict=True))
    made = {}
    for name in sorted(since, key=numbers.__getitem__):
        project = projects[0] if name == "past" else projects[1]
        # A fact of the case sets the day on which the past one ended.
        made[name] = _add_assignment(company, leaver, project, numbers[name], _day(company, since[name]), OPEN)
    return made["past"], made["present"]


def _add_assignment(company: Backdrop, employee: Entry, project: Entry, number: int, since: str, until: str) -> Entry:
    details = {"project": project.reference, "from": since, "until": until}
    name, reference = f"{employee.name} on {project.name}", f"{employee.reference}/{number}"
    return add_entry(company, "assignment", name, reference, "filed", details)


def _add_notices(company: Backdrop, draw: Draw, leaver: Entry) -> tuple[Entry, Entry]:
    """Add two notices and return them, the earlier one first. Their numbers and ids are in random order."""
    ages = (draw.between(60, 120), draw.between(15, 40))
    numbers = draw.shuffled((1, 2))
    made = [
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
    for i in sorted((0, 1), key=numbers.__getitem__):
        made[i] = company.world.put_at_start(replace(made[i], id=company.entry_ids.pop(0)))
    return made[0], made[1]


def _day(company: Backdrop, age: int) -> str:
    return stamp(company.world.now - age * DAY)[:10]


def add_tickets(
    company: Backdrop, draw: Draw, records: OffboardingRecords, kind: str, requester: str, duplicate: bool
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same person, a decoy and a blocker. Return ids by role."""
    world, leaver = company.world, records.leaver
    ticket = open_ticket(
        company,
        draw,
        world.get(Person, requester),
        title=f"Offboard {leaver.name}",
        kind=kind,
        desk="people",
        assignee=company.offices["Offboarding Coordinator"],
        subject=leaver.name,
        reference=leaver.reference,
    )
    earlier = copy_ticket(
        company,
        ticket,
        reference=leaver.reference if duplicate else records.namesake.reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.offices["People Partner"],
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
