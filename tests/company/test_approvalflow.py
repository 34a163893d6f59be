"""Tests of the app ApprovalFlow: forms, requests, escalations and decisions."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from companyos.company import Approval, ApprovalType, Person
from companyos.company.apps import approvalflow
from companyos.core.world import stamp
from companyos.env import CompanyEnv
from tests.helpers import FAMILY, answered, asked, form, letters, me, role, say, staged, submit, ticket, verify

Attempt = Callable[[CompanyEnv], tuple[str, dict[str, Any]]]  # sets the scene, then says which tool and with what


class Refusal(NamedTuple):
    """A call that ApprovalFlow refuses, and the code of the refusal."""

    claim: str
    code: str
    attempt: Attempt
    actor: str = ""  # the role of who tries, if it is not the one who works the task


def submitting(approver: str = "head", kind: str = FAMILY, **changes: Any) -> Attempt:
    def attempt(env: CompanyEnv) -> tuple[str, dict[str, Any]]:
        person = {"me": me(env), "nobody": "@no.body"}.get(approver) or role(env, approver)
        named = {field: value(env) if callable(value) else value for field, value in changes.items()}
        return "submit_approval", {"approval_type": kind, "approver": person, "data": form(env, **named)}

    return attempt


def a_fourth(env: CompanyEnv) -> tuple[str, dict[str, Any]]:
    for number in range(3):
        asked(env, reference=f"TAX-{number}")
    return submitting()(env)


def of(method: str, request: Callable[[CompanyEnv], str], **more: Any) -> Attempt:
    return lambda env: (method, {"approval_id": request(env), **more})


def no_request(env: CompanyEnv) -> str:
    return "A-1"


def pending(env: CompanyEnv) -> str:
    return asked(env)


def approved(env: CompanyEnv) -> str:
    verify(env)
    request = asked(env)
    assert answered(env, request).status == "approved"
    return request


def rejected(env: CompanyEnv) -> str:
    request = asked(env, reference="TAX-1")
    assert answered(env, request).status == "rejected"
    return request


def withdrawn(env: CompanyEnv) -> str:
    request = asked(env)
    assert say(env, "approvalflow.withdraw", approval_id=request).ok
    return request


def escalated(env: CompanyEnv) -> str:
    request = asked(env)
    assert say(env, "approvalflow.escalate", approval_id=request, reason="?").ok
    return request


def put_to_the_top(env: CompanyEnv) -> str:
    return asked(env, next(person.id for person in env.world.all(Person) if person.manager is None))


WHY = {"reason": "?"}
VERDICT = {"verdict": "approved", "code": "signed", "reason": "Signed."}
REFUSALS = [
    Refusal("a form there is not", "not_found", submitting(kind="raise")),
    Refusal("asking nobody we know", "not_found", submitting("nobody")),
    Refusal("a request for no ticket", "not_found", submitting(ticket_id="T-1")),
    Refusal("a request for what is no ticket", "not_found", submitting(ticket_id=lambda env: role(env, "policy"))),
    Refusal("asking oneself", "self_approval", submitting("me")),
    Refusal("leaving out a field", "missing_field", submitting(reference=None)),
    Refusal("an empty field", "missing_field", submitting(reference="")),
    Refusal("a field that the form has not", "unknown_field", submitting(colour="red")),
    Refusal("reading no request", "not_found", of("check_status", no_request)),
    Refusal("a fourth request while three are pending", "too_many", a_fourth),
    Refusal("escalating no request", "not_found", of("escalate", no_request, **WHY)),
    Refusal("escalating somebody else's", "not_yours", of("escalate", pending, **WHY), "cfo"),
    Refusal("escalating what is approved", "closed", of("escalate", approved, **WHY)),
    Refusal("escalating what is withdrawn", "closed", of("escalate", withdrawn, **WHY)),
    Refusal("escalating past the top", "top", of("escalate", put_to_the_top, **WHY)),
    Refusal("withdrawing no request", "not_found", of("withdraw", no_request)),
    Refusal("withdrawing somebody else's", "not_yours", of("withdraw", pending), "cfo"),
    Refusal("withdrawing what is approved", "closed", of("withdraw", approved)),
    Refusal("deciding no request", "not_found", of("decide", no_request, **VERDICT), "head"),
    Refusal("deciding one's own", "not_yours", of("decide", pending, **VERDICT)),
    Refusal("deciding what was put to somebody else", "not_yours", of("decide", pending, **VERDICT), "cfo"),
    Refusal("deciding what was taken further up", "not_yours", of("decide", escalated, **VERDICT), "head"),
    Refusal("deciding what is approved", "closed", of("decide", approved, **VERDICT), "head"),
    Refusal("deciding what is rejected", "closed", of("decide", rejected, **VERDICT), "head"),
    Refusal("deciding what is withdrawn", "closed", of("decide", withdrawn, **VERDICT), "head"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=[refusal.claim for refusal in REFUSALS])
def test_what_is_refused_says_why_and_writes_nothing(refusal: Refusal) -> None:
    env = staged()
    method, params = refusal.attempt(env)
    before = (env.digest(), len(env.world.journal))
    reply = say(env, f"approvalflow.{method}", role(env, refusal.actor) if refusal.actor else None, **params)
    assert (reply.ok, reply.code, reply.data) == (False, refusal.code, None)
    assert reply.message
    assert (env.digest(), len(env.world.journal)) == before


def test_every_code_that_approvalflow_refuses_with_is_tried_above() -> None:
    codes = set(re.findall(r'Refused\(\s*"(\w+)"', inspect.getsource(approvalflow)))
    assert codes <= {refusal.code for refusal in REFUSALS}
    assert len(codes) > 6


@pytest.mark.parametrize("data", [{}, {"reference": None}, {"reference": ["x"]}, {"reference": {"name": "x"}}, [], "x"])
def test_a_form_holds_plain_values_by_name(data: Any) -> None:
    env = staged()
    params = {"approval_type": FAMILY, "approver": role(env, "head"), "data": data}
    assert say(env, "approvalflow.submit_approval", **params).code in ("bad_arguments", "missing_field")
    assert env.world.count(Approval) == 0


# -- forms -------------------------------------------------------------------------------------------------------------


def test_forms_are_listed_with_what_they_require_and_who_decides() -> None:
    env = staged()
    rows = {row["id"]: row for row in say(env, "approvalflow.list_approval_types").data["rows"]}
    assert set(rows) == {kind.id for kind in env.world.all(ApprovalType)}
    assert len(rows) >= 4
    assert set(rows[FAMILY]["required"]) == set(form(env))
    assert all(row["decided_by"] for row in rows.values())


def test_a_form_may_ask_for_one_field_more_and_refuses_what_lacks_it() -> None:
    env = staged(contract_required=True)
    rows = {row["id"]: row for row in say(env, "approvalflow.list_approval_types").data["rows"]}
    assert "contract" in rows[FAMILY]["required"]
    assert submit(env).code == "missing_field"
    contract = say(env, "datahub.get_entry", entry_id=role(env, "entry")).data["contract"]
    assert submit(env, contract=contract).ok


# -- requests ----------------------------------------------------------------------------------------------------------


def test_a_request_is_pending_with_its_data_until_it_is_decided() -> None:
    env = staged()
    verify(env)
    request = asked(env)
    shown = say(env, "approvalflow.check_status", approval_id=request).data
    assert (shown["status"], shown["approver"], shown["requester"]) == ("pending", role(env, "head"), me(env))
    assert shown["data"] == form(env)
    assert shown["submitted_at"] == stamp(env.world.now)
    assert (shown["decided_by"], shown["decided_at"], shown["code"]) == (None, None, "")
    decided_at = answered(env, request).decided_at
    shown = say(env, "approvalflow.check_status", approval_id=request).data
    assert (shown["status"], shown["decided_by"], shown["code"]) == ("approved", role(env, "head"), "signed")
    assert shown["decided_at"] == stamp(decided_at or 0)


def test_what_a_reply_shows_of_a_request_is_a_copy() -> None:
    env = staged()
    before = form(env)
    reply = submit(env)
    reply.data["data"]["amount"] = 1
    shown = say(env, "approvalflow.check_status", approval_id=reply.data["id"]).data
    assert shown["data"] == before
    shown["data"]["amount"] = 1
    assert env.world.get(Approval, reply.data["id"]).data == before


def test_requests_are_listed_newest_first_ten_a_page_by_status() -> None:
    env = staged()
    made = []
    for number in range(12):
        made.append(asked(env, reference=f"TAX-{number}"))
        if number not in (3, 11):
            say(env, "approvalflow.withdraw", approval_id=made[-1])
    first = say(env, "approvalflow.list_approvals").data
    assert (first["total"], first["pages"], len(first["rows"])) == (12, 2, 10)
    second = say(env, "approvalflow.list_approvals", page=2).data
    assert [row["id"] for row in first["rows"] + second["rows"]] == made[::-1]
    open_ones = say(env, "approvalflow.list_approvals", status="pending").data["rows"]
    assert [row["id"] for row in open_ones] == [made[11], made[3]]
    assert open_ones[0]["ticket_id"] == ticket(env).id
    assert say(env, "approvalflow.list_approvals", status="approved").data["total"] == 0


def test_withdrawing_one_makes_room_for_another_request() -> None:
    env = staged()
    method, params = a_fourth(env)
    newest = say(env, "approvalflow.list_approvals").data["rows"][0]["id"]
    say(env, "approvalflow.withdraw", approval_id=newest)
    assert say(env, f"approvalflow.{method}", **params).ok


@pytest.mark.parametrize("method", ["escalate", "withdraw"])
def test_a_call_that_was_carried_out_can_be_repeated_without_further_effect(method: str) -> None:
    # An answer can be lost, so repeating a call must not be an offence.
    env = staged()
    request = {"escalate": escalated, "withdraw": withdrawn}[method](env)
    before = (env.digest(), len(env.world.journal))
    params = {"reason": "?"} if method == "escalate" else {}
    assert say(env, f"approvalflow.{method}", approval_id=request, **params).ok
    assert (env.digest(), len(env.world.journal)) == before


def test_everybody_sees_their_own_requests_only() -> None:
    env = staged()
    asked(env)
    assert say(env, "approvalflow.list_approvals", actor=role(env, "cfo")).data["total"] == 0


def test_a_rejected_request_can_be_withdrawn_and_one_can_ask_again() -> None:
    env = staged()
    request = rejected(env)
    assert say(env, "approvalflow.withdraw", approval_id=request).ok
    verify(env)
    assert answered(env, asked(env)).status == "approved"


def test_a_withdrawn_request_is_not_decided_any_more() -> None:
    env = staged()
    verify(env)
    request = withdrawn(env)
    say(env, "ticketdesk.wait", hours=72)
    assert env.world.get(Approval, request).status == "withdrawn"
    assert letters(env, "decision") == []


def test_a_decision_reaches_the_inbox_of_the_requester() -> None:
    env = staged()
    request = rejected(env)
    (letter,) = letters(env, "decision")
    assert (letter.sender, letter.about) == (role(env, "head"), request)
    assert letter.text == f"{request} rejected: {env.world.get(Approval, request).reason}"


# -- escalation --------------------------------------------------------------------------------------------------------


def manager(env: CompanyEnv, person_id: str) -> str:
    return env.world.get(Person, person_id).manager or ""


@pytest.mark.parametrize("before", [pending, rejected])
def test_a_pending_or_rejected_request_goes_up_to_the_manager(before: Callable[[CompanyEnv], str]) -> None:
    env = staged()
    request = before(env)
    shown = say(env, "approvalflow.escalate", approval_id=request, reason="Please.").data
    assert (shown["status"], shown["escalated"]) == ("pending", True)
    assert shown["approver"] == manager(env, role(env, "head")) == role(env, "cfo")
    assert (shown["decided_by"], shown["decided_at"], shown["code"], shown["reason"]) == (None, None, "", "")


def referred(env: CompanyEnv, to: str = "head") -> str:
    """A request whose approver asked for their manager's decision, and which was taken there."""
    verify(env)
    request = asked(env, to)
    assert answered(env, request).code == "needs_superior"
    shown = say(env, "approvalflow.escalate", approval_id=request, reason="Please.").data
    assert shown["referred"]
    return request


