"""The frame of an expert's work on a case: how every expert begins, prepares its ticket and closes it.

A family's expert fills this frame with the checks of its own policies. It sees nothing but replies.
`Shown` is a record as a reply shows it: its fields by name. `EpisodeSoFar` is the brief with the calls and replies before
the expert begins. `ExpertStyle` makes the choices where several ways of working are right: `style.chooses(name)` is true if
the expert takes the optional way called `name`.
"""

from typing import ClassVar

from msgspec import Struct

from companyos.families.kit import moves
from companyos.families.kit.family import EpisodeSoFar, ExpertStyle
from companyos.families.kit.moves import Move, Shown

Decision = tuple[str, str, list[Shown]]  # resolution, reason, evidence


class CaseNotes(Struct, frozen=True):
    """What an expert has gathered about its case. Families add the records that their checks need."""

    topic: ClassVar[str]  # each title of the family's policies begins with this text and a colon

    ticket: Shown
    policies: dict[str, str]  # the policies that apply to the ticket: ids by title
    approved: dict[str, str]  # requests for the ticket that were approved before the expert took over: ids by form
    style: ExpertStyle

    def read_rule(self, title: str) -> Move[Shown]:
        """Read a policy of the family.

        The expert reads a policy before it acts on it, even where this code needs no number from it: an agent that learns
        from the expert has to see where the rule comes from.
        """
        policy: Shown = yield from moves.read("datahub.read_policy", policy_id=self.policies[f"{self.topic}: {title}"])
        return policy

    def record(self, field: str, value: str) -> Move[None]:
        """Set a field of the ticket."""
        yield from moves.set_field(self.ticket["id"], field, value)

    def send_back(self) -> Move[None]:
        """Let the ticket wait for its requester."""
        yield from self.record("waiting_on", self.ticket["requester"])


def begin(so_far: EpisodeSoFar, style: ExpertStyle, query: str) -> Move[tuple[Shown, dict[str, str], dict[str, str]]]:
    """Begin the work on the brief's ticket, or take it over. Return the first three fields of `CaseNotes`.

    `query` finds the policies of the family.
    """
    ticket, approved = yield from take_over(so_far)
    yield from set_in_progress(ticket, style)
    policies = yield from moves.policies_about(query, ticket["opened"])
    return ticket, policies, approved


def take_over(so_far: EpisodeSoFar) -> Move[tuple[Shown, dict[str, str]]]:
    """Undo what another player left on the brief's ticket, in case the expert takes over an episode in the middle.

    Return the ticket and its approved requests, ids by form.
    """
    ticket_id = moves.ticket_in(so_far)
    approved = yield from moves.clear_desk(ticket_id, so_far)
    ticket = yield from moves.read("ticketdesk.get_ticket", ticket_id=ticket_id)
    return ticket, approved


def set_in_progress(ticket: Shown, style: ExpertStyle) -> Move[None]:
    """Set the status of the ticket to `in_progress`. No policy demands it, so only some styles do it."""
    if style.chooses("take it up first"):
        yield from moves.set_field(ticket["id"], "status", "in_progress")


def prepare(ticket: Shown, entry_id: str, style: ExpertStyle) -> Move[None]:
    """Do what a ticket needs before it can be closed: remove a block, and check the ticket against its register entry."""
    for move in style.order("prepare", [moves.unblock(ticket), moves.verify(ticket, entry_id)]):
        yield from move


def mark_duplicate(ticket: Shown, aloud: bool = False) -> Move[Decision | None]:
    """Mark the ticket as a duplicate if another ticket with the same reference is not cancelled.

    Return the decision to close it as a duplicate, or None if there is no such ticket. `aloud` adds working lines (the
    expert's written reasoning).
    """
    if aloud:
        other = yield from moves.other_live_ticket(ticket, ticket["reference"])
    else:
        listed = yield from moves.rows("ticketdesk.search_tickets", query=ticket["reference"])
        others = (row for row in listed if row["id"] != ticket["id"] and row["status"] != "cancelled")
        other = next(others, None)
    if other is None:
        return None
    yield from moves.set_field(ticket["id"], "duplicate_of", other["id"])
    return "duplicate", "same_request", moves.cite((other, "reference"), (other, "status"))


def finish(ticket: Shown, decision: Decision, style: ExpertStyle, *extra_facts: tuple[Shown, str]) -> Move[None]:
    """Close the ticket as decided. `extra_facts` are true facts that an expert may cite besides the decisive ones."""
    resolution, reason, evidence = decision
    if style.chooses("cite more"):
        evidence += moves.cite(*extra_facts)
    yield from moves.close(ticket["id"], resolution, reason, evidence)
