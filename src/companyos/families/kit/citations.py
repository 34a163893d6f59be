"""Goals about the evidence of a closed ticket: which facts it must cite and which it must not cite.

The evidence must cite every decisive fact of the ending. It may cite up to four facts more if they are true and unrelated.
It must not cite a rival. A citation that is not decisive itself is a **rival** of a decisive fact in any of these cases:

- Same field: it cites the same field of another record of the same kind. The kind is the type of the record; of a register
  entry also its `kind`, of a metric also the part of its name before the dot. The ticket itself is never a rival, nor is an
  approved request for it.
- Same policy: the decisive fact is a term of a policy, and it cites another term of that policy or any term of another
  version of it, that is, of a policy with the same title.
- Named: the family names it as a rival, because the choice was between records of different kinds or between other fields.

Everything else that is true is **unrelated** and may be cited.
"""

from collections.abc import Iterator

from companyos.company import Approval, Comment, Entry, Metric, Policy, Ticket
from companyos.company.apps.ticketdesk import Citation
from companyos.company.facts import true_now, true_of
from companyos.core.world import Record, World
from companyos.families.kit.goals import ANSWER, SIGNED_REQUEST, Goal

CitedFacts = tuple[tuple[str, str], ...]  # facts that an ending cites: record and field of each


def records_named(world: World, ticket_id: str, name: str) -> list[str]:
    """Return the ids of the records that a decisive fact names. `name` is an id, or a placeholder such as `$signed`."""
    if name.startswith(SIGNED_REQUEST):
        form = name[len(SIGNED_REQUEST) + 1 :]
        of_ticket = [
            request for request in world.all(Approval) if request.status == "approved" and request.ticket_id == ticket_id
        ]
        return [request.id for request in of_ticket if not form or request.type == form]
    if name.startswith(ANSWER):
        author = name[len(ANSWER) :]
        return [comment.id for comment in world.select(Comment, "made", author=author, ticket_id=ticket_id)]
    return [name]


class Cites(Goal, frozen=True):
    """Every decisive fact is cited."""  # `CitesNothingFalse` checks whether it is true

    tables = (Ticket, Approval)
    ticket_id: str
    facts: CitedFacts

    def holds(self, world: World) -> bool:
        cited = {(citation.record, citation.field) for citation in world.get(Ticket, self.ticket_id).evidence}
        for name, field in self.facts:
            if not any((record, field) in cited for record in records_named(world, self.ticket_id, name)):
                return False
        return True


class CitesNothingFalse(Goal, frozen=True):
    """Nothing cited is false, and there are at most four citations beyond the decisive ones."""

    tables = (Ticket, Approval, Metric)
    ticket_id: str
    most: int  # the maximum number of citations

    def holds(self, world: World) -> bool:
        ticket = world.get(Ticket, self.ticket_id)
        if len(ticket.evidence) > self.most:
            return False
        return all(true_now(world, cited) or self._was_true(world, ticket, cited) for cited in ticket.evidence)

    def _was_true(self, world: World, ticket: Ticket, cited: Citation) -> bool:
        """Return whether a fact about the ticket itself was true before it was closed."""
        if cited.record != ticket.id:
            return False
        before = next((change.before for change in reversed(world.journal) if change.after is ticket), None)
        return before is not None and true_of(world, before, cited)


class CitesNoOther(Goal, frozen=True):
    """No rival of a decisive fact is cited."""

    # "Other" in the name means a rival, as the docstring of this module defines it; unrelated facts may be cited. The name
    # stays as it is because transcripts contain it.

    tables = (Ticket, Approval)
    ticket_id: str
    facts: CitedFacts  # the decisive ones
    must_not_cite: CitedFacts = ()  # those that the family names

    def holds(self, world: World) -> bool:
        return next(self.rivals_cited(world), None) is None

    def rivals_cited(self, world: World) -> Iterator[Citation]:
        """Yield the citations of the ticket that must not be there."""
        decisive = [(record, field) for name, field in self.facts for record in records_named(world, self.ticket_id, name)]
        for citation in world.get(Ticket, self.ticket_id).evidence:
            cited = (citation.record, citation.field)
            if cited in self.must_not_cite or (cited not in decisive and self._is_rival(world, cited, decisive)):
                yield citation

    def _is_rival(self, world: World, cited: tuple[str, str], decisive: list[tuple[str, str]]) -> bool:
        """Return whether a citation that is not decisive is a rival of a decisive one. All are pairs of record and field."""
        cited_id, cited_field = cited
        record = world.lookup(cited_id)
        if record is None or self._is_own(record):
            return False
        for decisive_id, field in decisive:
            decisive_record = world.lookup(decisive_id)
            if decisive_record is not None and (
                (field == cited_field and same_kind(record, decisive_record))
                or _same_policy(record, cited_field, decisive_record, field)
            ):
                return True
        return False

    def _is_own(self, record: Record) -> bool:
        """Return whether a record is the ticket itself or an approved request for it."""
        if isinstance(record, Approval):
            return record.status == "approved" and record.ticket_id == self.ticket_id
        return record.id == self.ticket_id


def same_kind(first: Record, second: Record) -> bool:
    """Return whether two records are of the same kind, so that the agent had to choose between them."""
    if isinstance(first, Entry) and isinstance(second, Entry):
        return first.kind == second.kind
    if isinstance(first, Metric) and isinstance(second, Metric):
        return first.figure == second.figure
    return type(first) is type(second)


def _same_policy(first: Record, first_field: str, second: Record, second_field: str) -> bool:
    """Return whether two fields of records are terms of one policy, in the same version or in two versions of it."""
    if not isinstance(first, Policy) or not isinstance(second, Policy):
        return False
    return first.title == second.title and first_field in first.terms and second_field in second.terms
