"""The app TicketDesk: tickets, comments, the inbox and the list of one's changes."""

from operator import itemgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from companyos.company.apps.approvalflow import Approval
from companyos.company.apps.datahub import Entry, Query
from companyos.company.apps.tool import App, PageNumber, Prose, Ref, Whole, page_of, paged
from companyos.company.people import (
    ANY_INBOX,
    Message,
    Person,
    PersonId,
    has_news,
    inbox,
    inbox_counter,
    mark_seen,
    post,
    seen_counter,
)
from companyos.core.errors import Refused
from companyos.core.world import HOUR, Change, Minute, Record, World, row, rows, stamp, view

app = App("ticketdesk")

Status = Literal["open", "in_progress", "done", "cancelled"]
Resolution = Literal["completed", "declined", "on_hold", "escalated", "duplicate", "cannot_be_done"]
Reason = Literal[
    "above_limit",
    "all_checks_passed",
    "already_done",
    "below_minimum",
    "beyond_authority",
    "conflict_of_interest",
    "contradicts_policy",
    "document_expired",
    "missing_information",
    "no_budget",
    "not_covered",
    "not_due",
    "not_reproducible",
    "same_request",
    "too_late",
    "unused",
]
Scalar = str | Whole | float | bool | None


class Citation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A fact: this field of this record has this value now."""

    record: Annotated[
        str,
        Meta(max_length=80, description="the record's id: a ticket's, entry's, policy's, comment's … or a metric's name"),
    ]
    field: Annotated[str, Meta(max_length=80, description="the field's name, as in a reply")]
    value: Scalar


class Ticket(Record, frozen=True):
    """A piece of work that somebody asked for."""

    pattern = r"T-\d+"
    searched = ("title", "subject", "reference")
    dated = "opened"

    title: str
    kind: str
    desk: str
    status: Status
    priority: str | None
    requester: str
    assignee: str | None
    subject: str  # the person, firm or thing that it is about
    reference: str  # the number that identifies the subject among others of the same name
    amount: int | None
    cost_center: str | None
    opened: Minute
    blocked_by: str | None
    verified: str | None  # the register entry that the subject was matched to
    approval: str | None
    duplicate_of: str | None
    escalated_to: str | None
    waiting_on: str | None
    resolution: Resolution | None = None
    reason: Reason | None = None
    evidence: tuple[Citation, ...] = ()
    note: str = ""


class Comment(Record, frozen=True):
    """A remark on a ticket, for one reader or for all. What it states by name can be cited."""

    pattern = r"C-\d+"
    spread = "facts"

    ticket_id: str
    author: str
    at: Minute
    to: str | None
    text: str
    facts: dict[str, str]


TicketId = Annotated[str, Meta(description="a ticket's id, like T-4821"), Ref(Ticket)]
Field = Literal[
    "priority",
    "status",
    "assignee",
    "cost_center",
    "blocked_by",
    "verified",
    "approval",
    "duplicate_of",
    "escalated_to",
    "waiting_on",
]
Stated = Annotated[
    dict[Annotated[str, Meta(max_length=40)], Annotated[str, Meta(max_length=80)]],
    Meta(max_length=4, description="what the comment states, by name, so that it can be cited"),
]
VALUES = (
    "the value; for priority: low, normal or high; for status: open or in_progress; for all others an id or code from a "
    "reply; an empty string clears the field"
)
DeskName = Annotated[str, Meta(max_length=40, description="only this desk's")]
FINISHED: tuple[Status, ...] = ("done", "cancelled")
LIST_FIELDS = ("kind", "status", "subject", "reference")  # what a list shows of a ticket, in addition to its id
CHANGED_MEANWHILE = "changed_meanwhile"  # refuses a write after a change that the writer has not seen
MADE = "made"  # `my_changes` lists a new record once, with this text in place of a field's name
MESSAGE_FIELDS = ("at", "sender", "topic", "about", "text")  # what the inbox shows of a message, in addition to its id


@app.tool(minutes=2, steady=True)
def list_tickets(
    world: World,
    status: Status | None = None,
    desk: DeskName | None = None,
    page: PageNumber = 1,
) -> dict[str, Any]:
    """List tickets, newest first, ten a page, optionally of one status or desk."""
    filters = {"status": status, "desk": desk}
    chosen = {field: value for field, value in filters.items() if value is not None}
    return paged(world.select(Ticket, "newest", **chosen), page, LIST_FIELDS)


@app.tool(minutes=2, steady=True)
def search_tickets(
    world: World,
    query: Query,
    page: PageNumber = 1,
) -> dict[str, Any]:
    """Search tickets by words in id, title, subject or reference, newest first, ten a page."""
    return paged(world.search(Ticket, query, "newest"), page, LIST_FIELDS)


@app.tool(minutes=2)
def get_ticket(world: World, ticket_id: TicketId) -> Ticket:
    """Read one ticket with all its fields."""
    ticket, unseen_counter = world.find(Ticket, ticket_id), unseen_edits(ticket_id, world.actor)
    if world.counter(unseen_counter):
        world.set_counter(unseen_counter, 0)
    return ticket


@app.tool(minutes=2, steady=True)
def get_history(world: World, ticket_id: TicketId, page: PageNumber = 1) -> dict[str, Any]:
    """Read a ticket's comments and changes, newest first, ten a page."""
    world.find(Ticket, ticket_id)
    events: list[_Event] = [(remark.at, remark, "") for remark in world.select(Comment, "made", ticket_id=ticket_id)]
    changes = [change for change in world.journal if change.after.id == ticket_id]
    events += [(change.at, change, field) for change in changes for field in change.names]
    events.reverse()  # so that of two in one minute the later comes first
    events.sort(key=itemgetter(0), reverse=True)
    return page_of(events, page, lambda shown: [_event_row(event, field) for _, event, field in shown])


