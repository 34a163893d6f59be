"""The records of an incident: services and their dependencies, suppliers, rosters, deployments, alarms and probes.

Most of them have a time, and the order of the times decides. Some belong to other services and are there to mislead.
"""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from companyos.company import Entry, Metric
from companyos.core.world import DAY, Draw, stamp
from companyos.families.incident_rules import ENGINEERS, FIGURES, SEVERITIES, Terms
from companyos.families.kit.backdrop import Backdrop, add_metric
from companyos.families.kit.names import pool, words

IN_HOUSE = "in house"  # the custody of a service that the company operates

# First words of service names. Train and held-out splits use different halves.
NAMES = words("""
    Archive Booking Calendar Consent Courier Feed Forecast Inventory Loyalty Notification Parcel Profile Quote
    Receipt Returns Roaming Session Survey Tariff Wallet
""")
PARTS = ("Backend", "Frontend", "Portal", "Relay", "Server")


class NightFacts(Struct, frozen=True):
    """The causes of a case that its records show. See `Causes` in `incident_response`."""

    client: bool  # the service was handed over to a client
    origin: str  # here, again, above, outage or probe
    levels: Mapping[str, str]  # by figure: its level, such as few, some or many
    late: bool  # the alarm was acknowledged after the response time of sev_2
    recent: bool  # the latest deployment was shortly before the onset
    second: bool  # the alarm was detected in the second watch


class AlarmTimes(Struct, frozen=True):
    """When the trouble began and when it was detected. These times do not depend on the facts."""

    onset: int
    detected: int


def draw_times(now: int, draw: Draw) -> AlarmTimes:
    """Draw the times, in the early hours of the day."""
    detected = now // DAY * DAY + draw.between(120, 300)
    return AlarmTimes(detected - draw.between(12, 40), detected)


class RegisterBuilder(Struct, frozen=True):
    """Adds entries to the register and remembers them by role."""

    company: Backdrop
    draw: Draw  # for values that do not depend on the facts
    terms: Terms
    times: AlarmTimes
    entries: dict[str, Entry] = {}  # by their role in the case

    def add(self, place: str, kind: str, name: str, prefix: str, status: str, **details: str) -> Entry:
        reference = f"{prefix}-{self.draw.between(10_000, 99_999)}"
        entry = Entry(self.company.entry_ids.pop(0), kind, name, reference, status, details)
        self.entries[place] = self.company.world.put_at_start(entry)
        return entry

    def by_fact(self, *path: str | int | bool) -> Draw:
        """Return a random stream of its own for a value that depends on a fact, so that other values stay the same."""
        return self.company.world.streams.at(*map(str, path))


def add_records(company: Backdrop, draw: Draw, terms: Terms, times: AlarmTimes, night: NightFacts) -> dict[str, Entry]:
    """Add all entries and metrics of an incident. Return the entries by role."""
    register = RegisterBuilder(company, draw, terms, times, {})
    _add_suppliers(register, night)
    _add_rosters(register, night)
    _add_services(register, night)
    _add_deployments(register, night)
    _add_alarms(register, night)
    return register.entries


def _add_suppliers(register: RegisterBuilder, night: NightFacts) -> None:
    company, draw, onset = register.company, register.draw, register.times.onset
    explains = night.origin == "outage"
    lag = register.by_fact("outage", explains)
    began = onset - lag.between(2, 90) if explains else onset + lag.between(1, 8)
    managers = draw.shuffled([company.offices["Vendor Desk Lead"], company.offices["Procurement Lead"]])
    for place, since in (("supplier", began), ("other_supplier", onset - draw.between(2, 90))):
        details = {"outage_since": stamp(since), "managed_by": managers.pop()}
        register.add(place, "supplier", company.firms.pop(0).name, "SUP", "outage", **details)


def _add_rosters(register: RegisterBuilder, night: NightFacts) -> None:
    """Add the rosters of two teams. Both hand over shortly before or after the alarm was detected."""
    detected, offices = register.times.detected, register.company.offices
    lag = register.by_fact("hand_over", night.second)
    own = detected - lag.between(0, 9) if night.second else detected + lag.between(1, 9)
    for place, team, hand_over in (
        ("roster", "Blue", own),
        ("other_roster", "Green", detected + register.draw.pick((-6, 6))),
    ):
        details = {
            "first": offices["First Commander"],
            "second": offices["Second Commander"],
            "hand_over": stamp(hand_over),
        }
        register.add(place, "roster", f"Command roster {team}", "ROTA", "current", **details)


def _add_services(register: RegisterBuilder, night: NightFacts) -> None:
    """Add the service, those that it depends on (two steps deep in half of all companies), a namesake and a stranger."""
    company, draw = register.company, register.draw
    names = draw.sample(pool(NAMES, company.split), 5)
    part, other_part = draw.sample(PARTS, 2)
    on_call = [company.offices[role] for role in draw.shuffled(ENGINEERS)]
    client = company.firms.pop(0).name
    own = register.entries["supplier"].id, register.entries["roster"].id
    others = register.entries["other_supplier"].id, register.entries["other_roster"].id

    def build(place: str, name: str, depends_on: tuple[str, ...] = ()) -> None:
        ours = place == "service"
        supplier, roster = own if ours else others
        details = {
            "custody": f"handed over to {client}" if ours and night.client else IN_HOUSE,
            "depends_on": ", ".join(register.entries[other].id for other in depends_on),
            "supplier": supplier,
            "roster": roster,
            "on_call": on_call[0] if ours else draw.pick(on_call[1:]),
        }
        if place in ("service", "namesake", "stranger"):  # the others have no customers
            details |= _add_figures(register, place, name, night)
        register.add(place, "service", name, "SRV", "live", **details)

    deep = draw.chance(0.5)
    build("root", f"{names[1]} {draw.pick(PARTS)}")
    build("middle", f"{names[2]} {draw.pick(PARTS)}", ("root",) if deep else ())
    build("side", f"{names[3]} {draw.pick(PARTS)}")
    build("service", f"{names[0]} {part}", tuple(draw.shuffled(("middle", "side"))))
    build("namesake", f"{names[0]} {other_part}", ("side",))
    build("stranger", f"{names[4]} {draw.pick(PARTS)}", ("service",))


