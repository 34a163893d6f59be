"""Chooses how a page shows a reply: as a record, a table, messages, events or forms.

A layout shows every value of the reply, under the name that the reply uses, and adds no other information.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from markupsafe import Markup, escape

from companyos.company import TOOLBOX, ApprovalType, Metric, Tool, Toolbox
from companyos.company.apps.tool import reference
from companyos.core.calls import Call
from companyos.core.world import Record
from companyos.env.knowledge import ids_in
from companyos.env.line_syntax import write_line
from companyos.web import charts
from companyos.web.labels import tool_title

CALL_FORM_ID = "go"  # the id of the page's form whose buttons send a call as one line
TITLE_FIELDS = ("title", "name")  # the first that has a value is the heading of a record
BADGE_FIELDS = ("status", "priority", "resolution", "reason", "pipeline", "presence", "verdict", "code", "topic")
_REFERENCE_SEARCHES = (
    ("datahub", "search_register", "search the register"),
    ("ticketdesk", "search_tickets", "search tickets"),
)
PROSE_FIELDS = ("text", "note", "message")
_WORDS_BY_TONE = {
    tone: words.split(",")
    for tone, words in {
        "good": "done,approved,in force,idle,in,completed,active,ok,high_trust,paid,valid",
        "busy": "open,in_progress,pending,running,prospect,normal,on_hold,escalated",
        "warn": "high,stale,blocked,suspended,expired,needs_superior,needs_evidence",
        "bad": "rejected,failed,declined,cannot_be_done,closed_down",
        "mute": "cancelled,superseded,withdrawn,low,duplicate,inactive",
    }.items()
}
_TONE_OF = {word: tone for tone, words in _WORDS_BY_TONE.items() for word in words}  # the reverse of `_WORDS_BY_TONE`


# -- values ------------------------------------------------------------------------------------------------------------


def tone(value: Any) -> str:
    """Return the colour of a word. The colour only repeats what the word says."""
    text = str(value)
    return _TONE_OF.get(text, "warn" if text.startswith("away") else "plain")


@lru_cache(maxsize=64)
def opening_tools(toolbox: Toolbox = TOOLBOX) -> Mapping[type[Record], Tool]:
    """Return, for each kind of record, the first tool that needs only a record's id and shows it."""
    tools: dict[type[Record], Tool] = {}
    for tool in toolbox:
        if not tool.writes and tool.required == [tool.target]:
            kind = reference(tool.hints[tool.target])
            if kind is not None:
                tools.setdefault(kind, tool)
    return tools


def _looks_like_metric(name: str) -> bool:
    """Return whether a dotted name in prose is a metric's, not for example a tool's."""
    return "_" in name and name.partition(".")[0] not in TOOLBOX.apps


class ValueRenderer:
    """Renders values as HTML. While the episode is running, ids are buttons that open their record."""

    def __init__(self, live: bool) -> None:
        self._live = live

    def text(self, text: str) -> Markup:
        """Return the text with its ids as buttons."""
        pieces, copied = [], 0  # `copied` is the position up to which the text is in `pieces`
        for start, end, kind in ids_in(text) if self._live else ():
            tool = opening_tools().get(kind)
            if tool is None or (kind is Metric and end - start < len(text) and not _looks_like_metric(text[start:end])):
                continue
            pieces += [escape(text[copied:start]), self.button(Call(tool.app, tool.method, {tool.target: text[start:end]}))]
            copied = end
        return Markup("").join([*pieces, escape(text[copied:])])

    def button(self, call: Call) -> Markup:
        """Return a button with an id, which makes the call that opens it."""
        [name] = call.params.values()
        return Markup('<button class="ref" form="{}" name="_line" value="{}">{}</button>').format(
            CALL_FORM_ID, write_line(call), name
        )

    def field(self, value: Any, name: str) -> Markup:
        """Return the value of a record's field. A reference has buttons that search for it."""
        shown = self.value(value, name)
        if not self._live or name != "reference" or not isinstance(value, str):
            return shown
        button = '<button class="ref small" form="{}" name="_line" value="{}">{}</button>'
        searches = (
            Markup(button).format(CALL_FORM_ID, write_line(Call(app, method, {"query": value})), title)
            for app, method, title in _REFERENCE_SEARCHES
        )
        return Markup('{} <span class="searches">{}</span>').format(shown, Markup(" ").join(searches))

    def value(self, value: Any, field: str = "") -> Markup:
        """Return the value of a field, as the reply gave it."""
        if value is None or value == "":
            return Markup('<span class="none">–</span>')
        if isinstance(value, bool):
            return Markup("true" if value else "false")
        if isinstance(value, str):
            if field in BADGE_FIELDS and len(value) < 40:
                return Markup('<span class="pill {}">{}</span>').format(tone(value), value)
            return self.text(value)
        if isinstance(value, list | tuple):
            if any(isinstance(item, dict) for item in value):
                return Markup("").join(map(self.value, value))
            items = (Markup("<li>{}</li>").format(self.value(item)) for item in value)
            return Markup('<ul class="chips">{}</ul>').format(Markup("").join(items)) if value else self.value(None)
        if isinstance(value, dict):
            pairs = (
                Markup("<div><dt>{}</dt><dd>{}</dd></div>").format(name, self.value(item, name))
                for name, item in value.items()
            )
            return Markup('<dl class="small">{}</dl>').format(Markup("").join(pairs))
        return escape(str(value))


