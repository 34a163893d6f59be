"""The systems of an access request, their roles, accounts, groups and applications, and the tickets of the case."""

from typing import NamedTuple

from msgspec import Struct

from companyos.company import Entry, Person
from companyos.core.world import DAY, Draw, stamp
from companyos.families.access_rules import KIND
from companyos.families.kit.backdrop import Backdrop, add_entry, add_metric, add_ticket
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket

# -- what roles there are ----------------------------------------------------------------------------------------------


class RoleTemplate(Struct, frozen=True):
    """A kind of role. Each system that has a role of this kind gives it a name of its own."""

    own: tuple[int, ...]  # the permissions that it does not inherit, as indices into the system's list of permissions
    inherits: str = ""  # the template whose permissions it has as well


# No two roles that cover the same need have the same number of permissions, so the smallest one is unique.
ROLE_TEMPLATES = {
    "viewer": RoleTemplate((0, 1)),
    "clerk": RoleTemplate((2,), "viewer"),
    "editor": RoleTemplate((3,), "clerk"),
    "analyst": RoleTemplate((4,), "viewer"),
    "lead": RoleTemplate((4,), "editor"),
    "auditor": RoleTemplate((5,), "viewer"),
    "controller": RoleTemplate((6,), "auditor"),
    "admin": RoleTemplate((6,), "lead"),
}
# What a person may need, as indices of permissions, by the smallest role that covers the need.
NEEDS = {
    "clerk": ((2,), (0, 2), (1, 2)),
    "editor": ((3,), (2, 3), (0, 3)),
    "lead": ((2, 4), (3, 4), (0, 2, 4)),
    "none": ((2, 5), (3, 5), (4, 5)),
}
NEED_TRAINING = ("editor", "lead", "admin", "controller")  # templates of roles; for the clerk it is drawn
ALWAYS_HELD = "viewer"  # the role that every account has

PERMISSIONS = {
    "Ledger": (
        *("read_entries", "list_accounts", "post_entries", "reverse_entries"),
        *("export_ledger", "read_audit_log", "release_payments"),
    ),
    "Stock": (
        *("read_stock", "list_sites", "book_goods", "correct_counts"),
        *("export_stock", "read_movements", "release_orders"),
    ),
    "Payroll": (
        *("read_payslips", "list_grades", "enter_hours", "change_grades"),
        *("export_payroll", "read_change_log", "release_wages"),
    ),
}
TITLES = ("Assistant", "Coordinator", "Desk", "Keeper", "Office", "Operator", "Partner", "Specialist")


class AccessSystem(NamedTuple):
    """A system of the company, such as a ledger, to which people have access."""

    entry: Entry
    roles: dict[str, Entry]  # by template
    permissions: tuple[str, ...]


def add_system(company: Backdrop, draw: Draw, theme: str, name: str, owner: str, templates: tuple[str, ...]) -> AccessSystem:
    """Add a system with roles of these templates, in random order and under names that do not reveal the template."""
    world = company.world
    reference = f"SYS-{draw.between(10_000, 99_999)}"
    details = {"owner": owner, "vendor": company.firms.last().name}
    system = world.put_at_start(Entry(company.entry_ids.pop(0), "system", name, reference, "in service", details))
    ids = {template: company.entry_ids.pop(0) for template in draw.shuffled(templates)}
    titles = draw.sample(TITLES, len(templates))
    names = PERMISSIONS[theme]
    permissions = (*names[:2], *draw.shuffled(names[2:]))  # the first two are for reading, and every role has them
    excludes = {"analyst": ids.get("admin", "none")}
    # Editor and auditor exclude each other, but only one of the two entries says so.
    excluding, excluded = draw.shuffled(("editor", "auditor"))
    excludes[excluding] = ids.get(excluded, "none")
    clerk_needs_training = draw.chance(0.5)
    roles = {}
    for number, (template, entry_id) in enumerate(ids.items(), start=1):
        own, inherits = ROLE_TEMPLATES[template].own, ROLE_TEMPLATES[template].inherits
        needs_training = template in NEED_TRAINING or (template == "clerk" and clerk_needs_training)
        roles[template] = Entry(
            id=entry_id,
            kind="role",
            name=f"{name} {titles[number - 1]}",
            reference=f"{reference}/{number}",
            status="active",
            details={
                "permissions": ", ".join(permissions[index] for index in own),
                "inherits": ids.get(inherits, "none"),
                "excludes": excludes.get(template, "none"),
                "training": "required" if needs_training else "not required",
            },
        )
    for role in sorted(roles.values(), key=lambda role: role.reference):
        world.put_at_start(role)
    return AccessSystem(system, roles, permissions)


