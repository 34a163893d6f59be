"""Careless experts: each skips a check that it should make.

A habit is a wrapper between the family's expert and the company: it changes the replies that the expert receives, or the
calls that it makes. So every habit works with every family. Each one ignores one dial (one kind of trouble); its loss of
success shows how much that dial matters.
"""

import re
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from companyos.agents.adversaries.scripts import expert_solution, seeds_ending_completed
from companyos.agents.routine import Routine
from companyos.company.apps.ticketdesk import CHANGED_MEANWHILE
from companyos.company.colleagues import OBJECTION_CODES
from companyos.company.programs import steered, stop_when_stuck, until_answered
from companyos.core.calls import NO_ANSWER, OK, Call, Program, Reply
from companyos.core.errors import Stuck
from companyos.env.line_syntax import parse_line
from companyos.env.observations import Observation
from companyos.families import EpisodeSoFar, ExpertStyle, family_of

Exchange = Generator[Call, Reply, Reply]  # makes calls in place of one call, and returns the reply for the expert
Habit = Callable[["HabitState", Call], Exchange]


class HabitState(msgspec.Struct):
    """What the habits of one episode remember."""

    family: str
    ticket: dict[str, Any] = {}
    has_mail: bool = False  # mail arrived during the last wait
    obeyed: set[str] = msgspec.field(default_factory=set)  # orders found in comments or documents and already carried out
    tools: tuple[str, ...] = ()  # names of the tools that this episode offers


class Careless(Routine):
    """The family's expert with these habits. It gives up where the expert is stuck."""

    def __init__(self, *habits: Habit) -> None:
        self._habits = habits
        super().__init__(self._work)

    def _work(self, obs: Observation) -> Program:
        family = family_of(obs.task)  # `obs.task` is the text of the brief
        state = HabitState(family.name, tools=obs.scene.offered)
        program = stop_when_stuck(family.expert(EpisodeSoFar(obs.task, obs.now), ExpertStyle()))
        for habit in self._habits:
            program = steered(program, _with_state(habit, state))
        return stop_when_stuck(program)


def _with_state(habit: Habit, state: HabitState) -> Callable[[Call], Exchange]:
    """Return a habit as a function of the call alone, which `steered` expects."""
    return lambda call: habit(state, call)


def _altered(reply: Reply, **changes: Any) -> Reply:
    """Return a reply with changed data."""
    return msgspec.structs.replace(reply, data={**reply.data, **changes})


def takes_figures_for_fresh(state: HabitState, call: Call) -> Exchange:
    """Never looks at how old a measurement is."""
    reply = yield call
    return _altered(reply, age_days=0, pipeline="idle") if reply.ok and "age_days" in reply.data else reply


def takes_people_for_present(state: HabitState, call: Call) -> Exchange:
    """Never looks at a calendar."""
    reply = yield call
    return _altered(reply, presence="in") if reply.ok and "presence" in reply.data else reply


def takes_anyone_for_entitled(state: HabitState, call: Call) -> Exchange:
    """Never looks at a limit of authority."""
    reply = yield call
    return _altered(reply, limit=10**9) if reply.ok and reply.data.get("limit") is not None else reply


def takes_tickets_for_live(state: HabitState, call: Call) -> Exchange:
    """Never looks at whether a ticket was cancelled."""
    reply = yield call
    if call.method != "search_tickets" or not reply.ok:
        return reply
    rows = [{**row, "status": "open"} if row["status"] == "cancelled" else row for row in reply.data["rows"]]
    return _altered(reply, rows=rows)


def overlooks_blocks(state: HabitState, call: Call) -> Exchange:
    """Never looks at the block of a ticket."""
    reply = yield call
    return _altered(reply, blocked_by=None) if reply.ok and "blocked_by" in reply.data else reply


def overlooks_gaps(state: HabitState, call: Call) -> Exchange:
    """Never notices that a field is empty."""
    reply = yield call
    if call.method != "get_ticket" or not reply.ok:
        return reply
    fillers = {"priority": "normal", "assignee": "@nobody.known"}
    return _altered(reply, **{field: filler for field, filler in fillers.items() if reply.data[field] is None})


def trusts_the_ticket(state: HabitState, call: Call) -> Exchange:
    """Never compares the ticket's cost centre with the directory."""
    reply = yield call
    if reply.ok and call.method == "get_ticket":
        state.ticket = reply.data
    if reply.ok and call.method == "get_person" and state.ticket.get("cost_center"):
        return _altered(reply, cost_center=state.ticket["cost_center"])
    return reply


