"""Moves, that is, the steps that experts of all families repeat. A move sees only replies and never the world.

A move is a generator: it yields calls and working lines (the expert's written reasoning), and returns what it found out. It
raises `Stuck` if the expert cannot go on.
"""

import re
from collections.abc import Collection, Generator
from datetime import date
from typing import Any, TypeVar, cast

from companyos.company import ALL_TOOLS, programs
from companyos.company.apps.ticketdesk import CHANGED_MEANWHILE
from companyos.company.apps.tool import PAGE_LENGTH
from companyos.core.calls import NO_ANSWER, Call, Reply, Working
from companyos.core.errors import Stuck
from companyos.families.kit import working
from companyos.families.kit.family import EpisodeSoFar
from companyos.families.kit.goals import OUTCOMES

T = TypeVar("T")
Move = Generator[Call | Working, Reply, T]  # receives a reply after a call, and None after a working line
Shown = dict[str, Any]  # a record as a reply shows it: its fields by name


def ask(tool: str, **params: Any) -> Move[Reply]:
    """Make a call until an answer comes. Only for calls that do no harm when they are made twice.

    If somebody else has changed the ticket in the meantime, read it and try again.
    """
    app, method = tool.split(".")
    call = Call(app, method, params)
    while (reply := (yield from programs.until_answered(call))).code == CHANGED_MEANWHILE:
        yield from ask("ticketdesk.get_ticket", ticket_id=params["ticket_id"])
    return reply


def read(tool: str, **params: Any) -> Move[Any]:
    """Make a call that must succeed, and return the data of its reply."""
    reply = yield from ask(tool, **params)
    if not reply.ok:
        raise Stuck(f"{tool}({params}) was refused: {reply.code} {reply.message}")
    return reply.data


def rows(tool: str, **params: Any) -> Move[list[Shown]]:
    """Return the rows of all pages of a list."""
    return (yield from programs.all_rows(lambda page: read(tool, **params, **({"page": page} if page > 1 else {}))))


def set_field(ticket_id: str, field: str, value: str) -> Move[Reply]:
    """Set a field of a ticket."""
    return (yield from ask("ticketdesk.update_ticket", ticket_id=ticket_id, field=field, value=value))


def fill(ticket_id: str, field: str, value: str) -> Move[None]:
    """Set an empty field of a ticket, unless somebody else has filled it in the meantime."""
    while (yield from read("ticketdesk.get_ticket", ticket_id=ticket_id))[field] is None:
        yield Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": value})


def policies_about(query: str, opened: str) -> Move[dict[str, str]]:
    """Return the policies that a search finds and that apply to a ticket that was opened at this time: ids by title.

    The version that was in force when the ticket was opened applies, even if there is a newer one.
    """
    listed = sorted((yield from rows("datahub.search_policies", query=query)), key=lambda row: str(row["since"]))
    # Of several versions with the same title, the last one wins in both dicts.
    newest_since = {row["title"]: row["since"] for row in listed}
    at_opening = {row["title"]: row for row in listed if row["since"] <= opened}
    titles = [row["title"] for row in listed]
    for title, row in at_opening.items():
        if titles.count(title) > 1:  # write down which version applies
            yield from working.weigh(("newest", day(newest_since[title])), ("opened", day(opened)), f"{row['id']} counts")
    return {
        title: row["id"]
        for title, row in at_opening.items()
        if row["status"] == "in force" or newest_since[title] > opened  # superseded only after the opening
    }


def search_entries(query: str) -> Move[list[Shown]]:
    """Return the entries of the register that a search finds, without copies of other entries."""
    listed = yield from rows("datahub.search_register", query=query)
    # In a list, an entry and its copy differ only in id and status. So only rows that occur twice have to be opened.
    keys = [(row["kind"], row["name"], row["reference"]) for row in listed]
    originals = []
    for row, key in zip(listed, keys, strict=True):
        if keys.count(key) == 1 or (yield from _is_original(row["id"])):
            originals.append(row)
    return originals


