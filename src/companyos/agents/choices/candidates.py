"""Calls that an agent could make next, filled in from what it was told. Random agents and learners share this table."""

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

_NAMING_FIELDS = ("reference", "subject", "name")
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
_FIGURES = (
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
_WORDS = ("low", "normal", "high", "open", "in_progress", "")
_OFFICE = re.compile("|".join([*sorted(_OFFICES, key=len, reverse=True), r"Head of [A-Z]\w+"]))
_RENAMED = re.compile(r"(\w+) calls the field (\w+) now (\w+)")
_VARIED = ("query", "to", "hours")  # optional arguments that `every` fills in; it leaves out the others
_FILLED_IN = ("evidence", "data")  # arguments that `completed` fills in after a call was chosen


class Candidates:
    """The values that an agent could give for each argument of each tool: ids it was told, and choices of the schema."""

    def __init__(self, told: Knowledge, toolbox: Toolbox = TOOLBOX) -> None:
        self.told = told
        # Only the brief was told so far, so these are the agent's own tickets and the topics of its work.
        self.own = tuple(told.known(Ticket))
        self._topics = [topic for topic in _TOPICS if topic in told.values]
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
            return list(self.told.known(kind))
        if get_origin(hint) is Literal:
            return list(get_args(hint))
        if getattr(hint, "__origin__", hint) is bool:
            return [False, True]
        if PROSE in getattr(hint, "__metadata__", ()):
            return ["Could you please look into this?"]
        return list(_BY_NAME[name](self))

    def citations(self, draw: Draw) -> list[dict[str, Any]]:
        """Return up to four random facts that were shown, as evidence."""
        facts = list(self.told.facts.items())
        chosen = draw.sample(facts, min(len(facts), draw.between(0, 4)))
        return [{"record": record, "field": field, "value": value} for (record, field), value in chosen]

    def forms(self) -> list[dict[str, Any]]:
        """Return a form for each known ticket, filled in from facts whose field has the same name."""
        forms = []
        shown = {field: value for (_, field), value in self.told.facts.items()}
        # A form calls a figure by the end of its metric's name: `score` is the value of `compliance_score.acme`.
        read = {record.split(".")[0]: value for (record, field), value in self.told.facts.items() if field == "value"}
        figures = {part: value for name, value in read.items() for part in (name, name.rsplit("_", 1)[-1])}
        asked = dict.fromkeys(field for fields in self.told.forms.values() for field in fields)
        for ticket in self.told.known(Ticket):
            of_ticket = {field: value for (record, field), value in self.told.facts.items() if record == ticket}
            known = shown | of_ticket | {"ticket_id": ticket}
            filled = {field: known.get(field, figures.get(field)) for field in asked}
            forms.append({field: value for field, value in filled.items() if value is not None})
        return forms

    # -- all of them, to choose from ---------------------------------------------------------------------------------

    def about(self, told: Knowledge) -> "Candidates":
        """Return the same table over another knowledge of the same brief."""
        twin = copy(self)
        twin.told = told
        return twin

    def every(self, tool: Tool, field: str = "") -> list[dict[str, Any]]:
        """Return all sensible sets of arguments of a tool. `completed` makes a call of one.

        Writes go to the brief's own tickets, into a field that can hold the value. Requests go to people who were looked
        up. Searches are for the reference, subject and kind of the brief's ticket.
        """
        if field:
            return [{"ticket_id": own, "field": field, "value": value} for own in self.own for value in self._fitting(field)]
        names = [name for name in tool.hints if name not in _FILLED_IN and (name in tool.required or name in _VARIED)]
        ways = [dict(zip(names, values, strict=True)) for values in product(*(self._sensible(tool, name) for name in names))]
        return [{**way, "data": whole} for way in ways for whole in (False, True)] if "data" in tool.hints else ways

    def completed(self, tool: Tool, way: dict[str, Any]) -> Call:
        """Return a call with these arguments, with citations and form filled in from what was read."""
        if "evidence" in tool.hints:
            return Call(tool.app, tool.method, {**way, "evidence": evidence(self.told, way["ticket_id"], way["reason"])})
        if "data" in tool.hints:
            return Call(tool.app, tool.method, {**way, "data": self.form(way["approval_type"], way["data"])})
        return Call(tool.app, tool.method, {name: value for name, value in way.items() if value is not None})

    def form(self, approval_type: str, whole: bool) -> dict[str, Any]:
        """Return the data of a form: the required fields, and with `whole` the optional ones.

        Values come from the ticket first, then from records that the ticket names, then from any other record.
        """
        facts = self.told.facts
        ticket = next(iter(self.own), "")
        named = {value for (record, _), value in facts.items() if record == ticket and isinstance(value, str)}
        known: dict[str, Any] = {"ticket_id": ticket}
        for (record, field), value in facts.items():
            rank = 2 if record == ticket else 1 if record in named else 0
            if value is not None and rank >= known.get(f"{field} rank", 0):
                known |= {field: value, f"{field} rank": rank}
            if field == "value":  # a form calls a figure by the end of its metric's name
                known[record.split(".")[0].rsplit("_", 1)[-1]] = value
        changes = [change for text in texts(self.told) for change in _RENAMED.findall(text)]
        known |= {new: known[old] for form, old, new in changes if form == approval_type and old in known}
        fields = [*self.told.forms.get(approval_type, ()), *(self.told.attachments.get(approval_type, ()) if whole else ())]
        return {field: known[field] for field in fields if field in known}

    def _sensible(self, tool: Tool, name: str) -> list[Any]:
        """Return the values of an argument that the work could call for."""
        if name == "ticket_id" and tool.writes:
            return list(self.own)
        if name == "query":
            return self._asked_about()
        if name == "role":
            return list(dict.fromkeys(office for text in texts(self.told) for office in _OFFICE.findall(text)))
        if name == "approver":
            return [person for person in self.told.known(Person) if (person, "presence") in self.told.facts]
        if name == "approval_type":
            return [form for form in self.told.known(ApprovalType) if form in self.told.forms]
        if name == "hours":
            return [8, 24]
        options = self.options(tool, name)
        return [None, *options] if name == "to" else options

    def _asked_about(self) -> list[str]:
        """Return references and subjects of the brief's tickets, and words for the kind of work."""
        facts = self.told.facts
        named = [facts.get((ticket, field)) for ticket in self.own for field in ("reference", "subject")]
        kinds = [word for ticket in self.own for word in str(facts.get((ticket, "kind"), "")).split("_")]
        return [query for query in dict.fromkeys([*named, *kinds, *self._topics]) if query]

    def _fitting(self, field: str) -> list[str]:
        """Return the values that a field of a ticket can hold."""
        if field in _HOLDS:
            return ["", *self.told.known(_HOLDS[field])]
        if field == "cost_center":
            return list(dict.fromkeys(value for (_, name), value in self.told.facts.items() if name == field and value))
        return list(_CHOICES[field])

    def _named(self) -> list[Any]:
        return [value for (_, field), value in self.told.facts.items() if field in _NAMING_FIELDS and value]

    def _roles(self) -> list[Any]:
        return [*_OFFICES, *(value for (_, field), value in self.told.facts.items() if field == "role")]

    def _values(self) -> list[Any]:
        ids = [known for kind in (Person, Ticket, Entry, Approval) for known in self.told.known(kind)]
        centers = [value for (_, field), value in self.told.facts.items() if field == "cost_center" and value]
        return [*_WORDS, *ids, *centers]


_HOLDS: dict[str, type[Record]] = {
    "assignee": Person,
    "escalated_to": Person,
    "waiting_on": Person,
    "verified": Entry,
    "approval": Approval,
    "duplicate_of": Ticket,
}
_CHOICES = {"priority": ("low", "normal", "high"), "status": ("open", "in_progress"), "blocked_by": ("",)}
_BY_NAME: dict[str, Any] = {
    "query": lambda table: [*table._named(), *_TOPICS],
    "role": Candidates._roles,
    "value": Candidates._values,
    "data": Candidates.forms,
    "ticket_ids": lambda table: [[ticket_id] for ticket_id in table.told.known(Ticket)],
    "page": lambda table: [1, 2],
    "hours": lambda table: [4, 24],
    "facts": lambda table: [{}],
    "desk": lambda table: _DESKS,
    "prefix": lambda table: _FIGURES,
    "code": lambda table: ["signed"],
    "force": lambda table: [False, True],
}
