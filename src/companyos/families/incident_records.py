"""The records of an incident: services and their dependencies, suppliers, rosters, deployments, alarms and probes.

Most of them have a time, and the order of the times decides. Some belong to other services and are there to mislead.
"""

from collections.abc import Mapping

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
    origin: str  # where the trouble comes from: here, again, above, outage or probe
    levels: Mapping[str, str]  # the level of each figure, such as few, some or many customers
    late: bool  # the alarm was acknowledged after the response time of sev_2
    recent: bool  # the latest deployment was shortly before the onset
    second: bool  # the alarm was detected in the second watch


class AlarmTimes(Struct, frozen=True):
    """When the trouble began and when it was detected, in simulated minutes. These times do not depend on the facts."""

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

    def add(self, role: str, kind: str, name: str, prefix: str, status: str, **details: str) -> Entry:
        """Add an entry that has this role in the case. `prefix` begins its reference."""
        reference = f"{prefix}-{self.draw.between(10_000, 99_999)}"
        entry = Entry(self.company.entry_ids.pop(0), kind, name, reference, status, details)
        self.entries[role] = self.company.world.put_at_start(entry)
        return entry

    def draw_by_fact(self, *path: str | int | bool) -> Draw:
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
    """Add the supplier of the service and another one. Both have an outage; the first may explain the alarm."""
    company, draw, onset = register.company, register.draw, register.times.onset
    explains = night.origin == "outage"
    lag_draw = register.draw_by_fact("outage", explains)
    outage_began = onset - lag_draw.between(2, 90) if explains else onset + lag_draw.between(1, 8)
    managers = draw.shuffled([company.staff["Vendor Desk Lead"], company.staff["Procurement Lead"]])
    for role, since in (("supplier", outage_began), ("other_supplier", onset - draw.between(2, 90))):
        details = {"outage_since": stamp(since), "managed_by": managers.pop()}
        register.add(role, "supplier", company.firms.pop(0).name, "SUP", "outage", **details)


def _add_rosters(register: RegisterBuilder, night: NightFacts) -> None:
    """Add the rosters of two teams. Both hand over shortly before or after the alarm was detected."""
    detected, staff = register.times.detected, register.company.staff
    lag_draw = register.draw_by_fact("hand_over", night.second)
    own_hand_over = detected - lag_draw.between(0, 9) if night.second else detected + lag_draw.between(1, 9)
    for role, team, hand_over in (
        ("roster", "Blue", own_hand_over),
        ("other_roster", "Green", detected + register.draw.pick((-6, 6))),
    ):
        details = {
            "first": staff["First Commander"],
            "second": staff["Second Commander"],
            "hand_over": stamp(hand_over),
        }
        register.add(role, "roster", f"Command roster {team}", "ROTA", "current", **details)


def _add_services(register: RegisterBuilder, night: NightFacts) -> None:
    """Add the service, those that it depends on (two steps deep in half of all companies), and two others."""
    company, draw = register.company, register.draw
    names = draw.sample(pool(NAMES, company.split), 5)
    own_part, namesake_part = draw.sample(PARTS, 2)
    on_call = [company.staff[role] for role in draw.shuffled(ENGINEERS)]
    client = company.firms.pop(0).name
    # the supplier and the roster of the service, and of all others
    own_partners = register.entries["supplier"].id, register.entries["roster"].id
    other_partners = register.entries["other_supplier"].id, register.entries["other_roster"].id

    def add_service(role: str, name: str, depends_on: tuple[str, ...] = ()) -> None:
        is_case_service = role == "service"
        supplier, roster = own_partners if is_case_service else other_partners
        details = {
            "custody": f"handed over to {client}" if is_case_service and night.client else IN_HOUSE,
            "depends_on": ", ".join(register.entries[other_role].id for other_role in depends_on),
            "supplier": supplier,
            "roster": roster,
            "on_call": on_call[0] if is_case_service else draw.pick(on_call[1:]),
        }
        if role in ("service", "namesake", "stranger"):  # the others have no customers
            details |= _add_figures(register, role, name, night)
        register.add(role, "service", name, "SRV", "live", **details)

    two_steps = draw.chance(0.5)
    add_service("root", f"{names[1]} {draw.pick(PARTS)}")
    add_service("middle", f"{names[2]} {draw.pick(PARTS)}", ("root",) if two_steps else ())
    add_service("side", f"{names[3]} {draw.pick(PARTS)}")
    add_service("service", f"{names[0]} {own_part}", tuple(draw.shuffled(("middle", "side"))))
    add_service("namesake", f"{names[0]} {namesake_part}", ("side",))
    add_service("stranger", f"{names[4]} {draw.pick(PARTS)}", ("service",))


