"""Groups of candidate calls: all calls of one tool, or all calls of `update_ticket` that write the same field."""

from functools import cache
from typing import Any, get_args

from companyos.company import Tool, Toolbox
from companyos.company.apps.tool import reference


class CandidateGroup:
    """The candidates of one tool, or of one field that the tool writes.

    A candidate is a row: an index into the parallel lists `argument_sets`, `keys`, `descriptions` and `types`.
    """

    __slots__ = ("argument_sets", "closes", "descriptions", "events", "field", "keys", "name", "rows", "tool", "types")

    def __init__(self, tool: Tool, field: str) -> None:
        self.tool = tool
        self.field = field
        self.name = name_of(tool, field)
        self.events = _events(tool, field)  # after which there may be new candidates
        self.closes = "evidence" in tool.hints  # calls that close a ticket; only policy texts describe them
        self.argument_sets: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.rows: dict[str, tuple[int, ...]] = {}  # rows of candidates by argument value and by key
        self.descriptions: list[tuple[str, ...]] = []
        self.types: list[int] = []

    def fork(self) -> "CandidateGroup":
        """Return an independent copy."""
        fork = CandidateGroup.__new__(CandidateGroup)
        fork.tool, fork.field, fork.name = self.tool, self.field, self.name
        fork.events, fork.closes = self.events, self.closes
        fork.argument_sets, fork.keys, fork.rows = self.argument_sets, self.keys, self.rows  # never changed in place
        fork.descriptions, fork.types = self.descriptions.copy(), self.types.copy()
        return fork

    def fill(self, argument_sets: list[dict[str, Any]]) -> range:
        """Replace the candidates. Return the rows that changed."""
        unchanged = len(self.argument_sets)  # usually there are only new rows at the end
        if argument_sets[:unchanged] != self.argument_sets:
            unchanged = 0
        keys, rows = self.keys[:unchanged], self.rows.copy() if unchanged else {}
        for row, arguments in enumerate(argument_sets[unchanged:], unchanged):
            keys.append(key_of(arguments))
            for value in {keys[row]} if self.closes else {keys[row], *arguments.values()}:
                rows[value] = (*rows.get(value, ()), row)
        self.argument_sets, self.keys, self.rows = argument_sets, keys, rows
        self.descriptions = self.descriptions[:unchanged] + [()] * (len(argument_sets) - unchanged)
        self.types = self.types[:unchanged] + [0] * (len(argument_sets) - unchanged)
        return range(unchanged, len(argument_sets))


def groups_of(toolbox: Toolbox) -> list[CandidateGroup]:
    """Return the groups of a toolbox, still without candidates."""
    return [CandidateGroup(tool, field) for tool in toolbox for field in _fields(tool)]


def _fields(tool: Tool) -> tuple[str, ...]:
    """Return the fields that a tool can write, or an empty text if it writes none."""
    return get_args(tool.hints["field"]) if "field" in tool.hints else ("",)


def name_of(tool: Tool, field: str) -> str:
    """Return the name of a group: `get_ticket`, or `update_ticket.priority`."""
    return f"{tool.method}.{field}" if field else tool.method


def key_of(params: dict[str, Any]) -> str:
    """Return the text that identifies a call within its group. Evidence, forms and prose do not count."""
    return "|".join([str(value) for name, value in params.items() if name not in _NOT_IN_KEYS and value is not None])


_NOT_IN_KEYS = ("evidence", "data", "text", "note")


@cache
def _events(tool: Tool, field: str) -> frozenset[str]:
    """Return the events that add candidates to a group.

    `Person` is a new id of that kind, `Person shown` a reply that shows a person's fields, `text` a policy that was read,
    and `case` a change of the ticket of the brief.
    """
    if field:
        return frozenset(_EVENTS_BY_FIELD.get(field, ()))
    if "evidence" in tool.hints:
        return frozenset({"text"})
    if "data" in tool.hints:
        return frozenset({"ApprovalType shown", "Person shown"})
    kinds = {kind.__name__ for hint in tool.hints.values() if (kind := reference(hint))}
    kinds |= {kind for name, kind in (("to", "Person"), ("role", "text"), ("query", "case")) if name in tool.hints}
    return frozenset(kinds)


_EVENTS_BY_FIELD = {
    "assignee": ("Person",),
    "escalated_to": ("Person",),
    "waiting_on": ("Person",),
    "cost_center": ("Person shown", "Ticket shown"),
    "verified": ("Entry",),
    "approval": ("Approval",),
    "duplicate_of": ("Ticket",),
}
