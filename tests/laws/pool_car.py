"""Pool car: may this trip have the car that it asks for?

A complete family in one file, as small as the laws allow. The walk-through in CONTRIBUTING.md quotes it, and
`test_pool_car.py` shows that every law covers it. What makes it hard: the agent has to compare dates and sums from several
records, and only the requester knows where the trip goes.
"""

from functools import partial
from typing import Annotated, Literal

from msgspec.structs import replace

from companyos.company import Entry, Person
from companyos.core.calls import Procedure
from companyos.core.world import DAY, Draw, Streams, World, stamp
from companyos.families.kit import casework, endings, moves, working
from companyos.families.kit.backdrop import (
    DESK_RULES,
    Backdrop,
    add_entry,
    add_metric,
    add_person,
    add_policy,
    add_ticket,
    tell,
)
from companyos.families.kit.case import Case, Fact, Trouble
from companyos.families.kit.casework import Decision
from companyos.families.kit.endings import CitedFacts
from companyos.families.kit.everyday import EverydayTroubles
from companyos.families.kit.family import Ending, EpisodeSoFar, ExpertStyle, Family
from companyos.families.kit.goals import ANSWER
from companyos.families.kit.tickets import add_decoy_and_blocker, copy_ticket
from companyos.families.kit.working import compare

# -- causes ------------------------------------------------------------------------------------------------------------


class Causes(EverydayTroubles, frozen=True):
    """The hidden causes of a case: facts about this trip, and troubles. See `kit.case`."""

    duplicate: Annotated[
        bool,
        Fact(odds=(0.85, 0.15), shown_in=(("Ticket", "earlier", "reference"),)),
        "another ticket asks for the same trip",
    ]
    licence: Annotated[
        Literal["valid", "ends"],
        Fact(odds=(0.8, 0.2), shown_in=(("Entry", "entry", "licence_until"),)),
        "whether the driver's licence is valid until the car is back",
    ]
    reach: Annotated[
        Literal["enough", "short"],
        Fact(odds=(0.65, 0.35), shown_in=(("Source", "range", "value"), ("Metric", "range", "value"))),
        "whether the kilometres until the car's next service suffice for the trip and the reserve",
    ]
    abroad: Annotated[bool, Fact(odds=(0.4, 0.6), shown_in=(("Mind", "requester", "knows"),)), "the trip leaves the country"]
    insured: Annotated[
        Literal["home", "europe"], Fact(odds=(0.5, 0.5), shown_in=(("Entry", "car", "insured"),)), "where the car is insured"
    ]
    lookalike: Annotated[bool, Trouble(dial="lookalikes", target=("ticket", "decoy"))]
    priority_missing: Annotated[bool, Trouble(dial="missing_fields", target=("ticket", "=priority"))]
    block: Annotated[Literal["no", "leftover", "waiting"], Trouble(dial="blocked", target=("ticket", "blocker"))]
    range_stale: Annotated[bool, Trouble(dial="stale", target=("range",))]
    refresh: Annotated[Literal["quick", "slow", "fails", "fails_twice"], Trouble(dial="refresh", target=("range",))]


# -- stage -------------------------------------------------------------------------------------------------------------

POLICIES = {
    "Pool cars: order of checks": """
        The first that applies decides. 1: another ticket, not cancelled, has the same reference: duplicate, same_request;
        set duplicate_of. 2: the trip's licence_until lies before its back_on: on_hold, document_expired; set waiting_on to
        the requester. 3: the fresh value of the car's range_metric is below the trip's km and the reserve together:
        declined, below_minimum. 4: the requester, asked in a comment on the ticket, states destination abroad, and the car
        is insured home: cannot_be_done, not_covered. 5: else completed, all_checks_passed.""",
    "Pool cars: verification": """
        Every ticket is verified before it is closed: set verified to the register's trip that carries the ticket's
        reference. A ticket needs a priority first; if it has none, choose any. Clear blocked_by once the blocking ticket is
        done or cancelled; until then ask its assignee, in a comment to them on your own ticket.""",
    "Pool cars: evidence": """
        Cite record, field and value as they are now. same_request: the other ticket's reference and status.
        document_expired: the trip's licence_until and back_on. below_minimum: the metric's value, the trip's km and the
        policy's reserve. not_covered: the destination in the requester's comment, and the car's insured. all_checks_passed:
        the metric's value and the car's insured. Four more, true and unrelated (desk rules), are fine.""",
    "Pool cars: desk rules": DESK_RULES,
}
RESERVE = """A car keeps {reserve} kilometres in reserve beyond its trip. A measurement whose age_days is above its
    max_age_days does not count: have it refreshed and read it again."""