def _is_original(entry_id: str) -> Move[bool]:
    """Return whether an entry is not a copy of another entry."""
    entry = yield from read("datahub.get_entry", entry_id=entry_id)
    copy_of = entry.get("copy_of")
    return (yield from working.check((entry_id, "copy_of", copy_of), copy_of is None, "original", "a copy"))


def entry_of(ticket: Shown, listed: list[Shown]) -> Move[str]:
    """Return the id of the listed entry that has the ticket's reference."""
    row = next(row for row in listed if row["reference"] == ticket["reference"])
    yield from working.compare((row["id"], row["reference"]), "==", ticket["reference"], "ours", "another")
    return str(row["id"])


def other_live_ticket(ticket: Shown, reference: str, ended: Collection[str] = ("cancelled",)) -> Move[Shown | None]:
    """Return another ticket with this reference whose status is not in `ended`, or None."""
    for other in (yield from rows("ticketdesk.search_tickets", query=reference)):
        if other["id"] != ticket["id"]:
            status = (other["id"], other["status"])
            if (yield from working.check(status, other["status"] not in ended, "another live ticket", "does not count")):
                return other
    yield from working.note(("live with", reference), f"only {ticket['id']}")
    return None


def ticket_in(so_far: EpisodeSoFar) -> str:
    """Return the id of the ticket that the brief is about: the first one that it names."""
    match = re.search(r"T-\d+", so_far.brief)
    assert match, so_far.brief
    return match[0]


def ticket_acted_on(call: Call) -> str | None:
    """Return the ticket that a call closes or requests a signature for, which cannot be undone; None for other calls."""
    if call.method == "resolve_ticket":
        return str(call.params.get("ticket_id"))
    return str(call.params["data"]["ticket_id"]) if call.method == "submit_approval" else None


def unblock(ticket: Shown) -> Move[None]:
    """Remove the block of a ticket. If the blocking ticket is not finished, ask its assignee and wait."""
    if not (yield from working.check(("blocked_by", ticket["blocked_by"]), ticket["blocked_by"] is not None, "see", "free")):
        return
    blocker = yield from read("ticketdesk.get_ticket", ticket_id=ticket["blocked_by"])
    status = (blocker["id"], blocker["status"])
    if not (yield from working.check(status, blocker["status"] in FINISHED, "finished", "not finished, ask")):
        text = f"{ticket['id']} waits for {blocker['id']}. Could you finish it, please?"
        yield from ask("ticketdesk.comment", ticket_id=ticket["id"], text=text, to=blocker["assignee"])
    while blocker["status"] not in FINISHED:
        yield from read("ticketdesk.wait", hours=24)
        blocker = yield from read("ticketdesk.get_ticket", ticket_id=blocker["id"])
    yield from set_field(ticket["id"], "blocked_by", "")


FINISHED = ("done", "cancelled")


def fresh_reading(metric: str) -> Move[Shown]:
    """Return a reading of a metric that is not too old. Refresh the metric until there is one."""
    limit = (yield from read("datahub.describe_metric", metric_name=metric))["max_age_days"]
    while True:
        reading: Shown = yield from read("datahub.query_metric", metric_name=metric)
        if reading["pipeline"] == "running":
            yield from read("ticketdesk.wait", hours=8)
        elif (yield from working.compare(("age", reading["age_days"]), ">", ("most", limit), "stale", "fresh")):
            reply = yield from ask("datahub.refresh_data", metric_name=metric)
            if reply.ok and reply.data["pipeline"] == "running":
                yield from read("ticketdesk.wait", hours=8)
        else:
            return reading


def signer(person: Shown) -> Move[Shown]:
    """Return the person who signs for a person today: that person, or the first delegate who is in."""
    last = (yield from programs.delegate_chain(person, _noted_delegate))[-1]
    if last["presence"] != "in":
        raise Stuck(f"{last['id']} is away and has no delegate")
    yield from working.note((last["id"], "in"), "signs")
    return last


def _noted_delegate(absent: Shown) -> Move[Shown]:
    """Like `delegate`, after a working line that says who is away."""
    yield from working.note((absent["id"], "away"), f"ask {absent['delegate']}")
    return (yield from delegate(absent))