def test_a_request_that_its_approver_referred_is_decided_by_the_manager() -> None:
    env = staged(objection="superior")
    decided = answered(env, referred(env))
    assert (decided.status, decided.decided_by) == ("approved", role(env, "cfo"))


def test_a_manager_does_not_sign_for_the_lower_office_if_the_approver_did_not_refer_the_request() -> None:
    env = staged()
    env.world.put_at_start(replace(env.world.get(ApprovalType, FAMILY), any_office=False))
    verify(env)
    decided = answered(env, escalated(env))
    assert (decided.status, decided.code) == ("rejected", "not_mine")


def test_escalation_goes_to_the_delegate_of_an_absent_manager() -> None:
    env = staged(cfo_away=True, objection="superior")
    request = referred(env)
    assert env.world.get(Approval, request).approver == role(env, "controller")
    assert answered(env, request).status == "approved"


def test_escalation_skips_a_manager_for_whom_the_approver_stands_in() -> None:
    env = staged(amount="large", cfo_away=True, objection="superior")
    request = referred(env, "controller")
    assert env.world.get(Approval, request).approver == manager(env, role(env, "cfo"))
    assert answered(env, request).status == "approved"


def test_a_deputys_request_goes_past_the_absent_head_to_the_heads_manager() -> None:
    env = staged(head_away=True, objection="superior")
    request = referred(env, "head_deputy")
    assert env.world.get(Approval, request).approver == role(env, "cfo")
    assert answered(env, request).status == "approved"