def _add_figures(register: RegisterBuilder, place: str, name: str, night: NightFacts) -> dict[str, str]:
    """Add the three metrics of a service, at the levels of the facts. Return the details of its entry that name them."""
    terms = register.terms
    errors, few, many, minutes = (terms[term] for term in ("errors_1", "customers_2", "customers_1", "minutes_2"))
    bands = {
        "errors": {"mild": (errors // 3, errors - 1), "severe": (errors, 2 * errors)},
        "customers": {"few": (few // 4, few - 1), "some": (few, many - 1), "many": (many, 2 * many)},
        "minutes": {"short": (3, minutes - 1), "long": (minutes, 3 * minutes)},
    }
    titles = {
        "errors": f"Errors per 10,000 calls of {name}",
        "customers": f"Customers hit by the trouble in {name}",
        "minutes": f"Minutes lost in {name}",
    }
    details = {}
    for figure, levels in bands.items():
        level = night.levels[figure] if place == "service" else register.draw.pick(tuple(levels))
        value = register.by_fact(figure, place, level).between(*levels[level])
        most = max(high for _, high in levels.values())
        metric = _add_metric(register, f"{FIGURES[figure]}.{_slug(name)}", titles[figure], "count", value, (2, most))
        details[f"{figure}_metric"] = metric.id
    return details


def _add_metric(register: RegisterBuilder, name: str, title: str, unit: str, value: int, moves: tuple[int, int]) -> Metric:
    metric = add_metric(register.company, name, title, unit, value, moves)
    return register.company.world.put_at_start(replace(metric, max_age_days=register.terms["max_age_days"]))


def _slug(name: str) -> str:
    return name.lower().replace(" ", "_")


def _add_deployments(register: RegisterBuilder, night: NightFacts) -> None:
    """Add the latest deployment to the service, an older one that does not matter, and the latest to its namesake."""
    draw, onset, change = register.draw, register.times.onset, register.terms["change_minutes"]
    lag = register.by_fact("deployed", night.recent)
    latest = onset - lag.between(3, change) if night.recent else onset + lag.between(1, 8)
    builds = iter(draw.sample(range(1000, 9999), 3))
    for place, of, deployed in (
        ("previous", "service", onset - change - draw.between(60, 4000)),
        ("release", "service", latest),
        ("other_release", "namesake", onset - draw.between(3, change)),
    ):
        service, details = register.entries[of], {"build": f"BLD-{next(builds)}", "deployed": stamp(deployed)}
        details["service"] = service.id
        register.add(place, "deployment", f"Deployment to {service.name}", "DEP", "rolled out", **details)


def _add_alarms(register: RegisterBuilder, night: NightFacts) -> None:
    """Add an alarm on the service, two on services upstream, which were detected later, and one on an unrelated service."""
    draw, terms, times = register.draw, register.terms, register.times
    onset, window, above = times.onset, terms["window_minutes"], night.origin == "above"
    lag = partial(register.by_fact, "onset", above)
    began = {
        "service": onset,
        "middle": onset - lag("middle").between(2, window // 2) if above else onset + lag("middle").between(1, 8),
        "root": onset - window - (lag("root").between(-window // 3, 0) if above else lag("root").between(5, 300)),
        "stranger": onset - draw.between(2, window),
    }
    took = register.by_fact("acknowledged", night.late)
    least, most = ("respond_2", "respond_3") if night.late else ("respond_1", "respond_2")
    minutes = took.between(terms[least] + 1, terms[most])
    for place, began_at in began.items():
        ours, service = place == "service", register.entries[place]
        detected = times.detected + (0 if ours else draw.between(3, 20))
        details = {
            "service": service.id,
            "probe": _add_probe(register, place, night).id,
            "onset": stamp(began_at),
            "detected": stamp(detected),
            "acknowledged": stamp(detected + (minutes if ours else draw.between(2, 60))),
            "claimed": draw.pick(SEVERITIES),
            "timeline": f"TL-{draw.between(1000, 9999)}",
            "bridge": f"BR-{draw.between(1000, 9999)}",
        }
        register.add(f"{place}_alarm", "alarm", f"Alarm on {service.name}", "ALM", "raised", **details)


def _add_probe(register: RegisterBuilder, place: str, night: NightFacts) -> Entry:
    """Add the probe of a service, which raises its alarms, and the metric of the probe's self check."""
    name, least = register.entries[place].name, register.terms["self_check"]
    failing = night.origin == "probe" if place == "service" else register.draw.chance(0.3)
    value = register.by_fact("self_check", place, failing).between(*((20, least - 1) if failing else (least, 99)))
    title = f"Self checks passed by the probe of {name}"
    metric = _add_metric(register, f"self_check.{_slug(name)}", title, "percent", value, (20, 99))
    return register.add(f"{place}_probe", "probe", f"Probe of {name}", "PRB", "active", self_check_metric=metric.id)
