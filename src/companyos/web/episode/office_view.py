"""An episode as the person who works in it sees it: the brief, the clock, the turns so far and what the replies said."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from companyos.agents.choices.candidates import Candidates
from companyos.company import Message, Ticket, Tool, Toolbox
from companyos.core.episode import Turn
from companyos.core.world import clock_text
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Scene
from companyos.serve.sessions.sessions import Session
from companyos.web.episode.forms import CitableRecord, FormArgument, ToolForm, as_typed, form_arguments
from companyos.web.episode.layouts import HistoryOf, RecordHistory

MAX_OPTIONS = 60  # proposed values of one field
_CACHED_SESSIONS = 512  # whose replies need not be read again


class OfficeView(msgspec.Struct):
    """An episode at one moment. Built inside the lane (one session job at a time); it does not change afterwards."""

    session_id: str
    scene: Scene
    toolbox: Toolbox
    now: str
    begins: str
    turns: Sequence[Turn]
    done: bool
    success: bool | None
    told: Knowledge  # what the replies so far have said

    @property
    def step(self) -> int:
        return len(self.turns)

    @property
    def next_turn(self) -> int:
        return self.step + 1

    @property
    def place(self) -> str:
        return f"/office/{self.session_id}"

    @property
    def messages_seen(self) -> int:
        """The number of messages that replies have shown. The number of unread ones stays hidden, as it is from agents."""
        return len(tuple(self.told.known(Message)))

    def history_up_to(self, turn: int) -> HistoryOf:
        """Return a function that gives what the replies up to a turn have said about a record."""

        def history_of(id: str) -> RecordHistory:
            replies = [
                (number, shown)
                for number, made in enumerate(self.turns[:turn], 1)
                if made.reply.ok
                for shown in records_in(made.reply.data)
                if shown.get("id") == id
            ]
            return RecordHistory(self.turns[turn - 1].now, replies)

        return history_of

    def last_shown(self, id: str) -> tuple[int, Mapping[str, Any]] | None:
        """Return the last step that showed a record in full, and the record as it was shown."""
        for number in range(self.step, 0, -1):
            data = self.turns[number - 1].reply.data
            if isinstance(data, dict) and data.get("id") == id and len(data) > 4:
                return number, data
        return None

    def tool_form(self, tool: Tool, values: Mapping[str, Any]) -> ToolForm:
        """Return a tool's form, with known values filled in or proposed."""
        table, arguments = Candidates(self.told, self.toolbox), form_arguments(tool)
        proposing = [one for one in arguments if one.kind in ("text", "record", "list")]
        asks_pairs = [one for one in arguments if one.kind == "pairs" and one.required]
        asks_citations = any(one.kind == "citations" for one in arguments)
        return ToolForm(
            tool,
            arguments,
            values,
            options={one.name: _options(table, tool, one) for one in proposing},
            fields={one.name: self._company_form_fields(values) for one in asks_pairs},
            facts=self._citable_records(values) if asks_citations else (),
            kinds=tuple(self.told.forms) if asks_pairs and tool.target else (),
        )

    def _company_form_fields(self, values: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
        """Return the fields of the approval type, if a reply has shown it: name, whether it is required, proposed value."""
        approval_type = str(values.get("approval_type", ""))
        for turn in reversed(self.turns):
            for shown in records_in(turn.reply.data):
                if shown.get("id") == approval_type and "required" in shown:
                    known = _ticket_facts(self.told, values)
                    required = [(name, True, known.get(name, "")) for name in shown["required"]]
                    return required + [(name, False, "") for name in shown["optional"]]
        return []

    def _citable_records(self, values: Mapping[str, Any]) -> list[CitableRecord]:
        """Return all facts that can be cited, by record. The records that were read last come first."""
        ticked = cited_in(values.get("evidence"))
        by_record: dict[str, list[tuple[str, str, str, bool]]] = {}
        for (record, field), value in self.told.facts.items():
            citation = msgspec.json.encode({"record": record, "field": field, "value": value}).decode()
            shown = "–" if value is None else str(value)
            by_record.setdefault(record, []).append((field, shown, citation, (record, field) in ticked))
        order = {record: number for number, record in enumerate(_reading_order(self.turns))}
        latest_first = sorted(by_record, key=lambda record: order.get(record, -1), reverse=True)
        return [CitableRecord(record, self._title(record), by_record[record]) for record in latest_first]

    def _title(self, record: str) -> str:
        values = (self.told.facts.get((record, name)) for name in ("title", "name", "subject", "text"))
        return str(next((value for value in values if value), ""))


class OfficeViews:
    """Builds views of sessions, and caches what each session's replies have said."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, tuple[int, Knowledge]] = OrderedDict()

    def of(self, session: Session) -> OfficeView:
        """Return the current view of a session. Call this inside the lane; elsewhere the session may change meanwhile."""
        env = session.env
        turns = tuple(env.turns)
        return OfficeView(
            session.header.session_id,
            env.scene,
            env.toolbox,
            session.last.now,
            clock_text(env.setting.world.now),
            turns,
            env.done,
            env.success,
            self._told(session.header.session_id, env.scene.brief, turns),
        )

    def _told(self, session_id: str, brief: str, turns: Sequence[Turn]) -> Knowledge:
        heard, told = self._cache.pop(session_id, (0, None))
        if told is None or heard > len(turns):
            heard, told = 0, Knowledge(brief)
        for turn in turns[heard:]:
            told.hear(turn.reply)
        self._cache[session_id] = (len(turns), told)
        if len(self._cache) > _CACHED_SESSIONS:
            self._cache.popitem(last=False)
        return told


def cited_in(evidence: Any) -> set[tuple[str, str]]:
    """Return the facts that a call cites, as (record, field). The evidence can have any shape, because an agent wrote it."""
    citations = [one for one in evidence if isinstance(one, dict)] if isinstance(evidence, list) else []
    pairs = [(citation.get("record"), citation.get("field")) for citation in citations]
    return {(record, field) for record, field in pairs if isinstance(record, str) and isinstance(field, str)}


def records_in(data: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all records that a reply shows, alone or in a list."""
    if isinstance(data, dict):
        rows = data.get("rows", data.get("arrived"))
        if rows is None:
            yield data
        else:
            yield from (row for row in rows if isinstance(row, dict))


def _reading_order(turns: Sequence[Turn]) -> dict[str, None]:
    """Return the ids of the records that were shown, the one shown last at the end."""
    order: dict[str, None] = {}
    for turn in turns:
        for shown in records_in(turn.reply.data):
            if isinstance(shown.get("id"), str):
                order.pop(shown["id"], None)
                order[shown["id"]] = None
    return order


def _options(table: Candidates, tool: Tool, argument: FormArgument) -> list[str]:
    if argument.name not in tool.hints:
        return []
    proposed = (one[0] if isinstance(one, list) else one for one in table.options(tool, argument.name))
    return list(dict.fromkeys(str(one) for one in proposed if one not in ("", None)))[-MAX_OPTIONS:]


def _ticket_facts(told: Knowledge, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the known facts of the ticket that a form is about, to fill in fields of the same name."""
    ticket = str(
        values.get("ticket_id") or next(iter(told.known(Ticket)), "")
    )  # the brief names its ticket, so that one is known first
    return {"ticket_id": ticket} | {
        field: as_typed(value) for (record, field), value in told.facts.items() if record == ticket and value is not None
    }