# -- who has what ------------------------------------------------------------------------------------------------------


def add_account(
    company: Backdrop, draw: Draw, person: Person, system: AccessSystem, grants: str, until: tuple[int, int]
) -> Entry:
    """Add a person's account on a system, and the group of the account. Return the account.

    The group grants the role whose template is `grants`. `until` has the ends of the person's engagement and training.
    """
    world = company.world
    slug = person.id.removeprefix("@").replace(".", "_")
    title = f"Days since {person.name} last signed in to {system.entry.name}"
    idle = add_metric(company, f"idle_days.{slug}", title, "days", draw.between(0, 20), (0, 240))
    group = Entry(
        id=company.entry_ids.pop(0),
        kind="group",
        name=f"{person.department} on {system.entry.name}",
        reference=f"GRP-{draw.between(10_000, 99_999)}",
        status="active",
        details={"grants": system.roles[grants].id},
    )
    engaged, trained = (stamp(minute)[:10] for minute in until)
    account = Entry(
        id=company.entry_ids.pop(0),
        kind="account",
        name=f"Account of {person.name}",
        reference=f"ACC-{draw.between(10_000, 99_999)}",
        status="open",
        details={
            "person": person.id,
            "role": system.roles[ALWAYS_HELD].id,
            "group": world.put_at_start(group).id,
            "engaged_until": engaged,
            "trained_until": trained,
            "idle_metric": idle.id,
        },
    )
    return world.put_at_start(account)


def add_application(company: Backdrop, draw: Draw, system: AccessSystem, account: Entry, reference: str) -> Entry:
    """Add an application that asks for a role chosen at random. It says nothing about what the person needs."""
    details = {
        "system": system.entry.id,
        "account": account.id,
        "asked_for": draw.pick(list(system.roles.values())).id,
        "mandate": f"MD-{draw.between(10_000, 99_999)}",
        "case_no": f"CN-{draw.between(10_000, 99_999)}",
    }
    name = f"Application for {system.entry.name}"
    return add_entry(company, "application", name, reference, "submitted", details)


def draw_need(draw: Draw, system: AccessSystem, smallest: str) -> str:
    """Draw a need, as a list of permissions, for which the smallest role that covers it is of the template `smallest`."""
    return ", ".join(draw.shuffled([system.permissions[index] for index in draw.pick(NEEDS[smallest])]))


def add_tickets(
    company: Backdrop, draw: Draw, systems: tuple[str, str], requester: Person, stranger: Person, duplicate: bool
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same application, a decoy and a blocker.

    `systems` are the names of the system and of its namesake. Return the tickets' ids by role in the case, and as
    `another` the reference of the application that the stranger makes.
    """
    world = company.world
    reference, stranger_reference, decoy_reference = (f"AR-{number}" for number in draw.sample(range(10_000, 99_999), 3))
    ticket = add_ticket(
        company,
        requester,
        title=f"Access to {systems[0]}",
        kind=KIND,
        desk="access",
        assignee=company.staff["Access Analyst"],
        subject=systems[0],
        reference=reference,
        status="open",
        priority=draw.pick(("low", "normal", "high")),
        amount=None,
        opened=world.now - draw.between(6, 20) * DAY - draw.between(0, 400),
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Access to {systems[1]}",
        subject=systems[1],
        reference=reference if duplicate else stranger_reference,
        requester=stranger.id,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Access Manager"],
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    decoy_system = f"{company.firms.pop(0).name.split()[0]} {draw.pick(tuple(PERMISSIONS))}"
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="bug_escalation",
        title=f"Access to {decoy_system}",
        subject=decoy_system,
        reference=decoy_reference,
    ) | {"another": stranger_reference}
