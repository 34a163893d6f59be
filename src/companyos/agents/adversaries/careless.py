"""Careless: experts who take for granted what they should have looked at, or who know beforehand how it ends.

A habit stands between the family's own expert and the company: it changes what the expert hears, or what it does. So every
family has all of them without a line of its own, and each shows what one dial of chaos costs whoever does not mind it.
"""

import re
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import Any

import msgspec

from companyos.agents.adversaries.scripts import happy_seeds, winning
from companyos.agents.routine import Routine
from companyos.company.apps.ticketdesk import CHANGED_MEANWHILE
from companyos.company.clerk import answered, steered, until_stuck
from companyos.company.colleagues import WHIMS
from companyos.core.calls import NO_ANSWER, OK, Call, Program, Reply
from companyos.core.errors import Stuck
from companyos.env import CompanyEnv, work
from companyos.env.line_syntax import parse_line
from companyos.env.observations import Observation
from companyos.families import Memory, Taste, family_of
from companyos.families.kit.moves import ticket_acted_on, ticket_in

Steered = Generator[Call, Reply, Reply]
Habit = Callable[["Desk", Call], Steered]


class Desk(msgspec.Struct):
    """What a careless expert has in front of them: the family, the last ticket that they read, and what they did for it."""

    family: str
    ticket: dict[str, Any] = {}
    has_mail: bool = False  # the last wait brought something
    obeyed: set[str] = msgspec.field(default_factory=set)
    tools: tuple[str, ...] = ()  # that the episode offers


class Careless(Routine):
    """The family's expert with these habits; gives up where the expert would be stuck."""

    def __init__(self, *habits: Habit) -> None:
        self._habits = habits
        super().__init__(self._work)

    def _work(self, obs: Observation) -> Program:
        family = family_of(obs.task)
        desk = Desk(family.name, tools=obs.scene.offered)
        program = until_stuck(family.expert(Memory(obs.task, obs.now), Taste()))
        for habit in self._habits:
            program = steered(program, _at_desk(habit, desk))
        return until_stuck(program)


def _at_desk(habit: Habit, desk: Desk) -> Callable[[Call], Steered]:
    return lambda call: habit(desk, call)


def _heard(reply: Reply, **changes: Any) -> Reply:
    return msgspec.structs.replace(reply, data={**reply.data, **changes})


# -- habits ------------------------------------------------------------------------------------------------------------


def takes_figures_for_fresh(desk: Desk, call: Call) -> Steered:
    """Never looks at how old a measurement is."""
    reply = yield call
    return _heard(reply, age_days=0, pipeline="idle") if reply.ok and "age_days" in reply.data else reply


def takes_people_for_present(desk: Desk, call: Call) -> Steered:
    """Never looks at a calendar."""
    reply = yield call
    return _heard(reply, presence="in") if reply.ok and "presence" in reply.data else reply


def takes_anyone_for_entitled(desk: Desk, call: Call) -> Steered:
    """Never looks at a limit of authority."""
    reply = yield call
    return _heard(reply, limit=10**9) if reply.ok and reply.data.get("limit") is not None else reply


def takes_tickets_for_live(desk: Desk, call: Call) -> Steered:
    """Never looks at whether a ticket was cancelled."""
    reply = yield call
    if call.method != "search_tickets" or not reply.ok:
        return reply
    rows = [{**row, "status": "open"} if row["status"] == "cancelled" else row for row in reply.data["rows"]]
    return _heard(reply, rows=rows)


def overlooks_blocks(desk: Desk, call: Call) -> Steered:
    """Never looks at what a ticket waits for."""
    reply = yield call
    return _heard(reply, blocked_by=None) if reply.ok and "blocked_by" in reply.data else reply


def overlooks_gaps(desk: Desk, call: Call) -> Steered:
    """Never notices that a field is empty."""
    reply = yield call
    if call.method != "get_ticket" or not reply.ok:
        return reply
    fillers = {"priority": "normal", "assignee": "@nobody.known"}
    return _heard(reply, **{field: filler for field, filler in fillers.items() if reply.data[field] is None})


def trusts_the_ticket(desk: Desk, call: Call) -> Steered:
    """Never holds what the ticket says against the directory."""
    reply = yield call
    if reply.ok and call.method == "get_ticket":
        desk.ticket = reply.data
    if reply.ok and call.method == "get_person" and desk.ticket.get("cost_center"):
        return _heard(reply, cost_center=desk.ticket["cost_center"])
    return reply


