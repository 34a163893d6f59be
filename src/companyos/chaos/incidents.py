"""Injectors whose trouble comes as a scheduled event during the episode, and the functions that handle these events.

Every episode schedules the same events; the records that an injector changes decide whether an event does anything. So
twins (tasks that differ in one cause) have the same schedule. One of these records is the `Season`: the circumstances that
all people of the company share. `letter` stands for the dial in task ids.
"""

import re

from msgspec.structs import replace

from companyos.chaos.injector import Injector, Level
from companyos.company import TOOLBOX, Draft, Mind, Policy, Season
from companyos.company.people import SEASON, post
from companyos.core.calls import Call
from companyos.core.world import Draw, World, on


class Noise(Injector):
    """Irrelevant bulletins arrive; nothing is changed; the awaited messages come nevertheless."""

    dial = "noise"
    letter = "n"
    levels = ("quiet", "some", "much")
    level_chances = (0.75, 0.4)
    footprint = (("Season", "chatter"),)

    def strike(self, world: World, target: str, level: Level, draw: Draw) -> None:
        world.put_at_start(replace(world.get(Season, target), chatter={"some": 2, "much": 4}[str(level)]))


class Overload(Injector):
    """Approvers have long queues and say so; requests are decided later; the agent waits longer."""

    dial = "overload"
    letter = "v"
    levels = ("no", "busy", "swamped")
    level_chances = (0.75, 0.4)
    footprint = (("Season", "backlog"),)

    def strike(self, world: World, target: str, level: Level, draw: Draw) -> None:
        # An approver needs half an hour for each request in the queue. The longest queue takes less than a day, so that
        # fresh figures do not always become stale while a request waits.
        requests = draw.between(6, 12) if level == "busy" else draw.between(24, 36)
        world.put_at_start(replace(world.get(Season, target), backlog=requests))


class Interference(Injector):
    """A colleague changes the ticket; the agent's next write is refused; reading the ticket again allows it."""

    dial = "interference"
    letter = "i"
    footprint = (("Mind", "meddles"),)

    def strike(self, world: World, target: str, level: Level, draw: Draw) -> None:
        person_id, ticket_id = target.split("/")
        mind = world.get(Mind, person_id)
        world.put_at_start(replace(mind, meddles={ticket_id: draw.pick(("low", "normal", "high"))}))


class PolicyDrift(Injector):
    """A policy gets a new version; the old one stays on file; tickets opened before follow the old one."""

    dial = "policy_drift"
    letter = "p"
    footprint = (("Draft", "terms"),)

    def strike(self, world: World, target: str, level: Level, draw: Draw) -> None:
        old = world.get(Policy, target).terms
        world.put_at_start(replace(world.get(Draft, target), terms=drifted(old, draw)))


def drifted(terms: dict[str, int], draw: Draw) -> dict[str, int]:
    """Return other numbers for all terms of a policy, each moved by about a third.

    Numbers up to 100 stay in that range, since they may be percentages; larger ones stay above it. Terms keep their order,
    because a policy may say "from 90 on proven, from 60 on in doubt".
    """
    small = sorted({value for value in terms.values() if value <= _HUNDRED})
    large = sorted({value for value in terms.values() if value > _HUNDRED})
    new_values: dict[int, int] = {}
    for values in (small, large):
        sign, previous = draw.pick([sign for sign in (-1, 1) if not _crosses_hundred(values, sign)]), -1
        for value in values:
            previous = new_values[value] = max(_moved(value, sign), previous + 1)
    return {name: new_values[value] for name, value in terms.items()}


_HUNDRED = 100


def _moved(value: int, sign: int) -> int:
    """Return a value that is about a third larger (`sign` 1) or smaller (`sign` -1)."""
    return value + sign * (1 + value // 3)


def _crosses_hundred(values: list[int], sign: int) -> bool:
    """Tell whether a value would move from one side of 100 to the other."""
    return any((_moved(value, sign) > _HUNDRED) != (value > _HUNDRED) for value in values)


@on("chatter")
def chatter(world: World, number: str) -> None:
    """Send the irrelevant bulletin with this number, counted from 0, unless the episode has fewer bulletins."""
    if int(number) >= world.get(Season, SEASON).chatter:
        return
    text = world.streams.at("chatter", number).pick(_NEWS)
    for person_id in world.seats:  # the people whom agents play
        post(world, to=person_id, sender="newsroom", topic="bulletin", about=None, text=text)


_NEWS = (
    "The lift in the north wing is out of order until Thursday.",
    "Reminder: the survey on the canteen closes this week.",
    "Parking spaces on level 2 are taken by a film crew.",
    "A warm welcome to our new colleagues in Research!",
    "The printer on the third floor has been replaced.",
    "Lost: one grey scarf. Found: two umbrellas.",
)


@on("meddle")
def meddle(world: World, person_id: str) -> None:
    """Let a person set the priority of a ticket that somebody else works on, if their `Mind` record says so."""
    for ticket_id, priority in world.get(Mind, person_id).meddles.items():
        change = {"ticket_id": ticket_id, "field": "priority", "value": priority}
        TOOLBOX.call(world, person_id, Call("ticketdesk", "update_ticket", change))


_NUMBER = re.compile(r"(?<![\w,])\d+(?!\w|,\d)")  # a whole number: not the 3 of sev_3, not the 10 of 10,000


@on("policy_change")
def policy_change(world: World, policy_id: str) -> None:
    """Replace a policy by its next version, if there is one, and send a bulletin about it."""
    draft = world.get(Draft, policy_id)
    if not draft.terms:
        return
    old = world.get(Policy, policy_id)
    world.put(replace(old, status="superseded"))
    new_numbers = {str(value): str(draft.terms[name]) for name, value in old.terms.items()}
    new_text = _NUMBER.sub(lambda number: new_numbers.get(number[0], number[0]), old.text)
    world.put(replace(old, id=draft.successor, since=world.now, terms=draft.terms, text=new_text))
    text = f"{old.title} has a new version, {draft.successor}. Tickets that were opened before go by {old.id}."
    for person_id in world.seats:
        post(world, to=person_id, sender="policy-office", topic="bulletin", about=draft.successor, text=text)
