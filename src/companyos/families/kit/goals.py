"""Goals, that is, conditions on the company that an ending asks for; milestones; and the check for damage."""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import add
from typing import Any, ClassVar, get_args

import msgspec

from companyos.company import Approval, ApprovalType, Comment, Metric, Person, Ticket
from companyos.company.apps.datahub import age_days, read_mark
from companyos.company.apps.ticketdesk import Field, Scalar, same
from companyos.company.people import stand_in
from companyos.core.world import Record, World

# Placeholders in decisive facts for records that do not exist at the start. `citations` finds the records they stand for.
SIGNED_REQUEST = "$signed"  # an approved request for the ticket; `$signed:form` for one of this form
ANSWER = "$answer:"  # followed by a person's handle: a comment of that person on the ticket


class Goal(msgspec.Struct, frozen=True):
    """A condition on a world. The first line of a subclass's docstring explains it to users (`asks`)."""

    tables: ClassVar[tuple[type[Record], ...]] = (Ticket,)  # it is checked again when a record in one of these changes
    reads: ClassVar[bool] = False  # whether it also depends on what the agent has read

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def asks(self) -> str:
        """What the goal asks for, in words: the first line of its docstring, and its values."""
        first_line = (type(self).__doc__ or "").partition("\n")[0]
        fields = ((name, _as_text(getattr(self, name))) for name in self.__struct_fields__ if name not in _NOT_SHOWN)
        values = [f"{name} {text}" for name, text in fields if text]
        return f"{first_line} ({', '.join(values)})" if values else first_line

    def holds(self, world: World) -> bool:
        raise NotImplementedError


def _as_text(value: Any) -> str:
    """Return the value of a goal's field in words."""
    if isinstance(value, tuple):
        return ", ".join(" ".join(map(str, item)) if isinstance(item, tuple) else str(item) for item in value)
    return str(value)


_NOT_SHOWN = ("ticket_id", "actor", "since")  # fields that tell nothing new to a person who worked on the case


class TicketIs(Goal, frozen=True):
    """A field of a ticket has this value."""

    ticket_id: str
    field: str
    value: str | None

    @property
    def name(self) -> str:
        return f"TicketIs:{self.field}"

    def holds(self, world: World) -> bool:
        return bool(getattr(world.get(Ticket, self.ticket_id), self.field) == self.value)


class TicketHas(Goal, frozen=True):
    """A field of a ticket is not empty."""

    ticket_id: str
    field: str

    def holds(self, world: World) -> bool:
        return getattr(world.get(Ticket, self.ticket_id), self.field) is not None


class HandedTo(Goal, frozen=True):
    """The ticket is assigned to this person or to their delegate, as of now or of the time of the assignment."""

    ticket_id: str
    person: str

    def holds(self, world: World) -> bool:
        assigned_at = [c.at for c in world.journal if c.after.id == self.ticket_id and "assignee" in c.names]
        assignee = world.get(Ticket, self.ticket_id).assignee
        return any(assignee == self._in_charge(world, minute) for minute in (world.now, *assigned_at[-1:]))

    def _in_charge(self, world: World, minute: int) -> str:
        """Return the handle of the person, or of the delegate if the person is away at that minute."""
        return stand_in(world, world.get(Person, self.person), minute).id


class Ended(Goal, frozen=True):
    """The ticket was closed with this resolution and this reason."""

    ticket_id: str
    resolution: str
    reason: str

    def holds(self, world: World) -> bool:
        ticket = world.get(Ticket, self.ticket_id)
        return ticket.resolution == self.resolution and ticket.reason == self.reason


class Fresh(Goal, frozen=True):
    """A metric that the ending depends on is not older than allowed, and neither are those listed as beside."""

    tables = (Metric,)
    metric: str
    beside: tuple[str, ...] = ()

    def holds(self, world: World) -> bool:
        metrics = [world.get(Metric, name) for name in (self.metric, *self.beside)]
        return all(age_days(metric, world.now) <= metric.max_age_days for metric in metrics)