@app.tool(minutes=2, writes=True)
def update_ticket(
    world: World,
    ticket_id: TicketId,
    field: Field,
    value: Annotated[str, Meta(max_length=80, description=VALUES)],
    force: Annotated[bool, Meta(description="write over what somebody else changed since you read the ticket")] = False,
) -> dict[str, Any]:
    """Set one field of a ticket of your desk.
    Refused on other desks' and finished tickets, for a value the field cannot hold, when somebody else has changed the
    ticket since you read it, and where order matters: verify (with a matching register entry, once the priority is set)
    before linking an approval; clear a block once it is over.
    """
    return row(write(world, with_field(world, ticket_id, field, value, force)), (field,))


@app.tool(minutes=4, writes=True)
def comment(
    world: World, ticket_id: TicketId, text: Prose, to: PersonId | None = None, facts: Stated | None = None
) -> Comment:
    """Comment on a ticket; `to` puts it in that person's inbox, who answers in working hours. It cannot be taken back."""
    ticket = world.find(Ticket, ticket_id)
    if to is not None:
        world.find(Person, to)
    if to == world.actor:
        raise Refused("to_yourself", "a comment to yourself reaches nobody")
    if facts and (own_fields := sorted(set(facts) & set(Comment.__struct_fields__))):
        raise Refused("bad_value", f"a comment's own field cannot be stated: {', '.join(own_fields)}")
    remark = world.put(Comment(f"C-{world.count_up('comment')}", ticket.id, world.actor, world.now, to, text, facts or {}))
    if to is not None:
        post(world, to, sender=world.actor, topic="comment", about=ticket.id, text=f"{remark.id}: {text}")
    return remark


