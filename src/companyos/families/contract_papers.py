"""The contract of a renewal, its amendments, its framework agreement, a namesake, and the tickets of the case."""

from datetime import date
from typing import NamedTuple

from msgspec import Struct

from companyos.company import Entry, Person
from companyos.core.world import DAY, Draw, Streams, stamp
from companyos.families.contract_rules import KIND
from companyos.families.kit.backdrop import Backdrop, add_metric, add_ticket
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket

SERVICES = ("Archive", "Catering", "Cleaning", "Courier", "Fleet", "Security", "Translation")


class ContractTerms(Struct, frozen=True):
    """The terms in a contract or an amendment: the notice period, and the amount for the next term."""

    notice_days: int
    amount: int

    def details(self) -> dict[str, str]:
        return {"notice_days": str(self.notice_days), "amount": str(self.amount)}


class ContractDates(Struct, frozen=True):
    """The dates that decide, as numbers of days after the ticket was opened."""

    renews: int
    framework_ends: int
    annex_ends: int


class ContractDeal(Struct, frozen=True):
    """The names of a contract and its namesake, and its notice periods. They do not depend on the causes."""

    name: str
    namesake: str
    reference: str
    namesake_reference: str
    party: str  # the other firm
    short_notice: int  # days
    long_notice: int
    amendment_is_longer: bool  # whether the amendment makes the notice period longer or shorter
    amendment_is_dearer: bool


def draw_deal(company: Backdrop, draw: Draw) -> ContractDeal:
    """Draw the names, references and notice periods."""
    firm = company.firms.pop(0)
    name = f"{firm.name.split()[0]} {draw.pick(SERVICES)}"
    number, namesake_number = draw.sample(range(10_000, 99_999), 2)
    short_notice = draw.pick((30, 45, 60))
    return ContractDeal(
        name=name,
        namesake=f"{name} {draw.pick(('East', 'West'))}",
        reference=f"CTR-{number}",
        namesake_reference=f"CTR-{namesake_number}",
        party=firm.name,
        short_notice=short_notice,
        long_notice=short_notice + draw.pick((30, 45, 60)),
        amendment_is_longer=draw.chance(0.5),
        amendment_is_dearer=draw.chance(0.5),
    )


def add_tickets(company: Backdrop, draw: Draw, deal: ContractDeal, requester: Person, duplicate: bool) -> dict[str, str]:
    """Add the ticket, an earlier one that may be about the same contract, a decoy, a blocker. Return their ids by role."""
    world = company.world
    ticket = add_ticket(
        company,
        requester,
        title=f"Renewal of {deal.name}",
        kind=KIND,
        desk="contracts",
        assignee=company.staff["Contracts Analyst"],
        subject=deal.name,
        reference=deal.reference,
        status="open",
        priority=draw.pick(("low", "normal", "high")),
        amount=draw.between(40, 600) * 100,
        opened=world.now - draw.between(8, 20) * DAY - draw.between(0, 400),
    )
    earlier = copy_ticket(
        company,
        ticket,
        title=f"Renewal of {deal.namesake}",
        subject=deal.namesake,
        reference=deal.reference if duplicate else deal.namesake_reference,
        status=draw.pick(("open", "in_progress")),
        assignee=company.staff["Contracts Manager"],
        amount=draw.between(40, 600) * 100,
        opened=ticket.opened - draw.between(3, 30) * DAY,
    )
    decoy_contract = f"{company.firms.pop(0).name.split()[0]} {draw.pick(SERVICES)}"
    return add_decoy_and_blocker(
        company,
        ticket,
        earlier,
        blocker_kind="vendor_check",
        title=f"Renewal of {decoy_contract}",
        subject=decoy_contract,
        reference=f"CTR-{draw.between(1000, 9999)}",
    )


def draw_dates(streams: Streams, deal: ContractDeal, gap: str, frame: str, annex: str) -> ContractDates:
    """Draw the dates. `gap`, `frame` and `annex` are the values of these causes of `contract_renewal`.

    What ends before the renewal is still running when the ticket is opened.
    """
    short, long = deal.short_notice, deal.long_notice
    # `wide` has a small upper bound, so that an agent that counts from today often finds that it is too late for notice.
    renews = {"wide": (long, long + 15), "between": (short, long - 1), "past": (12, short - 1)}
    ends = {"ends": (1, 11), "holds": (long + 16, long + 400), "valid": (long + 16, long + 400)}
    return ContractDates(
        renews=streams.at("renews", gap).between(*renews[gap]),
        framework_ends=streams.at("framework", frame).between(*ends[frame]),
        annex_ends=streams.at("annex", annex).between(*ends[annex]),
    )


