"""The contract of a licence renewal, a contract with a similar name, and the offers for both."""

from msgspec import Struct

from companyos.company import Entry
from companyos.core.world import DAY, Draw, stamp
from companyos.families.kit.backdrop import Backdrop, add_metric

# The roles of the offers: few seats without or with a data agreement, and two with more seats.
PLAIN, AGREED, LARGE, BULK = OFFERS = ("offer_plain", "offer_agreed", "offer_large", "offer_bulk")
NAMESAKE_OFFER = "offer_for_namesake"  # an offer for the contract with the similar name


class LicenseDeal(Struct, frozen=True):
    """The product of a renewal, its namesake and the numbers of seats. They do not depend on the causes."""

    product: str
    namesake: str
    reference: str
    namesake_reference: str
    bought: int  # seats in the contract that runs now
    offered: dict[str, int]  # seats in each offer, by the role of the offer


PRODUCTS = ("Boards", "Forms", "Maps", "Notes", "Planner", "Studio", "Vault")


def draw_deal(company: Backdrop, draw: Draw) -> LicenseDeal:
    """Draw a product that occurs on no other ticket, and numbers of seats: those bought and those in each offer."""
    product = f"{company.firms.pop(0).name.split()[0]} {draw.pick(PRODUCTS)}"
    number, namesake_number = draw.sample(range(10_000, 99_999), 2)
    few_seats = draw.between(16, 50) * 5
    many_seats = few_seats * draw.between(135, 150) // 100
    offered = {
        PLAIN: few_seats,
        AGREED: few_seats + draw.between(2, 6),
        LARGE: many_seats,
        BULK: many_seats + draw.between(10, 40),
    }
    # The offer for the namesake has a suitable number of seats, but it is for another contract.
    offered[NAMESAKE_OFFER] = draw.pick((few_seats, many_seats - 1))
    bought = few_seats * draw.between(100, 115) // 100
    return LicenseDeal(product, f"{product} Plus", f"LIC-{number}", f"LIC-{namesake_number}", bought, offered)


def add_contract(company: Backdrop, draw: Draw, name: str, reference: str, bought: int, data_class: str) -> Entry:
    """Add a contract to the register, with metrics of the days to its expiry and of the seats in use."""
    slug = name.lower().replace(" ", "_")
    title = f"Days to expiry of {name}, from the opening of its ticket"
    days = add_metric(company, f"licence_days.{slug}", title, "days", draw.between(3, 200), (3, 220))
    used = add_metric(
        company, f"seats_used.{slug}", f"Seats of {name} in use", "seats", bought * 3 // 4, (bought // 6, bought * 3 // 2)
    )
    return company.world.put_at_start(
        Entry(
            id=company.entry_ids.pop(0),
            kind="contract",
            name=name,
            reference=reference,
            status="running",
            details={
                "data_class": data_class,
                "seats": str(bought),
                "notice_days": str(draw.pick((30, 45, 60))),
                "supplier_no": f"SUP-{draw.between(10_000, 99_999)}",
                "master_agreement": f"MA-{draw.between(10_000, 99_999)}",
                "days_metric": days.id,
                "used_metric": used.id,
            },
        )
    )


# The prices of the offers, in percent of the Procurement Lead's signing limit. An offer with more seats may be cheaper.
_PRICES = {
    "low": {PLAIN: (45, 55), AGREED: (58, 68), LARGE: (85, 100), BULK: (70, 83)},
    "high": {PLAIN: (70, 100), AGREED: (102, 130), LARGE: (170, 240), BULK: (135, 160)},
}
# The department's budget, in thousandths of the same limit: enough for any offer, or only for a small one at a low price.
BUDGETS = {"ample": (2500, 4000), "tight": (685, 695)}


def add_offers(
    company: Backdrop, draw: Draw, deal: LicenseDeal, opened: int, limit: int, price: str, expired: dict[str, bool]
) -> dict[str, str]:
    """Add the offers for the contract, and one for its namesake, in random order. Return their ids by role.

    `limit` is the Procurement Lead's signing limit. `price` says whether the offers are cheap: `low` or `high`.
    `expired` says, by role, which offers had expired when the ticket was opened.
    """
    streams, roles = company.world.streams, {}
    for role in draw.shuffled(list(deal.offered)):
        of_namesake = role == NAMESAKE_OFFER
        low, high = (30, 40) if of_namesake else _PRICES[price][role]
        price_draw = draw if of_namesake else streams.at("price", price, role)
        valid_days = draw.pick((30, 45, 60))
        date_draw = streams.at("issued", role, expired.get(role, False))
        # Most offers that were valid when the ticket was opened have expired since, so that today's date misleads.
        days_left = -date_draw.between(1, 9) if expired.get(role) else date_draw.between(0, 12)
        offer = Entry(
            id=company.entry_ids.pop(0),
            kind="offer",
            name=f"{deal.namesake if of_namesake else deal.product}: offer",
            reference=f"QU-{draw.between(10_000, 99_999)}",
            status="received",
            details={
                "contract": deal.namesake_reference if of_namesake else deal.reference,
                "seats": str(deal.offered[role]),
                "amount": str(price_draw.between(limit * low // 100, limit * high // 100)),
                "issued": stamp(opened - (valid_days - days_left) * DAY)[:10],
                "valid_days": str(valid_days),
                "data_agreement": "not included" if role in (PLAIN, BULK) else "included",
            },
        )
        roles[role] = company.world.put_at_start(offer).id
    return roles
