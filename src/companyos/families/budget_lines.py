"""The budget lines of a transfer, the other transfers of the quarter, the books, and the tickets of the case."""

from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from companyos.company import Entry, Metric, Person
from companyos.core.world import DAY, Draw, stamp
from companyos.families.budget_rules import KIND
from companyos.families.kit.backdrop import Backdrop, add_entry, add_metric, set_metric
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket

# Roles of earlier transfers between the two lines: those that count for the quarter's sum, and those that do not.
COUNTED = ("past_one", "past_two", "past_back")  # `past_back` went in the opposite direction
NOT_COUNTED = ("past_old", "past_withdrawn")
COST_TYPES = ("capex", "opex")
_TOPICS = ("Campaigns", "Fixtures", "Samples", "Tools", "Trade fairs", "Training")


class TransferAmounts(NamedTuple):
    """The amount of the transfer and the limits on a quarter's sum. They do not depend on the causes."""

    amount: int
    limits: dict[str, int]  # by the policy's term


def draw_amounts(draw: Draw) -> TransferAmounts:
    """Draw the amounts. A single transfer is always below the lowest limit; only the sum can exceed one."""
    owners_limit = draw.between(20, 40) * 500
    limits = {
        "limit_owners": owners_limit,
        "limit_controller": owners_limit * draw.between(155, 165) // 100,
        "limit_cfo": owners_limit * draw.between(220, 230) // 100,
    }
    return TransferAmounts(owners_limit * draw.between(30, 50) // 100, limits)


class BudgetLines(NamedTuple):
    """The budget lines of a case: the giver, the receiver, and a line with almost the same name as the giver."""

    giver: Entry
    receiver: Entry
    namesake: Entry


def add_lines(
    company: Backdrop, draw: Draw, giving: str, receiving: str, amounts: TransferAmounts, mixed: bool, dissolved: bool
) -> BudgetLines:
    """Add the lines. `mixed`: their cost types differ. `dissolved`: the giving line is dissolved."""
    giving_topic, receiving_topic = draw.sample(_TOPICS, 2)
    numbers = [f"BL-{number}" for number in draw.sample(range(10_000, 99_999), 3)]
    ledgers = [f"LG-{number}" for number in draw.sample(range(100, 999), 2)]
    giver_type = draw.pick(COST_TYPES)
    other_type = next(cost_type for cost_type in COST_TYPES if cost_type != giver_type)
    add_line = partial(_add_line, company, draw, amount=amounts.amount)
    name = f"{giving_topic} of {giving}"
    giver = add_line(name, numbers[0], department=giving, ledger=ledgers[0], cost_type=giver_type)
    if dissolved:
        giver = company.world.put_at_start(replace(giver, status="dissolved"))
    name, receiver_type = f"{receiving_topic} of {receiving}", other_type if mixed else giver_type
    receiver = add_line(name, numbers[1], department=receiving, ledger=ledgers[1], cost_type=receiver_type)
    name = f"{giving_topic} of {giving}, reserve"
    ledger, cost_type = draw.pick(ledgers), draw.pick(COST_TYPES)
    namesake = add_line(name, numbers[2], department=giving, ledger=ledger, cost_type=cost_type)
    return BudgetLines(giver, receiver, namesake)


def _add_line(
    company: Backdrop, draw: Draw, name: str, number: str, department: str, ledger: str, cost_type: str, amount: int
) -> Entry:
    """Add a line from which twice the amount is available, before `raise_figure`."""
    slug = number.lower().replace("-", "_")
    earmarked, spent, committed = (amount * draw.between(60, 240) // 100 for _ in range(3))
    for figure, value in (("spent", spent), ("committed", committed)):
        title = f"{figure.capitalize()} of {number}, this year"
        add_metric(company, f"{figure}.{slug}", title, "EUR", value, (0, value + 2 * amount))
    details = {
        "owner": f"Head of {department}",
        "cost_type": cost_type,
        "ledger": ledger,
        "budget": str(2 * amount + earmarked + spent + committed),
        "earmarked": str(earmarked),
        "spent_metric": f"spent.{slug}",
        "committed_metric": f"committed.{slug}",
    }
    return add_entry(company, "budget_line", name, number, "active", details)


def raise_figure(company: Backdrop, metric: str, figure: str, level: str, amount: int) -> None:
    """Raise a line's `spent` or `committed` figure. If only one of them is high, the transfer is possible; if both, not."""
    world = company.world
    min_percent, max_percent = {"low": (0, 2), "high": (55, 95)}[level]
    increase = world.streams.at("figure", figure, level).between(amount * min_percent // 100, amount * max_percent // 100)
    value = world.get(Metric, metric).value + increase
    set_metric(world, metric, value)


# -- transfers ---------------------------------------------------------------------------------------------------------


def quarters(opened: int) -> tuple[str, str]:
    """Return the quarter of a point in time, and the quarter before it."""
    year, month = (int(part) for part in stamp(opened)[:7].split("-"))
    number = 4 * year + (month - 1) // 3  # quarters since the year 0
    return _quarter(number), _quarter(number - 1)


def _quarter(number: int) -> str:
    """Return the name of a quarter, such as `2026-Q1`, from the number of quarters since the year 0."""
    return f"{number // 4}-Q{number % 4 + 1}"


def draw_past(draw: Draw, amounts: TransferAmounts, level: str) -> list[int]:
    """Draw the amounts of three earlier transfers. With this one, their sum lies between the limits that `level` names."""
    owners_limit, controller_limit, cfo_limit = amounts.limits.values()
    bands = {
        "little": (owners_limit // 3, owners_limit - amounts.amount),
        "some": (owners_limit - amounts.amount + 1, controller_limit - amounts.amount),
        "much": (controller_limit - amounts.amount + 1, cfo_limit - amounts.amount),
        "most": (cfo_limit - amounts.amount + 1, cfo_limit - amounts.amount + owners_limit // 5),
    }
    total = draw.between(*bands[level])
    first, second = (total * draw.between(29, 36) // 100 for _ in range(2))
    return [first, second, total - first - second]


def add_transfers(
    company: Backdrop, draw: Draw, lines: BudgetLines, amounts: TransferAmounts, past: list[int], opened: int
) -> dict[str, Entry]:
    """Add the requested transfer, earlier ones that count for the quarter's sum, and others. Return them by role."""
    this_quarter, last_quarter = quarters(opened)
    same_way, opposite_way, from_namesake = (
        (lines.giver, lines.receiver),
        (lines.receiver, lines.giver),
        (lines.namesake, lines.receiver),
    )
    uncounted_amounts = [amounts.limits["limit_owners"] * draw.between(40, 90) // 100 for _ in range(3)]
    planned = {  # role: (giver, receiver), quarter, status, amount
        "entry": (same_way, this_quarter, "requested", amounts.amount),
        "past_one": (same_way, this_quarter, "booked", past[0]),
        "past_two": (same_way, this_quarter, "signed", past[1]),
        "past_back": (opposite_way, this_quarter, "booked", past[2]),
        "past_old": (same_way, last_quarter, "booked", uncounted_amounts[0]),
        "past_withdrawn": (draw.pick((same_way, opposite_way)), this_quarter, "withdrawn", uncounted_amounts[1]),
        "past_other": (from_namesake, this_quarter, "booked", uncounted_amounts[2]),
    }
    numbers = draw.sample(range(10_000, 99_999), len(planned))
    transfers = {}
    for number, role in zip(numbers, draw.shuffled(list(planned)), strict=True):
        (giver, receiver), quarter, status, amount = planned[role]
        transfers[role] = company.world.put_at_start(
            Entry(
                id=company.entry_ids.pop(0),
                kind="transfer",
                name=f"{quarter}: from {giver.reference} to {receiver.reference}",
                reference=f"BT-{number}",
                status=status,
                details={
                    "giver": giver.reference,
                    "receiver": receiver.reference,
                    "amount": str(amount),
                    "quarter": quarter,
                    "memo": f"MM-{draw.between(10_000, 99_999)}",
                    "project": f"PJ-{draw.between(10_000, 99_999)}",
                },
            )
        )
    return transfers


# -- books -------------------------------------------------------------------------------------------------------------


def add_books(company: Backdrop, draw: Draw, lines: BudgetLines, opened: int, status: str) -> dict[str, Entry]:
    """Add the books of both ledgers for two quarters. `status` is that of the giver's this quarter. Return them by role."""
    this_quarter, last_quarter = quarters(opened)
    books = {}
    for line_role, line in (("books", lines.giver), ("their_books", lines.receiver)):
        for role, quarter in ((line_role, this_quarter), (f"{line_role}_before", last_quarter)):
            any_status = draw.pick(("open", "paused", "closed"))
            books[role] = company.world.put_at_start(
                Entry(
                    id=company.entry_ids.pop(0),
                    kind="books",
                    name=f"Books of {line.details['ledger']}",
                    reference=quarter,
                    status=status if role == "books" else any_status,
                    details={"keeper": company.staff[draw.pick(("Finance Clerk", "Ledger Clerk"))]},
                )
            )
    return books


# -- tickets -----------------------------------------------------------------------------------------------------------


def add_tickets(
    company: Backdrop,
    draw: Draw,
    lines: BudgetLines,
    transfers: dict[str, Entry],
    requester: Person,
    opened: int,
    duplicate: bool,
) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same transfer, a decoy, a blocker. Return their ids by role."""
    transfer, other_transfer = transfers["entry"], transfers["past_other"]
    ticket = open_ticket(
        company,
        draw,
        requester,
        title=f"Move money to {lines.receiver.name}",
        kind=KIND,
        desk="finance",
        assignee=company.staff["Budget Analyst"],
        subject=lines.receiver.name,
        reference=transfer.reference,
        amount=int(transfer.details["amount"]),
        opened=opened,
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Reserve for {lines.receiver.name}",
        reference=(transfer if duplicate else other_transfer).reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Budget Manager"],
        opened=opened - draw.between(3, 30) * DAY,
    )
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="bug_escalation",
        title="Move what is left of last year",
        subject="What is left of last year",
        reference=f"BT-{draw.between(1000, 9999)}",
        amount=draw.between(8, 60) * 250,
    )
