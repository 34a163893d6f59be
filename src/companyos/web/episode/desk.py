"""Desks: an episode as whoever works in it sees it. The brief, the clock, the turns so far, and what all of them told."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from companyos.agents.choices.candidates import Candidates
from companyos.company import Message, Ticket, Tool, Toolbox
from companyos.company.apps.tool import reference
from companyos.core.calls import Call
from companyos.core.episode import Turn
from companyos.core.world import Record, clock_text
from companyos.env.knowledge import Told
from companyos.env.line_syntax import write_line
from companyos.env.observations import Scene
from companyos.serve.sessions.sessions import Session
from companyos.web.episode.forms import Blank, Known, Slot, as_typed, slots
from companyos.web.episode.sheets import Seen, kind_of
from companyos.web.words import in_words, tool_title

MOST_OPTIONS = 60  # that a field proposes
_REMEMBERED = 512  # sessions whose replies need not be read again
APPS = {"ticketdesk": "TicketDesk", "datahub": "DataHub", "approvalflow": "ApprovalFlow"}


class Desk(msgspec.Struct):
    """An episode at one moment. Taken within the lane; what it holds does not change any more."""

    session_id: str
    scene: Scene
    toolbox: Toolbox
    now: str
    begins: str
    turns: Sequence[Turn]
    done: bool
    success: bool | None
    told: Told

    @property
    def step(self) -> int:
        return len(self.turns)

    @property
    def due(self) -> int:
        return self.step + 1

    @property
    def place(self) -> str:
        return f"/office/{self.session_id}"

    @property
    def letters(self) -> int:
        """How many messages were shown so far. How many lie unread nobody is told before they look."""
        return len(tuple(self.told.known(Message)))

    def seen(self, turn: int) -> Any:
        """What was told of a record up to a turn."""

        def of(id: str) -> Seen:
            heard = [
                (number, shown)
                for number, one in enumerate(self.turns[:turn], 1)
                if one.reply.ok
                for shown in records_in(one.reply.data)
                if shown.get("id") == id
            ]
            return Seen(self.turns[turn - 1].now, heard)

        return of

    def last_shown(self, id: str) -> tuple[int, Mapping[str, Any]] | None:
        """A record as it was shown last in full, and at which step."""
        for number in range(self.step, 0, -1):
            data = self.turns[number - 1].reply.data
            if isinstance(data, dict) and data.get("id") == id and len(data) > 4:
                return number, data
        return None

    def blank(self, tool: Tool, values: Mapping[str, Any]) -> Blank:
        """A tool's form with what is known filled in or proposed."""
        table, asked = Candidates(self.told, self.toolbox), slots(tool)
        options = {slot.name: _options(table, tool, slot) for slot in asked if slot.kind in ("text", "record", "list")}
        fields = {slot.name: self._form_fields(table, values) for slot in asked if slot.kind == "pairs" and slot.required}
        facts = self._facts(values) if any(slot.kind == "citations" for slot in asked) else ()
        kinds = tuple(self.told.forms) if fields and tool.target else ()
        return Blank(tool, asked, values, options, fields, facts, kinds)

    def _form_fields(self, table: Candidates, values: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
        """What the company's form asks for, where one was told: its fields, and what of that is known."""
        asked = str(values.get("approval_type", ""))
        for turn in reversed(self.turns):
            for shown in records_in(turn.reply.data):
                if shown.get("id") == asked and "required" in shown:
                    known = _proposals(self.told, values)
                    names = [(name, True) for name in shown["required"]] + [(name, False) for name in shown["optional"]]
                    return [(name, required, known.get(name, "") if required else "") for name, required in names]
        return []

    def _facts(self, values: Mapping[str, Any]) -> list[Known]:
        """All that was shown and can be cited, by record: those that were read last come first."""
        ticked = cited_in(values.get("evidence"))
        by_record: dict[str, list[tuple[str, str, str, bool]]] = {}
        for (record, field), value in self.told.facts.items():
            citation = msgspec.json.encode({"record": record, "field": field, "value": value}).decode()
            shown = "–" if value is None else str(value)
            by_record.setdefault(record, []).append((field, shown, citation, (record, field) in ticked))
        titles = {record: self._title(record) for record in by_record}
        order = {record: number for number, record in enumerate(_order_read(self.turns))}
        latest = sorted(by_record, key=lambda record: order.get(record, -1), reverse=True)
        return [Known(record, titles[record], by_record[record]) for record in latest]

    def _title(self, record: str) -> str:
        facts = self.told.facts
        return str(
            next((facts[record, name] for name in ("title", "name", "subject", "text") if facts.get((record, name))), "")
        )


class Desks:
    """Desks of sessions, each with a memory of what it was told that grows with its turns."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, tuple[int, Told]] = OrderedDict()

    def of(self, session: Session) -> Desk:
        """The desk of a session as it stands. Within the lane: outside of it the session may go on at any moment."""
        env = session.env
        turns = tuple(env.turns)
        return Desk(
            session.header.session_id,
            env.scene,
            env.toolbox,
            session.last.now,
            clock_text(env.setting.world.now),
            turns,
            env.done,
            env.success,
            self._told(session.header.session_id, env.scene.task, turns),
        )

    def _told(self, session_id: str, brief: str, turns: Sequence[Turn]) -> Told:
        heard, told = self._heard.pop(session_id, (0, None))
        if told is None or heard > len(turns):
            heard, told = 0, Told(brief)
        for turn in turns[heard:]:
            told.hear(turn.reply)
        self._heard[session_id] = (len(turns), told)
        if len(self._heard) > _REMEMBERED:
            self._heard.popitem(last=False)
        return told


def cited_in(evidence: Any) -> set[tuple[str, str]]:
    """The facts that a call cites, as record and field. An agent may have written anything there."""
    given = [one for one in evidence if isinstance(one, dict)] if isinstance(evidence, list) else []
    pairs = [(one.get("record"), one.get("field")) for one in given]
    return {(record, field) for record, field in pairs if isinstance(record, str) and isinstance(field, str)}


def records_in(data: Any) -> Iterator[Mapping[str, Any]]:
    """All records that a reply shows, in lists or alone."""
    if isinstance(data, dict):
        rows = data.get("rows", data.get("arrived"))
        if rows is None:
            yield data
        else:
            yield from (row for row in rows if isinstance(row, dict))


def _order_read(turns: Sequence[Turn]) -> dict[str, None]:
    order: dict[str, None] = {}
    for turn in turns:
        for shown in records_in(turn.reply.data):
            if isinstance(shown.get("id"), str):
                order.pop(shown["id"], None)
                order[shown["id"]] = None
    return order


def _options(table: Candidates, tool: Tool, slot: Slot) -> list[str]:
    if slot.name not in tool.hints:
        return []
    proposed = (one[0] if isinstance(one, list) else one for one in table.options(tool, slot.name))
    return list(dict.fromkeys(str(one) for one in proposed if one not in ("", None)))[-MOST_OPTIONS:]


def _proposals(told: Told, values: Mapping[str, Any]) -> dict[str, str]:
    """Values for a company form's fields, where a fact of that name was shown for the ticket in question."""
    ticket = str(values.get("ticket_id") or next(iter(told.known(Ticket)), ""))  # the first is the brief's
    return {"ticket_id": ticket} | {
        field: as_typed(value) for (record, field), value in told.facts.items() if record == ticket and value is not None
    }


# -- ways about the office ---------------------------------------------------------------------------------------------


class Way(msgspec.Struct, frozen=True):
    """One thing to click in the navigation: at once by a line, or by a form."""

    title: str
    about: str
    line: str = ""
    tool: str = ""
    writes: bool = False
    asks: bool = False  # there is more to say than the line does


class Ways(msgspec.Struct, frozen=True):
    """An app: what can be opened from anywhere, and what needs the id of something."""

    app: str
    title: str
    browse: tuple[Way, ...]
    by_id: tuple[Way, ...]


@lru_cache(maxsize=256)
def ways(toolbox: Toolbox) -> tuple[Ways, ...]:
    """The whole toolbox as a navigation: every tool is in it once."""
    found = []
    for app in toolbox.apps:
        tools = [tool for tool in toolbox if tool.app == app]
        found.append(
            Ways(
                app,
                APPS.get(app, in_words(app)),
                tuple(_way(tool) for tool in tools if not tool.target and not tool.writes),
                tuple(_way(tool) for tool in tools if tool.target or tool.writes),
            )
        )
    return tuple(found)


def _way(tool: Tool) -> Way:
    about = tool.description.partition("\n")[0]
    # What needs nothing is opened at once; a list's filters can be set once it is there.
    at_once = not tool.required and not tool.writes and ("page" in tool.hints or not tool.hints)
    line = write_line(Call(tool.app, tool.method)) if at_once else ""
    return Way(tool_title(tool), about, line, tool.name, tool.writes, bool(tool.hints))


class Act(msgspec.Struct, frozen=True):
    """Something to read about the record on the page."""

    title: str
    line: str


def acts(toolbox: Toolbox, id: str, but: str) -> tuple[list[Act], list[Tool]]:
    """What can be read about a record, and which tools write on it. `but` is the tool whose reply is being shown."""
    about = [tool for tool in _about(toolbox, kind_of(id)) if not tool.writes and tool.required == [tool.target]]
    reads = [
        Act(tool_title(tool), write_line(Call(tool.app, tool.method, {tool.target: id})))
        for tool in about
        if tool.name != but
    ]
    return reads, writers_on(toolbox, kind_of(id))


def writers_on(toolbox: Toolbox, kind: str) -> list[Tool]:
    """The tools that write on records of a kind."""
    return [tool for tool in _about(toolbox, kind) if tool.writes]


@lru_cache(maxsize=1024)
def _about(toolbox: Toolbox, kind: str) -> tuple[Tool, ...]:
    """The tools that take the id of a record of a kind first."""
    return tuple(tool for tool in toolbox if tool.target and _named(reference(tool.hints[tool.target])) == kind)


def _named(kind: type[Record] | None) -> str:
    return kind.__name__ if kind else ""