@app.tool(minutes=0, writes=True, ends=True)
def resolve_ticket(
    world: World,
    ticket_id: TicketId,
    resolution: Resolution,
    reason: Reason,
    evidence: Annotated[list[Citation], Meta(max_length=12, description="the facts that decided it, as they stand now")],
    note: Prose = "",
) -> dict[str, Any]:
    """Close a ticket of your desk for good, saying how it ended and on what grounds.
    Refused while it is blocked, and when somebody else has changed it since you read it. Cannot be undone.
    """
    ticket = _writable(world, ticket_id)
    if ticket.blocked_by:
        raise Refused("blocked", f"{ticket_id} is blocked by {ticket.blocked_by}; what is blocked cannot be closed")
    closed = replace(ticket, status="done", resolution=resolution, reason=reason, evidence=tuple(evidence), note=note)
    return row(write(world, closed), ("status", "resolution", "reason"))


@app.tool(minutes=1, steady=True)
def my_changes(world: World, page: PageNumber = 1) -> dict[str, Any]:
    """List your own writes, newest first, ten a page, each with its value before and after."""
    me = world.actor
    written = [
        (change, field)
        for change in reversed(world.journal)
        if change.actor == me and type(change.after) is not Message
        for field in _listed_fields(change)
    ]
    return page_of(
        written, page, lambda shown: [_change_row(change, field, record=change.after.id) for change, field in shown]
    )


@app.tool(minutes=1, steady=True)
def read_inbox(world: World, page: PageNumber = 1) -> dict[str, Any]:
    """Read your inbox: bulletins, answers and decisions, newest first, ten a page."""
    shown = paged(inbox(world, world.actor)[::-1], page, MESSAGE_FIELDS)
    mark_seen(world)
    return shown


@app.tool(minutes=0, steady=True)
def wait(
    world: World, hours: Annotated[int, Meta(ge=1, le=72, description="how long at most, up to 72; 8 unless said")] = 8
) -> dict[str, Any]:
    """Let time pass until something is in your inbox that you have not seen, or the hours are over. Shows it."""
    me, received, seen = world.actor, inbox_counter(world.actor), world.counter(seen_counter(world.actor))
    if len(world.seats) < 2:
        world.advance(hours * HOUR, stop_counter=received, stop_above=seen)
    elif not has_news(world, me):
        # If agents play several people, a message to any of them ends the wait.
        world.advance(hours * HOUR, stop_counter=ANY_INBOX, stop_above=world.counter(ANY_INBOX))
    unseen = world.counter(received) - seen
    mark_seen(world)
    return {"arrived": rows(inbox(world, me)[-unseen:], MESSAGE_FIELDS) if unseen else []}


_Event = tuple[int, Comment | Change, str]  # minute; a comment, or a change and the field that it changed


def _event_row(event: Comment | Change, field: str) -> dict[str, Any]:
    """Return one row of a ticket's history."""
    return view(event) if isinstance(event, Comment) else _change_row(event, field, author=event.actor)


def _listed_fields(change: Change) -> tuple[str, ...]:
    """Return the fields under which `my_changes` lists a change; a new record is listed once."""
    return (MADE,) if change.before is None else change.names


def _change_row(change: Change, field: str, **extra: str) -> dict[str, Any]:
    """Return the row that shows the change of one field, with `extra` items."""
    before, after = (None, type(change.after).__name__.lower()) if field == MADE else change.values(field)
    return {"at": stamp(change.at), **extra, "field": field, "before": before, "after": after}


def same(shown: Any, cited: Scalar) -> bool:
    """Tell whether a cited value equals a shown one. A number may be cited as text, and None as an empty string."""
    if shown == cited and type(shown) is type(cited):
        return True
    if isinstance(cited, float) and cited.is_integer():
        cited = int(cited)
    if isinstance(shown, int | float) and isinstance(cited, int | float):
        return shown == cited and isinstance(shown, bool) == isinstance(cited, bool)
    return ("" if shown is None else str(shown)) == ("" if cited is None else str(cited).strip())


# -- writing, and what each field accepts ------------------------------------------------------------------------------


def unseen_edits(ticket_id: str, actor: str) -> str:
    """Return the name of the counter of changes that others made to a ticket since an actor read it."""
    return f"unseen:{ticket_id}:{actor}"


