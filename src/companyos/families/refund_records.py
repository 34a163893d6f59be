"""The records of an order that the shop, the carrier, the ledger and the customer have, and the tickets of the case."""

from typing import NamedTuple

from msgspec.structs import replace

from companyos.company import Entry, Person, Policy
from companyos.core.world import DAY, Draw, stamp
from companyos.families.kit.backdrop import Backdrop, add_entry, add_metric
from companyos.families.kit.names import FIRST_NAMES, LAST_NAMES, pool
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket
from companyos.families.refund_rules import KIND, add_terms_of_sale

VERSIONS = ("old", "mid", "new")  # of the terms of sale
OUR_CHANNELS = ("card", "transfer", "wallet")
THEIR_CHANNELS = ("marketplace", "instalment bank")
GOODS = ("Desk lamp", "Espresso machine", "Hiking boots", "Bookshelf", "Headphones", "Winter coat")

# -- terms -------------------------------------------------------------------------------------------------------------


class RefundCalendar(NamedTuple):
    """The days of a case that do not depend on the facts, as day numbers of the simulated clock."""

    since: dict[str, int]  # by version of the terms: its first day
    ordered: dict[str, tuple[int, int]]  # by version: the first and last possible day of an order to which it applies
    delivered: int


class SalePeriods(NamedTuple):
    """The periods that the three versions of the terms set, in rising order. They are assigned to the versions at random."""

    returns: tuple[int, ...]  # days within which a return is refunded in full
    goodwills: tuple[int, ...]  # days within which the goods are refunded, without shipping


def draw_calendar(today: int, draw: Draw) -> RefundCalendar:
    """Draw the first days of the three versions, the days of order that belong to them, and the day of delivery."""
    newest = today - draw.between(100, 110)
    middle = newest - draw.between(20, 25)
    oldest = middle - draw.between(400, 600)
    ordered = {"old": (middle - 15, middle - 1), "mid": (middle, newest - 1), "new": (newest, newest + 6)}
    return RefundCalendar({"old": oldest, "mid": middle, "new": newest}, ordered, newest + draw.between(8, 14))


def draw_periods(draw: Draw) -> SalePeriods:
    """Draw six periods that differ by at least 5 days. Every goodwill period is longer than every return period."""
    days = [draw.between(9, 13)]
    for _ in range(5):
        days.append(days[-1] + draw.between(5, 9))
    return SalePeriods(tuple(days[:3]), tuple(days[3:]))


def add_versions(company: Backdrop, draw: Draw, calendar: RefundCalendar, periods: SalePeriods) -> dict[str, Policy]:
    """Add the three versions of the terms of sale. Any of them can be the most generous one. Return them by name."""
    returns, goodwills = draw.shuffled(periods.returns), draw.shuffled(periods.goodwills)
    policies = {}
    for name, return_days, goodwill_days in draw.shuffled(tuple(zip(VERSIONS, returns, goodwills, strict=True))):
        terms = {"return_days": return_days, "goodwill_days": goodwill_days}
        policy = add_terms_of_sale(company, terms, superseded=name != VERSIONS[-1])
        policies[name] = company.world.put_at_start(replace(policy, since=calendar.since[name] * DAY))
    return policies


# -- the order ---------------------------------------------------------------------------------------------------------


class RefundRecords(NamedTuple):
    """The entries of a case. Only scans and ledger entries are reliable."""

    customer: Entry
    order: Entry
    other_order: Entry  # of the same customer
    payment: Entry
    refund: Entry
    delivery_scan: Entry
    return_scan: Entry
    goodwill: Entry