class MeasuredSince(Goal, frozen=True):
    """A metric was measured at this minute or later."""

    tables = (Metric,)
    metric: str
    since: int

    def holds(self, world: World) -> bool:
        return world.get(Metric, self.metric).measured_at >= self.since


class ReadFresh(Goal, frozen=True):
    """The actor has read the current measurement of a metric, and it is fresh."""

    tables = (Metric,)
    reads = True
    actor: str
    metric: str
    since: int

    def holds(self, world: World) -> bool:
        measured_at = world.get(Metric, self.metric).measured_at
        return measured_at >= self.since and world.counter(read_mark(self.actor, self.metric)) == measured_at


class Requested(Goal, frozen=True):
    """A request for this ticket with the right values is pending or approved; if `signed`, it is approved."""

    tables = (Approval, Ticket)
    ticket_id: str
    form: str
    signed: bool = False
    says: tuple[tuple[str, Scalar], ...] = ()  # fields that the request must contain, and their values
    by: tuple[str, ...] = ()  # the people of whom one has to be asked, if the form leaves the choice open

    @property
    def name(self) -> str:
        return f"Requested:{self.form}"

    def holds(self, world: World) -> bool:
        statuses = ("approved",) if self.signed else ("pending", "approved")
        for request in world.all(Approval):
            if (
                request.status in statuses
                and right_request(world, request, self.ticket_id, self.form, self.says)
                and put_to(world, request, self.by)
            ):
                return True
        return False


class SignedFor(Goal, frozen=True):
    """The ticket links to an approved request with the right values."""

    tables = (Approval, Ticket)
    ticket_id: str
    form: str
    says: tuple[tuple[str, Scalar], ...] = ()
    by: tuple[str, ...] = ()

    def holds(self, world: World) -> bool:
        linked = world.get(Ticket, self.ticket_id).approval
        request = world.peek(Approval, linked) if linked else None
        if request is None or request.status != "approved":
            return False
        return right_request(world, request, self.ticket_id, self.form, self.says) and put_to(world, request, self.by)


def put_to(world: World, request: Approval, people: tuple[str, ...]) -> bool:
    """Return whether a request was put to one of these people, and decided by one of them or by a manager at their wish."""
    if not people:
        return True
    asked = next(change.after for change in world.journal if change.after.id == request.id)
    assert isinstance(asked, Approval)
    return asked.approver in people and (request.referred or request.approver in people)


def right_request(
    world: World, request: Approval, ticket_id: str, form_id: str, says: tuple[tuple[str, Scalar], ...]
) -> bool:
    """Return whether a request for this ticket and of this form agrees with the ticket and contains the values of `says`."""
    if request.ticket_id != ticket_id or request.type != form_id:
        return False
    ticket, data = world.get(Ticket, ticket_id), request.data
    fields = world.get(ApprovalType, form_id).same_as_ticket  # form field -> ticket field with the same value
    if not all(same(getattr(ticket, ticket_field), data.get(field)) for field, ticket_field in fields.items()):
        return False
    return _contains(request, says)


def _contains(request: Approval, says: tuple[tuple[str, Scalar], ...]) -> bool:
    """Return whether a request has these values in these fields."""
    return all(same(value, request.data.get(field)) for field, value in says)


class Signature(msgspec.Struct, frozen=True):
    """An approved request that an ending needs: its form, and the fields that it must contain."""

    form: str
    says: tuple[tuple[str, Scalar], ...] = ()
    by: tuple[str, ...] = ()  # the people of whom one has to be asked; empty if the approvers know who signs


class Milestone(msgspec.Struct, frozen=True):
    """A goal that pays a partial reward when it is reached, and its reward."""

    name: str
    worth: float
    goal: Goal


def add_up(worths: Iterable[float]) -> float:
    """Return the sum of numbers, added from left to right. The builtin `sum` rounds differently since Python 3.12."""
    return reduce(add, worths, 0.0)


