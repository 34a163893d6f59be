"""An episode as the person who works in it sees it: the brief, the clock, the turns so far and what the replies said."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from companyos.agents.choices.candidates import Candidates
from companyos.company import Message, Policy, Ticket, Tool, Toolbox
from companyos.core.episode import Turn
from companyos.core.world import clock_text
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Scene
from companyos.serve.sessions.sessions import Session
from companyos.web.episode.forms import CitableRecord, FormArgument, ToolForm, as_typed, form_arguments
from companyos.web.episode.layouts import HistoryOf, RecordHistory, record_kind
from companyos.web.labels import tool_title

MAX_OPTIONS = 60  # proposed values of one field
MAX_PICKS = 6  # of them, those that a click fills in
_MAX_VALUE_LENGTH = 60  # characters of a value that is proposed
_MAX_CACHED_SESSIONS = 512


class ListPosition(NamedTuple):
    """A row of a list that a reply has shown."""

    turn: int
    row: int  # counted from 1
    title: str  # of the list


class OfficeView(msgspec.Struct):
    """An episode at one moment. Built as a job of the `WorkQueue`; it does not change afterwards."""

    session_id: str
    scene: Scene
    toolbox: Toolbox
    now: str
    begins: str
    turns: Sequence[Turn]
    done: bool
    success: bool | None
    knowledge: Knowledge  # what the replies so far have said

    @property
    def step(self) -> int:
        return len(self.turns)

    @property
    def next_turn(self) -> int:
        return self.step + 1

    @property
    def path(self) -> str:
        """The address of the session's pages, without a slash at the end."""
        return f"/office/{self.session_id}"

    @property
    def messages_seen(self) -> int:
        """The number of messages that replies have shown. The number of unread ones stays hidden, as it is from agents."""
        return len(tuple(self.knowledge.known(Message)))

    def history_up_to(self, turn: int) -> HistoryOf:
        """Return a function that gives what the replies up to a turn have said about a record."""

        def history_of(id: str) -> RecordHistory:
            replies = [
                (number, record)
                for number, past_turn in enumerate(self.turns[:turn], 1)
                if past_turn.reply.ok
                for record in records_in(past_turn.reply.data)
                if record.get("id") == id
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
        candidates, arguments = Candidates(self.knowledge, self.toolbox), form_arguments(tool)
        with_options = [argument for argument in arguments if argument.kind in ("text", "record", "list")]
        required_pairs = [argument for argument in arguments if argument.kind == "pairs" and argument.required]
        asks_citations = any(argument.kind == "citations" for argument in arguments)
        options = {argument.name: _options(candidates, tool, argument) for argument in with_options}
        return ToolForm(
            tool,
            arguments,
            values,
            options=options,
            fields={argument.name: self._company_form_fields(values) for argument in required_pairs},
            facts=self._citable_records(values) if asks_citations else (),
            kinds=tuple(self.knowledge.forms) if required_pairs and tool.target else (),
            picks={name: self._picks(values) for name, values in options.items()},
        )

    def _picks(self, options: Sequence[str]) -> list[str]:
        """Return the options that replies or the brief have shown, the latest first."""
        shown = [option for option in options if option in self.knowledge.values or record_kind(option)]
        order = {record: number for number, record in enumerate(_reading_order(self.turns))}
        return sorted(shown, key=lambda option: order.get(option, -1), reverse=True)[:MAX_PICKS]

    @property
    def ticket(self) -> str:
        """The id of the ticket that the brief names, or an empty text."""
        return next(iter(self.knowledge.known(Ticket)), "")

    @property
    def known_records(self) -> list[str]:
        """The ids of records that were shown, the latest first."""
        return list(_reading_order(self.turns))[::-1][:MAX_OPTIONS]

    @property
    def known_values(self) -> list[str]:
        """The values of facts that were shown, and the ids of records, the latest first."""
        values = [as_typed(value) for value in self.knowledge.facts.values() if value not in (None, "", True, False)]
        short = [value for value in values[::-1] if len(value) <= _MAX_VALUE_LENGTH]
        return list(dict.fromkeys([*short, *self.known_records]))[: 2 * MAX_OPTIONS]

    def policies(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Return the policies that were read, the latest first: the step, and the policy as it was shown then."""
        read: dict[str, tuple[int, Mapping[str, Any]]] = {}
        for number, turn in enumerate(self.turns, 1):
            data = turn.reply.data
            if isinstance(data, dict) and "text" in data and record_kind(str(data.get("id"))) == Policy.__name__:
                read.pop(data["id"], None)
                read[data["id"]] = (number, data)
        return list(read.values())[::-1]

    def list_with(self, record: str, before: int) -> ListPosition | None:
        """Return the last list before a turn that has a row with this record."""
        for number in range(before - 1, 0, -1):
            turn = self.turns[number - 1]
            data = turn.reply.data
            rows = data.get("rows", data.get("arrived")) if isinstance(data, dict) else None
            for row, shown in enumerate(rows or (), 1):
                if isinstance(shown, dict) and record in shown.values():
                    tool = self.toolbox.find(turn.call)
                    return ListPosition(number, row, tool_title(tool) if tool else "")
        return None

    def _company_form_fields(self, values: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
        """Return the fields of the approval type, if a reply has shown it: name, whether it is required, proposed value."""
        approval_type = str(values.get("approval_type", ""))
        for turn in reversed(self.turns):
            for record in records_in(turn.reply.data):
                if record.get("id") == approval_type and "required" in record:
                    proposed = _ticket_facts(self.knowledge, values)
                    required = [(name, True, proposed.get(name, "")) for name in record["required"]]
                    return required + [(name, False, "") for name in record["optional"]]
        return []

    def _citable_records(self, values: Mapping[str, Any]) -> list[CitableRecord]:
        """Return all facts that can be cited, by record. The records that were read last come first."""
        ticked = cited_in(values.get("evidence"))
        by_record: dict[str, list[tuple[str, str, str, bool]]] = {}
        for (record, field), value in self.knowledge.facts.items():
            citation = msgspec.json.encode({"record": record, "field": field, "value": value}).decode()
            value_text = "–" if value is None else str(value)
            by_record.setdefault(record, []).append((field, value_text, citation, (record, field) in ticked))
        order = {record: number for number, record in enumerate(_reading_order(self.turns))}
        latest_first = sorted(by_record, key=lambda record: order.get(record, -1), reverse=True)
        return [CitableRecord(record, self._title(record), by_record[record]) for record in latest_first]

    def _title(self, record: str) -> str:
        values = (self.knowledge.facts.get((record, name)) for name in ("title", "name", "subject", "text"))
        return str(next((value for value in values if value), ""))


class OfficeViews:
    """Builds views of sessions, and caches what each session's replies have said."""

    def __init__(self) -> None:
        self._cache: OrderedDict[str, tuple[int, Knowledge]] = OrderedDict()  # session id: turns heard, knowledge

    def of(self, session: Session) -> OfficeView:
        """Return the current view of a session.

        Call this only in a job of the `WorkQueue`: elsewhere the session may change at the same time.
        """
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
            self._knowledge(session.header.session_id, env.scene.brief, turns),
        )

    def _knowledge(self, session_id: str, brief: str, turns: Sequence[Turn]) -> Knowledge:
        turns_heard, knowledge = self._cache.pop(session_id, (0, None))
        if knowledge is None or turns_heard > len(turns):
            turns_heard, knowledge = 0, Knowledge(brief)
        for turn in turns[turns_heard:]:
            knowledge.hear(turn.reply)
        self._cache[session_id] = (len(turns), knowledge)
        if len(self._cache) > _MAX_CACHED_SESSIONS:
            self._cache.popitem(last=False)
        return knowledge


def cited_in(evidence: Any) -> set[tuple[str, str]]:
    """Return the facts that a call cites, as (record, field). The evidence can have any shape, because an agent wrote it."""
    citations = [item for item in evidence if isinstance(item, dict)] if isinstance(evidence, list) else []
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
        for record in records_in(turn.reply.data):
            if isinstance(record.get("id"), str):
                order.pop(record["id"], None)  # a key that is added again moves to the end
                order[record["id"]] = None
    return order


def _options(candidates: Candidates, tool: Tool, argument: FormArgument) -> list[str]:
    """Return the known values that fit an argument, without repetitions."""
    if argument.name not in tool.hints:
        return []
    values = (value[0] if isinstance(value, list) else value for value in candidates.options(tool, argument.name))
    return list(dict.fromkeys(str(value) for value in values if value not in ("", None)))[-MAX_OPTIONS:]


def _ticket_facts(knowledge: Knowledge, values: Mapping[str, Any]) -> dict[str, str]:
    """Return the known facts of the ticket that a form is about, to fill in fields of the same name."""
    # The brief names the ticket of the task, so that ticket is the first one that is known.
    ticket = str(values.get("ticket_id") or next(iter(knowledge.known(Ticket)), ""))
    return {"ticket_id": ticket} | {
        field: as_typed(value)
        for (record, field), value in knowledge.facts.items()
        if record == ticket and value is not None
    }