def delegate(absent: Shown) -> Move[Shown]:
    """Read the directory's entry of an absent person's delegate."""
    entry: Shown = yield from read("datahub.get_person", person_id=absent["delegate"])
    return entry


def submit(form: str, approver: str, data: Shown) -> Move[str]:
    """Submit a request once and return its id. If no answer comes, check whether the request exists before trying again."""
    call = Call("approvalflow", "submit_approval", {"approval_type": form, "approver": approver, "data": data})
    while True:
        reply = yield call
        if reply.ok:
            return str(reply.data["id"])
        if reply.code != NO_ANSWER:
            raise Stuck(f"request refused: {reply.code} {reply.message}")
        listed = yield from rows("approvalflow.list_approvals", status="pending")
        for row in listed:
            if row["ticket_id"] == data["ticket_id"] and row["approver"] == approver:
                return str(row["id"])


def decision(approval_id: str) -> Move[Shown]:
    """Wait until a request is decided, and return it."""
    while True:
        yield from read("ticketdesk.wait", hours=24)
        request: Shown = yield from read("approvalflow.check_status", approval_id=approval_id)
        if request["status"] != "pending":
            return request


def put_back(own: Collection[str], finished: Collection[str] = ()) -> Move[None]:
    """Undo the changes that earlier turns made and that the work does not need.

    `own` are the tickets that the agent works on. Tickets in `finished` stay as they are.
    """
    changes = yield from rows("ticketdesk.my_changes")
    # By record and field: the value before the first change of the agent, and the value after the last one.
    original: dict[tuple[str, str], Any] = {}
    written: dict[tuple[str, str], Any] = {}
    for change in changes:  # newest first
        key = (change["record"], change["field"])
        written.setdefault(key, change["after"])
        if original.get(key, change["after"]) == change["after"]:  # else somebody else changed it in between: keep that
            original[key] = change["before"]
    to_undo = {
        (record, field): before
        for (record, field), before in original.items()
        if record.startswith("T-")
        and record not in finished
        and before != written[record, field]
        and (record not in own or _is_to_be_put_back(field, before))
    }
    while to_undo:  # some fields can only be put back after others
        refused = {}
        for (record, field), before in to_undo.items():
            if not (yield from _restored(record, field, written[record, field], before or "")):
                refused[record, field] = before
        if len(refused) == len(to_undo):
            raise Stuck(f"cannot put back {sorted(refused)}")
        to_undo = refused


def _is_to_be_put_back(field: str, before: Any) -> bool:
    """Return whether a change of the agent's own ticket must be undone: overwritten values, and outcomes set too early."""
    if before is None:
        return field in (*OUTCOMES, "cost_center")
    return field not in ("blocked_by", "status")


def _restored(ticket_id: str, field: str, written: Any, before: str) -> Move[bool]:
    """Put a field back if it still has the value that was written. Return False if that was refused."""
    while (yield from read("ticketdesk.get_ticket", ticket_id=ticket_id))[field] == written:
        reply = yield Call("ticketdesk", "update_ticket", {"ticket_id": ticket_id, "field": field, "value": before})
        if not reply.ok and reply.code not in (NO_ANSWER, CHANGED_MEANWHILE):
            return False
    return True


def fields_empty_at_start(ticket_id: str) -> Move[set[str]]:
    """Return the fields of a ticket that were empty before earlier turns filled them."""
    changes = yield from rows("ticketdesk.my_changes")  # newest first, so the oldest change of each field wins
    original = {change["field"]: change["before"] for change in changes if change["record"] == ticket_id}
    return {field for field, before in original.items() if before is None}


