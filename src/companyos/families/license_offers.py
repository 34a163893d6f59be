"""The contract of a licence renewal, a contract with a similar name, and the offers for both."""

from msgspec import Struct

from companyos.company import Entry
from companyos.core.world import DAY, Draw, stamp
from companyos.families.kit.backdrop import Backdrop, add_metric

# The offers: few seats without or with a data agreement, and two with more seats.
PLAIN, AGREED, LARGE, BULK = OFFERS = ("offer_plain", "offer_agreed", "offer_large", "offer_bulk")
NAMESAKES = "offer_for_namesake"  # an offer for the contract with the similar name


class LicenseDeal(Struct, frozen=True):
    """The product of a renewal, its namesake and the numbers of seats. They do not depend on the causes."""

    product: str
    namesake: str
    reference: str
    namesake_reference: str
    bought: int
    offered: dict[str, int]


PRODUCTS = ("Boards", "Forms", "Maps", "Notes", "Planner", "Studio", "Vault")


def draw_deal(company: Backdrop, draw: Draw) -> LicenseDeal:
    """Draw a product that occurs on no other ticket, and its seats: those bought and those on offer."""
    product = f"{company.firms.pop(0).name.split()[0]} {draw.pick(PRODUCTS)}"
    reference, other = draw.sample(range(10_000, 99_999), 2)
    few = draw.between(16, 50) * 5
    many = few * draw.between(135, 150) // 100
    offered = {PLAIN: few, AGREED: few + draw.between(2, 6), LARGE: many, BULK: many + draw.between(10, 40)}
    offered[NAMESAKES] = draw.pick((few, many - 1))  # it has the right number of seats, but is for another contract
    bought = few * draw.between(100, 115) // 100
    return LicenseDeal(product, f"{product} Plus", f"LIC-{reference}", f"LIC-{other}", bought, offered)


def add_contract(company: Backdrop, draw: Draw, name: str, reference: str, bought: int, data_class: str) -> Entry:
    """Add a contract to the register, and its metrics."""
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
    company: Backdrop, draw: Draw, deal: LicenseDeal, opened: int, limit: int, price: str, over: dict[str, bool]
) -> dict[str, str]:
    """Add the offers for the contract, and one for its namesake, in random order. Return ids by role.

    Offers that are `over` had expired when the ticket was opened.
    """
    streams, roles = company.world.streams, {}
    for role in draw.shuffled(list(deal.offered)):
        of_namesake = role == NAMESAKES
        low, high = (30, 40) if of_namesake else _PRICES[price][role]
        priced = draw if of_namesake else streams.at("price", price, role)
        valid_days = draw.pick((30, 45, 60))
        dated = streams.at("issued", role, over.get(role, False))
        # Most offers that were valid when the ticket was opened have expired since, so that today's date misleads.
        spare = -dated.between(1, 9) if over.get(role) else dated.between(0, 12)
        offer = Entry(
            id=company.entry_ids.pop(0),
            kind="offer",
            name=f"{deal.namesake if of_namesake else deal.product}: offer",
            reference=f"QU-{draw.between(10_000, 99_999)}",
            status="received",
            details={
                "contract": deal.namesake_reference if of_namesake else deal.reference,
                "seats": str(deal.offered[role]),
                "amount": str(priced.between(limit * low // 100, limit * high // 100)),
                "issued": stamp(opened - (valid_days - spare) * DAY)[:10],
                "valid_days": str(valid_days),
                "data_agreement": "not included" if role in (PLAIN, BULK) else "included",
            },
        )
        roles[role] = company.world.put_at_start(offer).id
    return roles
