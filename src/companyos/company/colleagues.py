"""Colleagues: simulated people who answer comments and decide requests, through the same tools as agents.

A colleague's program is a generator of calls, like an expert. It starts when the colleague handles a message and runs to
its end at that moment, so it keeps no state of its own. It knows the replies to its calls and its own `Mind`.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct

from companyos.company import programs
from companyos.company.apps import approvalflow, datahub, ticketdesk
from companyos.company.apps.approvalflow import NEEDS_SUPERIOR, ApprovalType
from companyos.company.apps.tool import Toolbox
from companyos.company.people import Message, Mind, Person, annoy
from companyos.company.programs import Row, Subprogram
from companyos.core.calls import Call, Program, Reply
from companyos.core.world import World, on

TOOLBOX = Toolbox((ticketdesk.app, datahub.app, approvalflow.app))

# Reasons for which even a correct request can be rejected: code and text. No agent is charged for such a rejection.
OBJECTIONS = {
    "evidence": (
        "needs_evidence",
        "Please attach the register's {attachment} (field {attachment}), then ask again.",
    ),
    "superior": (NEEDS_SUPERIOR, "The numbers are fine, but I want my manager to decide this one. Please escalate."),
}
OBJECTION_CODES = frozenset(code for code, _ in OBJECTIONS.values())

# Codes of rejections that reveal how a rule decides the case. An approver gives one only for a request that agrees with the
# records and is theirs to sign. Otherwise agents could learn the right ending by sending careless requests.
RULINGS = frozenset({"below_minimum", "no_budget", "within_limit", "beyond_term", "not_needed", "not_reviewed"})

Rejection = tuple[str, str]  # a code and a text; the text names fields and rules, but no values: see ADR 2
RequestCheck = Subprogram[Rejection | None]  # yields calls, and returns why a request is rejected, or None
Audit = Callable[[Row, Row], RequestCheck]
_AUDITS: dict[str, Audit] = {}


def audits(name: str) -> Callable[[Audit], Audit]:
    """Register an audit: checks that approvers make for the forms that name it, in addition to the usual ones.

    An audit is a program that gets the request's data, with `submitted_at`, and its ticket. It checks first whether the
    request agrees with the records, and then the rules, whose codes are in `RULINGS`.
    """

    def register(audit: Audit) -> Audit:
        if name in _AUDITS:
            raise RuntimeError(f"two audits called {name!r}")
        _AUDITS[name] = audit
        return audit

    return register


@on("see_to")
def see_to(world: World, message_id: str) -> None:
    """Let a colleague handle a message in their inbox."""
    message = world.get(Message, message_id)

    def make_call(call: Call) -> Reply:
        reply = TOOLBOX.call(world, message.to, call)
        if call.method == "decide" and call.params["verdict"] == "rejected" and call.params["code"] not in OBJECTION_CODES:
            annoy(world, message.to, message.sender)
        return reply

    programs.run(_PROGRAM_OF_TOPIC[message.topic](colleague_of(world, message.to), message), make_call)


class Colleague(Struct, frozen=True):
    """What a colleague knows without a call: their own directory entry and mind, and the rules of each form."""

    me: Person
    mind: Mind
    form: Callable[[str], ApprovalType]


def colleague_of(world: World, person_id: str) -> Colleague:
    """Return the colleague with this handle."""
    return Colleague(world.get(Person, person_id), world.get(Mind, person_id), partial(world.get, ApprovalType))


def attend(colleague: Colleague, anew: bool = False) -> Program:
    """A colleague's whole work as one endless program, which an agent can play: it handles each message that arrives.

    `anew`: another program or agent played this person before, so all earlier messages are handled once more.
    """
    messages = (yield from all_rows("ticketdesk.read_inbox"))[::-1] if anew else []
    while True:
        for row in messages:
            fields = {name: row[name] for name in ("id", "sender", "topic", "about", "text")}
            program = _PROGRAM_OF_TOPIC.get(row["topic"], look_away)(colleague, Message(to=colleague.me.id, at=0, **fields))
            # Calls of agents, unlike those of simulated colleagues, can go unanswered.
            yield from programs.steered(program, programs.until_answered)
        messages = (yield Call("ticketdesk", "wait", {"hours": 72})).data["arrived"]


def review(colleague: Colleague, message: Message) -> Program:
    """Check a request and decide it."""
    request = (yield Call("approvalflow", "check_status", {"approval_id": message.about})).data
    if request["status"] != "pending" or request["approver"] != colleague.me.id:
        return
    rejection = (yield from _find_rejection(colleague, request)) or _objection(colleague, request)
    verdict, code, reason = ("rejected", *rejection) if rejection else ("approved", "signed", "Signed.")
    decision = {"approval_id": request["id"], "verdict": verdict, "code": code, "reason": reason}
    yield Call("approvalflow", "decide", decision)


def help_out(colleague: Colleague, message: Message) -> Program:
    """Answer a comment: state what only this colleague knows about the ticket, and close a blocking ticket of theirs.

    A colleague who waits for the statements of others says so until those are made.
    """
    ticket = (yield Call("ticketdesk", "get_ticket", {"ticket_id": message.about})).data
    known = colleague.mind.knows.get(ticket["id"], {})
    answer = "Thanks for the note. There is nothing open on my side."
    missing = yield from _missing_statements(ticket["id"], colleague.mind.after.get(ticket["id"], {}))
    if known and missing:
        known = {}
        answer = "I come later on this one: " + ", ".join(f"{who} states {name}" for who, name in missing) + " first."
    elif known:
        answer = "You asked me, so: " + ", ".join(f"{name}={value}" for name, value in known.items()) + "."
    if ticket["id"] in colleague.mind.explains:
        answer = colleague.mind.explains[ticket["id"]]
    if ticket["blocked_by"]:
        blocker = (yield Call("ticketdesk", "get_ticket", {"ticket_id": ticket["blocked_by"]})).data
        if blocker["assignee"] == colleague.me.id and blocker["status"] in ("open", "in_progress"):
            closing = {"resolution": "completed", "reason": "all_checks_passed", "evidence": []}
            yield Call("ticketdesk", "resolve_ticket", {"ticket_id": blocker["id"], **closing})
            answer = f"{blocker['id']} is finished."
    comment = {"ticket_id": ticket["id"], "text": answer, "to": message.sender, "facts": known}
    yield Call("ticketdesk", "comment", comment)


def _missing_statements(ticket_id: str, awaited: dict[str, str]) -> Subprogram[list[tuple[str, str]]]:
    """Return the awaited statements, each a person and the name of a fact, that were not yet made on a ticket."""
    events = (yield from history(ticket_id)) if awaited else []
    # A comment shows the facts that it states like fields, so the names in an event include the names of facts.
    made = {(event["author"], name) for event in events for name in event}
    return [statement for statement in awaited.items() if statement not in made]


def history(ticket_id: str) -> Subprogram[list[Row]]:
    """Return all comments on a ticket and all changes of it, newest first."""
    return (yield from all_rows("ticketdesk.get_history", ticket_id=ticket_id))


def all_rows(tool: str, **params: Any) -> Subprogram[list[Row]]:
    """Return the rows of all pages of a tool's list."""
    app, method = tool.split(".")

    def read_page(number: int) -> Subprogram[Row]:
        page: Row = (yield Call(app, method, {**params, "page": number})).data
        return page

    return (yield from programs.all_rows(read_page))


