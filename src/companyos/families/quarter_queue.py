"""The queue of a quarter close: tickets that are cases of other families, staged by those families.

The register of DataHub has an entry for each ticket of the queue, an item, whose status says when the ticket is due.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from companyos.chaos import doses_of
from companyos.company import Entry, Ticket
from companyos.core.world import DAY, HOUR, Draw, Streams, World, stamp
from companyos.families import (
    access_request,
    bug_escalation,
    contract_renewal,
    data_deletion,
    employee_offboarding,
    expense_report,
    handbook_update,
    incident_response,
    refund_dispute,
    vendor_onboarding,
)
from companyos.families.kit.backdrop import Backdrop
from companyos.families.kit.case import Case, Fact, Mark, Trouble, Value
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse
from companyos.families.kit.endings import MAX_EXTRA_CITATIONS, CitedFacts
from companyos.families.kit.family import Ending, Family
from companyos.families.kit.goals import Ended

# The core of the queue. All of these, or all but one, are in time (see `QueuePlace`). They often need the CFO's signature.
CORE = {"vendor": vendor_onboarding.FAMILY, "expense": expense_report.FAMILY, "refund": refund_dispute.FAMILY}
# The rest of the queue is drawn from these; at most one is in time. Families that share metrics with the core are left out.
OTHERS = tuple(
    module.FAMILY
    for module in (
        access_request,
        bug_escalation,
        contract_renewal,
        data_deletion,
        employee_offboarding,
        handbook_update,
        incident_response,
    )
)
EXTRA = "extra"  # the slot of the only ticket from `OTHERS` that may be in time
Allowed = tuple[tuple[str, str | None], ...]  # changes of a ticket that are not damage: field and new value
ALWAYS_LATE = 3  # the number of tickets that are too late in every close
# By the name of the kind of work that items of the register show, such as "vendor onboarding".
FAMILY_BY_PHRASE = {family.phrase: family for family in (*CORE.values(), *OTHERS)}

# By slot: facts with which a case of the core is completed with the CFO's signature, unless one of its facts that the close
# declares (such as `vendor_conflict`) prevents it. Each fact is set with a high chance: otherwise there would rarely be more
# cases than the CFO signs for. The `Causes` classes of the families explain the facts.
_CFO_FACTS: dict[str, dict[str, Value]] = {
    "vendor": {"duplicate": "no", "insurance": "valid", "personal_data": False, "score": "over", "amount": "large"},
    "expense": {
        "repeated": False,
        "missing": False,
        "old": False,
        "gap": False,
        "hotel": "fair",
        "meal": "fair",
        "budget": "ample",
        "amount": "large",
    },
    "refund": {"duplicate": False, "paid": False, "rate": "low", "sent": True, "took": "late", "ours": True},
}
_CFO_FACT_CHANCE = 0.75


class QueuePlace(Struct, frozen=True):
    """A place in the queue."""

    slot: str  # its name, and the prefix of the roles of its case among those of the close, such as `vendor.ticket`
    family: Family
    # `too_late`: due before the ticket of the close was opened; `not_due`: due after the cut-off of the close; or `in_time`
    standing: str


def draw_queue(streams: Streams, overdue: bool) -> list[QueuePlace]:
    """Draw the places of the queue. `overdue`: whether the extra ticket is too late as well."""
    draw = streams.at("queue")
    extra_family, *other_families = draw.shuffled(OTHERS)
    other_families = other_families[: draw.between(ALWAYS_LATE + 1, len(other_families))]
    not_due = draw.pick(list(CORE)) if draw.chance(0.5) else None
    places = [QueuePlace(slot, family, "not_due" if slot == not_due else "in_time") for slot, family in CORE.items()]
    places.append(QueuePlace(EXTRA, extra_family, "too_late" if overdue else "in_time"))
    places += [
        QueuePlace(f"late_{number}", family, "too_late") for number, family in enumerate(other_families[:ALWAYS_LATE], 1)
    ]
    return places + [
        QueuePlace(f"early_{number}", family, "not_due") for number, family in enumerate(other_families[ALWAYS_LATE:], 1)
    ]


def draw_due(streams: Streams, places: list[QueuePlace], opened: int, cut_off: int) -> dict[str, int]:
    """Return a random due time for each slot. All differ, and none depends on the standing of another place."""
    hours = streams.at("due").shuffled(range(len(places)))
    due = {}
    for place, hour in zip(places, hours, strict=True):
        draw = streams.at("due", place.slot, place.standing)
        due[place.slot] = _due_day(draw, place.standing, opened, cut_off) + (8 + hour) * HOUR
    return due


def _due_day(draw: Draw, standing: str, opened: int, cut_off: int) -> int:
    """Return a random day on which a ticket with this standing is due, in minutes."""
    opening_day, cut_off_day = opened // DAY, cut_off // DAY
    days = {
        "too_late": (opening_day - 12, opening_day - 1),
        "in_time": (opening_day + 2, cut_off_day - 1),
        "not_due": (cut_off_day + 1, cut_off_day + 30),
    }
    return draw.between(*days[standing]) * DAY


def causes_at(streams: Streams, place: QueuePlace, close_causes: Struct) -> Any:
    """Return the causes of the case at a place, without troubles.

    They are drawn for the place, except facts that the `Causes` class of the close declares, such as `vendor_conflict`:
    these come from `close_causes`. (Troubles that it declares are added with the other troubles of the close.)
    """
    own_streams = _streams_of(streams, place)
    cfo_facts = _CFO_FACTS.get(place.slot, {})
    fixed = {fact: value for fact, value in cfo_facts.items() if own_streams.at("fair", fact).chance(_CFO_FACT_CHANCE)}
    declared = [name for name in close_causes.__struct_fields__ if name.startswith(f"{place.slot}_")]
    names_in_family = place.family.causes.__struct_fields__
    fixed |= {
        fact: getattr(close_causes, name)
        for name in declared
        if (fact := name.removeprefix(f"{place.slot}_")) in names_in_family
        and not isinstance(_declaration(place.family, fact), Trouble)
    }
    if place.family.rules is not None:
        fixed |= {"rulebook": "house"}  # the cases of a queue have the rules that beginners learn
    return replace(place.family.draw_causes(own_streams, own_streams, doses_of(0.0), "train"), **fixed)


def cause_of_case(slot: str, name: str, odds: tuple[float, ...] = ()) -> Fact | Trouble:
    """Return the declaration of a cause of a core case, for the `Causes` class of the close.

    A fact gets these `odds` instead of those that its family declares. Roles get the slot as a prefix.
    """
    declaration = _declaration(CORE[slot], name)
    if isinstance(declaration, Trouble):
        return Trouble(
            dial=declaration.dial,
            # A part is a role, or a literal text if it begins with "=".
            target=tuple(part if part.startswith("=") else f"{slot}.{part}" for part in declaration.target),
        )
    assert isinstance(declaration, Fact)
    return Fact(odds=odds, shown_in=tuple((kind, f"{slot}.{role}", field) for kind, role, field in declaration.shown_in))


def _declaration(family: Family, name: str) -> Mark:
    """Return how a family declares one of its causes."""
    return next(cause.annotation for cause in family.specs() if cause.name == name)


def _streams_of(streams: Streams, place: QueuePlace) -> Streams:
    """Return the random streams of the case at a place."""
    return Streams(f"{streams.key}/{place.slot}/{place.family.name}")


def add_case(company: Backdrop, place: QueuePlace, close_causes: Struct, desk: str) -> Case:
    """Let the family of a place stage its case, with separate random streams, and put the ticket on this desk."""
    world, streams = company.world, company.world.streams
    own_streams = _streams_of(streams, place)
    world.streams = own_streams
    if place.family.hire is not None:
        place.family.hire(company)
    causes = causes_at(streams, place, close_causes)
    case = place.family.stage(replace(company, draw=own_streams.at("company")), own_streams, causes)
    world.streams = streams
    world.put_at_start(replace(world.get(Ticket, case.ticket_id), desk=desk))
    _extend_insurance(world, case.roles["entry"])
    return case


def _extend_insurance(world: World, entry_id: str) -> None:
    """Make a valid insurance last longer. A close takes longer than one case, and waiting must not change the ending."""
    entry = world.get(Entry, entry_id)
    until = entry.details.get("insurance_until", "")
    if until > stamp(world.now):
        longer = f"{int(until[:4]) + 4}{until[4:]}"
        world.put_at_start(replace(entry, details=entry.details | {"insurance_until": longer}))


def case_at(world: World, case: Case, place: QueuePlace) -> Case:
    """Return the case at a place, from the roles of the close (`case`)."""
    slot = place.slot
    roles = {
        role.removeprefix(f"{slot}."): record_id for role, record_id in case.roles.items() if role.startswith(f"{slot}.")
    }
    draws = _streams_of(world.streams, place).key
    return Case(ticket_id=roles["ticket"], actor=case.actor, brief="", roles=roles, draws=draws)


def put_off(ticket_id: str, reason: str, facts: CitedFacts, allowed: Allowed = ()) -> Ending:
    """Return the right ending of a ticket that is put on hold without work. `facts` must be cited, and no others like them.

    `allowed` are changes of the ticket that are not damage.
    """
    goals = (
        Ended(ticket_id, "on_hold", reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + MAX_EXTRA_CITATIONS),
        CitesNoOther(ticket_id, facts),  # no rival of a cited fact, such as the due date of another ticket
    )
    return Ending(
        name=f"on_hold/{reason}",
        resolution="on_hold",
        reason=reason,
        decider="desk",
        goals=goals,
        milestones=(),
        allowed=(("blocked_by", None), *allowed),
    )


def item_name(ticket_id: str, family: Family) -> str:
    """Return the name of a ticket's item in the register, for example "T-4411, vendor onboarding"."""
    return f"{ticket_id}, {family.phrase}"


def due_text(minute: int) -> str:
    """Return the status of a ticket's item in the register, for example "due 2026-03-10 09:00"."""
    return f"due {stamp(minute)}"
