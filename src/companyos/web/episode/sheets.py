"""Sheets: how a reply is laid out on a page. All of it is shown, under the names it came by, and nothing else."""

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
from companyos.web.words import tool_title

GO = "go"  # the one form of a page whose buttons say in a line what to call
TITLES = ("title", "name")  # the first of these heads a record
PILLS = ("status", "priority", "resolution", "reason", "pipeline", "presence", "verdict", "code", "topic")
PROSE = ("text", "note", "message")
_TONES = {
    tone: words.split(",")
    for tone, words in {
        "good": "done,approved,in force,idle,in,completed,active,ok,high_trust,paid,valid",
        "busy": "open,in_progress,pending,running,prospect,normal,on_hold,escalated",
        "warn": "high,stale,blocked,suspended,expired,needs_superior,needs_evidence",
        "bad": "rejected,failed,declined,cannot_be_done,closed_down",
        "mute": "cancelled,superseded,withdrawn,low,duplicate,inactive",
    }.items()
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words}


# -- values ------------------------------------------------------------------------------------------------------------


def tone(value: Any) -> str:
    """Which colour a word has, for eyes that skim: its meaning stands in the word."""
    text = str(value)
    return _TONE_OF.get(text, "warn" if text.startswith("away") else "plain")


@lru_cache(maxsize=64)
def openers(toolbox: Toolbox = TOOLBOX) -> Mapping[type[Record], Tool]:
    """For each kind of record the tool that shows one: the first that needs its id and nothing else."""
    found: dict[type[Record], Tool] = {}
    for tool in toolbox:
        if not tool.writes and tool.required == [tool.target]:
            kind = reference(tool.hints[tool.target])
            if kind is not None:
                found.setdefault(kind, tool)
    return found


def _looks_measured(name: str) -> bool:
    """Whether a name in a prose text is a metric's: with a dot in it, it might be much else, a tool's for one."""
    return "_" in name and name.partition(".")[0] not in TOOLBOX.apps


class Pen:
    """Writes values: ids as buttons that open what they name, as long as there is a turn to do it in."""

    def __init__(self, live: bool) -> None:
        self._live = live

    def text(self, text: str) -> Markup:
        """A text with the ids in it linked."""
        pieces, at = [], 0
        for start, end, kind in ids_in(text) if self._live else ():
            tool = openers().get(kind)
            if tool is None or (kind is Metric and end - start < len(text) and not _looks_measured(text[start:end])):
                continue
            pieces += [escape(text[at:start]), self.button(Call(tool.app, tool.method, {tool.target: text[start:end]}))]
            at = end
        return Markup("").join([*pieces, escape(text[at:])])

    def button(self, call: Call) -> Markup:
        """The id that a call opens, as its button."""
        [name] = call.params.values()
        return Markup('<button class="ref" form="{}" name="_line" value="{}">{}</button>').format(GO, write_line(call), name)

    def value(self, value: Any, field: str = "") -> Markup:
        """A field's value, as it was told."""
        if value is None or value == "":
            return Markup('<span class="none">–</span>')
        if isinstance(value, bool):
            return Markup("true" if value else "false")
        if isinstance(value, str):
            if field in PILLS and len(value) < 40:
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


class Sheet(msgspec.Struct):
    """One reply, ready to be shown. `form` is the macro that shows it."""

    form: str
    title: str = ""
    id: str = ""
    kind: str = ""  # of the record it is, if it is one
    pills: Sequence[tuple[str, Markup]] = ()
    prose: Sequence[tuple[str, Markup]] = ()
    facts: Sequence[tuple[str, Markup]] = ()
    wide: Sequence[tuple[str, Markup]] = ()  # facts that hold others
    empty: Sequence[str] = ()  # fields that are there and say nothing
    figures: Sequence[tuple[str, Markup]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Any] = ()
    total: int = 0
    page: int = 1
    pages: int = 1


class Seen(msgspec.Struct, frozen=True):
    """What else a sheet may speak of: the clock, and what the same record said before."""

    now: str
    before: Sequence[tuple[int, Mapping[str, Any]]]  # step and reply, of all that was told of the record


def lay_out(tool: Tool | None, data: Any, pen: Pen, seen: Callable[[str], Seen]) -> Sheet:
    """The layout that suits a reply, found by its shape."""
    if not isinstance(data, dict):
        return Sheet("figures", facts=[("reply", pen.value(data))])
    rows = data.get("rows", data.get("arrived"))
    if rows is None:
        return _record(data, pen, seen) if isinstance(data.get("id"), str) else Sheet("figures", facts=_facts(data, pen))
    count = {"total": data.get("total", len(rows)), "page": data.get("page", 1), "pages": data.get("pages", 1)}
    title = tool_title(tool) if tool else ""
    if any("sender" in row for row in rows) or "arrived" in data:
        return Sheet("letters", title, rows=[_letter(row, pen) for row in rows], **count)
    if any("before" in row and "after" in row for row in rows) or (tool and not rows and "history" in tool.method):
        return Sheet("events", title, rows=[_event(row, pen) for row in rows], **count)
    if any("ticket_id" in row and "author" in row for row in rows):
        return Sheet("events", title, rows=[_event(row, pen) for row in rows], **count)
    if any("required" in row for row in rows):
        return Sheet("blanks", title, kind=ApprovalType.__name__, rows=[_blank(row, pen) for row in rows], **count)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[(name, pen.value(row.get(name), name)) for name in columns] for row in rows]
    return Sheet("table", title, columns=columns, rows=cells, **count)


