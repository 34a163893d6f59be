"""The queue of a quarter close: tickets that are cases of other families, staged by those families."""

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
from companyos.families.kit.case import Case, Fact, Trouble, Value
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse
from companyos.families.kit.endings import Facts
from companyos.families.kit.family import Ending, Family
from companyos.families.kit.goals import Ended

# The core of the queue. All of these, or all but one, are in time, and most need a signature of the CFO.
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
EXTRA = "extra"
Allowed = tuple[tuple[str, str | None], ...]
LATE = 3  # this many are too late in every close
BY_PHRASE = {family.phrase: family for family in (*CORE.values(), *OTHERS)}

# Facts that let a case of the core succeed. Most cases have them, so that the number of signatures matters.
_FAIR: dict[str, dict[str, Value]] = {
    "vendor": {"duplicate": False, "insurance": "valid", "personal_data": False, "score": "high", "amount": "large"},
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
_HOW_OFTEN_FAIR = 0.75


class QueuePlace(Struct, frozen=True):
    """A place in the queue: its name, the family of its case, and whether it is in time."""

    slot: str
    family: Family
    standing: str  # in_time, too_late, not_due


def draw_queue(streams: Streams, overdue: bool) -> list[QueuePlace]:
    """Draw the places of the queue. `overdue`: whether the extra one is too late as well."""
    draw = streams.at("queue")
    extra, *rest = draw.shuffled(OTHERS)
    rest = rest[: draw.between(LATE + 1, len(rest))]
    not_due = draw.pick(list(CORE)) if draw.chance(0.5) else None
    places = [QueuePlace(slot, family, "not_due" if slot == not_due else "in_time") for slot, family in CORE.items()]
    places.append(QueuePlace(EXTRA, extra, "too_late" if overdue else "in_time"))
    places += [QueuePlace(f"late_{number}", family, "too_late") for number, family in enumerate(rest[:LATE], 1)]
    return places + [QueuePlace(f"early_{number}", family, "not_due") for number, family in enumerate(rest[LATE:], 1)]


def draw_due(streams: Streams, places: list[QueuePlace], opened: int, cut_off: int) -> dict[str, int]:
    """Draw the due times by slot. All differ, and each one is independent of the others' standing."""
    hours = streams.at("due").shuffled(range(len(places)))
    due = {}
    for place, hour in zip(places, hours, strict=True):
        draw = streams.at("due", place.slot, place.standing)
        due[place.slot] = _day(draw, place.standing, opened, cut_off) + (8 + hour) * HOUR
    return due


def _day(draw: Draw, standing: str, opened: int, cut_off: int) -> int:
    first, last = opened // DAY, cut_off // DAY
    days = {"too_late": (first - 12, first - 1), "in_time": (first + 2, last - 1), "not_due": (last + 1, last + 30)}
    return draw.between(*days[standing]) * DAY


def facts_of(streams: Streams, place: QueuePlace, causes: Struct) -> Any:
    """Return the causes of a queued case: drawn for its place, except those that the causes of the close declare."""
    own = _streams_of(streams, place)
    fair = _FAIR.get(place.slot, {})
    fixed = {fact: value for fact, value in fair.items() if own.at("fair", fact).chance(_HOW_OFTEN_FAIR)}
    named = [name for name in causes.__struct_fields__ if name.startswith(f"{place.slot}_")]
    inner = place.family.causes.__struct_fields__
    fixed |= {
        fact: getattr(causes, name)
        for name in named
        if (fact := name.removeprefix(f"{place.slot}_")) in inner and not isinstance(_mark(place.family, fact), Trouble)
    }
    return replace(place.family.draw_causes(own, own, doses_of(0.0)), **fixed)


def named_by(slot: str, name: str, odds: tuple[float, ...] = ()) -> Fact | Trouble:
    """Return the declaration of a core case's cause for the `Causes` class of the close."""
    mark = _mark(CORE[slot], name)
    if isinstance(mark, Trouble):
        return Trouble(
            dial=mark.dial, target=tuple(part if part.startswith("=") else f"{slot}.{part}" for part in mark.target)
        )
    return Fact(odds=odds, shown_in=tuple((kind, f"{slot}.{role}", field) for kind, role, field in mark.shown_in))


def _mark(family: Family, name: str) -> Fact | Trouble:
    return next(cause.annotation for cause in family.specs() if cause.name == name)


def _streams_of(streams: Streams, place: QueuePlace) -> Streams:
    return Streams(f"{streams.key}/{place.slot}/{place.family.name}")


def add_case(company: Backdrop, place: QueuePlace, causes: Struct, desk: str) -> Case:
    """Stage a case of the queue with its family's function and random streams of its own, on this desk."""
    world, streams = company.world, company.world.streams
    own = _streams_of(streams, place)
    world.streams = own
    if place.family.hire is not None:
        place.family.hire(company)
    case = place.family.stage(replace(company, draw=own.at("company")), own, facts_of(streams, place, causes))
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


def case_at(case: Case, slot: str) -> Case:
    """Return the case at a place of the queue, taken from the roles of the close."""
    roles = {name.removeprefix(f"{slot}."): role for name, role in case.roles.items() if name.startswith(f"{slot}.")}
    return Case(roles["ticket"], case.actor, "", roles)


def put_off(ticket_id: str, reason: str, facts: Facts, allowed: Allowed = ()) -> Ending:
    """Return the right ending of a ticket that is put on hold without work."""
    goals = (
        Ended(ticket_id, "on_hold", reason),
        Cites(ticket_id, facts),
        CitesNothingFalse(ticket_id, len(facts) + 4),
        CitesNoOther(ticket_id, facts),
    )
    return Ending(f"on_hold/{reason}", "on_hold", reason, "desk", goals, (), (("blocked_by", None), *allowed))


def item_name(ticket_id: str, family: Family) -> str:
    return f"{ticket_id}, {family.phrase}"


def due_text(minute: int) -> str:
    return f"due {stamp(minute)}"