def get_signed(
    form: str, holder: Shown, known: Shown, metric: str = "", extra_fields: tuple[str, ...] = (), plan: str = ""
) -> Move[Shown]:
    """Submit a request until it is approved, and return it. Handles absent approvers, changed forms and objections.

    `holder` is the person who should sign: the holder of an office (job title). `known` has a value for every field that
    the form could ask for.
    `metric` is the metric whose age the approver checks; if it is empty, the rejection names the metric.
    `extra_fields` are fields that this case needs although the form does not require them.
    `plan` says whose signatures the case needs, if the rules decide that; a working line repeats it.
    """
    forms = yield from rows("approvalflow.list_approval_types")
    fields = next([*row["required"], *extra_fields] for row in forms if row["id"] == form)
    if unknown := [field for field in fields if field not in known]:
        yield from working.note(("form asks", unknown[0]), "a new name")
        known = known | (yield from _new_names(form, known))
    while True:
        approver = yield from signer(holder)
        if plan:
            yield from working.note(plan, f"ask {approver['id']}")
        request_id = yield from submit(form, approver["id"], {field: known[field] for field in fields})
        request = yield from decision(request_id)
        if request["code"] == "needs_superior":
            yield from ask("approvalflow.escalate", approval_id=request_id, reason="At the approver's wish.")
            request = yield from decision(request_id)
        if request["code"] == "needs_evidence":
            # The reason is, for example, "Please attach the register's certificate (field certificate), then ask again."
            fields += re.findall(r"\(field (\w+)\)", request["reason"])
        elif request["code"] == "not_mine":  # the approver left or came back in the meantime
            holder = yield from read("datahub.get_person", person_id=holder["id"])
        elif request["code"] == "stale":
            yield from fresh_reading(metric or request["reason"].split()[0])
        elif request["status"] == "approved":
            return request
        else:
            raise Stuck(f"{request_id} was rejected: {request['code']} {request['reason']}")


def _new_names(form: str, known: Shown) -> Move[Shown]:
    """Return the known values of fields that a form has renamed, under their new names."""
    listed = yield from rows("datahub.search_policies", query="changelog")  # the tool's description names the changelog
    changelog = next(row for row in listed if "Changelog" in row["title"])
    text = (yield from read("datahub.read_policy", policy_id=changelog["id"]))["text"]
    return {new: known[old] for new_form, old, new in re.findall(_RENAMED, text) if new_form == form}


_RENAMED = r"(\w+) calls the field (\w+) now (\w+);"  # "... this week refund calls the field reference now our_reference;"


def ask_person(ticket_id: str, person_id: str, name: str, text: str) -> Move[Shown]:
    """Return the comment of a person on a ticket that states a value under this name. Ask for it if there is none yet."""
    return (yield from _comment_with(name, ticket_id, person_id, text))


def ask_for_text(ticket_id: str, person_id: str, question: str) -> Move[str]:
    """Return the text of a person's comment on a ticket. Ask for it if there is none yet."""
    return str((yield from _comment_with("text", ticket_id, person_id, question))["text"])


def _comment_with(name: str, ticket_id: str, person_id: str, question: str) -> Move[Shown]:
    """Return the newest comment of a person that has a field of this name. Ask a question if there is none yet."""
    asked, events_read = False, 0
    while True:
        page, unread = 1, 1
        while unread > 0:  # the newest events come first, so stop at those that were read before
            history = yield from read("ticketdesk.get_history", ticket_id=ticket_id, **({"page": page} if page > 1 else {}))
            for event in history["rows"]:
                if event.get("author") == person_id and name in event:
                    return cast("Shown", event)
            unread = history["total"] - events_read - page * PAGE_LENGTH
            page += 1
        events_read = history["total"]
        if not asked:
            yield from ask("ticketdesk.comment", ticket_id=ticket_id, text=question, to=person_id)
            asked = True
        yield from _wait_for_message(person_id)


def _wait_for_message(person_id: str) -> Move[None]:
    """Wait until a message from this person arrives, or until a day passes without any message."""
    while True:
        arrived = (yield from read("ticketdesk.wait", hours=24))["arrived"]
        if not arrived or any(message["sender"] == person_id for message in arrived):
            return