def with_field(world: World, ticket_id: str, field: Field, value: str, force: bool = False) -> Ticket:
    """Return a ticket with a field set, without writing it. Raises `Refused` if the field may not be set so."""
    ticket = _writable(world, ticket_id, force)
    _CHECKS[field](world, ticket, value)
    return replace(ticket, **{field: value or None})


def write(world: World, ticket: Ticket) -> Ticket:
    """Write a ticket. The other people whom agents play must read it before they can change it again."""
    for person_id in world.seats:  # the people whom agents play
        if person_id != world.actor:
            world.count_up(unseen_edits(ticket.id, person_id))
    return world.put(ticket)


def _writable(world: World, ticket_id: str, force: bool = False) -> Ticket:
    """Return a ticket that the acting person may write. Raises `Refused` for any other."""
    ticket = world.find(Ticket, ticket_id)
    desk = world.get(Person, world.actor).desk
    if ticket.desk != desk:
        raise Refused("other_desk", f"{ticket_id} belongs to the {ticket.desk} desk; you write on the {desk} desk's tickets")
    if ticket.status in FINISHED:
        raise Refused("finished", f"{ticket_id} is {ticket.status}; finished tickets cannot be changed")
    if not force and world.counter(unseen_edits(ticket_id, world.actor)):
        raise Refused(CHANGED_MEANWHILE, f"somebody has changed {ticket_id} since you read it; read it again")
    return ticket


def _check_priority(world: World, ticket: Ticket, value: str) -> None:
    if value not in ("", "low", "normal", "high"):
        raise Refused("bad_value", "a priority is low, normal or high")


def _check_status(world: World, ticket: Ticket, value: str) -> None:
    if value not in ("open", "in_progress"):
        raise Refused("bad_value", "a status is set to open or in_progress; resolve_ticket closes")


def _check_person(world: World, ticket: Ticket, value: str) -> None:
    if value:
        world.find(Person, value)


def _check_cost_center(world: World, ticket: Ticket, value: str) -> None:
    if value and not world.select(Person, "made", cost_center=value):
        raise Refused("bad_value", f"there is no cost centre {value!r}")


def _check_block(world: World, ticket: Ticket, value: str) -> None:
    if value:
        raise Refused("bad_value", "a block is set by the workflow; it can only be cleared")
    if ticket.blocked_by and world.get(Ticket, ticket.blocked_by).status not in FINISHED:
        raise Refused("blocked", f"{ticket.blocked_by} is not finished; a block is cleared once the blocking ticket is")


def _check_verified(world: World, ticket: Ticket, value: str) -> None:
    if not value:
        return
    if not ticket.priority:
        raise Refused("no_priority", f"{ticket.id} has no priority; a ticket without one cannot be verified")
    entry = world.find(Entry, value)
    if entry.reference != ticket.reference:
        raise Refused("no_match", f"{entry.id} carries {entry.reference}, {ticket.id} carries {ticket.reference}")


def _check_approval(world: World, ticket: Ticket, value: str) -> None:
    if not value:
        return
    if not ticket.verified:
        raise Refused("not_verified", f"{ticket.id} is not verified; an approval is linked to a verified ticket only")
    approval = world.find(Approval, value)
    if approval.ticket_id != ticket.id:
        raise Refused("no_match", f"{approval.id} is about {approval.ticket_id}")
    if approval.status != "approved":
        raise Refused("not_approved", f"{approval.id} is {approval.status}")


def _check_original(world: World, ticket: Ticket, value: str) -> None:
    if value == ticket.id:
        raise Refused("bad_value", "a ticket is not its own duplicate")
    if value:
        world.find(Ticket, value)


_CHECKS = {
    "priority": _check_priority,
    "status": _check_status,
    "assignee": _check_person,
    "cost_center": _check_cost_center,
    "blocked_by": _check_block,
    "verified": _check_verified,
    "approval": _check_approval,
    "duplicate_of": _check_original,
    "escalated_to": _check_person,
    "waiting_on": _check_person,
}