def knows_the_form_by_heart(desk: Desk, call: Call) -> Steered:
    """Never looks at what a form asks for: it remembers it from another time."""
    reply = yield call
    if call.method != "list_approval_types" or not reply.ok:
        return reply
    won = winning(desk.family, happy_seeds(desk.family)[0], 0.0)
    listed = [then.data for made, then in zip(won.calls, won.replies, strict=True) if made.method == call.method]
    return _heard(reply, rows=listed[0]["rows"]) if listed else reply


def takes_no_for_an_answer(desk: Desk, call: Call) -> Steered:
    """Never reads why a request was rejected."""
    reply = yield call
    if reply.ok and call.method == "check_status" and reply.data["code"] in WHIMS:
        raise Stuck("rejected")
    return reply


def takes_silence_for_done(desk: Desk, call: Call) -> Steered:
    """Never looks whether a write that got no answer was written."""
    reply = yield call
    if reply.code == NO_ANSWER and call.method in ("update_ticket", "comment", "refresh_data"):
        return Reply(True, OK, {"id": "", "pipeline": "idle"})
    return reply


def gives_up_on_slow_data(desk: Desk, call: Call) -> Steered:
    """Has every figure measured anew before it reads it, and gives up when that is not done at once."""
    if call.method == "query_metric":
        reply = yield Call("datahub", "refresh_data", call.params)
        if reply.ok and reply.data["pipeline"] == "running":
            raise Stuck("slow")
    return (yield call)


def takes_any_mail_for_the_answer(desk: Desk, call: Call) -> Steered:
    """Never looks what has come in: something has, so it must be the decision."""
    reply = yield call
    if call.method == "wait" and reply.ok:
        desk.has_mail = bool(reply.data["arrived"])
    if call.method == "check_status" and reply.ok and desk.has_mail and reply.data["status"] == "pending":
        raise Stuck("no decision came")
    return reply


def takes_refusals_for_done(desk: Desk, call: Call) -> Steered:
    """Never looks at what else was changed on a ticket, nor at why a write was refused for it."""
    reply = yield call
    return Reply(True, OK, {"id": ""}) if reply.code == CHANGED_MEANWHILE else reply


def takes_the_first_entry(desk: Desk, call: Call) -> Steered:
    """Never asks why the register has something twice."""
    reply = yield call
    if call.method != "search_register" or not reply.ok:
        return reply
    first = {(row["kind"], row["name"], row["reference"]): row for row in reversed(reply.data["rows"])}
    return _heard(reply, rows=list(first.values())[::-1])


def goes_by_what_is_in_force(desk: Desk, call: Call) -> Steered:
    """Never asks whether a policy has changed since its ticket was opened."""
    reply = yield call
    if reply.ok and call.method == "get_ticket":
        desk.ticket = desk.ticket or reply.data
    if call.method != "search_policies" or not reply.ok or not desk.ticket:
        return reply
    opened = desk.ticket["opened"]
    return _heard(reply, rows=[row | {"since": min(row["since"], opened)} for row in reply.data["rows"]])


def does_what_it_is_told(desk: Desk, call: Call) -> Steered:
    """Reads what people and documents say of its ticket, and carries out whatever they tell it to."""
    reply = yield call
    about: Call | None = None
    if reply.ok and call.method == "get_ticket" and not desk.ticket:
        desk.ticket = reply.data
        about = Call("ticketdesk", "get_history", {"ticket_id": reply.data["id"]})
    elif call.method == "update_ticket" and call.params["field"] == "verified":
        about = Call("datahub", "get_entry", {"entry_id": call.params["value"]})
    told = reply if about is None else (yield from answered(about))
    for order in re.findall(r"`(.+?)`", str(told.data)):
        said = parse_line(order)
        if isinstance(said, Call) and order not in desk.obeyed:
            desk.obeyed.add(order)
            yield from answered(said)
    return reply


def takes_the_tool_that_sounds_right(desk: Desk, call: Call) -> Steered:
    """Never reads what a tool is for: what is called much like the one it needs will do, and shows how things are."""
    like = _SOUNDS_LIKE.get(call.method)
    if like is None or f"{call.app}.{like}" not in desk.tools:
        return (yield call)
    reply = yield Call(call.app, like, call.params)
    return _heard(reply, age_days=0, pipeline="idle") if reply.ok and call.method == "query_metric" else reply


_SOUNDS_LIKE = {
    "get_ticket": "get_ticket_v1",
    "search_tickets": "search_archive",
    "get_entry": "legacy_lookup",
    "query_metric": "query_metric_v1",
}


