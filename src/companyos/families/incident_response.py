"""Incident response: what is the night's alarm worth, what came before it, and who has to hear of it?

Particular about reasoning here: time and data decide, not whoever is loud. What explains an alarm began before its onset and
not long before; who commands is who had the watch when it was detected; whether the clock was kept was settled when somebody
took it up. Severity is the first row of a matrix whose conditions all hold, each on a figure of its own. And two other
departments state what only they know, Communications after Engineering, and only where the severity calls for it.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Annotated, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from companyos.apps import Entry, Metric, Mind, Person, Ticket
from companyos.calls import Program
from companyos.families import moves
from companyos.families.backdrop import DEPARTMENTS, Backdrop, add_ticket, furnish, one_line
from companyos.families.family import Case, Ending, Fact, Family, Memory, Taste, Trouble
from companyos.families.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Cites,
    CitesNoOther,
    CitesNothingFalse,
    Ended,
    Fresh,
    Goal,
    MeasuredSince,
    Milestone,
    ReadFresh,
    Requested,
    Signature,
    SignedFor,
    TicketHas,
    TicketIs,
)
from companyos.families.incident_records import IN_HOUSE, Moments, Night, add_records, draw_moments
from companyos.families.incident_rules import (
    BRIEFS,
    DECLARE,
    FIGURES,
    FIRST,
    FORM,
    ROLL_BACK,
    SECOND,
    WITHHELD,
    add_incident_policies,
    draw_terms,
    hire,
    incident_form,
)
from companyos.world import DAY, Draw, Streams, World

Refresh = Literal["quick", "slow", "fails", "fails_twice"]

# -- causes ------------------------------------------------------------------------------------------------------------


def _measured(figure: str) -> tuple[tuple[str, str, str], ...]:
    return ("Source", figure, "value"), ("Metric", figure, "value")


class Causes(Struct, frozen=True):
    """What is true of this night, and cannot be seen from the brief."""

    client: Annotated[bool, Fact((0.89, 0.11), (("Entry", "service", "custody"),))]
    # Where the alarm comes from: the service itself, or another ticket of the same alarm, an alarm upstream, the
    # supplier's outage, or only the probe.
    origin: Annotated[
        Literal["here", "again", "above", "outage", "probe"],
        Fact(
            (0.56, 0.08, 0.13, 0.13, 0.1),
            (
                ("Ticket", "again", "reference"),
                ("Entry", "middle_alarm", "onset"),
                ("Entry", "root_alarm", "onset"),
                ("Entry", "supplier", "outage_since"),
                *_measured("self_check"),
            ),
        ),
    ]
    severe: Annotated[bool, Fact((0.3, 0.7), _measured("errors"))]
    hit: Annotated[Literal["few", "some", "many"], Fact((0.18, 0.32, 0.5), _measured("customers"))]
    long: Annotated[bool, Fact((0.25, 0.75), _measured("minutes"))]
    late: Annotated[bool, Fact((0.4, 0.6), (("Entry", "entry", "acknowledged"),))]
    recent: Annotated[bool, Fact((0.5, 0.5), (("Entry", "release", "deployed"),))]
    runs: Annotated[bool, Fact((0.35, 0.65), (("Mind", "on_call", "knows"),))]
    silent: Annotated[bool, Fact((0.67, 0.33), (("Mind", "communications", "knows"),))]
    second: Annotated[bool, Fact((0.5, 0.5), (("Entry", "roster", "hand_over"),))]
    lookalike: Annotated[bool, Trouble("lookalikes", ("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble("missing_fields", ("ticket", "=priority"))]
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble("blocked", ("ticket", "blocker"))]
    self_check_stale: Annotated[bool, Trouble("stale", ("self_check",))]
    errors_stale: Annotated[bool, Trouble("stale", ("errors",))]
    customers_stale: Annotated[bool, Trouble("stale", ("customers",))]
    minutes_stale: Annotated[bool, Trouble("stale", ("minutes",))]
    self_check_refresh: Annotated[Refresh, Trouble("refresh", ("self_check",))]
    customers_refresh: Annotated[Refresh, Trouble("refresh", ("customers",))]
    first_away: Annotated[bool, Trouble("absence", ("first",))]
    second_away: Annotated[bool, Trouble("absence", ("second",))]
    deputy_away: Annotated[bool, Trouble("absence", ("deputy",))]
    objection: Annotated[
        Literal["no", "evidence", "superior"], Trouble("rejections", ("first", "second", "deputy", "third"))
    ]
    bridge_required: Annotated[bool, Trouble("required_fields", ("form", "=bridge"))]


def _severity(causes: Causes) -> str:
    """The first row of the matrix of which all conditions hold."""
    if causes.severe and causes.hit == "many":
        return "sev_1"
    return "sev_2" if causes.hit != "few" and causes.long else "sev_3"


def _notice_due(causes: Causes) -> bool:
    severity = _severity(causes)
    return severity == "sev_1" or (severity == "sev_2" and causes.late)


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(streams: Streams, split: str, causes: Causes) -> tuple[World, Case]:
    """Furnishes the company and puts the case on the engineering desk, as the facts have it and before any trouble."""
    company = furnish(streams, split, actor="Incident Coordinator", hire=hire)
    world, draw, offices = company.world, streams.at("case"), company.offices
    terms = draw_terms(draw)
    policies = add_incident_policies(company, terms)
    world.furnish(incident_form())
    moments = draw_moments(world.now, draw)
    levels = {
        "errors": "severe" if causes.severe else "mild",
        "customers": causes.hit,
        "minutes": "long" if causes.long else "short",
    }
    night = Night(causes.client, causes.origin, levels, causes.late, causes.recent, causes.second)
    entries = add_records(company, draw, terms, moments, night)
    service = entries["service"]
    roles = {place: entry.id for place, entry in entries.items()} | {
        "requester": offices[f"{draw.pick(DEPARTMENTS)} Manager"],
        "entry": entries["service_alarm"].id,
        "form": FORM,
        "probes": policies["Incident response: alarms and probes"].id,
        "on_call": service.details["on_call"],
        "communications": offices["Communications Lead"],
        "care": offices["Customer Care Lead"],
        "manager": entries["supplier"].details["managed_by"],
        "first": offices["First Commander"],
        "second": offices["Second Commander"],
        "deputy": offices["Command Deputy"],
        "third": offices["Duty Manager"],
        "self_check": entries["service_probe"].details["self_check_metric"],
    }
    roles |= {figure: service.details[f"{figure}_metric"] for figure in FIGURES}
    roles |= _tickets(company, draw, entries, roles["requester"], moments, causes)
    _tell_colleagues(world, roles, draw, causes)
    lead = world.get(Person, offices["Service Lead"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], service=service.name, lead=lead.name)
    return world, Case(roles["ticket"], offices["Incident Coordinator"], brief, roles)


def _tell_colleagues(world: World, roles: dict[str, str], draw: Draw, causes: Causes) -> None:
    """What runs only the on-call knows; what customers may be told only Communications, and they come second."""
    ticket, on_call = roles["ticket"], roles["on_call"]
    build = world.get(Entry, roles["release" if causes.runs else "previous"]).details["build"]
    world.furnish(replace(world.get(Mind, on_call), knows={ticket: {"build": build}}))
    number = f"W-{draw.between(1000, 9999)}"
    knows = {ticket: {"wording": WITHHELD if causes.silent else number}}
    mind = world.get(Mind, roles["communications"])
    world.furnish(replace(mind, knows=knows, after={ticket: {on_call: "build"}}))


def _tickets(
    company: Backdrop, draw: Draw, entries: dict[str, Entry], requester: str, moments: Moments, causes: Causes
) -> dict[str, str]:
    """The ticket, those of the alarms upstream, one that may be of the same alarm, a decoy to be, and one that can block."""
    world, offices = company.world, company.offices
    alarm = entries["service_alarm"]
    ticket = add_ticket(
        company,
        world.get(Person, requester),
        title=alarm.name,
        kind=FORM,
        desk="engineering",
        assignee=offices["Incident Coordinator"],
        subject=entries["service"].name,
        reference=alarm.reference,
        status="open",
        priority=draw.pick(("low", "normal", "high")),
        amount=None,
        opened=moments.detected + draw.between(1, 3),
    )

    def another(subject: str, reference: str, opened: int) -> Ticket:
        return world.furnish(
            replace(
                ticket,
                id=company.ticket_ids.pop(0),
                title=f"Trouble: {subject}",
                subject=subject,
                reference=reference,
                requester=offices[f"{draw.pick(DEPARTMENTS)} Associate"],
                assignee=offices["Service Lead"],
                status=draw.pick(("open", "in_progress")),
                opened=opened,
            )
        )

    soon = partial(draw.between, ticket.opened + 4, ticket.opened + 40)
    middle = another(entries["middle"].name, entries["middle_alarm"].reference, soon())
    root = another(entries["root"].name, entries["root_alarm"].reference, soon())
    same = alarm if causes.origin == "again" else entries["stranger_alarm"]
    symptom, old_symptom = draw.sample(("Customers are logged out", "Orders hang", "Pages stay blank", "Mails repeat"), 2)
    again = another(symptom, same.reference, soon())
    decoy = another(old_symptom, f"ALM-{draw.between(1000, 9999)}", ticket.opened - 40 * DAY)
    blocker = next(t for t in world.all(Ticket) if t.kind == "license_renewal")
    world.furnish(replace(blocker, status="in_progress"))
    # Of the two upstream the further one is the parent, if they belong to the incident at all.
    far, near = (root, middle) if entries["middle"].details["depends_on"] else (middle, root)
    made = {"ticket": ticket, "above": far, "beside": near, "again": again, "decoy": decoy, "blocker": blocker}
    return {role: one.id for role, one in made.items()}


# -- what is right -----------------------------------------------------------------------------------------------------


Facts = tuple[tuple[str, str], ...]


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """The right ending, from the causes alone, in the order that the policy gives."""
    roles = case.roles
    ending = partial(_ending, world, case)
    if causes.client:
        facts: Facts = ((roles["service"], "custody"),)
        return ending("cannot_be_done", "not_covered", "client", facts, sets=("escalated_to", roles["care"]))
    checked = partial(ending, measured=("self_check",))
    if causes.origin == "probe":
        facts = ((roles["self_check"], "value"), (roles["probes"], "self_check"))
        return checked("declined", "not_reproducible", "desk", facts)
    if causes.origin in ("again", "above"):
        parent = roles[causes.origin]
        facts, sets = ((parent, "reference"), (parent, "status")), ("duplicate_of", parent)
        rivals = tuple((roles[role], "reference") for role in ("again", "above", "beside") if role != causes.origin)
        return checked("duplicate", "same_request", "desk", facts, sets=sets, rivals=rivals)
    if causes.origin == "outage":
        facts, sets = ((roles["supplier"], "outage_since"), (roles["entry"], "onset")), ("escalated_to", roles["manager"])
        rivals = ((roles["other_supplier"], "outage_since"),)
        return checked("escalated", "beyond_authority", "supplier", facts, sets=sets, rivals=rivals)
    weighed = partial(ending, measured=("customers", "errors", "minutes", "self_check"))
    figures = tuple((roles[figure], "value") for figure in FIGURES)
    signed = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"))
    commander = f"{SECOND if causes.second else FIRST} Commander"
    if causes.recent and causes.runs:
        facts = ((roles["release"], "deployed"), (ANSWER + roles["on_call"], "build"), *signed)
        rivals = tuple((roles[role], "deployed") for role in ("previous", "other_release"))
        says = _request(world, roles, causes, ROLL_BACK)
        return weighed("completed", "all_checks_passed", commander, facts, rivals=rivals, says=says)
    if _severity(causes) == "sev_3":
        return weighed("on_hold", "not_due", "desk", figures, sets=("waiting_on", roles["on_call"]))
    if _notice_due(causes) and causes.silent:
        facts, sets = (*figures, (ANSWER + roles["communications"], "wording")), ("waiting_on", roles["communications"])
        return weighed("on_hold", "missing_information", "Communications Lead", facts, sets=sets)
    facts = (*signed, (roles["errors"], "value"), (roles["customers"], "value"))
    return weighed("escalated", "above_limit", commander, facts, says=_request(world, roles, causes, DECLARE))


Says = tuple[tuple[str, str | None], ...]


def _request(world: World, roles: dict[str, str], causes: Causes, act: str) -> Says:
    """What must stand in the request; where it says nothing, nothing."""
    notice = act == DECLARE and _notice_due(causes)
    return (
        ("act", act),
        ("severity", _severity(causes)),
        ("watch", SECOND if causes.second else FIRST),
        ("deployment", roles["release"] if act == ROLL_BACK else None),
        ("wording", world.get(Mind, roles["communications"]).knows[roles["ticket"]]["wording"] if notice else None),
    )


def _ending(
    world: World,
    case: Case,
    resolution: str,
    reason: str,
    decider: str,
    facts: Facts,
    sets: tuple[str, str] | None = None,
    measured: tuple[str, ...] = (),
    rivals: Facts = (),
    says: Says = (),
) -> Ending:
    """`measured` are the figures that must be fresh, the most telling first; `says` is what is to be signed, if anything."""
    ticket_id, roles = case.ticket_id, case.roles
    verified = TicketIs(ticket_id, "verified", roles["entry"])
    goals: list[Goal] = [
        Ended(ticket_id, resolution, reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + 4),
        verified,
    ]
    milestones = [
        Milestone("priority set", 1.0, TicketHas(ticket_id, "priority")),
        Milestone("unblocked", 1.0, TicketIs(ticket_id, "blocked_by", None)),
        Milestone("verified", 1.5, verified),
    ]
    if rivals:
        goals.append(CitesNoOther(ticket_id, rivals))
    if sets:
        outcome = TicketIs(ticket_id, *sets)
        goals.append(outcome)
        milestones.append(Milestone("outcome recorded", 1.0, outcome))
    if measured:
        metric, *beside = (roles[figure] for figure in measured)
        since = world.now - world.get(Metric, metric).max_age_days * DAY
        goals.append(Fresh(metric, tuple(beside)))
        milestones.append(Milestone("data refreshed", 1.0, MeasuredSince(metric, since)))
        milestones.append(Milestone("fresh data read", 0.5, ReadFresh(case.actor, metric, since)))
    if says:
        goals.append(SignedFor(ticket_id, FORM, says))
        milestones.append(Milestone("valid request", 2.0, Requested(ticket_id, FORM, says=says)))
        milestones.append(Milestone("approved", 3.0, Requested(ticket_id, FORM, signed=True, says=says)))
    name, signatures = f"{resolution}/{reason}", (Signature(FORM, says),) if says else ()
    allowed = (("blocked_by", None),)
    return Ending(name, resolution, reason, decider, tuple(goals), tuple(milestones), allowed, signatures)


# -- expert ------------------------------------------------------------------------------------------------------------


class File(NamedTuple):
    """What the expert has in hand once it has looked around."""

    ticket: moves.Shown
    alarm: moves.Shown
    service: moves.Shown
    policies: dict[str, str]  # those on this work, in force: ids by title
    approved: dict[str, str]  # requests that an earlier hand got signed, by form
    taste: Taste

    def rule(self, title: str) -> moves.Move[moves.Shown]:
        """One of the rules of this work, read."""
        policy_id = self.policies[f"Incident response: {title}"]
        policy: moves.Shown = yield from moves.read("datahub.read_policy", policy_id=policy_id)
        return policy

    def record(self, field: str, value: str) -> moves.Move[None]:
        yield from moves.set_field(self.ticket["id"], field, value)


class Figures(NamedTuple):
    """The readings that count, by name, those of the severity and the self check; and what they come to."""

    readings: dict[str, moves.Shown]
    severity: str
    most_days: int

    def kept_fresh(self, today: str) -> moves.Move[None]:
        """Has measured anew what has grown old while we waited."""
        for name, reading in self.readings.items():
            if moves.days_between(reading["measured_at"], today) >= self.most_days:
                yield from moves.ask("datahub.refresh_data", metric_name=reading["id"])
                self.readings[name] = yield from moves.fresh_reading(reading["id"])

    def cited(self, *names: str) -> list[moves.Shown]:
        return moves.cite(*((self.readings[name], "value") for name in names))


Outcome = tuple[str, str, list[moves.Shown]]


def expert(memory: Memory, taste: Taste) -> Program:
    """Works the ticket as the policies say, from any state."""
    ticket_id = moves.ticket_in(memory)
    approved: dict[str, str] = {}
    if moves.wrote(memory):
        approved = yield from moves.settle_requests(ticket_id, memory)
        yield from moves.put_back(ticket_id)
    ticket = yield from moves.read("ticketdesk.get_ticket", ticket_id=ticket_id)
    if taste.fancies("take it up first"):
        yield from moves.set_field(ticket_id, "status", "in_progress")
    policies = yield from moves.policies_about("incident")
    query = ticket["subject"] if taste.fancies("search by name") else ticket["reference"]
    listed = yield from moves.rows("datahub.search_register", query=query)
    alarm_id = next(row["id"] for row in listed if row["reference"] == ticket["reference"])
    alarm = yield from moves.read("datahub.get_entry", entry_id=alarm_id)
    service = yield from moves.read("datahub.get_entry", entry_id=alarm["service"])
    file = File(ticket, alarm, service, policies, approved, taste)
    for title in taste.order("read up", ["order of checks", "whom it goes to", "verification"]):
        yield from file.rule(title)
    for step in taste.order("prepare", [moves.unblock(ticket), _verify(ticket, alarm)]):
        yield from step
    resolution, reason, evidence = yield from _decide(file)
    if taste.fancies("cite more"):
        evidence += moves.cite((ticket, "reference"), (alarm, "reference"))
    closing = {"resolution": resolution, "reason": reason, "evidence": evidence}
    yield from moves.ask("ticketdesk.resolve_ticket", ticket_id=ticket_id, **closing)


def _verify(ticket: moves.Shown, alarm: moves.Shown) -> moves.Move[None]:
    if ticket["priority"] is None:
        yield from moves.set_field(ticket["id"], "priority", "normal")
    if ticket["verified"] != alarm["id"]:
        yield from moves.set_field(ticket["id"], "verified", alarm["id"])


def _decide(file: File) -> moves.Move[Outcome]:
    """The checks in their order, up to where severity begins to matter; the first that applies decides."""
    alarm, service = file.alarm, file.service
    if service["custody"] != IN_HOUSE:
        care = yield from moves.read("datahub.get_approver", role="Customer Care Lead")
        yield from file.record("escalated_to", care["id"])
        return "cannot_be_done", "not_covered", moves.cite((service, "custody"))
    probe = yield from moves.read("datahub.get_entry", entry_id=alarm["probe"])
    probes = yield from file.rule("alarms and probes")
    if file.taste.fancies("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=probe["self_check_metric"])
    self_check = yield from moves.fresh_reading(probe["self_check_metric"])
    if self_check["value"] < probes["self_check"]:
        return "declined", "not_reproducible", moves.cite((self_check, "value"), (probes, "self_check"))
    parent = yield from _parent(file)
    if parent is not None:
        yield from file.record("duplicate_of", parent["id"])
        return "duplicate", "same_request", moves.cite((parent, "reference"), (parent, "status"))
    supplier = yield from moves.read("datahub.get_entry", entry_id=service["supplier"])
    if supplier["outage_since"] < alarm["onset"]:
        yield from file.record("escalated_to", supplier["managed_by"])
        return "escalated", "beyond_authority", moves.cite((supplier, "outage_since"), (alarm, "onset"))
    return (yield from _weigh(file, (yield from _figures(file, self_check))))


def _parent(file: File) -> moves.Move[moves.Shown | None]:
    """The ticket to whose incident this alarm belongs, if there is one."""
    own = yield from _live_ticket(file, file.alarm["reference"])
    if own is not None:
        return own
    window = (yield from file.rule("correlation"))["window_minutes"]
    upstream = yield from _upstream(file.service)
    found = []
    for row in (yield from moves.rows("datahub.search_register", query="Alarm")):
        if row["kind"] == "alarm" and row["id"] != file.alarm["id"]:
            other = yield from moves.read("datahub.get_entry", entry_id=row["id"])
            if other["service"] in upstream and 0 < _minutes(other["onset"], file.alarm["onset"]) <= window:
                found.append(other)
    for other in sorted(found, key=lambda one: -upstream[one["service"]]):
        ticket = yield from _live_ticket(file, other["reference"])
        if ticket is not None:
            return ticket
    return None


def _live_ticket(file: File, reference: str) -> moves.Move[moves.Shown | None]:
    """Another ticket of an alarm that is neither done nor cancelled."""
    for row in (yield from moves.rows("ticketdesk.search_tickets", query=reference)):
        if row["id"] != file.ticket["id"] and row["reference"] == reference and row["status"] not in moves.FINISHED:
            return row
    return None


def _upstream(service: moves.Shown) -> moves.Move[dict[str, int]]:
    """What a service hangs on, directly or not, and how many steps away that is."""
    steps: dict[str, int] = {}
    ahead = [(entry_id, 1) for entry_id in _ids(service["depends_on"])]
    while ahead:
        entry_id, distance = ahead.pop(0)
        steps[entry_id] = distance
        entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
        ahead += [(further, distance + 1) for further in _ids(entry["depends_on"]) if further not in steps]
    return steps


def _ids(listed: str) -> Iterable[str]:
    return listed.split(", ") if listed else ()


def _figures(file: File, self_check: moves.Shown) -> moves.Move[Figures]:
    """Fresh readings, and the severity that they come to."""
    matrix = yield from file.rule("severity")
    readings = {}
    for name in file.taste.order("figures", list(FIGURES)):
        readings[name] = yield from moves.fresh_reading(file.service[f"{name}_metric"])
    errors, customers, minutes = (readings[name]["value"] for name in ("errors", "customers", "minutes"))
    severity = "sev_3"
    if errors >= matrix["errors_1"] and customers >= matrix["customers_1"]:
        severity = "sev_1"
    elif customers >= matrix["customers_2"] and minutes >= matrix["minutes_2"]:
        severity = "sev_2"
    return Figures(readings | {"self_check": self_check}, severity, matrix["max_age_days"])


def _weigh(file: File, figures: Figures) -> moves.Move[Outcome]:
    """The rest of the checks, for a service of ours whose own trouble it is."""
    ticket, alarm, service = file.ticket, file.alarm, file.service
    release, build = (yield from _release(file)), None
    if release is not None:
        build = yield from _build(file)
        yield from figures.kept_fresh(build["at"])
        if build["build"] == release["build"]:
            request = yield from _signed(file, figures, build, {"act": ROLL_BACK, "deployment": release["id"]})
            evidence = moves.cite((release, "deployed"), (build, "build"), (request, "status"), (request, "decided_by"))
            return "completed", "all_checks_passed", evidence
    if figures.severity == "sev_3":
        yield from file.record("waiting_on", service["on_call"])
        return "on_hold", "not_due", figures.cited(*FIGURES)
    clock = yield from file.rule("clock and notice")
    build = build or (yield from _build(file))
    act = {"act": DECLARE}
    kept = _minutes(alarm["detected"], alarm["acknowledged"]) <= clock["respond_2"]
    if figures.severity == "sev_1" or not kept:
        lead = yield from moves.read("datahub.get_approver", role="Communications Lead")
        text = "Which wording may customers be told?"
        answer = yield from moves.ask_person(ticket["id"], lead["id"], "wording", text)
        if answer["wording"] == WITHHELD:
            yield from file.record("waiting_on", lead["id"])
            yield from figures.kept_fresh(answer["at"])
            return "on_hold", "missing_information", figures.cited(*FIGURES) + moves.cite((answer, "wording"))
        act["wording"] = answer["wording"]
    request = yield from _signed(file, figures, build, act)
    evidence = moves.cite((request, "status"), (request, "decided_by")) + figures.cited("errors", "customers")
    return "escalated", "above_limit", evidence


def _release(file: File) -> moves.Move[moves.Shown | None]:
    """A deployment to the service that came before the onset and not long before."""
    most = (yield from file.rule("suppliers and changes"))["change_minutes"]
    for row in (yield from moves.rows("datahub.search_register", query=file.service["name"])):
        if row["kind"] == "deployment":
            release: moves.Shown = yield from moves.read("datahub.get_entry", entry_id=row["id"])
            since = _minutes(release["deployed"], file.alarm["onset"])
            if release["service"] == file.service["id"] and 0 < since <= most:
                return release
    return None


def _build(file: File) -> moves.Move[moves.Shown]:
    """The comment of whoever is on call that says what runs."""
    yield from file.rule("hand-overs")
    text = "Which build runs?"
    return (yield from moves.ask_person(file.ticket["id"], file.service["on_call"], "build", text))


def _signed(file: File, figures: Figures, build: moves.Shown, act: dict[str, str]) -> moves.Move[moves.Shown]:
    """The commander's signature, linked, with the figures still fresh."""
    ticket, alarm = file.ticket, file.alarm
    if FORM in file.approved:
        request = yield from moves.read("approvalflow.check_status", approval_id=file.approved[FORM])
    else:
        for title in file.taste.order("read up on signing", ["signing", "command"]):
            yield from file.rule(title)
        roster = yield from moves.read("datahub.get_entry", entry_id=file.service["roster"])
        watch = FIRST if alarm["detected"] < roster["hand_over"] else SECOND
        commander = yield from moves.read("datahub.get_approver", role=f"{watch} Commander")
        known = {field: figures.readings[name]["value"] for name, field in FIGURES.items()} | {
            "ticket_id": ticket["id"],
            "subject": ticket["subject"],
            "reference": ticket["reference"],
            "severity": figures.severity,
            "watch": watch,
            "build": build["build"],
            "timeline": alarm["timeline"],
            "bridge": alarm["bridge"],
        }
        also = tuple(field for field in act if field != "act")
        request = yield from moves.get_signed(FORM, commander, known | act, also=also)
    yield from file.record("approval", request["id"])
    yield from figures.kept_fresh(request["decided_at"])
    return request


def _minutes(earlier: str, later: str) -> float:
    """Minutes from one stamp, `2026-03-10 09:30`, to another; negative if it is the other way round."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 60


FAMILY = Family(
    name="incident_response",
    phrase="incident response",
    causes=Causes,
    stage=stage,
    judge=judge,
    expert=expert,
    max_steps={0: 98, 25: 119, 50: 140, 75: 163, 100: 186},
)