# -- layouts -----------------------------------------------------------------------------------------------------------


class ReplyLayout(msgspec.Struct):
    """A reply that is ready to be shown."""

    macro: str  # the template macro that shows it
    title: str = ""
    id: str = ""
    kind: str = ""  # of the record, if the reply is one
    pills: Sequence[tuple[str, Markup]] = ()
    prose: Sequence[tuple[str, Markup]] = ()
    facts: Sequence[tuple[str, Markup]] = ()
    wide: Sequence[tuple[str, Markup]] = ()  # fields with nested values
    empty: Sequence[str] = ()  # names of fields that are empty
    figures: Sequence[tuple[str, Markup]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Any] = ()
    lists: str = ""  # the kind of the records in the rows of a table, if all ids show it
    total: int = 0
    page: int = 1
    pages: int = 1


class RecordHistory(msgspec.Struct, frozen=True):
    """What earlier replies said about a record, and the time now."""

    now: str
    replies: Sequence[tuple[int, Mapping[str, Any]]]  # step, the record as it was shown then


HistoryOf = Callable[[str], RecordHistory]  # of a record, by its id


def lay_out(tool: Tool | None, data: Any, renderer: ValueRenderer, history_of: HistoryOf) -> ReplyLayout:
    """Return the layout of a reply, chosen by the fields that it has."""
    if not isinstance(data, dict):
        return ReplyLayout("figures", facts=[("reply", renderer.value(data))])
    rows = data.get("rows", data.get("arrived"))
    if rows is None:
        if isinstance(data.get("id"), str):
            return _record(data, renderer, history_of)
        return ReplyLayout("figures", facts=_facts(data, renderer))
    count = {"total": data.get("total", len(rows)), "page": data.get("page", 1), "pages": data.get("pages", 1)}
    title = tool_title(tool) if tool else ""
    if any("sender" in row for row in rows) or "arrived" in data:
        return ReplyLayout("messages", title, rows=[_message(row, renderer) for row in rows], **count)
    if any("before" in row and "after" in row for row in rows) or (tool and not rows and "history" in tool.method):
        return ReplyLayout("events", title, rows=[_event(row, renderer) for row in rows], **count)
    if any("ticket_id" in row and "author" in row for row in rows):
        return ReplyLayout("events", title, rows=[_event(row, renderer) for row in rows], **count)
    if any("required" in row for row in rows):
        return ReplyLayout(
            "company_forms", title, kind=ApprovalType.__name__, rows=[_company_form(row, renderer) for row in rows], **count
        )
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[(name, renderer.value(row.get(name), name)) for name in columns] for row in rows]
    kinds = {record_kind(str(row.get("id"))) for row in rows}
    return ReplyLayout("table", title, columns=columns, rows=cells, lists=kinds.pop() if len(kinds) == 1 else "", **count)


def record_kind(id: str) -> str:
    """Return the kind of record that an id names, or an empty text if the id does not show it."""
    return next((kind.__name__ for start, end, kind in ids_in(id) if end - start == len(id)), "")