class ContractPapers(NamedTuple):
    """The entries of a case: the contract, its framework agreement, and two amendments."""

    contract: Entry
    framework: Entry
    amendment: Entry  # signed by the company; it may or may not be binding
    draft: Entry


def add_papers(
    company: Backdrop, draw: Draw, deal: ContractDeal, opened: int, amounts: tuple[int, int], dates: ContractDates
) -> ContractPapers:
    """Add the entries of the contract and of its namesake. `amounts` are the lower and the higher one."""
    notice_periods = (deal.short_notice, deal.long_notice)
    # False selects the lower value of a pair and True the higher one.
    longer, dearer = deal.amendment_is_longer, deal.amendment_is_dearer
    _add_namesake(company, draw, deal, opened)
    terms = ContractTerms(notice_periods[not longer], amounts[not dearer])
    contract, framework = _add_contract(company, draw, (deal.name, deal.reference, deal.party), opened, terms, dates)
    amendment_terms = {
        "signed": ContractTerms(notice_periods[longer], amounts[dearer]),
        "draft": ContractTerms(draw.pick((14, 90, 120)), draw.between(40, 600) * 100),
    }
    amendments = {}
    for number, status in enumerate(draw.shuffled(list(amendment_terms)), start=1):
        reference = f"{deal.reference}/{number}"
        amendments[status] = _add_amendment(company, draw, deal.name, reference, status, opened, amendment_terms[status])
    return ContractPapers(contract, framework, amendments["signed"], amendments["draft"])


def _add_namesake(company: Backdrop, draw: Draw, deal: ContractDeal, opened: int) -> None:
    """Add another contract with the same firm, and its amendment."""
    terms, amended = (ContractTerms(days, draw.between(40, 300) * 100) for days in (deal.short_notice, deal.long_notice))
    dates = ContractDates(draw.between(20, 200), draw.between(300, 600), draw.between(300, 600))
    _add_contract(company, draw, (deal.namesake, deal.namesake_reference, deal.party), opened, terms, dates)
    _add_amendment(company, draw, deal.namesake, f"{deal.namesake_reference}/1", "signed", opened, amended)


def _add_contract(
    company: Backdrop, draw: Draw, names: tuple[str, str, str], opened: int, terms: ContractTerms, dates: ContractDates
) -> tuple[Entry, Entry]:
    """Add a contract and its framework agreement. `names` has the name, the reference and the other firm."""
    world, (name, reference, party) = company.world, names
    slug = name.lower().replace(" ", "_")
    title = f"What is called off of {name}, in percent of what was ordered"
    usage = add_metric(company, f"contract_usage.{slug}", title, "percent", draw.between(5, 98), (5, 98))
    framework = Entry(
        id=company.entry_ids.pop(0),
        kind="framework",
        name=f"Framework for {name}",
        reference=f"FW-{draw.between(10_000, 99_999)}",
        status="running",
        details={"party": party, "ends": _day(opened, dates.framework_ends)},
    )
    contract = Entry(
        id=company.entry_ids.pop(0),
        kind="contract",
        name=name,
        reference=reference,
        status="running",
        details={
            "party": party,
            "framework": framework.id,
            "renews_on": _day(opened, dates.renews),
            **terms.details(),
            "data_annex_ends": _day(opened, dates.annex_ends),
            "usage_metric": usage.id,
            "supplier_no": f"SUP-{draw.between(10_000, 99_999)}",
            "file_no": f"FN-{draw.between(10_000, 99_999)}",
        },
    )
    return world.put_at_start(contract), world.put_at_start(framework)


def _add_amendment(
    company: Backdrop, draw: Draw, name: str, reference: str, status: str, opened: int, terms: ContractTerms
) -> Entry:
    """Add an amendment that would replace the terms of the contract, sent out long ago."""
    details = {
        "sent_on": _day(opened, -draw.between(200, 500)),
        "open_days": str(draw.pick((21, 28, 42))),
        **terms.details(),
    }
    entry = Entry(company.entry_ids.pop(0), "amendment", f"Amendment to {name}", reference, status, details)
    return company.world.put_at_start(entry)


def draw_countersigned(draw: Draw, amendment: Entry, in_time: bool) -> str:
    """Draw the date on which the other firm countersigned: before the amendment expired, or after."""
    open_days = int(amendment.details["open_days"])
    days_waited = open_days - draw.between(0, 6) if in_time else open_days + draw.between(1, 9)
    return date.fromordinal(date.fromisoformat(amendment.details["sent_on"]).toordinal() + days_waited).isoformat()


def _day(opened: int, days: int) -> str:
    """Return the date this number of days after the ticket was opened, or before if it is negative."""
    return stamp(opened + days * DAY)[:10]
