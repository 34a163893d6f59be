"""The records of a data deletion: two customers with similar names, the data that is held on them, and the tickets.

`company.world.put_at_start` adds a record to the start state. `company.staff` has people's ids by job title.
"""

from typing import NamedTuple

from companyos.company import Entry, Person
from companyos.core.world import DAY, Draw, stamp
from companyos.families.kit.backdrop import Backdrop, add_metric
from companyos.families.kit.names import FIRST_NAMES, LAST_NAMES, pool
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket

# The categories of data. Each has the smallest and the largest number of days that a policy may keep it for.
CATEGORIES = {
    "billing": (2000, 3600),
    "deliveries": (700, 1400),
    "messages": (300, 700),
    "newsletter": (150, 400),
    "profile": (400, 1000),
    "usage": (200, 600),
}
HOLDING_ROLES = ("first", "second", "third")  # the keys of the customer's three holdings in `case.roles`
OURSELVES = "ourselves"  # the controller of data that belong to the company itself
KIND = "data_deletion"  # the kind of the ticket


def keep_days_term(category: str) -> str:
    """Return the name of the policy's term that says how many days a category is kept."""
    return f"keep_days_{category}"


def draw_keep_days(draw: Draw) -> dict[str, int]:
    """Draw the days for which the policy keeps each category, by the policy's term."""
    return {keep_days_term(category): draw.between(*bounds) for category, bounds in CATEGORIES.items()}


class Customer(NamedTuple):
    """A customer in the register, and the sales agreement that names who controls their data."""

    entry: Entry
    agreement: Entry


def add_customers(company: Backdrop, draw: Draw, foreign: bool) -> tuple[Customer, Customer]:
    """Add the customer and a namesake, whose name differs in the last letter.

    `foreign`: another firm controls the customer's data.
    """
    first_name, last_name = draw.pick(pool(FIRST_NAMES, company.split)), draw.pick(pool(LAST_NAMES, company.split))
    last_letter = draw.pick([letter for letter in "dlmnrst" if letter != last_name[-1]])
    references = draw.sample(range(10_000, 99_999), 2)
    namesake_foreign = draw.chance(0.5)
    customer = _add_customer(company, draw, f"{first_name} {last_name}", references[0], foreign)
    namesake = _add_customer(company, draw, f"{first_name} {last_name[:-1]}{last_letter}", references[1], namesake_foreign)
    return customer, namesake


def _add_customer(company: Backdrop, draw: Draw, name: str, number: int, foreign: bool) -> Customer:
    """Add a customer with this number. `foreign`: another firm controls the customer's data."""
    partner = company.firms.pop(0)
    agreement = Entry(
        id=company.entry_ids.pop(0),
        kind="agreement",
        name=f"Sales through {partner.name}",
        reference=f"AG-{draw.between(10_000, 99_999)}",
        status="running",
        details={"partner": partner.name, "controller": partner.name if foreign else OURSELVES},
    )
    metric = f"identity_match.cu_{number}"
    add_metric(company, metric, f"How well the papers of CU-{number} match", "percent", draw.between(30, 99), (5, 99))
    entry = Entry(
        id=company.entry_ids.pop(0),
        kind="customer",
        name=name,
        reference=f"CU-{number}",
        status="active",
        details={
            "agreement": agreement.reference,
            "identity_metric": metric,
            "letter": f"LT-{draw.between(10_000, 99_999)}",
            "case_file": f"PF-{draw.between(10_000, 99_999)}",
        },
    )
    return Customer(company.world.put_at_start(entry), company.world.put_at_start(agreement))


class Holding(NamedTuple):
    """The values that decide whether a holding is kept."""

    ground: str
    status: str
    age: int  # days between its last entry and the opening of the ticket


def draw_holding(draw: Draw, kept: bool, keep_days: int) -> Holding:
    """Draw a holding that must be kept (`kept`) or may be deleted.

    Its legal ground decides which of its other values matter; the rest may mislead.
    """
    status, age = draw.pick(("running", "ended")), draw.between(keep_days // 4, keep_days * 2)
    recent, long_ago = draw.between(keep_days * 2 // 3, keep_days - 1), draw.between(keep_days, keep_days * 3 // 2)
    if kept:
        return draw.pick((Holding("law", status, recent), Holding("contract", "running", age)))
    return draw.pick((Holding("law", status, long_ago), Holding("contract", "ended", age), Holding("consent", status, age)))


def add_holdings(
    company: Backdrop, customer: Entry, opened: int, holdings: dict[str, Holding], system_draw: Draw
) -> dict[str, Entry]:
    """Add the holdings on a customer, one entry for each category, and return them by category."""
    entries = {}
    for number, (category, holding) in enumerate(holdings.items(), 1):
        entries[category] = company.world.put_at_start(
            Entry(
                id=company.entry_ids.pop(0),
                kind="holding",
                name=f"{category.capitalize()} data of {customer.name}",
                reference=f"{customer.reference}/{number}",
                status=holding.status,
                details={
                    "category": category,
                    "system": system_draw.pick(("Atlas", "Borealis", "Ledgerline", "Mailroom", "Quarry")),
                    "ground": holding.ground,
                    "last_entry": stamp(opened - holding.age * DAY)[:10],
                },
            )
        )
    return entries


# -- tickets -----------------------------------------------------------------------------------------------------------


def add_tickets(
    company: Backdrop, draw: Draw, customer: Entry, namesake: Entry, requester: Person, duplicate: bool
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be the same person's, a similar one (decoy) and one that may block it.

    Return their ids by role.
    """
    ticket = open_ticket(
        company,
        draw,
        requester,
        title=f"Erase {customer.name}",
        kind=KIND,
        desk="privacy",
        assignee=company.staff["Privacy Analyst"],
        subject=customer.name,
        reference=customer.reference,
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Erase {namesake.name}",
        subject=namesake.name,
        reference=customer.reference if duplicate else namesake.reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Privacy Manager"],
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="vendor_check",
        title="Erase a former applicant",
        subject="A former applicant",
        reference=f"CU-{draw.between(1000, 9999)}",
    )