def _add_figures(register: RegisterBuilder, role: str, name: str, night: NightFacts) -> dict[str, str]:
    """Add the three metrics of a service, at the levels of the facts. Return the details of its entry that name them."""
    terms = register.terms
    severe_from, some_from, many_from, long_from = (
        terms[term] for term in ("errors_1", "customers_2", "customers_1", "minutes_2")
    )
    bands = {
        "errors": {"mild": (severe_from // 3, severe_from - 1), "severe": (severe_from, 2 * severe_from)},
        "customers": {
            "few": (some_from // 4, some_from - 1),
            "some": (some_from, many_from - 1),
            "many": (many_from, 2 * many_from),
        },
        "minutes": {"short": (3, long_from - 1), "long": (long_from, 3 * long_from)},
    }
    titles = {
        "errors": f"Errors per 10,000 calls of {name}",
        "customers": f"Customers hit by the trouble in {name}",
        "minutes": f"Minutes lost in {name}",
    }
    details = {}
    for figure, levels in bands.items():
        level = night.levels[figure] if role == "service" else register.draw.pick(tuple(levels))
        value = register.draw_by_fact(figure, role, level).between(*levels[level])
        highest = max(high for _, high in levels.values())
        metric = _add_metric(register, f"{FIGURES[figure]}.{_slug(name)}", titles[figure], "count", value, (2, highest))
        details[f"{figure}_metric"] = metric.id
    return details


def _add_metric(register: RegisterBuilder, name: str, title: str, unit: str, value: int, bounds: tuple[int, int]) -> Metric:
    """Add a metric with the maximum age that the policy sets. `bounds` is the range of its outdated values."""
    metric = add_metric(register.company, name, title, unit, value, bounds)
    return register.company.world.put_at_start(replace(metric, max_age_days=register.terms["max_age_days"]))


def _slug(name: str) -> str:
    """Return a name as it is written in the names of metrics, such as `wallet_server`."""
    return name.lower().replace(" ", "_")


def _add_deployments(register: RegisterBuilder, night: NightFacts) -> None:
    """Add the latest deployment to the service, an older one that does not matter, and the latest to its namesake."""
    draw, onset, max_minutes = register.draw, register.times.onset, register.terms["change_minutes"]
    lag_draw = register.draw_by_fact("deployed", night.recent)
    latest = onset - lag_draw.between(3, max_minutes) if night.recent else onset + lag_draw.between(1, 8)
    builds = iter(draw.sample(range(1000, 9999), 3))
    for role, service_role, deployed in (
        ("previous", "service", onset - max_minutes - draw.between(60, 4000)),
        ("release", "service", latest),
        ("other_release", "namesake", onset - draw.between(3, max_minutes)),
    ):
        service, details = register.entries[service_role], {"build": f"BLD-{next(builds)}", "deployed": stamp(deployed)}
        details["service"] = service.id
        register.add(role, "deployment", f"Deployment to {service.name}", "DEP", "rolled out", **details)


def _add_alarms(register: RegisterBuilder, night: NightFacts) -> None:
    """Add an alarm on the service, two on services upstream, which were detected later, and one on an unrelated service."""
    draw, terms, times = register.draw, register.terms, register.times
    onset, window, upstream = times.onset, terms["window_minutes"], night.origin == "above"
    middle_draw, root_draw = (register.draw_by_fact("onset", upstream, role) for role in ("middle", "root"))
    if upstream:  # both began within the window before the onset
        middle_onset = onset - middle_draw.between(2, window // 2)
        root_onset = onset - window - root_draw.between(-window // 3, 0)
    else:
        middle_onset = onset + middle_draw.between(1, 8)
        root_onset = onset - window - root_draw.between(5, 300)
    onsets = {
        "service": onset,
        "middle": middle_onset,
        "root": root_onset,
        "stranger": onset - draw.between(2, window),
    }
    response_draw = register.draw_by_fact("acknowledged", night.late)
    lower_term, upper_term = ("respond_2", "respond_3") if night.late else ("respond_1", "respond_2")
    response_minutes = response_draw.between(terms[lower_term] + 1, terms[upper_term])
    for role, alarm_onset in onsets.items():
        is_case_service, service = role == "service", register.entries[role]
        detected = times.detected + (0 if is_case_service else draw.between(3, 20))
        details = {
            "service": service.id,
            "probe": _add_probe(register, role, night).id,
            "onset": stamp(alarm_onset),
            "detected": stamp(detected),
            "acknowledged": stamp(detected + (response_minutes if is_case_service else draw.between(2, 60))),
            "claimed": draw.pick(SEVERITIES),
            "timeline": f"TL-{draw.between(1000, 9999)}",
            "bridge": f"BR-{draw.between(1000, 9999)}",
        }
        register.add(f"{role}_alarm", "alarm", f"Alarm on {service.name}", "ALM", "raised", **details)


def _add_probe(register: RegisterBuilder, role: str, night: NightFacts) -> Entry:
    """Add the probe of a service, which raises its alarms, and the metric of the probe's self check."""
    name, minimum = register.entries[role].name, register.terms["self_check"]
    failing = night.origin == "probe" if role == "service" else register.draw.chance(0.3)
    value = register.draw_by_fact("self_check", role, failing).between(*((20, minimum - 1) if failing else (minimum, 99)))
    title = f"Self checks passed by the probe of {name}"
    metric = _add_metric(register, f"self_check.{_slug(name)}", title, "percent", value, (20, 99))
    return register.add(f"{role}_probe", "probe", f"Probe of {name}", "PRB", "active", self_check_metric=metric.id)