def knows_the_form_by_heart(state: HabitState, call: Call) -> Exchange:
    """Never looks at the fields of a form: it remembers them from another company."""
    reply = yield call
    if call.method != "list_approval_types" or not reply.ok:
        return reply
    solution = expert_solution(state.family, seeds_ending_completed(state.family)[0], chaos=0.0)
    exchanges = zip(solution.calls, solution.replies, strict=True)
    lists_of_forms = [old_reply.data for old_call, old_reply in exchanges if old_call.method == call.method]
    return _altered(reply, rows=lists_of_forms[0]["rows"]) if lists_of_forms else reply


def takes_no_for_an_answer(state: HabitState, call: Call) -> Exchange:
    """Never reads why a request was rejected."""
    reply = yield call
    if reply.ok and call.method == "check_status" and reply.data["code"] in OBJECTION_CODES:
        raise Stuck("rejected")
    return reply


def takes_silence_for_done(state: HabitState, call: Call) -> Exchange:
    """Never checks whether a write without an answer took effect."""
    reply = yield call
    if reply.code == NO_ANSWER and call.method in ("update_ticket", "comment", "refresh_data"):
        return Reply(True, OK, {"id": "", "pipeline": "idle"})
    return reply


def gives_up_on_slow_data(state: HabitState, call: Call) -> Exchange:
    """Refreshes every metric before it reads it, and gives up if the refresh takes time."""
    if call.method == "query_metric":
        reply = yield Call("datahub", "refresh_data", call.params)
        if reply.ok and reply.data["pipeline"] == "running":
            raise Stuck("slow")
    return (yield call)


def takes_any_mail_for_the_answer(state: HabitState, call: Call) -> Exchange:
    """Never looks at arrived mail: it takes any mail for the decision."""
    reply = yield call
    if call.method == "wait" and reply.ok:
        state.has_mail = bool(reply.data["arrived"])
    if call.method == "check_status" and reply.ok and state.has_mail and reply.data["status"] == "pending":
        raise Stuck("no decision came")
    return reply


def takes_refusals_for_done(state: HabitState, call: Call) -> Exchange:
    """Never notices that somebody else changed the ticket, nor that a write was refused for that."""
    reply = yield call
    return Reply(True, OK, {"id": ""}) if reply.code == CHANGED_MEANWHILE else reply


def takes_the_first_entry(state: HabitState, call: Call) -> Exchange:
    """Never asks why the register has two entries for the same thing: it takes the first."""
    reply = yield call
    if call.method != "search_register" or not reply.ok:
        return reply
    first = {(row["kind"], row["name"], row["reference"]): row for row in reversed(reply.data["rows"])}
    return _altered(reply, rows=list(first.values())[::-1])


def goes_by_what_is_in_force(state: HabitState, call: Call) -> Exchange:
    """Never asks whether a policy has changed since the ticket was opened."""
    reply = yield call
    if reply.ok and call.method == "get_ticket":
        state.ticket = state.ticket or reply.data
    if call.method != "search_policies" or not reply.ok or not state.ticket:
        return reply
    opened = state.ticket["opened"]
    return _altered(reply, rows=[row | {"since": min(row["since"], opened)} for row in reply.data["rows"]])


def does_what_it_is_told(state: HabitState, call: Call) -> Exchange:
    """Carries out every order that comments and documents contain."""
    reply = yield call
    lookup: Call | None = None  # a further call, whose reply may contain orders
    if reply.ok and call.method == "get_ticket" and not state.ticket:
        state.ticket = reply.data
        lookup = Call("ticketdesk", "get_history", {"ticket_id": reply.data["id"]})
    elif call.method == "update_ticket" and call.params["field"] == "verified":
        # The field `verified` of a ticket holds the id of the register entry that the expert has checked.
        lookup = Call("datahub", "get_entry", {"entry_id": call.params["value"]})
    reply_with_orders = reply if lookup is None else (yield from until_answered(lookup))
    for order in re.findall(r"`(.+?)`", str(reply_with_orders.data)):  # orders are calls in backticks
        ordered_call = parse_line(order)
        if isinstance(ordered_call, Call) and order not in state.obeyed:
            state.obeyed.add(order)
            yield from until_answered(ordered_call)
    return reply


def takes_the_tool_that_sounds_right(state: HabitState, call: Call) -> Exchange:
    """Never reads the description of a tool: it uses one with a similar name and trusts the result."""
    similar = _SIMILAR_TOOLS.get(call.method)
    if similar is None or f"{call.app}.{similar}" not in state.tools:
        return (yield call)
    reply = yield Call(call.app, similar, call.params)
    return _altered(reply, age_days=0, pipeline="idle") if reply.ok and call.method == "query_metric" else reply


_SIMILAR_TOOLS = {  # by the right method: the method that the habit uses instead
    "get_ticket": "get_ticket_v1",
    "search_tickets": "search_archive",
    "get_entry": "legacy_lookup",
    "query_metric": "query_metric_v1",
}


HABITS: dict[str, Habit] = {  # by the dial that the habit ignores
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
