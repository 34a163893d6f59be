"""Prepares the company of a task: the shared company of its seed, and what belongs to the task alone."""

from collections.abc import Callable

from companyos.company import KINDS, Message
from companyos.company.people import inbox_counter, seen_counter
from companyos.core.world import DAY, Streams, World
from companyos.families.kit.backdrop import Backdrop, draw_firms
from companyos.families.kit.company import SharedCompany
from companyos.families.kit.ids import CASE, record_ids

_IDS = 40  # how many ids of tickets and of register entries there are for a case
_POLICY_IDS = 80


def prepare_company(
    company: SharedCompany, streams: Streams, actor: str, hire: Callable[[Backdrop], None] | None = None
) -> Backdrop:
    """Return a world on top of a shared company, ready for a case.

    `actor` is the job title of the person whom the agent plays; everybody else is simulated. `hire` adds the specialists
    of a family, who may include the actor.
    """
    draw = streams.at("company")
    world = World(streams, company.day * DAY + draw.between(9 * 60, 13 * 60), KINDS, company.tables)
    backdrop = Backdrop(
        world=world,
        draw=draw,
        split=company.split,
        staff=dict(company.staff),
        firms=draw_firms(streams, company.split, company.free_trades),
        ticket_ids=record_ids("T", streams.at("tickets"), CASE, _IDS),
        entry_ids=record_ids("E", streams.at("entries"), CASE, _IDS),
        policy_ids=record_ids("P", streams.at("policies"), CASE, _POLICY_IDS),
        free_trades=company.free_trades,
    )
    if hire is not None:
        hire(backdrop)
    world.seats = (backdrop.staff[actor],)  # the people whom agents play
    for name in ("message", "comment"):
        world.set_counter(name, draw.between(1000, 9000))
    _add_old_bulletins(backdrop)
    world.set_counter("approval", draw.between(1200, 8000))
    return backdrop


_BULLETINS = (
    "The canteen is closed on Friday.",
    "Please lock your screens when you leave your desk.",
    "The quarterly all-hands moves to the large hall.",
    "New badges can be picked up at the reception.",
)


def _add_old_bulletins(company: Backdrop) -> None:
    """Put two old bulletins into the inbox of the person whom the agent plays, marked as seen."""
    world = company.world
    for person_id in world.seats:
        for age, text in zip((2800, 300), company.draw.sample(_BULLETINS, 2), strict=True):  # ages in minutes
            world.put_at_start(
                Message(
                    id=f"M-{world.count_up('message')}",
                    to=person_id,
                    sender=company.staff["HR Lead"],
                    at=world.now - age - company.draw.between(0, 200),
                    topic="bulletin",
                    about=None,
                    text=text,
                )
            )
        world.set_counter(inbox_counter(person_id), 2)
        world.set_counter(seen_counter(person_id), 2)
