"""The tickets of a case: the agent's own one, an earlier one, a decoy and a blocker."""

from typing import Any

from msgspec.structs import replace

from companyos.company import Person, Ticket
from companyos.core.world import DAY, Draw
from companyos.families.kit.backdrop import Backdrop, add_ticket


def open_ticket(
    company: Backdrop,
    draw: Draw,
    requester: Person,
    *,
    title: str,
    kind: str,
    desk: str,
    assignee: str,
    subject: str,
    reference: str,
    amount: int | None = None,
    opened: int | None = None,
) -> Ticket:
    """Add the ticket that the agent works on. By default it was opened between 1 and 15 hours ago."""
    priority = draw.pick(("low", "normal", "high"))
    opened = company.world.now - draw.between(60, 900) if opened is None else opened
    return add_ticket(
        company,
        requester,
        title=title,
        kind=kind,
        desk=desk,
        assignee=assignee,
        subject=subject,
        reference=reference,
        status="open",
        priority=priority,
        amount=amount,
        opened=opened,
    )


def copy_ticket(company: Backdrop, ticket: Ticket, **changes: Any) -> Ticket:
    """Add a copy of a ticket, with a new id and these changes of other fields."""
    return company.world.put_at_start(replace(ticket, id=company.ticket_ids.pop(0), **changes))


def add_decoy_and_blocker(
    company: Backdrop, ticket: Ticket, earlier: Ticket, blocker_kind: str, **decoy_changes: Any
) -> dict[str, str]:
    """Add a decoy and a blocker to a case. Return the ids of its four tickets by role.

    `earlier` is the ticket that may ask for the same as `ticket`. The decoy is a copy of it that is 40 days older and has
    the changes in `decoy_changes`; the trouble "lookalikes" can make it resemble `ticket`. The blocker is the first ticket
    of the kind `blocker_kind`, in progress; the trouble "blocked" can let it block `ticket`.
    """
    decoy = copy_ticket(company, earlier, **decoy_changes, opened=earlier.opened - 40 * DAY)
    blocker = start_blocker(company, blocker_kind)
    return {"ticket": ticket.id, "earlier": earlier.id, "decoy": decoy.id, "blocker": blocker.id}


def start_blocker(company: Backdrop, kind: str) -> Ticket:
    """Set the first ticket of this kind to be in progress, so that it can block another, and return it."""
    blocker = company.world.select(Ticket, "made", kind=kind)[0]
    return company.world.put_at_start(replace(blocker, status="in_progress"))