BRIEF = "{ticket} asks for a pool car. Please take it to its end as the policies say, citing what it rests on. {lead}"


def stage(company: Backdrop, streams: Streams, causes: Causes) -> Case:
    """Add the case to the company, on the fleet desk, from its facts and without troubles."""
    world, draw, staff = company.world, streams.at("case"), company.staff
    requester = world.get(Person, staff["Research Associate"])
    reserve, km = draw.pick((100, 150, 200)), draw.between(20, 90) * 10
    policy = add_policy(company, "Pool cars: reserve", RESERVE.format(reserve=reserve), {"reserve": reserve})
    for title, text in POLICIES.items():
        add_policy(company, title, text)
    car, trip = _car(company, causes, km + reserve), _trip(company, draw, km, causes.licence)
    trip = world.put_at_start(replace(trip, details=trip.details | {"car": car.id}))
    _trip(company, draw, km + 70, "valid")  # another person's trip
    ticket = add_ticket(
        company,
        requester,
        title="Pool car for a trip",
        kind="pool_car",
        desk="fleet",
        assignee=staff["Fleet Clerk"],
        subject="Pool car",
        reference=trip.reference,
        status="open",
        priority="normal",
        amount=None,
        opened=world.now - draw.between(60, 900),
    )
    reference = trip.reference if causes.duplicate else "TRIP-1001"
    opened, lead = ticket.opened - 3 * DAY, world.get(Person, staff["Fleet Lead"])
    earlier = copy_ticket(company, ticket, opened=opened, assignee=lead.id, reference=reference)
    tell(world, requester.id, ticket.id, {"destination": "abroad" if causes.abroad else "home"})
    roles = add_decoy_and_blocker(company, ticket, earlier, blocker_kind="vendor_check", reference="TRIP-1002") | {
        "entry": trip.id
    }
    roles |= {"car": car.id, "range": car.details["range_metric"], "policy": policy.id, "requester": requester.id}
    roles["form"] = "expense_report"  # this family has no form, but the everyday troubles need one
    brief = BRIEF.format(ticket=ticket.id, lead=lead.name)
    return Case(ticket.id, staff["Fleet Clerk"], brief, roles)


def _hire(company: Backdrop) -> None:
    add_person(company, "Fleet Lead", "Operations", "fleet", manager="Operations Manager")
    add_person(company, "Fleet Clerk", "Operations", "fleet", manager="Fleet Lead")


def _car(company: Backdrop, causes: Causes, needed: int) -> Entry:
    band = {"enough": (needed, 3000), "short": (50, needed - 1)}[causes.reach]
    left = company.world.streams.at("range", causes.reach).between(*band)
    metric = add_metric(company, "range_left.pool_car", "Kilometres before service", "km", left, (50, 3000))
    details = {"insured": causes.insured, "range_metric": metric.id}
    return add_entry(company, "car", "Pool car", "CAR-7", "in use", details)


def _trip(company: Backdrop, draw: Draw, km: int, licence: str) -> Entry:
    world, back = company.world, company.world.now + draw.between(3, 12) * DAY
    ends = back + draw.between(20, 900) * DAY if licence == "valid" else back - draw.between(1, 40) * DAY
    details = {"car": "", "km": str(km), "back_on": stamp(back)[:10], "licence_until": stamp(ends)[:10]}
    reference = f"TRIP-{draw.between(2000, 9999)}"
    return world.put_at_start(Entry(company.entry_ids.pop(0), "trip", "Business trip", reference, "planned", details))


# -- what is right -----------------------------------------------------------------------------------------------------