class Damage(msgspec.Struct, frozen=True):
    """A change by the actor that still exists and that was neither allowed in general nor needed for the ending."""

    record: str
    field: str
    can_be_put_back: bool


class CalledFor(msgspec.Struct, frozen=True):
    """The changes that an ending needs on a ticket."""

    allowed: tuple[tuple[str, str | None], ...]  # fields of the ticket, and the values that they may be set to
    signatures: tuple[Signature, ...]  # one approved request for each


def damage(world: World, actor: str, needed_changes: Mapping[str, CalledFor]) -> list[Damage]:
    """Return the changes by the actor that still exist and that the ending did not need.

    `needed_changes` has, for each ticket that the actor may work on, the changes that its ending needs. Always allowed are:
    refreshing a metric; on these tickets commenting, verifying, and filling an empty field that does not record an outcome;
    withdrawing one's own request. An outcome that the ending does not need is damage until its field is cleared. A rejected
    request is not damage, and neither is a change that somebody else has overwritten.
    """
    damages: list[Damage] = []
    written: dict[tuple[str, str], Any] = {}  # fields of tickets that the actor wrote last, and their values before that
    for change in world.journal:
        after, by_actor = change.after, change.actor == actor
        if type(after) is Ticket:
            if by_actor or written:
                guarded = GUARDED if after.id in needed_changes else after.__struct_fields__
                for field in change.names:
                    if not by_actor:
                        written.pop((after.id, field), None)
                    elif field in guarded:
                        written.setdefault((after.id, field), getattr(change.before, field))
        elif by_actor and type(after) is Comment and after.ticket_id not in needed_changes:
            damages.append(Damage(after.id, "text", can_be_put_back=False))
    for (ticket_id, field), before in written.items():
        ticket, called_for = world.get(Ticket, ticket_id), needed_changes.get(ticket_id)
        value = getattr(ticket, field)
        if value == before or (called_for and _is_allowed(world, ticket, field, before, called_for)):
            continue
        reversible = ticket.resolution is None and field != "blocked_by"
        damages.append(Damage(ticket_id, field, can_be_put_back=reversible))
    requests = [a for a in world.all(Approval) if a.requester == actor and a.status in ("pending", "approved")]
    for ticket_id, called_for in needed_changes.items():
        for signature in called_for.signatures:
            needed_request = _needed_request(world, requests, world.get(Ticket, ticket_id), signature)
            requests = [request for request in requests if request is not needed_request]
    damages += [Damage(request.id, "status", can_be_put_back=request.status == "pending") for request in requests]
    return damages


def _is_allowed(world: World, ticket: Ticket, field: str, before: str | None, called_for: CalledFor) -> bool:
    """Return whether a field of one of the actor's tickets may have its present value, given its value before."""
    value = getattr(ticket, field)
    if (field, value) in called_for.allowed:
        return True
    if field == "approval":  # the goal `SignedFor` checks which request is linked
        return before is None and bool(called_for.signatures)
    if field == "cost_center":
        return before is None and value == world.get(Person, ticket.requester).cost_center
    return before is None and field not in OUTCOMES


def _needed_request(world: World, requests: list[Approval], ticket: Ticket, signature: Signature) -> Approval | None:
    """Return the request that a ticket's ending needs. If there are several, prefer the linked one, then an approved one."""
    of_form = [request for request in requests if request.ticket_id == ticket.id and request.type == signature.form]
    complete = [
        request for request in of_form if _contains(request, signature.says) and put_to(world, request, signature.by)
    ]
    return min(complete, key=lambda request: (request.id != ticket.approval, request.status != "approved"), default=None)


# The fields of the agent's own ticket that it must not overwrite. Closing the ticket sets the other ones.
GUARDED = tuple(field for field in get_args(Field) if field != "status")
# The fields in which a ticket records an outcome. An ending sets at most one of the first three.
OUTCOMES = ("duplicate_of", "escalated_to", "waiting_on", "approval")
