"""Distractor tools: extra tools of the three apps that no task needs. They do what their descriptions say.

The dial `tool_clutter` decides which of them an episode offers.
"""

import re
from collections import Counter
from functools import lru_cache
from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import Meta

from companyos.company.apps.approvalflow import Approval, ApprovalId
from companyos.company.apps.datahub import Entry, EntryId, Metric, MetricName, Query, Source
from companyos.company.apps.ticketdesk import (
    FINISHED,
    LIST_FIELDS,
    Comment,
    DeskName,
    Ticket,
    TicketId,
    comment,
    with_field,
    write,
)
from companyos.company.apps.tool import App, PageNumber, Toolbox, page_of, paged
from companyos.company.colleagues import TOOLBOX
from companyos.company.people import Person, PersonId, annoy, post
from companyos.core.errors import Refused
from companyos.core.world import DAY, World, row, view

ticketdesk, datahub, approvalflow = App("ticketdesk"), App("datahub"), App("approvalflow")

SWITCHED_OFF = "2024-12-31"  # when the previous system was switched off; its data are not newer
_PREVIOUS_SYSTEM = f"previous system, read-only since {SWITCHED_OFF}"


# -- TicketDesk --------------------------------------------------------------------------------------------------------


@ticketdesk.tool(minutes=4, steady=True)
def search_archive(world: World, query: Query, page: PageNumber = 1) -> dict[str, Any]:
    """Search finished tickets only, by words in id, title, subject or reference, newest first, ten a page."""
    return paged(world.search(Ticket, query, "newest", _is_finished), page, LIST_FIELDS)


def _is_finished(ticket: Ticket) -> bool:
    return ticket.status in FINISHED


@ticketdesk.tool(minutes=2)
def get_ticket_v1(world: World, ticket_id: TicketId) -> Ticket:
    """Read one ticket from last night's copy of the desk. What was changed today is not in it."""
    ticket, midnight = world.find(Ticket, ticket_id), world.now // DAY * DAY
    for change in world.journal:
        if change.after.id == ticket_id and change.at >= midnight and isinstance(change.before, Ticket):
            return change.before
    return ticket


@ticketdesk.tool(minutes=6, writes=True)
def bulk_update(
    world: World,
    ticket_ids: Annotated[list[TicketId], Meta(min_length=1, max_length=5, description="tickets of your desk")],
    field: Literal["priority", "assignee"],
    value: Annotated[str, Meta(max_length=80, description="for all of them; an empty string clears the field")],
) -> dict[str, Any]:
    """Set one field of several tickets of your desk at once. Refused for all where it is refused for one."""
    changed = [with_field(world, ticket_id, field, value) for ticket_id in dict.fromkeys(ticket_ids)]
    return {"rows": [row(write(world, ticket), (field,)) for ticket in changed]}


@ticketdesk.tool(minutes=4, writes=True)
def request_callback(world: World, ticket_id: TicketId) -> Comment:
    """Ask a ticket's requester, by a comment on it, to call you back. It cannot be taken back."""
    return comment(world, ticket_id, "Please call me back about this.", world.find(Ticket, ticket_id).requester)


@ticketdesk.tool(minutes=15, steady=True)
def export_report(world: World, desk: DeskName) -> dict[str, Any]:
    """Draw up how many tickets a desk has, by status and by priority."""
    by_status = _of_desk(world.count_by(Ticket, _desk_and_status), desk)
    by_priority = _of_desk(world.count_by(Ticket, _desk_and_priority), desk)
    return {"desk": desk, "tickets": sum(by_status.values()), "by_status": by_status, "by_priority": by_priority}


_desk_and_status = attrgetter("desk", "status")


def _desk_and_priority(ticket: Ticket) -> tuple[str, str]:
    return ticket.desk, ticket.priority or "none"


def _of_desk(counts: dict[tuple[str, str], int], desk: str) -> dict[str, int]:
    return {value: count for (of_desk, value), count in counts.items() if of_desk == desk}


# -- DataHub -----------------------------------------------------------------------------------------------------------


