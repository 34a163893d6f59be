"""The backdrop: the company to which a family adds its case, and the functions that add records to it.

The word "company" stands here for a `Backdrop`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import msgspec

from companyos.company import Entry, Metric, Mind, Person, Policy, Source, Ticket
from companyos.company.apps.ticketdesk import Status
from companyos.core.world import DAY, Draw, Streams, World, stamp
from companyos.families.kit.names import FIRM_NAMES, FIRST_NAMES, LAST_NAMES, LEGAL_FORMS, pool
from companyos.families.kit.supply import Supply

DEPARTMENTS = ("Marketing", "Operations", "Research")
# Every family has a policy "desk rules" with this text.
DESK_RULES = """
    Work only on the ticket you were given; neither change nor comment on others. Ask for a signature only when the outcome
    needs one; withdraw what is pending and not needed. Set only what a policy names for the outcome; escalated_to and
    waiting_on name a person, in or away. Put back mistakes before closing (my_changes). Refreshing data is fine. Evidence
    is wrong if it also cites that field of another such record, or another term or version of that policy."""


class Firm(msgspec.Struct, frozen=True):
    """A firm, and its namesake: another firm of the same name with another legal form and another reference."""

    name: str
    namesake: str
    reference: str
    namesake_reference: str


class Backdrop(msgspec.Struct, frozen=True):
    """A company under construction, as a family's `stage` function gets it."""

    world: World
    draw: Draw
    split: str
    staff: dict[str, str]  # job title -> the person's id
    # Firms and ids that no record uses yet. Take the next one with `pop(0)`.
    firms: Supply[Firm]
    ticket_ids: Supply[str]
    entry_ids: Supply[str]
    policy_ids: Supply[str]
    free_trades: Mapping[str, Sequence[str]] = {}  # by first word of a firm's name: second words that no firm has yet


def add_person(
    company: Backdrop,
    job_title: str,
    department: str,
    desk: str,
    manager: str,
    signing_limit: int | None = None,
    delegate: str | None = None,
) -> Person:
    """Add a person with this job title, unless there is one already, and return them.

    `manager` and `delegate` are job titles, too. `signing_limit` is the highest amount that the person may sign for, in EUR;
    None: the person signs nothing.
    """
    world, draw = company.world, company.world.streams.at("person", job_title)
    if job_title in company.staff:
        return world.get(Person, company.staff[job_title])
    first_names, last_names = pool(FIRST_NAMES, company.split), pool(LAST_NAMES, company.split)
    while True:
        name = draw.pick(first_names), draw.pick(last_names)
        handle = f"@{name[0]}.{name[1]}".lower()
        if world.peek(Person, handle) is None:
            break
    colleagues = world.select(Person, "made", department=department)
    center = colleagues[0].cost_center if colleagues else f"CC-{draw.between(100, 999)}"
    while not colleagues and world.select(Person, "made", cost_center=center):
        center = f"CC-{draw.between(100, 999)}"
    company.staff[job_title] = handle
    world.put_at_start(Mind(handle, pace=draw.between(12, 149)))
    return world.put_at_start(
        Person(
            id=handle,
            name=" ".join(name),
            role=job_title,
            department=department,
            desk=desk,
            manager=company.staff[manager],
            limit=signing_limit,
            delegate=company.staff[delegate] if delegate else None,
            cost_center=center,
        )
    )


def tell(world: World, person_id: str, ticket_id: str, knows: dict[str, str], after: dict[str, str] | None = None) -> None:
    """Let a person know facts about a ticket that are in no record. The person states them there when asked.

    `after` maps other people to names of facts: the person answers only after those people have stated these facts there.
    """
    mind = world.get(Mind, person_id)
    waits = mind.after | {ticket_id: after} if after else mind.after
    world.put_at_start(msgspec.structs.replace(mind, knows=mind.knows | {ticket_id: knows}, after=waits))


_FIRST_FIRMS = 16  # the number of firms that a task has for its cases
CASE_TAX_NUMBERS, COMPANY_TAX_NUMBERS = range(10_001, 100_000, 2), range(10_000, 100_000, 2)


def draw_firms(streams: Streams, split: str, free_trades: Mapping[str, Sequence[str]]) -> Iterator[Firm]:
    """Yield firms for the cases of a task. `free_trades` has the second words that their names may have, by first word."""
    draw = streams.at("firms")
    yield from _with_namesakes(draw, draw.sample(pool(FIRM_NAMES, split), _FIRST_FIRMS), free_trades)


def add_firms(company: Backdrop) -> None:
    """Add the remaining firms of the name list, for tasks that consist of several cases."""
    streams, names = company.world.streams, pool(FIRM_NAMES, company.split)
    used = streams.at("firms").sample(names, _FIRST_FIRMS)  # the same draw as in `draw_firms`, so the same names
    others = [name for name in names if name not in used]
    company.firms.extend(_with_namesakes(streams.at("more firms"), others, company.free_trades))


def _with_namesakes(draw: Draw, names: list[str], free_trades: Mapping[str, Sequence[str]]) -> Iterator[Firm]:
    """Yield a firm for each name, such as `Alder Cloud Ltd` with the namesake `Alder Cloud Inc` for `Alder`."""
    tax_numbers = draw.sample(CASE_TAX_NUMBERS, 2 * len(names))
    for i, name in enumerate(names):
        stem = f"{name} {draw.pick(free_trades[name])}"
        form, namesake_form = draw.sample(LEGAL_FORMS, 2)
        yield Firm(
            name=f"{stem} {form}",
            namesake=f"{stem} {namesake_form}",
            reference=f"TAX-{tax_numbers[2 * i]}",
            namesake_reference=f"TAX-{tax_numbers[2 * i + 1]}",
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
    metric = add_metric(
        company, f"compliance_score.{slug}", f"Compliance score of {name}", unit="points", value=score, old_values=(35, 98)
    )
    return world.put_at_start(
        Entry(
            id=company.entry_ids.pop(0),
            kind="vendor",
            name=name,
            reference=reference,
            status="prospect",
            details={
                "owner": draw.pick(
                    (*pool(_OUTSIDERS, company.split), company.staff["Support Engineer"], company.staff["Treasurer"])
                ),
                "data_class": draw.pick(("standard", "personal")),
                "insurance_until": stamp(world.now + draw.between(800, 1500) * DAY)[:10],  # beyond any wait
                "certificate": f"IC-{draw.between(10_000, 99_999)}",
                "contract": f"K-{draw.between(1000, 9999)}",
                "score_metric": metric.id,
            },
        )
    )


_OUTSIDERS = [  # owners of vendors who do not work in the company
    *("Avery Holm", "Blake Ito", "Casey Lund", "Devon Marsh", "Ellis Noor", "Frankie Osei"),
    *("Gale Prior", "Harper Quade", "Indra Rask", "Jules Sato", "Kim Tran", "Lane Usher"),
]


def add_metric(
    company: Backdrop, name: str, title: str, unit: str, value: int, old_values: tuple[int, int] = (0, 100)
) -> Metric:
    """Add a metric that was measured within a day and agrees with its source.

    `old_values` is the range in which the value lies when the trouble "stale" makes it outdated.
    """
    world, draw = company.world, company.draw
    least, most = old_values
    world.put_at_start(Source(name, value, least=least, most=most))
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