def judge(world: World, case: Case, causes: Causes) -> Ending:
    """Return the right ending. The checks on the causes have the order that the policy sets."""
    ending = partial(endings.ending, world, case)
    earlier, trip, car, range_left, requester = (
        case.roles[name] for name in ("earlier", "entry", "car", "range", "requester")
    )
    if causes.duplicate:
        facts: CitedFacts = ((earlier, "reference"), (earlier, "status"))
        return ending("duplicate", "same_request", decider="desk", facts=facts, sets=("duplicate_of", earlier))
    if causes.licence == "ends":
        facts = ((trip, "licence_until"), (trip, "back_on"))
        return ending("on_hold", "document_expired", decider="desk", facts=facts, sets=("waiting_on", requester))
    if causes.reach == "short":
        facts = ((range_left, "value"), (trip, "km"), (case.roles["policy"], "reserve"))
        return ending("declined", "below_minimum", "desk", facts, must_be_fresh=(range_left,))
    if causes.abroad and causes.insured == "home":
        facts = ((ANSWER + requester, "destination"), (car, "insured"))
        return ending("cannot_be_done", "not_covered", "desk", facts, must_be_fresh=(range_left,))
    facts = ((range_left, "value"), (car, "insured"))
    return ending("completed", "all_checks_passed", "desk", facts, must_be_fresh=(range_left,))


# -- expert ------------------------------------------------------------------------------------------------------------


def expert(so_far: EpisodeSoFar, style: ExpertStyle) -> Procedure:
    """Work on the ticket as the policies demand, from the start or after earlier turns of somebody else."""
    ticket, policies, _ = yield from casework.begin(so_far, style, "pool")
    yield from moves.read("datahub.read_policy", policy_id=policies["Pool cars: order of checks"])
    [listed] = yield from moves.search_entries(ticket["reference"])
    trip = yield from moves.read("datahub.get_entry", entry_id=listed["id"])
    yield from casework.prepare(ticket, trip["id"], style)
    decision = yield from _decide(ticket, trip, policies)
    yield from casework.finish(ticket, decision, style, (ticket, "reference"))


def _decide(ticket: moves.Shown, trip: moves.Shown, policies: dict[str, str]) -> moves.Move[Decision]:
    """Make the checks in the order that the policy sets. The first one that applies decides."""
    duplicate = yield from casework.mark_duplicate(ticket, aloud=True)
    if duplicate is not None:
        return duplicate
    if (yield from compare(("licence", trip["licence_until"]), "<", ("back", trip["back_on"]), "ends before", "valid")):
        yield from moves.set_field(ticket["id"], "waiting_on", ticket["requester"])
        return "on_hold", "document_expired", moves.cite((trip, "licence_until"), (trip, "back_on"))
    car = yield from moves.read("datahub.get_entry", entry_id=trip["car"])
    rule = yield from moves.read("datahub.read_policy", policy_id=policies["Pool cars: reserve"])
    left = yield from moves.fresh_reading(car["range_metric"])
    needed = yield from working.compute(int(trip["km"]), "+", rule["reserve"])
    if (yield from compare(("range", left["value"]), "<", needed, "too short", "enough")):
        return "declined", "below_minimum", moves.cite((left, "value"), (trip, "km"), (rule, "reserve"))
    answer = yield from moves.ask_person(ticket["id"], ticket["requester"], "destination", "Where does the trip go?")
    not_insured = answer["destination"] == "abroad" and car["insured"] == "home"
    where = (answer["destination"], "insured", car["insured"])
    if (yield from working.check(where, not_insured, "not covered", "covered")):
        return "cannot_be_done", "not_covered", moves.cite((answer, "destination"), (car, "insured"))
    return "completed", "all_checks_passed", moves.cite((left, "value"), (car, "insured"))


FAMILY = Family(
    name="pool_car",
    phrase="pool car",
    causes=Causes,
    actor="Fleet Clerk",
    hire=_hire,
    stage=stage,
    judge=judge,
    procedure=expert,
    max_steps={0: 28, 25: 49, 50: 63, 75: 76, 100: 91},
)
