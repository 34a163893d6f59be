"""Incident response: how severe is this alarm, what caused it, and who has to be told?

What makes it hard: the order of events decides. A possible cause must have begun before the trouble did, and not long
before. The commander who was on duty when the alarm was detected has to sign. The response time ended when somebody
acknowledged the alarm. The severity is the first row of a table whose conditions all hold, each on another metric. And two
other departments have to state what only they know, Engineering first, then Communications if the severity requires it.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Entry, Mind, Person, Ticket
from companyos.core.world import DAY, Draw, Streams, World
from companyos.families.incident_expert import expert
from companyos.families.incident_records import AlarmTimes, NightFacts, add_records, draw_times
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
from companyos.families.kit import endings
from companyos.families.kit.backdrop import DEPARTMENTS, Backdrop, add_ticket, one_line, tell
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, Family
from companyos.families.kit.goals import (
    ANSWER,
    SIGNED_REQUEST,
    Signature,
)

Refresh = Literal["quick", "slow", "fails", "fails_twice"]

# -- causes ------------------------------------------------------------------------------------------------------------


def _measured(figure: str) -> tuple[tuple[str, str, str], ...]:
    """Return the fields that show a figure, for `Fact.shown_in`."""
    return ("Source", figure, "value"), ("Metric", figure, "value")


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this alarm, and troubles. `kit.case` explains both.

    `Source` records hold the true value of a metric, `Metric` records the measured one, `Mind` records what only a person
    knows. In the target of a trouble, `=priority` is the name of a field; the other parts are roles of the case.
    """

    client: Annotated[
        bool,
        Fact(odds=(0.89, 0.11), shown_in=(("Entry", "service", "custody"),)),
        "the service was handed over to the client",
    ]
    origin: Annotated[
        Literal["here", "again", "above", "outage", "probe"],
        Fact(
            odds=(0.56, 0.08, 0.13, 0.13, 0.1),
            shown_in=(
                ("Ticket", "again", "reference"),
                ("Entry", "middle_alarm", "onset"),
                ("Entry", "root_alarm", "onset"),
                ("Entry", "supplier", "outage_since"),
                *_measured("self_check"),
            ),
        ),
        "the origin: the service, an alarm that has a ticket already, a service upstream, the supplier, or the probe",
    ]
    severe: Annotated[bool, Fact(odds=(0.3, 0.7), shown_in=_measured("errors")), "the error rate is above its threshold"]
    hit: Annotated[
        Literal["few", "some", "many"],
        Fact(odds=(0.18, 0.32, 0.5), shown_in=_measured("customers")),
        "how many customers are affected",
    ]
    long: Annotated[bool, Fact(odds=(0.25, 0.75), shown_in=_measured("minutes")), "the duration is above its threshold"]
    late: Annotated[
        bool, Fact(odds=(0.4, 0.6), shown_in=(("Entry", "entry", "acknowledged"),)), "nobody acknowledged the alarm in time"
    ]
    recent: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Entry", "release", "deployed"),)),
        "there was a deployment shortly before the onset",
    ]
    runs: Annotated[
        bool,
        Fact(odds=(0.35, 0.65), shown_in=(("Mind", "on_call", "knows"),)),
        "the deployed build is the one that runs; only the engineer on call knows",
    ]
    silent: Annotated[
        bool,
        Fact(odds=(0.67, 0.33), shown_in=(("Mind", "communications", "knows"),)),
        "Communications has no wording for customers yet",
    ]
    second: Annotated[
        bool,
        Fact(odds=(0.5, 0.5), shown_in=(("Entry", "roster", "hand_over"),)),
        "the second commander was already on duty when the alarm was detected",
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    # leftover: the blocking ticket is done, but nobody has removed the block; waiting: it is still in progress
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    self_check_stale: Annotated[bool, Trouble(dial="stale", target=("self_check",))]
    errors_stale: Annotated[bool, Trouble(dial="stale", target=("errors",))]
    customers_stale: Annotated[bool, Trouble(dial="stale", target=("customers",))]
    minutes_stale: Annotated[bool, Trouble(dial="stale", target=("minutes",))]
    self_check_refresh: Annotated[Refresh, Trouble(dial="refresh", target=("self_check",))]
    customers_refresh: Annotated[Refresh, Trouble(dial="refresh", target=("customers",))]
    first_away: Annotated[bool, Trouble(dial="absence", target=("first",))]
    second_away: Annotated[bool, Trouble(dial="absence", target=("second",))]
    deputy_away: Annotated[bool, Trouble(dial="absence", target=("deputy",))]
    # evidence: the approver wants one more field in the form; superior: the approver's manager has to decide
    objection: Annotated[
        Literal["no", "evidence", "superior"], Trouble(dial="rejections", target=("first", "second", "deputy", "third"))
    ]
    bridge_required: Annotated[bool, Trouble(dial="required_fields", target=("form", "=bridge"))]


def _severity(causes: Causes) -> str:
    """Return the severity: the first row of the policy's table whose conditions all hold."""
    if causes.severe and causes.hit == "many":
        return "sev_1"
    return "sev_2" if causes.hit != "few" and causes.long else "sev_3"


def _notice_due(causes: Causes) -> bool:
    """Return whether customers have to be told."""
    severity = _severity(causes)
    return severity == "sev_1" or (severity == "sev_2" and causes.late)


# -- stage -------------------------------------------------------------------------------------------------------------


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the records and tickets of the case to the company, as the facts in `causes` say. Troubles are added later."""
    world, draw, staff = company.world, streams.at("case"), company.staff  # staff: people's ids by job title
    terms = draw_terms(draw)
    policies = add_incident_policies(company, terms)
    world.put_at_start(incident_form())
    times = draw_times(world.now, draw)
    levels = {
        "errors": "severe" if causes.severe else "mild",
        "customers": causes.hit,
        "minutes": "long" if causes.long else "short",
    }
    night = NightFacts(causes.client, causes.origin, levels, causes.late, causes.recent, causes.second)
    entries = add_records(company, draw, terms, times, night)
    service = entries["service"]
    # The records and people of the case: ids by role. `third` signs if the commander and `deputy` are away.
    roles = {role: entry.id for role, entry in entries.items()} | {
        "requester": staff[f"{draw.pick(DEPARTMENTS)} Manager"],
        "entry": entries["service_alarm"].id,  # what the ticket is about
        "form": FORM,
        "model": entries["stranger_alarm"].id,  # an unrelated entry of the same kind
        "policy": policies["Incident response: severity"].id,
        "probes": policies["Incident response: alarms and probes"].id,
        "on_call": service.details["on_call"],
        "communications": staff["Communications Lead"],
        "care": staff["Customer Care Lead"],
        "manager": entries["supplier"].details["managed_by"],
        "first": staff["First Commander"],
        "second": staff["Second Commander"],
        "deputy": staff["Command Deputy"],
        "third": staff["Duty Manager"],
        "self_check": entries["service_probe"].details["self_check_metric"],
    }
    roles |= {figure: service.details[f"{figure}_metric"] for figure in FIGURES}
    roles |= _add_tickets(company, draw, entries, roles["requester"], times, causes)
    _tell_colleagues(world, roles, draw, causes)
    lead = world.get(Person, staff["Service Lead"])
    brief = one_line(draw.pick(BRIEFS)).format(ticket=roles["ticket"], service=service.name, lead=lead.name)
    return Case(roles["ticket"], staff["Incident Coordinator"], brief, roles)


def _tell_colleagues(world: World, roles: dict[str, str], draw: Draw, causes: Causes) -> None:
    """Let the engineer on call know which build runs, and Communications which wording customers may be told.

    Communications answers only after the engineer.
    """
    ticket, on_call = roles["ticket"], roles["on_call"]
    build = world.get(Entry, roles["release" if causes.runs else "previous"]).details["build"]
    tell(world, on_call, ticket, {"build": build})
    number = f"W-{draw.between(1000, 9999)}"
    knows = {"wording": WITHHELD if causes.silent else number}
    tell(world, roles["communications"], ticket, knows, after={on_call: "build"})


def _add_tickets(
    company: Backdrop, draw: Draw, entries: dict[str, Entry], requester: str, times: AlarmTimes, causes: Causes
) -> dict[str, str]:
    """Add the ticket and those of other alarms, a decoy and a blocker. Return their ids by role."""
    world, staff = company.world, company.staff
    alarm = entries["service_alarm"]
    ticket = add_ticket(
        company,
        world.get(Person, requester),
        title=alarm.name,
        kind=FORM,
        desk="engineering",
        assignee=staff["Incident Coordinator"],
        subject=entries["service"].name,
        reference=alarm.reference,
        status="open",
        priority=draw.pick(("low", "normal", "high")),
        amount=None,
        opened=times.detected + draw.between(1, 3),
    )

    def add_trouble_ticket(subject: str, reference: str, opened: int) -> Ticket:
        """Add a ticket about another alarm, or about the same one."""
        return world.put_at_start(
            replace(
                ticket,
                id=company.ticket_ids.pop(0),
                title=f"Trouble: {subject}",
                subject=subject,
                reference=reference,
                requester=staff[f"{draw.pick(DEPARTMENTS)} Associate"],
                assignee=staff["Service Lead"],
                status=draw.pick(("open", "in_progress")),
                opened=opened,
            )
        )

    draw_soon_after = partial(draw.between, ticket.opened + 4, ticket.opened + 40)
    middle = add_trouble_ticket(entries["middle"].name, entries["middle_alarm"].reference, draw_soon_after())
    root = add_trouble_ticket(entries["root"].name, entries["root_alarm"].reference, draw_soon_after())
    again_alarm = alarm if causes.origin == "again" else entries["stranger_alarm"]
    symptom, old_symptom = draw.sample(("Customers are logged out", "Orders hang", "Pages stay blank", "Mails repeat"), 2)
    again = add_trouble_ticket(symptom, again_alarm.reference, draw_soon_after())
    decoy = add_trouble_ticket(old_symptom, f"ALM-{draw.between(1000, 9999)}", ticket.opened - 40 * DAY)
    blocker = world.select(Ticket, "made", kind="license_renewal")[0]
    world.put_at_start(replace(blocker, status="in_progress"))
    # If the alarms upstream belong to this incident, the ticket of the more distant service is the parent.
    farther, nearer = (root, middle) if entries["middle"].details["depends_on"] else (middle, root)
    tickets = {"ticket": ticket, "above": farther, "beside": nearer, "again": again, "decoy": decoy, "blocker": blocker}
    return {role: ticket_of_role.id for role, ticket_of_role in tickets.items()}


# -- judge -------------------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks have the order that the policy sets. `kit.endings` explains the arguments.

    In facts, `SIGNED_REQUEST` stands for the approved request, `ANSWER` with a person's id for that person's comment.
    """
    roles = case.roles
    ending = partial(endings.ending, world, case)
    if causes.client:
        facts: CitedFacts = ((roles["service"], "custody"),)
        return ending("cannot_be_done", "not_covered", decider="client", facts=facts, sets=("escalated_to", roles["care"]))
    with_fresh_check = partial(ending, must_be_fresh=(roles["self_check"],))
    if causes.origin == "probe":
        facts = ((roles["self_check"], "value"), (roles["probes"], "self_check"))
        return with_fresh_check("declined", "not_reproducible", decider="desk", facts=facts)
    if causes.origin in ("again", "above"):
        parent = roles[causes.origin]
        facts, sets = ((parent, "reference"), (parent, "status")), ("duplicate_of", parent)
        must_not_cite = tuple((roles[role], "reference") for role in ("again", "above", "beside") if role != causes.origin)
        return with_fresh_check(
            "duplicate", "same_request", decider="desk", facts=facts, sets=sets, must_not_cite=must_not_cite
        )
    if causes.origin == "outage":
        facts, sets = ((roles["supplier"], "outage_since"), (roles["entry"], "onset")), ("escalated_to", roles["manager"])
        must_not_cite = ((roles["other_supplier"], "outage_since"),)
        return with_fresh_check(
            "escalated", "beyond_authority", decider="supplier", facts=facts, sets=sets, must_not_cite=must_not_cite
        )
    with_fresh_figures = partial(
        ending, must_be_fresh=tuple(roles[name] for name in ("customers", "errors", "minutes", "self_check"))
    )
    figures = tuple((roles[figure], "value") for figure in FIGURES)
    request_facts = ((SIGNED_REQUEST, "status"), (SIGNED_REQUEST, "decided_by"))
    commander = f"{SECOND if causes.second else FIRST} Commander"
    if causes.recent and causes.runs:
        facts = ((roles["release"], "deployed"), (ANSWER + roles["on_call"], "build"), *request_facts)
        must_not_cite = tuple((roles[role], "deployed") for role in ("previous", "other_release"))
        signature = _request(world, roles, causes, ROLL_BACK)
        return with_fresh_figures(
            "completed",
            "all_checks_passed",
            decider=commander,
            facts=facts,
            must_not_cite=must_not_cite,
            signed=(signature,),
        )
    if _severity(causes) == "sev_3":
        return with_fresh_figures("on_hold", "not_due", decider="desk", facts=figures, sets=("waiting_on", roles["on_call"]))
    if _notice_due(causes) and causes.silent:
        facts, sets = (*figures, (ANSWER + roles["communications"], "wording")), ("waiting_on", roles["communications"])
        return with_fresh_figures("on_hold", "missing_information", decider="Communications Lead", facts=facts, sets=sets)
    facts = (*request_facts, (roles["errors"], "value"), (roles["customers"], "value"))
    return with_fresh_figures(
        "escalated", "above_limit", decider=commander, facts=facts, signed=(_request(world, roles, causes, DECLARE),)
    )


def _request(world: World, roles: dict[str, str], causes: Causes, act: str) -> Signature:
    """Return the request that must be signed, with its values. None means that a field must be left out."""
    notice = act == DECLARE and _notice_due(causes)
    required_values = (
        ("act", act),
        ("severity", _severity(causes)),
        ("watch", SECOND if causes.second else FIRST),
        ("deployment", roles["release"] if act == ROLL_BACK else None),
        ("wording", world.get(Mind, roles["communications"]).knows[roles["ticket"]]["wording"] if notice else None),
    )
    return Signature(FORM, required_values)


FAMILY = Family(
    name="incident_response",
    phrase="incident response",
    causes=Causes,
    actor="Incident Coordinator",
    hire=hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 98, 25: 137, 50: 174, 75: 219, 100: 261},
)
