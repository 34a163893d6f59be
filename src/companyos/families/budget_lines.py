"""The budget lines of a transfer, the other transfers of the quarter, the books, and the tickets of the case."""

from typing import NamedTuple

from msgspec.structs import replace

from companyos.company import Entry, Metric, Person
from companyos.core.world import DAY, Draw, stamp
from companyos.families.budget_rules import KIND
from companyos.families.kit.backdrop import Backdrop, add_entry, add_metric, set_metric
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket, open_ticket

PAST = (
    "past_one",
    "past_two",
    "past_back",
)  # transfers between the two lines this quarter; the last went in the other direction
NOISE = ("past_old", "past_withdrawn")  # other transfers between these lines, which do not count
TYPES = ("capex", "opex")
_TOPICS = ("Campaigns", "Fixtures", "Samples", "Tools", "Trade fairs", "Training")


class TransferAmounts(NamedTuple):
    """The amount of the transfer and the limits on a quarter's sum. They do not depend on the causes."""

    amount: int
    limits: dict[str, int]


def draw_amounts(draw: Draw) -> TransferAmounts:
    """Draw the amounts. A single transfer is always below the lowest limit; only the sum can exceed one."""
    owners = draw.between(20, 40) * 500
    limits = {
        "limit_owners": owners,
        "limit_controller": owners * draw.between(155, 165) // 100,
        "limit_cfo": owners * draw.between(220, 230) // 100,
    }
    return TransferAmounts(owners * draw.between(30, 50) // 100, limits)


class BudgetLines(NamedTuple):
    """The budget lines of a case: the giver, the receiver, and a line with almost the same name as the giver."""

    giver: Entry
    receiver: Entry
    namesake: Entry


def add_lines(
    company: Backdrop, draw: Draw, giving: str, receiving: str, amounts: TransferAmounts, mixed: bool, dissolved: bool
) -> BudgetLines:
    """Add the lines. `mixed`: their cost types differ. `dissolved`: the giving line is dissolved."""
    ours, theirs = draw.sample(_TOPICS, 2)
    numbers = [f"BL-{number}" for number in draw.sample(range(10_000, 99_999), 3)]
    ledgers = [f"LG-{number}" for number in draw.sample(range(100, 999), 2)]
    kind = draw.pick(TYPES)
    other_kind = next(other for other in TYPES if other != kind)
    giver = _add_line(company, draw, f"{ours} of {giving}", numbers[0], giving, ledgers[0], kind, amounts.amount)
    if dissolved:
        giver = company.world.put_at_start(replace(giver, status="dissolved"))
    name, cost_type = f"{theirs} of {receiving}", other_kind if mixed else kind
    receiver = _add_line(company, draw, name, numbers[1], receiving, ledgers[1], cost_type, amounts.amount)
    name = f"{ours} of {giving}, reserve"
    namesake = _add_line(company, draw, name, numbers[2], giving, draw.pick(ledgers), draw.pick(TYPES), amounts.amount)
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
    """Raise what was spent or committed. With one high figure the transfer is possible, with two it is not."""
    world = company.world
    low, high = {"low": (0, 2), "high": (55, 95)}[level]
    more = world.streams.at("figure", figure, level).between(amount * low // 100, amount * high // 100)
    value = world.get(Metric, metric).value + more
    set_metric(world, metric, value)


# -- transfers ---------------------------------------------------------------------------------------------------------


def quarters(opened: int) -> tuple[str, str]:
    """Return the quarter of a point in time, and the quarter before it."""
    year, month = (int(part) for part in stamp(opened)[:7].split("-"))
    this = 4 * year + (month - 1) // 3
    return _quarter(this), _quarter(this - 1)


def _quarter(number: int) -> str:
    return f"{number // 4}-Q{number % 4 + 1}"


def draw_past(draw: Draw, amounts: TransferAmounts, level: str) -> list[int]:
    """Draw three earlier amounts such that the quarter's sum, including this transfer, lies between two limits."""
    owners, controller, cfo = amounts.limits.values()
    bands = {
        "little": (owners // 3, owners - amounts.amount),
        "some": (owners - amounts.amount + 1, controller - amounts.amount),
        "much": (controller - amounts.amount + 1, cfo - amounts.amount),
        "most": (cfo - amounts.amount + 1, cfo - amounts.amount + owners // 5),
    }
    whole = draw.between(*bands[level])
    first, second = (whole * draw.between(29, 36) // 100 for _ in range(2))
    return [first, second, whole - first - second]


def add_transfers(
    company: Backdrop, draw: Draw, lines: BudgetLines, amounts: TransferAmounts, past: list[int], opened: int
) -> dict[str, Entry]:
    """Add the requested transfer, those that count with it, and some that do not, in random order. Return them by role."""
    this, last = quarters(opened)
    there, back, other = (lines.giver, lines.receiver), (lines.receiver, lines.giver), (lines.namesake, lines.receiver)
    drawn = [amounts.limits["limit_owners"] * draw.between(40, 90) // 100 for _ in range(3)]
    planned = {
        "entry": (there, this, "requested", amounts.amount),
        "past_one": (there, this, "booked", past[0]),
        "past_two": (there, this, "signed", past[1]),
        "past_back": (back, this, "booked", past[2]),
        "past_old": (there, last, "booked", drawn[0]),
        "past_withdrawn": (draw.pick((there, back)), this, "withdrawn", drawn[1]),
        "past_other": (other, this, "booked", drawn[2]),
    }
    numbers = draw.sample(range(10_000, 99_999), len(planned))
    found = {}
    for number, role in zip(numbers, draw.shuffled(list(planned)), strict=True):
        (giver, receiver), quarter, status, amount = planned[role]
        found[role] = company.world.put_at_start(
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
    return found


# -- books -------------------------------------------------------------------------------------------------------------


def add_books(company: Backdrop, draw: Draw, lines: BudgetLines, opened: int, status: str) -> dict[str, Entry]:
    """Add the books of both ledgers for two quarters. `status` is that of the books that decide. Return them by role."""
    (this, last), found = quarters(opened), {}
    for whose, line in (("books", lines.giver), ("their_books", lines.receiver)):
        for role, quarter in ((whose, this), (f"{whose}_before", last)):
            drawn = draw.pick(("open", "paused", "closed"))
            found[role] = company.world.put_at_start(
                Entry(
                    id=company.entry_ids.pop(0),
                    kind="books",
                    name=f"Books of {line.details['ledger']}",
                    reference=quarter,
                    status=status if role == "books" else drawn,
                    details={"keeper": company.offices[draw.pick(("Finance Clerk", "Ledger Clerk"))]},
                )
            )
    return found


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
    """Add the ticket, an earlier one that may be about the same transfer, a decoy and a blocker. Return ids by role."""
    ours, other = transfers["entry"], transfers["past_other"]
    ticket = open_ticket(
        company,
        draw,
        requester,
        title=f"Move money to {lines.receiver.name}",
        kind=KIND,
        desk="finance",
        assignee=company.offices["Budget Analyst"],
        subject=lines.receiver.name,
        reference=ours.reference,
        amount=int(ours.details["amount"]),
        opened=opened,
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Reserve for {lines.receiver.name}",
        reference=(ours if duplicate else other).reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.offices["Budget Manager"],
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
