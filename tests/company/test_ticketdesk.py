"""Tests of the app TicketDesk: tickets, comments, changes and the inbox."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from companyos.company import Comment, Person, Ticket
from companyos.company.apps import ticketdesk
from companyos.company.people import post
from companyos.core.world import HOUR, stamp
from companyos.env import CompanyEnv, make
from tests.helpers import (
    answered,
    asked,
    at_work,
    letters,
    me,
    role,
    say,
    set_field,
    staged,
    step,
    task_id,
    ticket,
    verify,
)

Attempt = Callable[[CompanyEnv], tuple[str, dict[str, Any]]]  # sets the scene, then says which tool and with what
Given = str | Callable[[CompanyEnv], str]


class Refusal(NamedTuple):
    """A call that TicketDesk refuses, and the code of the refusal."""

    claim: str
    code: str
    attempt: Attempt
    causes: dict[str, Any] = {}


def meant(env: CompanyEnv, given: Given) -> str:
    return given if isinstance(given, str) else given(env)


def reading(method: str) -> Attempt:
    return lambda env: (method, {"ticket_id": "T-1"})


def writing(given: Given, field: str = "priority", value: Given = "low") -> Attempt:
    return lambda env: (
        "update_ticket",
        {"ticket_id": meant(env, given), "field": field, "value": meant(env, value)},
    )


def setting(field: str, value: Given) -> Attempt:
    return writing(the_case, field, value)


def commenting(given: Given, to: Given | None = None) -> Attempt:
    return lambda env: (
        "comment",
        {"ticket_id": meant(env, given), "text": "?"} | ({"to": meant(env, to)} if to else {}),
    )


def closing(given: Given) -> Attempt:
    return lambda env: (
        "resolve_ticket",
        {"ticket_id": meant(env, given), "resolution": "declined", "reason": "below_minimum", "evidence": []},
    )


def linking(verified: bool = True, **changes: Any) -> Attempt:
    """Submit a request with these changes in its form, and link it."""

    def attempt(env: CompanyEnv) -> tuple[str, dict[str, Any]]:
        if verified:
            verify(env)
        named = {name: meant(env, value) for name, value in changes.items()}
        return setting("approval", asked(env, **named))(env)

    return attempt


def the_case(env: CompanyEnv) -> str:
    return ticket(env).id


def of_another_desk(env: CompanyEnv) -> str:
    return role(env, "blocker")


def finished(env: CompanyEnv) -> str:
    method, params = closing(lambda env: role(env, "earlier"))(env)
    assert say(env, f"ticketdesk.{method}", **params).ok
    return role(env, "earlier")


def namesake(env: CompanyEnv) -> str:
    """The register entry of the firm with almost the same name."""
    name = ticket(env).subject.rsplit(" ", 1)[0]
    rows = say(env, "datahub.search_register", query=name).data["rows"]
    return str(next(row["id"] for row in rows if row["reference"] != ticket(env).reference))


REFUSALS = [
    Refusal("reading no ticket", "not_found", reading("get_ticket")),
    Refusal("the history of no ticket", "not_found", reading("get_history")),
    Refusal("writing on no ticket", "not_found", writing("T-1")),
    Refusal("writing on another desk's", "other_desk", writing(of_another_desk)),
    Refusal("writing on a finished one", "finished", writing(finished)),
    Refusal("writing on a cancelled one", "finished", writing(lambda env: role(env, "decoy")), {"lookalike": True}),
    Refusal("a priority there is not", "bad_value", setting("priority", "urgent")),
    Refusal("closing by status", "bad_value", setting("status", "done")),
    Refusal("no status", "bad_value", setting("status", "")),
    Refusal("a cost centre there is not", "bad_value", setting("cost_center", "CC-0")),
    Refusal("setting a block", "bad_value", setting("blocked_by", of_another_desk)),
    Refusal("clearing a block that stands", "blocked", setting("blocked_by", ""), {"block": "waiting"}),
    Refusal("assigning to nobody we know", "not_found", setting("assignee", "@no.body")),
    Refusal("escalating to nobody we know", "not_found", setting("escalated_to", "@no.body")),
    Refusal("waiting on nobody we know", "not_found", setting("waiting_on", "@no.body")),
    Refusal("a duplicate of itself", "bad_value", setting("duplicate_of", the_case)),
    Refusal("a duplicate of no ticket", "not_found", setting("duplicate_of", "T-1")),
    Refusal(
        "verifying without a priority",
        "no_priority",
        setting("verified", lambda env: role(env, "entry")),
        {"priority_missing": True},
    ),
    Refusal("verifying with no entry", "not_found", setting("verified", "E-1")),
    Refusal("verifying with a namesake's entry", "no_match", setting("verified", namesake)),
    Refusal("linking before verifying", "not_verified", linking(verified=False)),
    Refusal("linking a pending request", "not_approved", linking()),
    Refusal("linking a request for another ticket", "no_match", linking(ticket_id=lambda env: role(env, "earlier"))),
    Refusal("commenting on no ticket", "not_found", commenting("T-1")),
    Refusal("commenting to nobody we know", "not_found", commenting(the_case, to="@no.body")),
    Refusal("commenting to oneself", "to_yourself", commenting(the_case, to=me)),
    Refusal("closing no ticket", "not_found", closing("T-1")),
    Refusal("closing another desk's", "other_desk", closing(of_another_desk)),
    Refusal("closing a finished one", "finished", closing(finished)),
    Refusal("closing a blocked one", "blocked", closing(the_case), {"block": "waiting"}),
    Refusal("closing one with a leftover block", "blocked", closing(the_case), {"block": "leftover"}),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.claim for refusal in REFUSALS])
def test_what_is_refused_says_why_and_writes_nothing(refusal: Refusal) -> None:
    env = staged(**refusal.causes)
    method, params = refusal.attempt(env)
    before = (env.digest(), len(env.world.journal))
    reply = say(env, f"ticketdesk.{method}", **params)
    assert (reply.ok, reply.code, reply.data) == (False, refusal.code, None)
    assert reply.message
    assert (env.digest(), len(env.world.journal)) == before


def test_linking_a_request_that_nobody_made_is_refused() -> None:
    env = staged()
    verify(env)
    assert set_field(env, "approval", "A-1").code == "not_found"


def test_every_code_that_ticketdesk_refuses_with_is_tried_above() -> None:
    codes = set(re.findall(r'Refused\(\s*"(\w+)"', inspect.getsource(ticketdesk)))
    assert codes <= {refusal.code for refusal in REFUSALS}
    assert len(codes) > 8


# -- reading -----------------------------------------------------------------------------------------------------------


def rows(env: CompanyEnv, tool: str, **params: Any) -> list[dict[str, Any]]:
    """Return all rows of a list."""
    found: list[dict[str, Any]] = []
    page = pages = 1
    while page <= pages:
        shown = say(env, tool, **params, page=page).data
        assert len(shown["rows"]) <= 10
        found += shown["rows"]
        page, pages = page + 1, shown["pages"]
    assert len(found) == shown["total"]
    return found


def test_the_list_has_every_ticket_once_newest_first() -> None:
    env = staged()
    listed = [row["id"] for row in rows(env, "ticketdesk.list_tickets")]
    assert sorted(listed) == sorted(found.id for found in env.world.all(Ticket))
    opened = [env.world.get(Ticket, found).opened for found in listed]
    assert opened == sorted(opened, reverse=True)


@pytest.mark.parametrize("status", ["open", "in_progress", "done", "cancelled"])
def test_the_list_can_be_of_one_status_or_one_desk_or_both(status: str) -> None:
    env = staged(lookalike=True)
    everything = list(env.world.all(Ticket))
    for desk in (None, "vendor", "finance", "nowhere"):
        params = {"status": status} | ({"desk": desk} if desk else {})
        listed = {row["id"] for row in rows(env, "ticketdesk.list_tickets", **params)}
        assert listed == {t.id for t in everything if t.status == status and (desk is None or t.desk == desk)}


def test_a_search_finds_by_id_title_subject_and_reference_in_any_case() -> None:
    env = staged()
    case = ticket(env)
    for query in (case.id, case.reference.lower(), case.subject.upper(), f"onboard {case.subject}"):
        assert case.id in [row["id"] for row in rows(env, "ticketdesk.search_tickets", query=query)]
    assert rows(env, "ticketdesk.search_tickets", query="no such words") == []


def test_a_search_by_reference_finds_the_case_and_its_duplicate_only() -> None:
    env = staged(duplicate="open")
    found = {row["id"] for row in rows(env, "ticketdesk.search_tickets", query=ticket(env).reference)}
    assert found == {ticket(env).id, role(env, "earlier")}


def test_a_ticket_shows_its_fields_and_its_opening_as_a_date() -> None:
    env = staged(priority_missing=True)
    shown = say(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id).data
    assert shown["id"] == ticket(env).id
    assert shown["priority"] is None
    assert shown["opened"] == stamp(ticket(env).opened)
    assert "resolution" not in shown


def test_history_tells_comments_and_changes_newest_first() -> None:
    env = staged()
    step(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="one")
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="status", value="in_progress")
    step(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="two", to=role(env, "cfo"))
    step(env, "ticketdesk.comment", ticket_id=role(env, "earlier"), text="elsewhere")
    events = say(env, "ticketdesk.get_history", ticket_id=ticket(env).id).data["rows"]
    told = [event.get("text") or (event["field"], event["before"], event["after"]) for event in events]
    assert told[:3] == ["two", ("status", "open", "in_progress"), "one"]
    assert [event["author"] for event in events] == [me(env)] * 3 + [ticket(env).requester]


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", "high"),
        ("priority", ""),
        ("status", "in_progress"),
        ("assignee", "@"),
        ("waiting_on", "@"),
        ("escalated_to", "@"),
        ("waiting_on", ""),
        ("cost_center", "CC"),
        ("cost_center", ""),
        ("duplicate_of", "T"),
    ],
)
def test_a_field_takes_a_value_that_it_can_hold(field: str, value: str) -> None:
    env = staged()
    cfo = env.world.get(Person, role(env, "cfo"))
    value = {"@": cfo.id, "CC": cfo.cost_center, "T": role(env, "earlier")}.get(value, value)
    assert set_field(env, field, value).ok
    assert getattr(ticket(env), field) == (value or None)


@pytest.mark.parametrize("field", ["title", "amount", "requester", "resolution", "reference", "id", "desk"])
def test_what_a_ticket_is_about_cannot_be_set(field: str) -> None:
    assert set_field(staged(), field, "x").code == "bad_arguments"


def test_a_ticket_is_verified_once_it_has_a_priority_and_with_the_matching_entry_only() -> None:
    env = staged(priority_missing=True)
    assert set_field(env, "verified", role(env, "entry")).code == "no_priority"
    assert set_field(env, "priority", "low").ok
    assert set_field(env, "verified", namesake(env)).code == "no_match"
    assert set_field(env, "verified", role(env, "entry")).ok
    assert ticket(env).verified == role(env, "entry")


def test_an_approval_is_linked_once_the_ticket_is_verified_and_the_request_approved() -> None:
    env = staged()
    verify(env)
    request = asked(env)
    assert set_field(env, "approval", request).code == "not_approved"
    assert answered(env, request).status == "approved"
    set_field(env, "verified", "")
    assert set_field(env, "approval", request).code == "not_verified"
    verify(env)
    assert set_field(env, "approval", request).ok
    assert ticket(env).approval == request


@pytest.mark.parametrize("status", ["rejected", "withdrawn"])
def test_a_request_that_was_not_approved_cannot_be_linked(status: str) -> None:
    env = staged()
    verify(env)
    request = asked(env, reference="TAX-1")
    if status == "withdrawn":
        say(env, "approvalflow.withdraw", approval_id=request)
    assert answered(env, request).status == status
    assert set_field(env, "approval", request).code == "not_approved"


def test_a_leftover_block_clears_at_once() -> None:
    env = staged(block="leftover")
    assert set_field(env, "blocked_by", "").ok
    assert ticket(env).blocked_by is None


def test_a_block_clears_only_once_the_blocker_is_finished() -> None:
    env = staged(block="waiting")
    blocker = env.world.get(Ticket, role(env, "blocker"))
    assert set_field(env, "blocked_by", "").code == "blocked"
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Could you finish it?", to=blocker.assignee)
    assert set_field(env, "blocked_by", "").code == "blocked"
    say(env, "ticketdesk.wait", hours=72)
    assert env.world.get(Ticket, blocker.id).status == "done"
    assert set_field(env, "blocked_by", "").ok
    assert say(env, "ticketdesk.resolve_ticket", **closing(the_case)(env)[1]).ok


def test_asking_somebody_else_does_not_finish_a_blocker() -> None:
    env = staged(block="waiting")
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Could you finish it?", to=role(env, "cfo"))
    say(env, "ticketdesk.wait", hours=72)
    assert env.world.get(Ticket, role(env, "blocker")).status == "in_progress"
    assert set_field(env, "blocked_by", "").code == "blocked"


def test_resolving_closes_for_good_with_ground_evidence_and_note() -> None:
    env = staged()
    evidence = [{"record": ticket(env).id, "field": "amount", "value": 5}]
    params = closing(the_case)(env)[1] | {"evidence": evidence, "note": "so be it"}
    assert say(env, "ticketdesk.resolve_ticket", **params).ok
    closed = ticket(env)
    assert (closed.status, closed.resolution, closed.reason) == ("done", "declined", "below_minimum")
    assert [(c.record, c.field, c.value) for c in closed.evidence] == [(closed.id, "amount", 5)]
    assert closed.note == "so be it"
    assert set_field(env, "priority", "low").code == "finished"
    assert say(env, "ticketdesk.resolve_ticket", **params).code == "finished"


@pytest.mark.parametrize(
    "wrong",
    [
        {"resolution": "finished"},
        {"reason": "because"},
        {"evidence": [{"record": "T-1", "field": "amount"}]},
        {"evidence": [{"record": "T-1", "field": "amount", "value": 1, "why": "?"}]},
        {"evidence": [{"record": "T-1", "field": "amount", "value": [1]}]},
        {"evidence": [{"record": "T-1", "field": "amount", "value": 1}] * 13},
        {"note": "x" * 601},
    ],
)
def test_endings_grounds_and_evidence_are_of_a_closed_form(wrong: dict[str, Any]) -> None:
    env = staged()
    params = closing(the_case)(env)[1] | wrong
    assert say(env, "ticketdesk.resolve_ticket", **params).code == "bad_arguments"
    assert ticket(env).resolution is None


def test_my_changes_lists_ones_own_writes_with_before_and_after_newest_first() -> None:
    env = staged(priority_missing=True)
    set_field(env, "priority", "low")
    set_field(env, "priority", "high")
    set_field(env, "waiting_on", role(env, "cfo"))
    lines = say(env, "ticketdesk.my_changes").data["rows"]
    told = [(line["record"], line["field"], line["before"], line["after"]) for line in lines]
    expected = [("waiting_on", None, role(env, "cfo")), ("priority", "low", "high"), ("priority", None, "low")]
    assert told == [(ticket(env).id, *change) for change in expected]


def test_my_changes_leaves_out_what_others_did() -> None:
    env = staged(block="waiting")
    blocker = env.world.get(Ticket, role(env, "blocker"))
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Could you?", to=blocker.assignee)
    say(env, "ticketdesk.wait", hours=72)
    touched = {line["record"] for line in rows(env, "ticketdesk.my_changes")}
    assert blocker.id not in touched
    assert any(record.startswith("C-") for record in touched)


# -- comments, inbox, waiting ------------------------------------------------------------------------------------------


def test_a_comment_to_somebody_is_answered_in_working_hours() -> None:
    for seed in range(8):
        env = make(task_id(seed))
        say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Anything open?", to=role(env, "treasurer"))
        for _ in range(4):
            say(env, "ticketdesk.wait", hours=24)
        (answer,) = letters(env, "comment")
        assert answer.sender == role(env, "treasurer")
        assert at_work(answer.at)
        assert answer.at > env.setting.world.now


def test_a_comment_to_nobody_in_particular_reaches_no_inbox() -> None:
    env = staged()
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="For the record.")
    say(env, "ticketdesk.wait", hours=72)
    assert letters(env, "comment") == []
    assert [c.text for c in env.world.all(Comment) if c.author == me(env)] == ["For the record."]


def test_the_inbox_is_newest_first_and_nothing_in_it_goes_away() -> None:
    env = staged()
    asked(env)
    say(env, "ticketdesk.wait", hours=72)
    say(env, "ticketdesk.wait", hours=1)
    for _ in range(2):
        shown = say(env, "ticketdesk.read_inbox").data
        assert [row["id"] for row in shown["rows"]] == [letter.id for letter in letters(env)][::-1][:10]
    assert shown["rows"][0]["topic"] == "decision"


def test_waiting_stops_at_news_and_shows_it() -> None:
    env = staged()
    verify(env)
    start = env.world.now
    request = asked(env)
    arrived = say(env, "ticketdesk.wait", hours=72).data["arrived"]
    decided_at = answered(env, request).decided_at
    assert [(letter["topic"], letter["about"]) for letter in arrived] == [("decision", request)]
    assert env.world.now == decided_at
    assert start < env.world.now < start + 72 * HOUR


def test_waiting_without_news_takes_its_hours_and_shows_nothing() -> None:
    env = staged()
    start = env.world.now
    assert say(env, "ticketdesk.wait", hours=5).data == {"arrived": []}
    assert env.world.now == start + 5 * HOUR


def test_waiting_shows_at_once_what_came_since_one_last_looked() -> None:
    env = staged()
    post(env.world, me(env), role(env, "cfo"), "bulletin", None, "Cake in the kitchen.")
    start = env.world.now
    assert [letter["text"] for letter in say(env, "ticketdesk.wait", hours=72).data["arrived"]] == ["Cake in the kitchen."]
    assert env.world.now == start


def test_a_message_that_was_read_is_not_news() -> None:
    env = staged()
    post(env.world, me(env), role(env, "cfo"), "bulletin", None, "Cake in the kitchen.")
    say(env, "ticketdesk.read_inbox")
    assert say(env, "ticketdesk.wait", hours=2).data["arrived"] == []


def test_a_missing_page_of_the_inbox_marks_nothing_as_read() -> None:
    env = staged()
    post(env.world, me(env), role(env, "cfo"), "bulletin", None, "Cake in the kitchen.")
    before = env.digest()
    assert say(env, "ticketdesk.read_inbox", page=9).code == "no_such_page"
    assert env.digest() == before


def test_old_bulletins_are_not_news_at_the_start() -> None:
    env = staged()
    assert len(letters(env, "bulletin")) == 2
    assert say(env, "ticketdesk.wait", hours=1).data["arrived"] == []


@pytest.mark.parametrize("hours", [0, 73, -1, 1.5, "8"])
def test_waiting_takes_1_to_72_hours(hours: Any) -> None:
    assert say(staged(), "ticketdesk.wait", hours=hours).code == "bad_arguments"


# -- the backdrop ------------------------------------------------------------------------------------------------------


def test_every_company_has_at_least_30_tickets_of_several_kinds_and_desks() -> None:
    for seed in range(50):
        everything = list(make(task_id(seed)).world.all(Ticket))
        assert len(everything) >= 30
        assert len({found.desk for found in everything}) >= 4
        assert len({found.kind for found in everything}) >= 5


def test_every_company_has_other_unfinished_tickets_on_the_same_desk() -> None:
    for seed in range(50):
        env = make(task_id(seed))
        same_desk = [found for found in env.world.all(Ticket) if found.desk == "vendor" and found.id != ticket(env).id]
        assert any(found.status in ("open", "in_progress") for found in same_desk)