def add_records(company: Backdrop, draw: Draw, calendar: RefundCalendar) -> RefundRecords:
    """Add the records of an order. The facts of the case change some fields later."""
    name = f"{draw.pick(pool(FIRST_NAMES, company.split))} {draw.pick(pool(LAST_NAMES, company.split))}"
    numbers = draw.sample(range(10_000, 99_999), 4)
    customer, namesake = (_add_customer(company, draw, name, f"CUS-{number}") for number in numbers[:2])
    _add_goodwill(company, draw, namesake, "booked")
    goodwill = _add_goodwill(company, draw, customer, "reversed")
    ordered, delivered = calendar.ordered["new"][0], calendar.delivered
    order = _add_order(company, draw, customer, f"ORD-{numbers[2]}", ordered)
    other_order = _add_order(company, draw, customer, f"ORD-{numbers[3]}", ordered - draw.between(200, 300))
    paid, shipping = draw.between(80, 900), draw.between(4, 19)
    money = {"paid": str(paid), "goods": str(paid - shipping), "shipping": str(shipping)}
    claims = {  # what the customer says, which need not be true
        "by": "customer",
        "says_delivered": date_of(delivered + draw.between(2, 9)),
        "says_returned": date_of(delivered + draw.between(3, 9)),
        "says_refund": "never received",
    }
    parts = {
        # name: kind, suffix of the order's reference, status, details
        "Payment": ("ledger", "L1", "booked", money | {"channel": "card"}),
        "Refund": ("ledger", "L2", "reversed", {"amount": str(paid), "date": date_of(calendar.delivered + 70)}),
        "Scan: delivery attempted": ("scan", "S1", "scanned", {"date": date_of(delivered - draw.between(1, 3))}),
        "Scan: delivered": ("scan", "S2", "scanned", {"date": date_of(delivered)}),
        "Scan: return": ("scan", "S3", "scanned", {"date": date_of(delivered)}),
        "Contact: phone call": ("contact", "C1", "logged", claims),
    }
    entries = {}
    for title, (kind, suffix, status, details) in draw.shuffled(tuple(parts.items())):
        entry = Entry(company.entry_ids.pop(0), kind, title, f"{order.reference}/{suffix}", status, details)
        entries[title] = company.world.put_at_start(entry)
    return RefundRecords(
        customer,
        order,
        other_order,
        entries["Payment"],
        entries["Refund"],
        entries["Scan: delivered"],
        entries["Scan: return"],
        goodwill,
    )


def _add_customer(company: Backdrop, draw: Draw, name: str, reference: str) -> Entry:
    details = {"goodwill": draw.pick(("used", "never used")), "flag": draw.pick(("none", "watch", "valued"))}
    return add_entry(company, "customer", name, reference, "active", details)


def _add_goodwill(company: Backdrop, draw: Draw, customer: Entry, status: str) -> Entry:
    details = {"amount": str(draw.between(20, 200)), "order": f"ORD-{draw.between(10_000, 99_999)}"}
    name, reference = f"Goodwill for {customer.name}", f"{customer.reference}/G{draw.between(1, 9)}"
    return add_entry(company, "ledger", name, reference, status, details)


def _add_order(company: Backdrop, draw: Draw, customer: Entry, reference: str, day: int) -> Entry:
    slug = reference.lower().replace("-", "_")
    title = f"Share of refunded orders of {customer.reference}"
    metric = add_metric(company, f"refund_rate.{slug}", title, "percent", draw.between(2, 60))
    details = {
        "customer": customer.reference,
        "goods": draw.pick(GOODS),
        "ordered": date_of(day),
        "list_price": str(draw.between(90, 999)),
        "channel": draw.pick((*OUR_CHANNELS, *THEIR_CHANNELS)),
        "refund": draw.pick(("paid", "none")),
        "refund_rate_metric": metric.id,
        "invoice": f"INV-{draw.between(10_000, 99_999)}",
        "parcel": f"PK-{draw.between(10_000, 99_999)}",
    }
    name = f"Order of {customer.name}"
    return add_entry(company, "order", name, reference, "shipped", details)


def date_of(day: int) -> str:
    """Return the date of a day number of the simulated clock, such as `2026-03-10`."""
    return stamp(day * DAY)[:10]


# -- tickets -----------------------------------------------------------------------------------------------------------


def add_tickets(company: Backdrop, draw: Draw, records: RefundRecords, requester: str, duplicate: bool) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same order, a decoy and a blocker. Return their ids by role."""
    world, order = company.world, records.order
    ticket = open_ticket(
        company,
        draw,
        world.get(Person, requester),
        title=f"Refund for {records.customer.name}",
        kind=KIND,
        desk="care",
        assignee=company.staff["Care Agent"],
        subject=records.customer.name,
        reference=order.reference,
        amount=int(order.details["list_price"]),
    )
    earlier = copy_ticket(
        company,
        ticket,
        reference=order.reference if duplicate else records.other_order.reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Care Supervisor"],
        amount=draw.between(90, 999),
        opened=ticket.opened - draw.between(3, 14) * DAY,
    )
    stranger = f"{draw.pick(pool(FIRST_NAMES, company.split))} {draw.pick(pool(LAST_NAMES, company.split))}"
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="vendor_check",
        title=f"Refund for {stranger}",
        subject=stranger,
        reference=f"ORD-{draw.between(1000, 9999)}",  # an older order, so its number is shorter
    )
