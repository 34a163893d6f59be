"""Calls that an agent could make next, filled in from what it was told. Random agents and learners use them."""

import re
from copy import copy
from itertools import product
from typing import Any, Literal, get_args, get_origin

from companyos.agents.choices.evidence import evidence, texts
from companyos.company import TOOLBOX, Approval, ApprovalType, Entry, Person, Ticket, Tool, Toolbox
from companyos.company.apps.tool import PROSE, reference
from companyos.core.calls import Call
from companyos.core.world import Draw, Record
from companyos.env.knowledge import Knowledge
from companyos.env.line_syntax import hint_without_none

_NAMING_FIELDS = ("reference", "subject", "name")  # fields whose values can be searched for
# Words that occur in every company: offices, desks that own tickets, topics of policies, prefixes of metrics.
_OFFICES = (
    "CEO",
    "CFO",
    "CTO",
    "Treasurer",
    "Finance Controller",
    "HR Lead",
    "Procurement Lead",
    "Compliance Officer",
    "Risk Officer",
    "Legal Counsel",
    "Data Protection Officer",
    "Care Lead",
    "IT Lead",
    "Support Lead",
    "Service Lead",
)
_DESKS = ("vendor", "finance", "engineering", "procurement", "people", "access", "care", "contracts", "privacy")
_TOPICS = (
    "policy",
    "vendor",
    "expense",
    "bug",
    "licence",
    "handbook",
    "access",
    "incident",
    "transfer",
    "contract",
    "offboarding",
    "deletion",
    "refund",
)
_METRIC_PREFIXES = (
    "compliance",
    "budget",
    "error",
    "licence",
    "idle_days",
    "customers",
    "contract_usage",
    "final_pay",
    "identity_match",
    "refund_rate",
)
_TICKET_WORDS = ("low", "normal", "high", "open", "in_progress", "")  # priorities and states; an empty text clears a field
# Longer names first, so that the whole name is found. For example "CFO" or "Head of Marketing".
_OFFICE = re.compile("|".join([*sorted(_OFFICES, key=len, reverse=True), r"Head of [A-Z]\w+"]))
_RENAMED = re.compile(r"(\w+) calls the field (\w+) now (\w+)")  # form, old name, new name
_OPTIONAL_ARGUMENTS = ("query", "to", "hours")  # that `argument_sets` fills in; it leaves out the other optional ones
_COMPLETED_ARGUMENTS = ("evidence", "data")  # that `completed` fills in after a call was chosen


