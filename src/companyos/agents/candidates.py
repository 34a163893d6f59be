"""Candidates: one honest table of the calls that make sense after what was told. Shared by all who need one."""

from typing import Any, Literal, get_args, get_origin

from companyos.apps import TOOLBOX, Approval, Entry, Person, Ticket, Tool, Toolbox
from companyos.apps.tool import PROSE, reference
from companyos.calls import Call
from companyos.lines import given_hint
from companyos.told import Told
from companyos.world import Draw

_NAMING_FIELDS = ("reference", "subject", "name")
# Words of the company, whatever the work: who holds an office, whose tickets, what policies are about, which figures.
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


class Candidates:
    """For each argument of each tool, the values that an agent could mean: ids it was told, choices the schema offers."""

    def __init__(self, told: Told, toolbox: Toolbox = TOOLBOX) -> None:
        self.told = told
        self._tools = list(toolbox)

    def sample(self, draw: Draw) -> Call:
        """A call: any tool that can be filled in, each argument at random."""
        while True:
            tool = draw.pick(self._tools)
            call = self.fill(tool, draw)
            if call is not None:
                return call

    def fill(self, tool: Tool, draw: Draw) -> Call | None:
        """This tool with random arguments, or None while nothing is known that would fit."""
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
        """What one argument could be."""
        hint = given_hint(tool.hints[name])
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
        """Some of the facts that were shown, as evidence."""
        facts = list(self.told.facts.items())
        chosen = draw.sample(facts, min(len(facts), draw.between(0, 4)))
        return [{"record": record, "field": field, "value": value} for (record, field), value in chosen]

    def forms(self) -> list[dict[str, Any]]:
        """A form filled in from facts whose field has the same name; nothing where none was shown."""
        found = []
        shown = {field: value for (_, field), value in self.told.facts.items()}
        # A form calls a figure by the end of its metric's name: `score` is the value of `compliance_score.acme`.
        read = {record.split(".")[0]: value for (record, field), value in self.told.facts.items() if field == "value"}
        figures = {part: value for name, value in read.items() for part in (name, name.rsplit("_", 1)[-1])}
        asked = dict.fromkeys(field for fields in self.told.forms.values() for field in fields)
        for ticket in self.told.known(Ticket):
            of_ticket = {field: value for (record, field), value in self.told.facts.items() if record == ticket}
            known = shown | of_ticket | {"ticket_id": ticket}
            filled = {field: known.get(field, figures.get(field)) for field in asked}
            found.append({field: value for field, value in filled.items() if value is not None})
        return found

    def _named(self) -> list[Any]:
        return [value for (_, field), value in self.told.facts.items() if field in _NAMING_FIELDS and value]

    def _roles(self) -> list[Any]:
        return [*_OFFICES, *(value for (_, field), value in self.told.facts.items() if field == "role")]

    def _values(self) -> list[Any]:
        ids = [known for kind in (Person, Ticket, Entry, Approval) for known in self.told.known(kind)]
        centers = [value for (_, field), value in self.told.facts.items() if field == "cost_center" and value]
        return [*_WORDS, *ids, *centers]


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