def kind_of(id: str) -> str:
    """The kind of record that an id names, by its look; empty where that does not tell."""
    return next((kind.__name__ for start, end, kind in ids_in(id) if end - start == len(id)), "")


def _facts(data: Mapping[str, Any], pen: Pen, without: Sequence[str] = ()) -> list[tuple[str, Markup]]:
    return [(name, pen.value(value, name)) for name, value in data.items() if name not in without]


def _record(data: Mapping[str, Any], pen: Pen, seen: Callable[[str], Seen]) -> Sheet:
    kind = kind_of(data["id"])
    head = next((name for name in TITLES if data.get(name)), "")
    pills = [name for name in ("status", "priority", "resolution", "pipeline", "presence") if data.get(name)]
    prose = [name for name in PROSE if data.get(name)]
    rest = ("id", head, *pills, *prose)
    figures = []
    if kind == "Metric":
        figures = _metric(data, seen(data["id"]))
        rest = (*rest, *(("value", "unit") if "value" in data else ("sources",)))
    if kind == "Person" and "presence" in data and "manager" in data:
        figures = [
            (
                "Calendar, from this Monday on",
                charts.calendar(seen(data["id"]).now, data.get("away_from"), data.get("away_until")),
            )
        ]
    shown = [name for name in data if name not in rest]
    wide = [name for name in shown if data[name] and isinstance(data[name], dict | list) and name != "sources"]
    empty = [name for name in shown if data[name] in (None, "", [])]
    return Sheet(
        "record",
        title=str(data[head]) if head else data["id"],
        id=data["id"],
        kind=kind,
        pills=[(name, pen.value(data[name], name)) for name in pills],
        prose=[(name, pen.text(str(data[name]))) for name in prose],
        facts=[(name, pen.value(data[name], name)) for name in shown if name not in (*empty, *wide)],
        wide=[(name, pen.value(data[name], name)) for name in wide],
        empty=empty,
        figures=figures,
    )


def _metric(data: Mapping[str, Any], seen: Seen) -> list[tuple[str, Markup]]:
    """A figure large, how old it is, and what it was when it was looked at before."""
    if "sources" in data:
        sources = Markup("").join(Markup("<li>{}</li>").format(source) for source in data["sources"])
        flow = '<div class="lineage"><ul class="chips">{}</ul><span aria-hidden="true">→</span><b>{}</b></div>'
        return [("Lineage", Markup(flow).format(sources, data["id"]))]
    if "value" not in data:
        return []
    figures = [("Value", Markup('<p class="figure">{} <small>{}</small></p>').format(data["value"], data.get("unit", "")))]
    if isinstance(data.get("age_days"), int):
        limits = [one["max_age_days"] for _, one in seen.before if isinstance(one.get("max_age_days"), int)]
        figures.append(("Freshness", charts.freshness(data["age_days"], limits[-1] if limits else None)))
    values = [(step, one["value"]) for step, one in seen.before if isinstance(one.get("value"), int | float)]
    if len(values) > 1:
        figures.append(("Readings you have seen", charts.readings(values)))
    return figures


def _letter(row: Mapping[str, Any], pen: Pen) -> dict[str, Markup]:
    shown = ("id", "at", "sender", "topic", "about", "text")
    letter = {name: pen.value(row.get(name), name) for name in shown}
    return letter | {"more": pen.value({name: value for name, value in row.items() if name not in shown} or None)}


def _event(row: Mapping[str, Any], pen: Pen) -> dict[str, Any]:
    """A comment or a change of one field."""
    if "text" in row:
        own = ("id", "ticket_id", "author", "at", "to", "text")
        stated = [(name, pen.value(value)) for name, value in row.items() if name not in own]
        return {"comment": True, "stated": stated} | {name: pen.value(row.get(name)) for name in own}
    names = ("at", "author", "record", "field", "before", "after")
    return {"comment": False, "has": set(row)} | {name: pen.value(row.get(name)) for name in names}


def _blank(row: Mapping[str, Any], pen: Pen) -> dict[str, Any]:
    """A form that can be filled in."""
    return {"id": row["id"], "title": row.get("title", row["id"])} | {"facts": _facts(row, pen, ("id", "title"))}
