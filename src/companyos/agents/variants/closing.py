"""How variants are played: a variant runs at the expert's closing call and may change it; then the episode goes on."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec

from companyos.company import Approval, Entry, Metric, Person, Policy, Ticket
from companyos.company.programs import run
from companyos.core.calls import Call, Reply
from companyos.core.world import Draw, Record, Streams, World
from companyos.env import CompanyEnv
from companyos.families import ExpertStyle, family_of
from companyos.families.kit import moves
from companyos.families.kit.citations import CitedFacts, CitesNoOther

Shown = moves.Shown
CITABLE = (str, int)  # types of values that replies show and evidence can cite
# By kind of record: the tool that reads one, and the argument that takes its id.
READ_TOOLS: dict[type[Record], tuple[str, str]] = {
    Ticket: ("ticketdesk.get_ticket", "ticket_id"),
    Entry: ("datahub.get_entry", "entry_id"),
    Policy: ("datahub.read_policy", "policy_id"),
    Metric: ("datahub.query_metric", "metric_name"),
    Person: ("datahub.get_person", "person_id"),
    Approval: ("approvalflow.check_status", "approval_id"),
}


class ClosingContext(msgspec.Struct, frozen=True):
    """The ticket that the expert is about to close, and the call with which it would close it."""

    env: CompanyEnv
    closing: Call
    draw: Draw

    @property
    def world(self) -> World:
        return self.env.world

    @property
    def actor(self) -> str:
        return self.env.setting.case.actor

    @property
    def ticket(self) -> Ticket:
        return self.world.get(Ticket, self.closing.params["ticket_id"])

    @property
    def ends_episode(self) -> bool:
        """Whether this is the ticket of the brief, and not one that is linked to it."""
        return self.ticket.id == self.env.setting.case.ticket_id

    @property
    def cited(self) -> list[Shown]:
        """The expert's evidence: exactly the decisive facts."""
        return list(self.closing.params["evidence"])

    @property
    def cited_fields(self) -> set[tuple[str, str]]:
        """The id of the record and the field of every citation in the expert's evidence."""
        return {(citation["record"], citation["field"]) for citation in self.cited}

    @property
    def family_must_not_cite(self) -> CitedFacts:
        """The facts that the family declares as `must_not_cite` for the ending of this ticket, by record and field."""
        setting = self.env.setting
        ending = setting.ending if self.ends_episode else setting.linked[self.ticket.id].ending
        return tuple(fact for goal in ending.goals if isinstance(goal, CitesNoOther) for fact in goal.must_not_cite)

    def all_but_ticket(self, kind: type[Record]) -> list[Any]:
        """Return the records of a kind, without the ticket itself."""
        return [record for record in self.world.all(kind) if record.id != self.ticket.id]

    def cited_records(self, kind: type[Record]) -> list[tuple[Any, str]]:
        """Return the records of a kind in the expert's evidence, each with the cited field."""
        cited = ((self.world.lookup(record_id), field) for record_id, field in sorted(self.cited_fields))
        return [(record, field) for record, field in cited if isinstance(record, kind)]

    def other_cost_centers(self) -> list[str]:
        """Return the cost centres that are neither the requester's nor on the ticket."""
        own = self.world.get(Person, self.ticket.requester).cost_center
        return sorted({person.cost_center for person in self.world.all(Person)} - {own, self.ticket.cost_center or own})

    def closed_with(self, **params: Any) -> Call:
        """Return the closing call with these parameters instead of the expert's."""
        return Call(self.closing.app, self.closing.method, {**self.closing.params, **params})


ClosingProgram = moves.Move[Call | None]  # returns the closing call to make, or None if the variant does not apply
Variant = Callable[[ClosingContext], ClosingProgram]


def play_variant(env: CompanyEnv, variant: Variant, streams: Streams) -> bool | None:
    """Return whether the expert wins with this variant, or None if the variant does not apply to the episode.

    The variant is used once, when the expert closes one randomly chosen ticket of the task.
    """
    ticket_id = streams.at("ticket").pick([env.setting.case.ticket_id, *env.setting.linked])
    program = family_of(env.setting.case.brief).expert(env.so_far(), ExpertStyle())
    call = next(program)
    while True:
        if call.method == "resolve_ticket" and call.params["ticket_id"] == ticket_id and _would_close(env, call):
            env, ticket_id = env.fresh_budget(), ""  # a copy with all its steps left; and no ticket a second time
            closing = _run(env, variant(ClosingContext(env, call, streams.at("variant"))))
            if closing is None:
                return None
            reply: Reply = _run(env, moves.ask(closing.tool, **closing.params))
            env = env.fresh_budget()
        else:
            reply = _reply_to(env, call)
        if env.done:
            return bool(env.success)
        call = program.send(reply)


def _would_close(env: CompanyEnv, call: Call) -> bool:
    """Return whether the ticket can be closed now. An expert may try before it clears a block."""
    reply: Reply = _run(env.fresh_budget(), moves.ask(call.tool, **call.params))
    return reply.ok


def _run(env: CompanyEnv, program: moves.Move[Any]) -> Any:
    """Make the calls of a program and return its result. Skip the working notes that it yields."""
    return run(program, partial(_reply_to, env))


def _reply_to(env: CompanyEnv, call: Call) -> Reply:
    env.step(call)
    return env.turns[-1].reply


# -- helpers for variants --------------------------------------------------------------------------------------------------


def no_calls() -> moves.Move[None]:
    """Make no call. A variant that makes no calls runs this, because a function without `yield from` is not a program."""
    yield from ()


def write(context: ClosingContext, field: str, value: str) -> moves.Move[None]:
    """Set a field of the ticket."""
    yield from moves.read("ticketdesk.update_ticket", ticket_id=context.ticket.id, field=field, value=value)


def read(record: Record) -> moves.Move[Shown]:
    """Read a record with its tool, and return what the reply shows."""
    tool, argument = READ_TOOLS[type(record)]
    shown: Shown = yield from moves.read(tool, **{argument: record.id})
    return shown


def cite_more(context: ClosingContext, records: Iterable[Record], fields: Callable[[Any], Iterable[str]]) -> ClosingProgram:
    """Return the closing call with citations of one more record: the first in random order that shows one of the fields."""
    for record in context.draw.shuffled(list(records))[:3]:
        shown = yield from read(record)
        citable = [field for field in fields(record) if isinstance(shown.get(field), CITABLE)]
        citations = moves.cite(*((shown, field) for field in citable if (record.id, field) not in context.cited_fields))
        if citations:
            return context.closed_with(evidence=[*context.cited, *context.draw.shuffled(citations)[:4]])
    return None
