"""Group: the candidates of one tool, or of one field that it sets, and by what there come to be more of them."""

from functools import cache
from typing import Any, get_args

from companyos.company import Tool, Toolbox
from companyos.company.apps.tool import reference


class Group:
    """The candidates of one tool, or of one field that it sets."""

    __slots__ = ("closes", "field", "keys", "kinds", "name", "rows", "said", "sorts", "tool", "ways")

    def __init__(self, tool: Tool, field: str) -> None:
        self.tool = tool
        self.field = field
        self.name = name_of(tool, field)
        self.kinds = _about(tool, field)  # of records by which there come to be more of them
        self.closes = "evidence" in tool.hints  # then what is said of them hangs on texts alone
        self.ways: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.rows: dict[str, tuple[int, ...]] = {}  # by each value that stands in them, and by their keys
        self.said: list[tuple[str, ...]] = []  # of each
        self.sorts: list[int] = []

    def fork(self) -> "Group":
        twin = Group.__new__(Group)
        twin.tool, twin.field, twin.name, twin.kinds, twin.closes = self.tool, self.field, self.name, self.kinds, self.closes
        twin.ways, twin.keys, twin.rows = self.ways, self.keys, self.rows  # these are never changed in place
        twin.said, twin.sorts = self.said.copy(), self.sorts.copy()
        return twin

    def fill(self, ways: list[dict[str, Any]]) -> range:
        """Takes candidates in place of those there were; gives the rows that are others than before."""
        known = len(self.ways)
        if ways[:known] != self.ways:
            known = 0
        keys, rows = self.keys[:known], self.rows.copy() if known else {}
        for row, way in enumerate(ways[known:], known):
            keys.append(key_of(way))
            for value in {keys[row]} if self.closes else {keys[row], *way.values()}:
                rows[value] = (*rows.get(value, ()), row)
        self.ways, self.keys, self.rows = ways, keys, rows
        self.said = self.said[:known] + [()] * (len(ways) - known)
        self.sorts = self.sorts[:known] + [0] * (len(ways) - known)
        return range(known, len(ways))


def groups_of(toolbox: Toolbox) -> list[Group]:
    """Every group of a toolbox, none of which has a candidate yet: tools, and the fields that they set."""
    return [Group(tool, field) for tool in toolbox for field in _fields(tool)]


def _fields(tool: Tool) -> tuple[str, ...]:
    return get_args(tool.hints["field"]) if "field" in tool.hints else ("",)


def name_of(tool: Tool, field: str) -> str:
    return f"{tool.method}.{field}" if field else tool.method


def key_of(params: dict[str, Any]) -> str:
    """What tells a call of a group from the others, whatever it cites and however it is put."""
    return "|".join([str(value) for name, value in params.items() if name not in _NOT_IN_KEYS and value is not None])


_NOT_IN_KEYS = ("evidence", "data", "text", "note")


@cache
def _about(tool: Tool, field: str) -> frozenset[str]:
    """By what there come to be more candidates in a group: ids of these kinds, or these things that are shown."""
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