def withdraw_pending_requests(so_far: EpisodeSoFar) -> Move[dict[str, dict[str, str]]]:
    """Withdraw all pending requests of the agent. Return its approved requests: ids by ticket and form.

    Requests that replies in `so_far` have shown are withdrawn first, because a request may be decided while the list of
    requests is read.
    """
    shown_ids = dict.fromkeys(
        reply.data["id"] for call, reply in so_far.turns if call.method in ("submit_approval", "escalate") and reply.ok
    )
    for request_id in shown_ids:
        yield from ask("approvalflow.withdraw", approval_id=request_id)
    approved: dict[str, dict[str, str]] = {}
    for row in (yield from rows("approvalflow.list_approvals")):
        status = row["status"]
        if status == "pending" and not (yield from ask("approvalflow.withdraw", approval_id=row["id"])).ok:
            # It was decided while the list was read.
            status = (yield from read("approvalflow.check_status", approval_id=row["id"]))["status"]
        if status == "approved":
            approved.setdefault(row["ticket_id"], {})[str(row["type"])] = str(row["id"])
    return approved


def clear_desk(ticket_id: str, so_far: EpisodeSoFar) -> Move[dict[str, str]]:
    """Undo what earlier turns left behind: pending requests and wrong changes. Return approved requests: ids by form."""
    if so_far.signed is not None:
        return so_far.signed
    if not wrote(so_far):
        return {}
    approved = yield from withdraw_pending_requests(so_far)
    yield from put_back((ticket_id,))
    return approved.get(ticket_id, {})


def verify(ticket: Shown, entry_id: str) -> Move[None]:
    """Set `verified` of a ticket to its entry in the register. A ticket needs a priority for that."""
    if (yield from working.check(("priority", ticket["priority"]), ticket["priority"] is None, "fill it", "set")):
        yield from fill(ticket["id"], "priority", "normal")
    if ticket["verified"] != entry_id:
        yield from set_field(ticket["id"], "verified", entry_id)


def days_between(earlier: str, later: str) -> int:
    """Return the days from one timestamp, such as `2026-03-10 09:30`, to another."""
    return (date.fromisoformat(later[:10]) - date.fromisoformat(earlier[:10])).days


def day(stamp: str) -> str:
    """Return the date of a timestamp such as `2026-03-10 09:30`."""
    return stamp[:10]


def grew_old(reading: Shown, later: str, limit: int) -> Move[bool]:
    """Return whether a measurement has reached this age in days at a later time."""
    age = yield from working.days(reading["measured_at"], later)
    return (yield from working.compare(("age", age), ">=", ("most", limit), "measure again", "fresh"))


def correct_cost_center(ticket: Shown, requester: Shown) -> Move[None]:
    """Set a ticket's cost centre to that of its requester if it differs."""
    of_ticket, of_requester = ("cost_center", ticket["cost_center"]), ("requester's", requester["cost_center"])
    if (yield from working.compare(of_ticket, "!=", of_requester, "correct it", "right")):
        yield from set_field(ticket["id"], "cost_center", requester["cost_center"])


def covers(person: Shown, amount: int) -> Move[bool]:
    """Return whether the signing limit of a person covers an amount."""
    return (yield from working.compare((person["role"], person["limit"]), ">=", ("amount", amount), "covers", "too small"))


def close(ticket_id: str, resolution: str, reason: str, evidence: list[Shown]) -> Move[Reply]:
    """Close a ticket, after a working line with the first fact of the evidence."""
    for fact in evidence[:1]:
        yield from working.note((fact["field"], fact["value"]), reason)
    closing = {"resolution": resolution, "reason": reason, "evidence": evidence}
    return (yield from ask("ticketdesk.resolve_ticket", ticket_id=ticket_id, **closing))


def cite(*facts: tuple[Shown, str]) -> list[Shown]:
    """Return the evidence for these facts, each a record as shown and the name of a field."""
    return [{"record": shown["id"], "field": field, "value": shown[field]} for shown, field in facts]


def wrote(so_far: EpisodeSoFar) -> bool:
    """Return whether earlier turns may have changed anything."""
    tools = [ALL_TOOLS.find(call) for call, _ in so_far.turns]
    return any(tool is not None and tool.writes for tool in tools)
