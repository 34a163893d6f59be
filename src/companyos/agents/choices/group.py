"""Groups of candidate calls: all calls of one tool, or all settings of one field by a tool that sets fields."""

from functools import cache
from typing import Any, get_args

from companyos.company import Tool, Toolbox
from companyos.company.apps.tool import reference


class CandidateGroup:
    """The candidates of one tool, or of one field that the tool sets. Parallel lists hold their properties."""

    __slots__ = ("argument_sets", "closes", "descriptions", "field", "keys", "kinds", "name", "rows", "tool", "types")

    def __init__(self, tool: Tool, field: str) -> None:
        self.tool = tool
        self.field = field
        self.name = name_of(tool, field)
        self.kinds = _about(tool, field)  # what must be told for new candidates to appear
        self.closes = "evidence" in tool.hints  # calls that close a ticket; only policy texts describe them
        self.argument_sets: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.rows: dict[str, tuple[int, ...]] = {}  # rows of candidates by argument value and by key
        self.descriptions: list[tuple[str, ...]] = []
        self.types: list[int] = []

    def fork(self) -> "CandidateGroup":
        twin = CandidateGroup.__new__(CandidateGroup)
        twin.tool, twin.field, twin.name, twin.kinds, twin.closes = self.tool, self.field, self.name, self.kinds, self.closes
        twin.argument_sets, twin.keys, twin.rows = self.argument_sets, self.keys, self.rows  # never changed in place
        twin.descriptions, twin.types = self.descriptions.copy(), self.types.copy()
        return twin

    def fill(self, argument_sets: list[dict[str, Any]]) -> range:
        """Replace the candidates. Return the rows that changed."""
        known = len(self.argument_sets)
        if argument_sets[:known] != self.argument_sets:
            known = 0
        keys, rows = self.keys[:known], self.rows.copy() if known else {}
        for row, arguments in enumerate(argument_sets[known:], known):
            keys.append(key_of(arguments))
            for value in {keys[row]} if self.closes else {keys[row], *arguments.values()}:
                rows[value] = (*rows.get(value, ()), row)
        self.argument_sets, self.keys, self.rows = argument_sets, keys, rows
        self.descriptions = self.descriptions[:known] + [()] * (len(argument_sets) - known)
        self.types = self.types[:known] + [0] * (len(argument_sets) - known)
        return range(known, len(argument_sets))


def groups_of(toolbox: Toolbox) -> list[CandidateGroup]:
    """Return the groups of a toolbox, still without candidates."""
    return [CandidateGroup(tool, field) for tool in toolbox for field in _fields(tool)]


def _fields(tool: Tool) -> tuple[str, ...]:
    return get_args(tool.hints["field"]) if "field" in tool.hints else ("",)


def name_of(tool: Tool, field: str) -> str:
    return f"{tool.method}.{field}" if field else tool.method


def key_of(params: dict[str, Any]) -> str:
    """Return the text that identifies a call within its group. Evidence, forms and prose do not count."""
    return "|".join([str(value) for name, value in params.items() if name not in _NOT_IN_KEYS and value is not None])


_NOT_IN_KEYS = ("evidence", "data", "text", "note")


@cache
def _about(tool: Tool, field: str) -> frozenset[str]:
    """Return the events that add candidates to a group: a new id of a kind, or, for `X shown`, a reply that shows an X."""
    if field:
        return frozenset(_HELD.get(field, ()))
    if "evidence" in tool.hints:
        return frozenset({"text"})
    if "data" in tool.hints:
        return frozenset({"ApprovalType shown", "Person shown"})
    kinds = {kind.__name__ for hint in tool.hints.values() if (kind := reference(hint))}
    kinds |= {kind for name, kind in (("to", "Person"), ("role", "text"), ("query", "case")) if name in tool.hints}
    return frozenset(kinds)


_HELD = {
    "assignee": ("Person",),
    "escalated_to": ("Person",),
    "waiting_on": ("Person",),
    "cost_center": ("Person shown", "Ticket shown"),
    "verified": ("Entry",),
    "approval": ("Approval",),
    "duplicate_of": ("Ticket",),
}