def _facts(data: Mapping[str, Any], renderer: ValueRenderer, without: Sequence[str] = ()) -> list[tuple[str, Markup]]:
    """Return the fields of a reply, except some."""
    return [(name, renderer.value(value, name)) for name, value in data.items() if name not in without]


def _record(data: Mapping[str, Any], renderer: ValueRenderer, history_of: HistoryOf) -> ReplyLayout:
    """Return the layout of one record."""
    kind = record_kind(data["id"])
    title_field = next((name for name in TITLE_FIELDS if data.get(name)), "")
    pills = [name for name in ("status", "priority", "resolution", "pipeline", "presence") if data.get(name)]
    prose = [name for name in PROSE_FIELDS if data.get(name)]
    shown_above = ("id", title_field, *pills, *prose)
    figures = []
    if kind == "Metric":
        figures = _metric(data, history_of(data["id"]))
        shown_above = (*shown_above, *(("value", "unit") if "value" in data else ("sources",)))
    if kind == "Person" and "presence" in data and "manager" in data:
        figures = [
            (
                "Calendar, from this Monday on",
                charts.calendar(history_of(data["id"]).now, data.get("away_from"), data.get("away_until")),
            )
        ]
    other = [name for name in data if name not in shown_above]
    wide = [name for name in other if data[name] and isinstance(data[name], dict | list) and name != "sources"]
    empty = [name for name in other if data[name] in (None, "", [])]
    return ReplyLayout(
        "record",
        title=str(data[title_field]) if title_field else data["id"],
        id=data["id"],
        kind=kind,
        pills=[(name, renderer.value(data[name], name)) for name in pills],
        prose=[(name, renderer.text(str(data[name]))) for name in prose],
        facts=[(name, renderer.field(data[name], name)) for name in other if name not in (*empty, *wide)],
        wide=[(name, renderer.value(data[name], name)) for name in wide],
        empty=empty,
        figures=figures,
    )


def _metric(data: Mapping[str, Any], history: RecordHistory) -> list[tuple[str, Markup]]:
    """Return a metric's value, its age, and its values in earlier replies."""
    if "sources" in data:
        sources = Markup("").join(Markup("<li>{}</li>").format(source) for source in data["sources"])
        template = '<div class="lineage"><ul class="chips">{}</ul><span aria-hidden="true">→</span><b>{}</b></div>'
        return [("Lineage", Markup(template).format(sources, data["id"]))]
    if "value" not in data:
        return []
    figures = [("Value", Markup('<p class="figure">{} <small>{}</small></p>').format(data["value"], data.get("unit", "")))]
    if isinstance(data.get("age_days"), int):
        limits = [record["max_age_days"] for _, record in history.replies if isinstance(record.get("max_age_days"), int)]
        figures.append(("Freshness", charts.freshness(data["age_days"], limits[-1] if limits else None)))
    values = [(step, record["value"]) for step, record in history.replies if isinstance(record.get("value"), int | float)]
    if len(values) > 1:
        figures.append(("Readings you have seen", charts.readings(values)))
    return figures


def _message(row: Mapping[str, Any], renderer: ValueRenderer) -> dict[str, Markup]:
    """Return the fields of a message, and all others under `more`."""
    main_fields = ("id", "at", "sender", "topic", "about", "text")
    message = {name: renderer.value(row.get(name), name) for name in main_fields}
    other_fields = {name: value for name, value in row.items() if name not in main_fields}
    return message | {"more": renderer.value(other_fields or None)}


def _event(row: Mapping[str, Any], renderer: ValueRenderer) -> dict[str, Any]:
    """Return a comment, or a change of one field."""
    if "text" in row:
        main_fields = ("id", "ticket_id", "author", "at", "to", "text")
        stated = [(name, renderer.value(value)) for name, value in row.items() if name not in main_fields]
        return {"comment": True, "stated": stated} | {name: renderer.value(row.get(name)) for name in main_fields}
    names = ("at", "author", "record", "field", "before", "after")
    return {"comment": False, "has": set(row)} | {name: renderer.value(row.get(name)) for name in names}


def _company_form(row: Mapping[str, Any], renderer: ValueRenderer) -> dict[str, Any]:
    """Return a form of the company, such as an approval type."""
    return {"id": row["id"], "title": row.get("title", row["id"])} | {"facts": _facts(row, renderer, ("id", "title"))}
