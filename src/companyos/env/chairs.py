"""Chairs: colleagues whose part an agent can play from outside, and the brief that such an agent gets."""

from collections.abc import Iterable

from companyos.company import Mind, Person
from companyos.core.errors import BadChoice
from companyos.env.observations import Scene
from companyos.families.kit.backdrop import one_line
from companyos.families.kit.family import Setting

_BRIEF = """
    You are {name} ({id}), {role}, {department}. Colleagues write to you: ticketdesk.wait shows what comes in, read_inbox
    all of it. Of {ticket} you alone know: {knows}. Asked about it there, state it by name in a comment on {ticket} to
    whoever asks{after}. Requests for your signature you decide by the policies. All else is not yours to change."""
_AFTER = ", but not before {those} there; until then say who comes first"


def chairs_of(setting: Setting) -> dict[str, str]:
    """Return the people who can be played from outside, by office: those who alone know something that the case needs."""
    world, ticket_id = setting.world, setting.case.ticket_id
    return {person.role: person.id for person in world.all(Person) if ticket_id in world.get(Mind, person.id).knows}


def hand_over(setting: Setting, actors: Iterable[str]) -> dict[str, Scene]:
    """Return, by handle, the scene for each person to be played from outside. `actors` are handles or offices."""
    wanted = tuple(actors)
    if not wanted:
        return {}
    offered = chairs_of(setting)
    for actor in wanted:
        if actor not in offered and actor not in offered.values():
            raise BadChoice("actor", actor, offered)
    taken = [handle for role, handle in offered.items() if role in wanted or handle in wanted]
    return {handle: Scene(_brief(setting, handle), setting.max_steps, setting.toolbox.names) for handle in taken}


def _brief(setting: Setting, handle: str) -> str:
    world, ticket = setting.world, setting.case.ticket_id
    person, mind = world.get(Person, handle), world.get(Mind, handle)
    knows = ", ".join(f"{name}={value}" for name, value in mind.knows[ticket].items())
    awaited = " and ".join(f"{who} has stated {what}" for who, what in mind.after.get(ticket, {}).items())
    who = {"name": person.name, "id": handle, "role": person.role, "department": person.department}
    return one_line(_BRIEF).format(**who, ticket=ticket, knows=knows, after=_AFTER.format(those=awaited) if awaited else "")
