"""The expert of incident response. It sees only replies and never the world.

A `moves.Move` makes calls and then returns a value. `moves.Shown` is a record as a reply shows it: its fields by name.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from companyos.core.calls import Procedure
from companyos.families.incident_records import IN_HOUSE
from companyos.families.incident_rules import DECLARE, FIGURES, FIRST, FORM, ROLL_BACK, SECOND, WITHHELD
from companyos.families.kit import casework, moves
from companyos.families.kit.casework import CaseNotes, Decision
from companyos.families.kit.family import EpisodeSoFar, ExpertStyle


class IncidentNotes(CaseNotes, frozen=True):
    """What the expert has gathered before it decides."""

    topic = "Incident response"

    alarm: moves.Shown
    service: moves.Shown


class IncidentFigures(NamedTuple):
    """Fresh readings of the metrics that decide, and the severity that follows from them."""

    readings: dict[str, moves.Shown]  # by the names in `FIGURES`, and `self_check`
    severity: str
    max_age_days: int

    def refresh_old(self, today: str) -> moves.Move[None]:
        """Measure those metrics again whose readings have become too old during a wait."""
        for name, reading in self.readings.items():
            if moves.days_between(reading["measured_at"], today) >= self.max_age_days:
                yield from moves.ask("datahub.refresh_data", metric_name=reading["id"])
                self.readings[name] = yield from moves.fresh_reading(reading["id"])

    def cited(self, *names: str) -> list[moves.Shown]:
        """Return the evidence that cites the readings with these names."""
        return moves.cite(*((self.readings[name], "value") for name in names))


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, approved = yield from casework.begin(so_far, style, "incident")
    query = ticket["subject"] if style.chooses("search by name") else ticket["reference"]
    listed = yield from moves.search_entries(query)
    alarm_id = next(row["id"] for row in listed if row["reference"] == ticket["reference"])
    alarm = yield from moves.read("datahub.get_entry", entry_id=alarm_id)
    service = yield from moves.read("datahub.get_entry", entry_id=alarm["service"])
    notes = IncidentNotes(ticket, policies, approved, style, alarm, service)
    for title in style.order("read up", ["order of checks", "whom it goes to", "verification"]):
        yield from notes.read_rule(title)
    yield from casework.prepare(ticket, alarm["id"], style)
    decision = yield from _decide(notes)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"), (alarm, "reference"))


def _decide(notes: IncidentNotes) -> moves.Move[Decision]:
    """Make the checks in the order of the policy. The first that applies decides. Severity matters only in the last ones."""
    alarm, service = notes.alarm, notes.service
    if service["custody"] != IN_HOUSE:
        care = yield from moves.read("datahub.get_approver", role="Customer Care Lead")
        yield from notes.record("escalated_to", care["id"])
        return "cannot_be_done", "not_covered", moves.cite((service, "custody"))
    probe = yield from moves.read("datahub.get_entry", entry_id=alarm["probe"])
    probe_rule = yield from notes.read_rule("alarms and probes")
    if notes.style.chooses("refresh in any case"):
        yield from moves.ask("datahub.refresh_data", metric_name=probe["self_check_metric"])
    self_check = yield from moves.fresh_reading(probe["self_check_metric"])
    if self_check["value"] < probe_rule["self_check"]:
        return "declined", "not_reproducible", moves.cite((self_check, "value"), (probe_rule, "self_check"))
    parent = yield from _find_parent(notes)
    if parent is not None:
        yield from notes.record("duplicate_of", parent["id"])
        return "duplicate", "same_request", moves.cite((parent, "reference"), (parent, "status"))
    supplier = yield from moves.read("datahub.get_entry", entry_id=service["supplier"])
    if supplier["outage_since"] < alarm["onset"]:
        yield from notes.record("escalated_to", supplier["managed_by"])
        return "escalated", "beyond_authority", moves.cite((supplier, "outage_since"), (alarm, "onset"))
    figures = yield from _read_figures(notes, self_check)
    return (yield from _decide_by_severity(notes, figures))


def _find_parent(notes: IncidentNotes) -> moves.Move[moves.Shown | None]:
    """Return the ticket of the incident that this alarm belongs to, or None."""
    own_ticket = yield from _live_ticket(notes, notes.alarm["reference"])
    if own_ticket is not None:
        return own_ticket
    max_minutes = (yield from notes.read_rule("correlation"))["window_minutes"]
    distances = yield from _services_upstream(notes.service)
    earlier_alarms = []
    for row in (yield from moves.search_entries("Alarm")):
        if row["kind"] == "alarm" and row["id"] != notes.alarm["id"]:
            other_alarm = yield from moves.read("datahub.get_entry", entry_id=row["id"])
            if (
                other_alarm["service"] in distances
                and 0 < _minutes(other_alarm["onset"], notes.alarm["onset"]) <= max_minutes
            ):
                earlier_alarms.append(other_alarm)
    for other_alarm in sorted(earlier_alarms, key=lambda alarm: -distances[alarm["service"]]):  # the farthest first
        parent = yield from _live_ticket(notes, other_alarm["reference"])
        if parent is not None:
            return parent
    return None


def _live_ticket(notes: IncidentNotes, reference: str) -> moves.Move[moves.Shown | None]:
    """Return another ticket with this reference, which is that of an alarm, that is neither done nor cancelled; or None."""
    for row in (yield from moves.rows("ticketdesk.search_tickets", query=reference)):
        if row["id"] != notes.ticket["id"] and row["reference"] == reference and row["status"] not in moves.FINISHED:
            return row
    return None


def _services_upstream(service: moves.Shown) -> moves.Move[dict[str, int]]:
    """Return the services that a service depends on, directly or indirectly, and their distance in steps."""
    distances: dict[str, int] = {}
    to_visit = [(entry_id, 1) for entry_id in _ids(service["depends_on"])]
    while to_visit:
        entry_id, distance = to_visit.pop(0)
        distances[entry_id] = distance
        entry = yield from moves.read("datahub.get_entry", entry_id=entry_id)
        to_visit += [(next_id, distance + 1) for next_id in _ids(entry["depends_on"]) if next_id not in distances]
    return distances


def _ids(listed: str) -> Iterable[str]:
    """Return the ids in a text such as "E-1211, E-3400"."""
    return listed.split(", ") if listed else ()


def _read_figures(notes: IncidentNotes, self_check: moves.Shown) -> moves.Move[IncidentFigures]:
    """Read the metrics that decide the severity, fresh, and derive it."""
    matrix = yield from notes.read_rule("severity")
    readings = {}
    for name in notes.style.order("figures", list(FIGURES)):
        readings[name] = yield from moves.fresh_reading(notes.service[f"{name}_metric"])
    errors, customers, minutes = (readings[name]["value"] for name in ("errors", "customers", "minutes"))
    severity = "sev_3"
    if errors >= matrix["errors_1"] and customers >= matrix["customers_1"]:
        severity = "sev_1"
    elif customers >= matrix["customers_2"] and minutes >= matrix["minutes_2"]:
        severity = "sev_2"
    return IncidentFigures(readings | {"self_check": self_check}, severity, matrix["max_age_days"])


def _decide_by_severity(notes: IncidentNotes, figures: IncidentFigures) -> moves.Move[Decision]:
    """Make the last checks: a deployment that explains the alarm, then the severity and the notice to customers."""
    ticket, alarm, service = notes.ticket, notes.alarm, notes.service
    release, build = (yield from _recent_deployment(notes)), None
    if release is not None:
        build = yield from _ask_for_build(notes)
        yield from figures.refresh_old(build["at"])
        if build["build"] == release["build"]:
            request = yield from _signed(notes, figures, build, {"act": ROLL_BACK, "deployment": release["id"]})
            evidence = moves.cite((release, "deployed"), (build, "build"), (request, "status"), (request, "decided_by"))
            return "completed", "all_checks_passed", evidence
    if figures.severity == "sev_3":
        yield from notes.record("waiting_on", service["on_call"])
        return "on_hold", "not_due", figures.cited(*FIGURES)
    clock = yield from notes.read_rule("clock and notice")
    build = build or (yield from _ask_for_build(notes))
    action = {"act": DECLARE}
    # Only for sev_2 does the notice depend on the response time.
    in_time = _minutes(alarm["detected"], alarm["acknowledged"]) <= clock["respond_2"]
    if figures.severity == "sev_1" or not in_time:
        lead = yield from moves.read("datahub.get_approver", role="Communications Lead")
        text = "Which wording may customers be told?"
        answer = yield from moves.ask_person(ticket["id"], lead["id"], "wording", text)
        if answer["wording"] == WITHHELD:
            yield from notes.record("waiting_on", lead["id"])
            yield from figures.refresh_old(answer["at"])
            return "on_hold", "missing_information", figures.cited(*FIGURES) + moves.cite((answer, "wording"))
        action["wording"] = answer["wording"]
    request = yield from _signed(notes, figures, build, action)
    evidence = moves.cite((request, "status"), (request, "decided_by")) + figures.cited("errors", "customers")
    return "escalated", "above_limit", evidence


def _recent_deployment(notes: IncidentNotes) -> moves.Move[moves.Shown | None]:
    """Return the deployment to the service shortly before the onset of the alarm, or None."""
    max_minutes = (yield from notes.read_rule("suppliers and changes"))["change_minutes"]
    for row in (yield from moves.search_entries(notes.service["name"])):
        if row["kind"] == "deployment":
            release: moves.Shown = yield from moves.read("datahub.get_entry", entry_id=row["id"])
            minutes_before = _minutes(release["deployed"], notes.alarm["onset"])
            if release["service"] == notes.service["id"] and 0 < minutes_before <= max_minutes:
                return release
    return None


def _ask_for_build(notes: IncidentNotes) -> moves.Move[moves.Shown]:
    """Return the comment in which the person on call states which build runs."""
    yield from notes.read_rule("hand-overs")
    text = "Which build runs?"
    return (yield from moves.ask_person(notes.ticket["id"], notes.service["on_call"], "build", text))


def _signed(
    notes: IncidentNotes, figures: IncidentFigures, build: moves.Shown, action: dict[str, str]
) -> moves.Move[moves.Shown]:
    """Return the request that the commander has approved. Link it to the ticket, and refresh figures that became too old.

    `action` has the fields that differ between declaring an incident and rolling a deployment back.
    """
    ticket, alarm = notes.ticket, notes.alarm
    if FORM in notes.approved:
        request: moves.Shown = yield from moves.read("approvalflow.check_status", approval_id=notes.approved[FORM])
    else:
        for title in notes.style.order("read up on signing", ["signing", "command"]):
            yield from notes.read_rule(title)
        roster = yield from moves.read("datahub.get_entry", entry_id=notes.service["roster"])
        watch = FIRST if alarm["detected"] < roster["hand_over"] else SECOND
        commander = yield from moves.read("datahub.get_approver", role=f"{watch} Commander")
        form_data = {field: figures.readings[name]["value"] for name, field in FIGURES.items()} | {
            "ticket_id": ticket["id"],
            "subject": ticket["subject"],
            "reference": ticket["reference"],
            "severity": figures.severity,
            "watch": watch,
            "build": build["build"],
            "timeline": alarm["timeline"],
            "bridge": alarm["bridge"],
        }
        extra_fields = tuple(field for field in action if field != "act")
        request = yield from moves.get_signed(FORM, commander, form_data | action, extra_fields=extra_fields)
    yield from notes.record("approval", request["id"])
    yield from figures.refresh_old(request["decided_at"])
    return request


def _minutes(earlier: str, later: str) -> float:
    """Return the minutes from one timestamp to another, negative if the second is the earlier one."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds() / 60