def stated(ticket_id: str, author: str, name: str) -> Subprogram[list[str]]:
    """Return the values that a person has stated under this name on a ticket, newest first."""
    return [event[name] for event in (yield from history(ticket_id)) if event["author"] == author and name in event]


def look_away(colleague: Colleague, message: Message) -> Program:
    """Do nothing: the message needs no answer."""
    yield from ()


_TOPICS_WITHOUT_ANSWER = ("decision", "out_of_office", "queue", "reminder")
_PROGRAM_OF_TOPIC = {"request": review, "comment": help_out} | dict.fromkeys(_TOPICS_WITHOUT_ANSWER, look_away)


def _objection(colleague: Colleague, request: Row) -> Rejection | None:
    """Return the colleague's objection to a correct request, unless the agent has already done what it asks for."""
    kind, attachment = colleague.mind.objection, colleague.form(request["type"]).attachment
    applies = (kind == "evidence" and attachment and attachment not in request["data"]) or (
        kind == "superior" and not request["referred"]
    )
    if not applies:
        return None
    code, reason = OBJECTIONS[kind]
    return code, reason.format(attachment=attachment)


def _find_rejection(colleague: Colleague, request: Row) -> RequestCheck:
    """Return the first thing that is wrong with a request, or None.

    The values are checked first, then whether this colleague may sign, and last the rules. So a request with wrong values
    never reveals how a rule decides the case.
    """
    data, form = request["data"], colleague.form(request["type"])
    reply = yield Call("ticketdesk", "get_ticket", {"ticket_id": str(data["ticket_id"])})
    if not reply.ok or reply.data["kind"] != (form.about or form.id):
        return "wrong_ticket", f"That is no ticket for a {form.id} request."
    ticket = reply.data
    if ticket["status"] not in ("open", "in_progress"):
        return "finished", f"{ticket['id']} is {ticket['status']}; there is nothing left to sign."
    for field, ticket_field in form.same_as_ticket.items():
        if not ticketdesk.same(ticket[ticket_field], data.get(field)):
            return "mismatch", f"{field} is not what the ticket says."
    requester = (yield Call("datahub", "get_person", {"person_id": ticket["requester"]})).data
    if "cost_center" in data and not ticketdesk.same(requester["cost_center"], data["cost_center"]):
        return "wrong_cost_center", "cost_center is not the requester's cost centre in the directory."
    data = data | {"submitted_at": request["submitted_at"]}
    figure_rejection = yield from _wrong_figures(form, data, ticket)
    if not form.audit or (figure_rejection and figure_rejection[0] not in RULINGS):
        audit_rejection = None
    else:
        audit_rejection = yield from _AUDITS[form.audit](data, ticket)
    rejections = [rejection for rejection in (figure_rejection, audit_rejection) if rejection]
    mismatch = next((rejection for rejection in rejections if rejection[0] not in RULINGS), None)
    return mismatch or (yield from _wrong_authority(colleague, request, ticket, requester)) or next(iter(rejections), None)


