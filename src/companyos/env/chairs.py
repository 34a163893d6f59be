"""Chairs: the places of colleagues whom an agent can play, and the brief that such an agent gets.

A simulated colleague answers by a program. If an agent takes the chair, the agent plays that person instead (ADR 10).
"""

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
    """Return the handles of the colleagues whom an agent can play, by office: those who alone know what the case needs."""
    world, ticket_id = setting.world, setting.case.ticket_id
    return {person.role: person.id for person in world.all(Person) if ticket_id in world.get(Mind, person.id).knows}


def hand_over(setting: Setting, actors: Iterable[str]) -> dict[str, Scene]:
    """Return, by handle, the scene of each colleague whom an agent shall play. `actors` are handles or offices."""
    chosen = tuple(actors)
    if not chosen:
        return {}
    chairs = chairs_of(setting)
    for actor in chosen:
        if actor not in chairs and actor not in chairs.values():
            raise BadChoice("actor", actor, chairs)
    handles = [handle for office, handle in chairs.items() if office in chosen or handle in chosen]
    return {handle: Scene(_brief(setting, handle), setting.max_steps, setting.toolbox.names) for handle in handles}


def _brief(setting: Setting, handle: str) -> str:
    world, ticket = setting.world, setting.case.ticket_id
    person, mind = world.get(Person, handle), world.get(Mind, handle)
    knows = ", ".join(f"{name}={value}" for name, value in mind.knows[ticket].items())
    # The colleagues whose statements this person waits for, for example "@ann.lee has stated the region".
    awaited = " and ".join(f"{colleague} has stated {field}" for colleague, field in mind.after.get(ticket, {}).items())
    identity = {"name": person.name, "id": handle, "role": person.role, "department": person.department}
    after = _AFTER.format(those=awaited) if awaited else ""
    return one_line(_BRIEF).format(**identity, ticket=ticket, knows=knows, after=after)
