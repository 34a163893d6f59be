"""The tickets, reports and receipts of an expense report, all without faults. `expense_report` adds the faults."""

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import Entry, Person, Ticket
from companyos.core.world import DAY, Draw, Streams, stamp
from companyos.families.expense_rules import FORM
from companyos.families.kit.backdrop import Backdrop, add_entry
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket

MAX_GAP = 300  # the largest difference between a claimed total and the sum of its receipts


class Bill(Struct, frozen=True):
    """The amounts of a report. They do not depend on the facts of the case."""

    parts: list[tuple[str, int]]  # category and amount of each receipt except the last one, which has the rest of the total
    totals: dict[str, int]  # the total of a small and of a large report
    guests: int  # the smallest number of guests for which the meal is within its limit
    nights: int  # the smallest number of nights for which the hotel is within its limit


def draw_bill(streams: Streams, draw: Draw, terms: dict[str, int], head_limit: int) -> Bill:
    """Draw the amounts. `head_limit` is the signing limit of the department head, which lies between the two totals."""
    guests, nights = draw.between(12, 36), draw.between(8, 20)
    meal = terms["meal_rate"] * guests - draw.between(0, terms["meal_rate"] - 1)
    hotel = terms["hotel_rate"] * nights - draw.between(0, terms["hotel_rate"] - 1)
    trains = [draw.between(80, 700) for _ in range(draw.pick((0, 0, 0, 1, 1, 2)))]
    parts = [("meal", meal), ("hotel", hotel), *(("train", fare) for fare in trains)]
    amounts = [amount for _, amount in parts]
    # With this minimum the receipt `other` is the largest one, whether the receipts add up or not.
    min_total = sum(amounts) + max(amounts) + 2 * MAX_GAP
    bands = {"small": (min_total, head_limit), "large": (head_limit + 1, 2 * head_limit)}
    totals = {size: streams.at("amount", size).between(*band) for size, band in bands.items()}
    return Bill(parts, totals, guests, nights)


def add_tickets(company: Backdrop, draw: Draw, roles: dict[str, str], amount: int) -> dict[str, str]:
    """Add the ticket, a colleague's earlier one for the same event, a decoy and a blocker. Return their ids by role."""
    world = company.world
    occasions = draw.sample(("Workshop", "Trade fair", "Customer day", "Roadshow", "Kick-off"), 2)
    subjects = [f"{occasion} with {company.firms.pop(0).name}" for occasion in occasions]
    numbers = draw.sample(range(10_000, 99_999), 3)
    ticket = open_ticket(
        company,
        draw,
        world.get(Person, roles["requester"]),
        title=f"Expenses: {subjects[0]}",
        kind=FORM,
        desk="finance",
        assignee=company.staff["Finance Clerk"],
        subject=subjects[0],
        reference=f"EXP-{numbers[0]}",
        amount=amount,
    )
    colleague = world.get(Person, roles["colleague"])
    earlier = copy_ticket(
        company,
        ticket,
        status=draw.pick(("open", "in_progress")),
        requester=colleague.id,
        assignee=roles["controller"],
        reference=f"EXP-{numbers[1]}",
        amount=draw.between(20, 90) * 50,
        cost_center=colleague.cost_center,
        opened=ticket.opened - draw.between(1, 10) * DAY,
    )
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="handbook_update",
        title=f"Expenses: {subjects[1]}",
        subject=subjects[1],
        reference=f"EXP-{numbers[2]}",
    )


def add_reports(
    company: Backdrop, draw: Draw, ticket: Ticket, earlier: Ticket, bill: Bill, receipt_days: int
) -> dict[str, str]:
    """Add the report of the ticket with its receipts, and that of the earlier ticket with one. Return their ids by role."""
    world, report = company.world, _add_report(company, draw, ticket)
    rest = (ticket.amount or 0) - sum(amount for _, amount in bill.parts)
    numbers = [f"RC-{number}" for number in draw.sample(range(10_000, 99_999), 6)]
    receipts = []
    for category, amount in [*bill.parts, ("other", rest)]:
        details = {
            "report": ticket.reference,
            "category": category,
            "amount": str(amount),
            "date": days_before(ticket, draw.between(2, receipt_days)),
            "payee": company.firms.pop(0).name,
            "document": f"DOC-{draw.between(10_000, 99_999)}",
        }
        if category == "meal":
            details["invited"] = str(bill.guests + draw.between(3, 9))
        if category == "hotel":
            details["nights"] = str(bill.nights)
        receipts.append(_add_receipt(company, numbers.pop(), details))
    _add_report(company, draw, earlier)
    repeated = draw.pick(receipts[:-1])
    # The earlier report has a copy of one receipt. If the cause `repeated` is true, the copy also gets the same number.
    changed = {"report": earlier.reference, "document": f"DOC-{world.streams.at('copy').between(10_000, 99_999)}"}
    earlier_receipt = _add_receipt(company, numbers.pop(), repeated.details | changed)
    world.put_at_start(replace(earlier, amount=int(earlier_receipt.details["amount"])))
    return {
        "entry": report.id,
        "meal": receipts[0].id,
        "hotel": receipts[1].id,
        "other": receipts[-1].id,
        "alike": repeated.id,
        "earlier_receipt": earlier_receipt.id,
        # the receipts in which a fault is put if the facts of the case demand it
        **{role: draw.pick(receipts).id for role in ("conflicted", "undocumented", "oldest")},
    }


def _add_report(company: Backdrop, draw: Draw, ticket: Ticket) -> Entry:
    """Add the report that a ticket is about."""
    department = company.world.get(Person, ticket.requester).department
    details = {
        "claimant": ticket.requester,
        "itinerary": f"IT-{draw.between(10_000, 99_999)}",
        "project": f"PR-{draw.between(1000, 9999)}",
        "budget_left_metric": f"budget_left.{department.lower()}",
    }
    entry_id = company.entry_ids.pop(0)
    return company.world.put_at_start(Entry(entry_id, "report", ticket.subject, ticket.reference, "filed", details))


def _add_receipt(company: Backdrop, number: str, details: dict[str, str]) -> Entry:
    """Add a receipt. `number` is its reference."""
    name = f"{details['category'].capitalize()} receipt of {details['report']}"
    return add_entry(company, "receipt", name, number, "filed", details)


def days_before(ticket: Ticket, days: int) -> str:
    """Return the date this number of days before a ticket was opened."""
    return stamp(ticket.opened - days * DAY)[:10]