class Candidates:
    """The values that an agent could give for each argument of each tool: ids it was told, and choices of the schema."""

    def __init__(self, knowledge: Knowledge, toolbox: Toolbox = TOOLBOX) -> None:
        self.knowledge = knowledge
        # If only the brief was told so far, these are the agent's own tickets and the topics of its work.
        self.own_tickets = tuple(knowledge.known(Ticket))
        self._topics = [topic for topic in _TOPICS if topic in knowledge.values]
        self._tools = list(toolbox)

    def sample(self, draw: Draw) -> Call:
        """Return a random tool with random arguments."""
        while True:
            tool = draw.pick(self._tools)
            call = self.fill(tool, draw)
            if call is not None:
                return call

    def fill(self, tool: Tool, draw: Draw) -> Call | None:
        """Return this tool with random arguments, or None while nothing is known that fits."""
        params: dict[str, Any] = {}
        for name in tool.hints:
            if name not in tool.required and draw.chance(0.7):
                continue
            if name == "evidence":
                params[name] = self.citations(draw)
                continue
            options = self.options(tool, name)
            if options:
                params[name] = draw.pick(options)
            elif name in tool.required:
                return None
        return Call(tool.app, tool.method, params)

    def options(self, tool: Tool, name: str) -> list[Any]:
        """Return the possible values of an argument."""
        hint = hint_without_none(tool.hints[name])
        kind = reference(hint)
        if kind is not None:
            return list(self.knowledge.known(kind))
        if get_origin(hint) is Literal:
            return list(get_args(hint))
        if getattr(hint, "__origin__", hint) is bool:
            return [False, True]
        if PROSE in getattr(hint, "__metadata__", ()):
            return ["Could you please look into this?"]
        return list(_VALUES_BY_ARGUMENT[name](self))

    def citations(self, draw: Draw) -> list[dict[str, Any]]:
        """Return up to four random facts that were shown, as evidence."""
        facts = list(self.knowledge.facts.items())
        chosen = draw.sample(facts, min(len(facts), draw.between(0, 4)))
        return [{"record": record, "field": field, "value": value} for (record, field), value in chosen]

    def filled_forms(self) -> list[dict[str, Any]]:
        """Return the data of a request form for each known ticket.

        It has every field that any known form requires and that a fact or a metric of the same name gives a value to.
        """
        filled_forms = []
        shown = {field: value for (_, field), value in self.knowledge.facts.items()}
        # A form calls a metric by the end of its name: `score` is the value of `compliance_score.acme`.
        metrics = {
            record.split(".")[0]: value for (record, field), value in self.knowledge.facts.items() if field == "value"
        }
        metrics_by_end = {end: value for name, value in metrics.items() for end in (name, name.rsplit("_", 1)[-1])}
        required = dict.fromkeys(field for fields in self.knowledge.forms.values() for field in fields)
        for ticket in self.knowledge.known(Ticket):
            of_ticket = {field: value for (record, field), value in self.knowledge.facts.items() if record == ticket}
            known = shown | of_ticket | {"ticket_id": ticket}
            data = {field: known.get(field, metrics_by_end.get(field)) for field in required}
            filled_forms.append({field: value for field, value in data.items() if value is not None})
        return filled_forms

    # -- all sensible calls, for a learner that chooses among them ----------------------------------------------------

    def with_knowledge(self, knowledge: Knowledge) -> "Candidates":
        """Return a copy that takes its values from another `Knowledge`, which must come from the same brief."""
        other = copy(self)
        other.knowledge = knowledge
        return other

    def argument_sets(self, tool: Tool, field: str = "") -> list[dict[str, Any]]:
        """Return all sensible sets of arguments of a tool. Pass one of them to `completed` to get the call.

        With `field`, the tool is `update_ticket`, and the sets are those that write this field. Writes go to the brief's own
        tickets, into a field that can hold the value. Requests go to people who were looked up. Searches are for the
        reference, subject and kind of the brief's ticket.
        """
        if field:
            values = self._values_for(field)
            return [{"ticket_id": own, "field": field, "value": value} for own in self.own_tickets for value in values]
        names = [
            name
            for name in tool.hints
            if name not in _COMPLETED_ARGUMENTS and (name in tool.required or name in _OPTIONAL_ARGUMENTS)
        ]
        options = [self._sensible(tool, name) for name in names]
        argument_sets = [dict(zip(names, values, strict=True)) for values in product(*options)]
        if "data" not in tool.hints:
            return argument_sets
        # Until `completed` replaces it by the form, `data` only says whether the form has its optional fields.
        return [{**arguments, "data": optional} for arguments in argument_sets for optional in (False, True)]

    def completed(self, tool: Tool, arguments: dict[str, Any]) -> Call:
        """Return a call with these arguments, with citations and form filled in from what was read."""
        if "evidence" in tool.hints:
            cited = evidence(self.knowledge, arguments["ticket_id"], arguments["reason"])
            return Call(tool.app, tool.method, {**arguments, "evidence": cited})
        if "data" in tool.hints:
            data = self.form(arguments["approval_type"], with_optional=arguments["data"])
            return Call(tool.app, tool.method, {**arguments, "data": data})
        return Call(tool.app, tool.method, {name: value for name, value in arguments.items() if value is not None})

    def form(self, approval_type: str, with_optional: bool) -> dict[str, Any]:
        """Return the data of a form: the required fields, and with `with_optional` also the optional ones.

        Values come from the ticket first, then from records that the ticket names, then from any other record.
        """
        facts = self.knowledge.facts
        ticket = next(iter(self.own_tickets), "")
        named = {value for (record, _), value in facts.items() if record == ticket and isinstance(value, str)}
        known: dict[str, Any] = {"ticket_id": ticket}
        ranks: dict[str, int] = {}  # of the record that a field's value comes from
        for (record, field), value in facts.items():
            rank = 2 if record == ticket else 1 if record in named else 0
            if value is not None and rank >= ranks.get(field, 0):
                known[field], ranks[field] = value, rank
            if field == "value":  # a form calls a metric by the end of its name
                known[record.split(".")[0].rsplit("_", 1)[-1]] = value
        changes = [change for text in texts(self.knowledge) for change in _RENAMED.findall(text)]
        known |= {new: known[old] for form, old, new in changes if form == approval_type and old in known}
        optional = self.knowledge.attachments.get(approval_type, ()) if with_optional else ()
        return {field: known[field] for field in (*self.knowledge.forms.get(approval_type, ()), *optional) if field in known}

    def _sensible(self, tool: Tool, name: str) -> list[Any]:
        """Return the values of an argument that the work could call for."""
        if name == "ticket_id" and tool.writes:
            return list(self.own_tickets)
        if name == "query":
            return self._queries()
        if name == "role":
            return list(dict.fromkeys(office for text in texts(self.knowledge) for office in _OFFICE.findall(text)))
        if name == "approver":
            return [person for person in self.knowledge.known(Person) if (person, "presence") in self.knowledge.facts]
        if name == "approval_type":
            return [form for form in self.knowledge.known(ApprovalType) if form in self.knowledge.forms]
        if name == "hours":
            return [8, 24]
        options = self.options(tool, name)
        return [None, *options] if name == "to" else options

    def _queries(self) -> list[str]:
        """Return references and subjects of the brief's tickets, and words for the kind of work."""
        facts = self.knowledge.facts
        names = [facts.get((ticket, field)) for ticket in self.own_tickets for field in ("reference", "subject")]
        kinds = [word for ticket in self.own_tickets for word in str(facts.get((ticket, "kind"), "")).split("_")]
        return [query for query in dict.fromkeys([*names, *kinds, *self._topics]) if query]

    def _values_for(self, field: str) -> list[str]:
        """Return the values that a field of a ticket can hold."""
        if field in _KIND_IN_FIELD:
            return ["", *self.knowledge.known(_KIND_IN_FIELD[field])]
        if field == "cost_center":
            return list(dict.fromkeys(value for (_, name), value in self.knowledge.facts.items() if name == field and value))
        return list(_WORDS_IN_FIELD[field])

    # -- values of arguments, by the name of the argument --------------------------------------------------------------

    def _shown_names(self) -> list[Any]:
        return [value for (_, field), value in self.knowledge.facts.items() if field in _NAMING_FIELDS and value]

    def _roles(self) -> list[Any]:
        return [*_OFFICES, *(value for (_, field), value in self.knowledge.facts.items() if field == "role")]

    def _ticket_values(self) -> list[Any]:
        ids = [known for kind in (Person, Ticket, Entry, Approval) for known in self.knowledge.known(kind)]
        centers = [value for (_, field), value in self.knowledge.facts.items() if field == "cost_center" and value]
        return [*_TICKET_WORDS, *ids, *centers]


# What `update_ticket` can write into each field: the id of a record of this kind, or one of these words.
_KIND_IN_FIELD: dict[str, type[Record]] = {
    "assignee": Person,
    "escalated_to": Person,
    "waiting_on": Person,
    "verified": Entry,
    "approval": Approval,
    "duplicate_of": Ticket,
}
_WORDS_IN_FIELD = {"priority": ("low", "normal", "high"), "status": ("open", "in_progress"), "blocked_by": ("",)}
_VALUES_BY_ARGUMENT: dict[str, Any] = {
    "query": lambda candidates: [*candidates._shown_names(), *_TOPICS],
    "role": Candidates._roles,
    "value": Candidates._ticket_values,
    "data": Candidates.filled_forms,
    "ticket_ids": lambda candidates: [[ticket_id] for ticket_id in candidates.knowledge.known(Ticket)],
    "page": lambda candidates: [1, 2],
    "hours": lambda candidates: [4, 24],
    "facts": lambda candidates: [{}],
    "desk": lambda candidates: _DESKS,
    "prefix": lambda candidates: _METRIC_PREFIXES,
    "code": lambda candidates: ["signed"],
    "force": lambda candidates: [False, True],
}