@datahub.tool(minutes=2)
def legacy_lookup(world: World, entry_id: EntryId) -> dict[str, Any]:
    """Read a register entry as the system before this one had it when it was switched off."""
    entry = world.find(Entry, entry_id)
    of_kind = world.select(Entry, "id", kind=entry.kind)
    shown = view(entry) | {"from_system": _PREVIOUS_SYSTEM}
    if len(of_kind) > 1:
        # Old dates and figures are taken from another entry of the same kind, so they are plausible; the rest is unchanged.
        index = world.streams.at("legacy", entry_id).pick(range(len(of_kind) - 1))
        donor = (of_kind[index] if of_kind[index].id < entry_id else of_kind[index + 1]).details
        no_ids = {name: value for name, value in entry.details.items() if world.lookup(value) is None}
        shown |= {name: donor[name] for name, value in no_ids.items() if _shape(donor.get(name, "")) == _shape(value)}
    return shown


@lru_cache(maxsize=4096)
def _shape(value: str) -> str:
    """Return a text with every number replaced by 0: `2026-03-10` and `2025-11-02` both have the shape `0-0-0`."""
    return re.sub(r"\d+", "0", value)


@datahub.tool(minutes=2)
def query_metric_v1(world: World, metric_name: MetricName) -> dict[str, Any]:
    """Read a metric's last value in the warehouse before this one, from when it was switched off."""
    metric, source = world.find(Metric, metric_name), world.get(Source, metric_name)
    value = world.streams.at("legacy", metric_name).between(source.least, source.most)
    return row(metric, ("unit",)) | {"value": value, "measured_at": SWITCHED_OFF, "from_system": _PREVIOUS_SYSTEM}


@datahub.tool(minutes=3, steady=True)
def list_dashboards(world: World, page: PageNumber = 1) -> dict[str, Any]:
    """List the dashboards and how many metrics each shows, ten a page."""
    dashboards = sorted(world.count_by(Metric, _dashboard_of).items())
    return page_of(dashboards, page, lambda shown: [_dashboard(*item) for item in shown])


def _dashboard_of(metric: Metric) -> str:
    """Return the dashboard of a metric: the part of its name before the dot."""
    return metric.id.partition(".")[0]


def _dashboard(name: str, metrics: int) -> dict[str, Any]:
    return {"dashboard": name.replace("_", " "), "metrics": metrics}


# -- ApprovalFlow ------------------------------------------------------------------------------------------------------


@approvalflow.tool(minutes=2, steady=True)
def list_delegations(world: World, page: PageNumber = 1) -> dict[str, Any]:
    """List who is named as whose delegate, whether anybody is away or not, ten a page."""
    return paged(world.filter(Person, "made", _has_delegate), page, ("role", "delegate"))


def _has_delegate(person: Person) -> bool:
    return bool(person.delegate)


@approvalflow.tool(minutes=2, steady=True)
def approval_stats(world: World, person_id: PersonId) -> dict[str, Any]:
    """Count the requests that were put to somebody, by how they stand."""
    world.find(Person, person_id)
    counts: Counter[str] = Counter(request.status for request in world.all(Approval) if request.approver == person_id)
    return {"person": person_id, "requests": counts.total(), **counts}


@approvalflow.tool(minutes=2, writes=True)
def remind(world: World, approval_id: ApprovalId) -> dict[str, Any]:
    """Remind whoever your pending request was put to. Nobody decides sooner for it, and people tire of it."""
    request = world.find(Approval, approval_id)
    if request.requester != world.actor or request.status != "pending":
        raise Refused("not_pending", f"{approval_id} is no pending request of yours")
    post(world, request.approver, world.actor, "reminder", approval_id, f"{approval_id} is still with you.")
    annoy(world, request.approver, world.actor)
    return row(request, ("status", "approver"))


# -- what an episode offers --------------------------------------------------------------------------------------------

EXTRAS = tuple(tool for app in (ticketdesk, datahub, approvalflow) for tool in app.tools)


@lru_cache(maxsize=256)
def toolbox_of(names: tuple[str, ...]) -> Toolbox:
    """Return the company's toolbox, with the extra tools whose names are given."""
    extras = [tool for tool in EXTRAS if tool.name in names]
    return TOOLBOX.extended(extras) if extras else TOOLBOX


ALL_TOOLS = toolbox_of(tuple(tool.name for tool in EXTRAS))
