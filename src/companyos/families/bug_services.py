"""The services of the company, their dependencies, and the engineers on call for them."""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import Entry, Person
from companyos.core.world import Draw
from companyos.families.kit.backdrop import Backdrop, add_metric, add_person
from companyos.families.kit.names import pool, words

CHAIN = ("front", "middle", "deep")  # the reported service and its dependencies: each depends on the next
LIVE, MAINTENANCE = "live", "maintenance"  # a service's status in the register
IN_HOUSE = "in house"  # the operator of a service that no other firm operates

# First words of service names. Train and held-out splits use different halves.
NAMES = words("""
    Basket Billing Catalogue Delivery Geocoder Identity Invoice Ledger Mailer Account Discount Payment Pricing
    Ratings Shipment Stock Translation Voucher
""")
PARTS = ("API", "Gateway", "Queue", "Store", "Worker")


class ServiceConditions(Struct, frozen=True):
    """The state of the services. A place is a name in `CHAIN`, or `none`."""

    rates: Mapping[str, str]  # error rates by place: low (within the limit), high (above it) or double (above twice)
    outside: str  # the place whose service another firm operates
    works: str  # the place whose service is in maintenance


def add_engineers(company: Backdrop) -> list[str]:
    """Add the engineering staff. Return the engineers on call; the Duty Engineer is their delegate."""
    world = company.world
    add_engineer = partial(add_person, company, department="Engineering", desk="engineering")
    add_engineer("Support Lead", manager="CTO")
    add_engineer("Platform Deputy", manager="CTO", signing_limit=1000)
    add_engineer("Platform Lead", manager="CTO", signing_limit=3000, delegate="Platform Deputy")
    cto = world.get(Person, company.staff["CTO"])
    world.put_at_start(replace(cto, delegate=company.staff["Platform Lead"]))
    add_engineer("Duty Engineer", manager="Platform Lead")
    teams = ("Storefront", "Payments", "Data", "Network")
    return [add_engineer(f"{team} Engineer", manager="Platform Lead", delegate="Duty Engineer").id for team in teams]


def add_services(company: Backdrop, draw: Draw, terms: dict[str, int], conditions: ServiceConditions) -> dict[str, Entry]:
    """Add the chain of services and three services outside it. Return all by place.

    In half of all companies the last service of the chain depends on one more, which is healthy.
    """
    names = draw.sample(pool(NAMES, company.split), 6)
    front_part, namesake_part = draw.sample(PARTS, 2)
    references = draw.sample(range(10_000, 99_999), 7)
    on_call = draw.shuffled(add_engineers(company))
    outside_firm = company.firms.pop(0).name
    services: dict[str, Entry] = {}

    def add(place: str, name: str, depends_on: str, level: str) -> None:
        """Add a service that depends on the one at the place `depends_on`. `level` is that of its error rate."""
        details = {
            "tier": draw.pick(("1", "2", "3")),
            "depends_on": services[depends_on].id if depends_on in services else "",
            "on_call": on_call[CHAIN.index(place) if place in CHAIN else -1],  # one engineer for all outside the chain
            "operated_by": outside_firm if place == conditions.outside else IN_HOUSE,
            "runbook": f"RB-{draw.between(1000, 9999)}",
            "pager": f"PG-{draw.between(1000, 9999)}",
        }
        details["error_rate_metric"] = _add_rate(company, place, name, level, details["tier"], terms)
        status = MAINTENANCE if place == conditions.works else LIVE
        reference = f"SRV-{references.pop()}"
        entry = Entry(company.entry_ids.pop(0), "service", name, reference, status, details)
        services[place] = company.world.put_at_start(entry)

    if draw.chance(0.5):
        add("base", f"{names[0]} {draw.pick(PARTS)}", "", "low")
    add("deep", f"{names[1]} {draw.pick(PARTS)}", "base", conditions.rates["deep"])
    add("middle", f"{names[2]} {draw.pick(PARTS)}", "deep", conditions.rates["middle"])
    add("front", f"{names[3]} {front_part}", "middle", conditions.rates["front"])
    other_levels = draw.shuffled(("low", "high", "double"))
    add("namesake", f"{names[3]} {namesake_part}", "middle", other_levels[0])
    add("neighbour", f"{names[4]} {draw.pick(PARTS)}", "deep", other_levels[1])
    add("stranger", f"{names[5]} {draw.pick(PARTS)}", "", other_levels[2])
    return services


def _add_rate(company: Backdrop, place: str, name: str, level: str, tier: str, terms: dict[str, int]) -> str:
    """Add the error rate of a service, at this level (see `ServiceConditions`). Return the metric's name."""
    limit = terms[f"limit_tier_{tier}"]
    band = {"low": (limit // 2, limit), "high": (limit + 1, 2 * limit), "double": (2 * limit + 1, 3 * limit)}[level]
    value = company.world.streams.at("rate", place, level).between(*band)
    slug, title = name.lower().replace(" ", "_"), f"Errors per 10,000 calls of {name}"
    metric = add_metric(company, f"error_rate.{slug}", title, "per_10k", value, (2, 3 * limit))
    company.world.put_at_start(replace(metric, max_age_days=terms["max_age_days"]))
    return metric.id