def _wrong_authority(colleague: Colleague, request: Row, ticket: Row, requester: Row) -> RequestCheck:
    """Return the rejection which says that another person has to sign this request, or None.

    The holder of the lowest office (job title) whose limit covers the amount signs, or their delegate while they are away.
    If the form lets any office sign, this says nothing about the office that has to.
    """
    form = colleague.form(request["type"])
    amount = ticket["amount"] if "amount" in form.same_as_ticket else request["data"].get("amount")
    if isinstance(amount, str | bool):
        return "mismatch", "amount is no number."
    principals: list[Row] = []
    for office in form.offices:
        role = office.format_map({**request["data"], "department": requester["department"]})
        reply = yield Call("datahub", "get_approver", {"role": role})
        if not reply.ok:
            return "unknown_office", "Nobody holds the office that the request names."
        if amount is None or (reply.data["limit"] or 0) >= amount:
            principals.append(reply.data)
            if not form.any_office:
                break
    if not principals:
        return "beyond_authority", "Nobody in ApprovalFlow may sign for this amount."
    signers = []
    for principal in principals:
        signers.append((yield from _who_signs(principal)))
        if request["referred"]:
            manager_id = (yield Call("datahub", "get_person", {"person_id": principal["id"]})).data["manager"]
            manager = (yield Call("datahub", "get_person", {"person_id": manager_id})).data
            signers.append((yield from _who_signs(manager)))
    if colleague.me.id not in signers:
        if form.any_office:
            return "not_mine", "Not mine to sign: policy names the office, or who stands in while its holder is away."
        return "not_mine", "Not mine to sign: policy names the lowest office that may, or who stands in while it is away."
    return None


def stale(metric: Row, max_age_days: int, data: Row) -> Rejection | None:
    """Return the rejection if a figure was too old when the request was submitted, else None. Later delays do not count."""
    measured, submitted = (datetime.fromisoformat(stamp) for stamp in (metric["measured_at"], data["submitted_at"]))
    if (submitted - measured).days <= max_age_days:
        return None
    return "stale", f"{metric['id']} was measured too long ago to count; have it refreshed."


def _who_signs(person: Row) -> Subprogram[str]:
    """Return the handle of the person who signs with this person's authority today."""
    return str((yield from programs.delegate_chain(person, _delegate))[-1]["id"])


def _delegate(absent: Row) -> Subprogram[Row]:
    """Return the directory's entry of an absent person's delegate."""
    delegate: Row = (yield Call("datahub", "get_person", {"person_id": absent["delegate"]})).data
    return delegate


def _wrong_figures(form: ApprovalType, data: Row, ticket: Row) -> RequestCheck:
    """Return the first value of a request that contradicts the register, its metric or its policy, or None."""
    if not form.same_as_entry and not form.measured:
        return None
    if not ticket["verified"]:
        return "not_verified", f"{ticket['id']} is not verified."
    entry = (yield Call("datahub", "get_entry", {"entry_id": ticket["verified"]})).data
    for field, detail in form.same_as_entry.items():
        if field in data and not ticketdesk.same(entry[detail], data[field]):
            return "mismatch", f"{field} is not what the register says."
    if form.measured:
        arguments = {"metric_name": entry[f"{form.measured}_metric"]}
        max_age_days = (yield Call("datahub", "describe_metric", arguments)).data["max_age_days"]
        metric = (yield Call("datahub", "query_metric", arguments)).data
        if outdated := stale(metric, max_age_days, data):
            return outdated
        if not ticketdesk.same(metric["value"], data[form.measured]):
            return "mismatch", f"{form.measured} is not what DataHub says."
        if not form.policy:
            return None
        policy = (yield Call("datahub", "read_policy", {"policy_id": form.policy})).data
        if metric["value"] < policy["minimum"]:
            return "below_minimum", f"{form.measured} is below the policy's minimum."
    return None