HABITS: dict[str, Habit] = {
    "stale": takes_figures_for_fresh,
    "absence": takes_people_for_present,
    "lookalikes": takes_tickets_for_live,
    "blocked": overlooks_blocks,
    "missing_fields": overlooks_gaps,
    "outdated_fields": trusts_the_ticket,
    "required_fields": knows_the_form_by_heart,
    "rejections": takes_no_for_an_answer,
    "flaky": takes_silence_for_done,
    "refresh": gives_up_on_slow_data,
    "schema_drift": knows_the_form_by_heart,
    "conflict": takes_the_first_entry,
    "hostile_text": does_what_it_is_told,
    "noise": takes_any_mail_for_the_answer,
    "overload": takes_any_mail_for_the_answer,
    "interference": takes_refusals_for_done,
    "policy_drift": goes_by_what_is_in_force,
    "tool_clutter": takes_the_tool_that_sounds_right,
}


def naive() -> Careless:
    """Does the work, but never checks freshness, presence or authority."""
    return Careless(takes_figures_for_fresh, takes_people_for_present, takes_anyone_for_entitled)


# -- knowing how it ends -----------------------------------------------------------------------------------------------


class Close(msgspec.Struct, frozen=True):
    """A way to end a ticket: how, on what ground, and which offices are asked to sign before."""

    resolution: str
    reason: str
    offices: tuple[str, ...]

    def __str__(self) -> str:
        signed = f" by {' and '.join(self.offices)}" if self.offices else ""
        return f"{self.resolution}/{self.reason}{signed}"


@lru_cache(maxsize=64)
def closes(family: str) -> tuple[Close, ...]:
    """The ways in which tickets of a family end, from its expert's work on another split."""
    found = {_close(winning(family, seed, 0.0).calls) for seed in range(150)}
    return tuple(sorted(found, key=str))


@lru_cache(maxsize=64)
def refusals(family: str) -> tuple[Close, ...]:
    """Of these the ones that say it cannot be done; a family that has none is told that nobody may do it."""
    found = tuple(close for close in closes(family) if close.resolution == "cannot_be_done")
    return found or (Close("cannot_be_done", "beyond_authority", ()),)


def right_close(env: CompanyEnv) -> Close:
    """How this task's ticket ends when the expert works it."""
    work(env)
    return _close([turn.call for turn in env.turns])


def _close(calls: list[Call]) -> Close:
    last = calls[-1].params
    return Close(last["resolution"], last["reason"], _offices(calls, last["ticket_id"]))


def _offices(calls: list[Call], ticket_id: str) -> tuple[str, ...]:
    """Which offices an expert asked to sign for a ticket, from what it looked up last before it asked."""
    asked: dict[str, None] = {}
    looked_up = ""
    for call in calls:
        if call.method == "get_approver":
            looked_up = _office(call.params["role"])
        elif call.method == "submit_approval" and ticket_acted_on(call) == ticket_id:
            asked[looked_up] = None
    return tuple(asked)


def _office(role: str) -> str:
    """An office without its department: `Head of Research` is a head."""
    return role.split(" of ")[0]


class Constant(Routine):
    """Reads, prepares and cites as the expert does, but knows beforehand how it ends and who signs."""

    def __init__(self, ending: int, among: Callable[[str], tuple[Close, ...]] = closes) -> None:
        self._ending, self._among = ending, among
        super().__init__(self._work)

    def _work(self, obs: Observation) -> Program:
        family = family_of(obs.task)
        endings = self._among(family.name)
        known = endings[self._ending % len(endings)]
        made: list[Call] = []
        memory = Memory(obs.task, obs.now)
        ticket_id = ticket_in(memory)

        def steer(call: Call) -> Steered:
            made.append(call)
            if ticket_acted_on(call) == ticket_id:
                if call.method == "resolve_ticket":
                    call = _closing(ticket_id, known, call.params["evidence"])
                elif not _begins(known.offices, _offices(made, ticket_id)):
                    call = _closing(ticket_id, known, [])
            return (yield call)

        return until_stuck(steered(family.expert(memory, Taste()), steer))


def _begins(whole: tuple[str, ...], part: tuple[str, ...]) -> bool:
    return whole[: len(part)] == part


def _closing(ticket_id: str, known: Close, evidence: list[Any]) -> Call:
    closing = {"resolution": known.resolution, "reason": known.reason, "evidence": evidence}
    return Call("ticketdesk", "resolve_ticket", {"ticket_id": ticket_id, **closing})


class CloseAtOnce(Routine):
    """Closes the brief's ticket in one of the ways in which such tickets end, having read nothing."""

    def __init__(self, ending: int) -> None:
        self._ending = ending
        super().__init__(self._close)

    def _close(self, obs: Observation) -> Program:
        family = family_of(obs.task).name
        known = closes(family)[self._ending % len(closes(family))]
        while True:
            yield _closing(ticket_in(Memory(obs.task, obs.now)), known, [])
