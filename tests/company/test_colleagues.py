"""Tests of the simulated colleagues: what they reject, what they approve and what they answer."""

import inspect
import re
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from companyos.company import Approval, ApprovalType, Comment, Entry, Metric, Mind, Person, colleagues
from companyos.company.apps.datahub import age_days
from companyos.company.colleagues import OBJECTION_CODES, OBJECTIONS
from companyos.core.world import DAY, HOUR
from companyos.env import CompanyEnv, make
from tests.helpers import (
    FAMILY,
    answered,
    asked,
    at_work,
    decision,
    letters,
    me,
    played,
    role,
    say,
    staged,
    task_id,
    ticket,
    to_monday,
    verify,
)

APPROVED = ("approved", "signed")


class Rejection(NamedTuple):
    """A request that is rejected: what is wrong with it, and the code of the rejection."""

    claim: str
    code: str
    approver: str = "head"
    causes: dict[str, Any] = {}
    changes: dict[str, Any] = {}
    verified: bool = True


WRONG: dict[str, Any] = {"subject": "Somebody else", "reference": "TAX-1", "amount": 1, "cost_center": "CC-0", "score": 1}
REJECTIONS = [
    *(Rejection(f"another {field}", "mismatch", changes={field: value}) for field, value in WRONG.items()),
    Rejection("another certificate than the register's", "mismatch", changes={"certificate": "IC-1"}),
    Rejection("another contract than the register's", "mismatch", changes={"contract": "K-1"}),
    Rejection("for a ticket of another kind", "wrong_ticket", changes={"ticket_id": "blocker"}),
    Rejection(
        "with an outdated cost centre",
        "wrong_cost_center",
        causes={"cost_center_outdated": True},
        changes={"cost_center": "ticket"},
    ),
    Rejection("put to the delegate while the holder is in", "not_mine", "head_deputy"),
    Rejection("put to the delegate's delegate while the delegate is in", "not_mine", "head_third", {"head_away": True}),
    Rejection("put to an office whose limit is too low", "not_mine", "head", {"amount": "large"}),
    Rejection("put to somebody who does not sign at all", "not_mine", "compliance"),
    Rejection("for more than anybody may sign", "beyond_authority", "cfo", {"amount": "huge"}),
    Rejection("for a ticket that is not verified", "not_verified", verified=False),
    Rejection("resting on a stale metric", "stale", causes={"score_stale": True}),
    Rejection("to somebody who wants evidence", "needs_evidence", causes={"objection": "evidence"}),
    Rejection("to somebody who wants a superior to decide", "needs_superior", causes={"objection": "superior"}),
]


@pytest.mark.parametrize("rejection", REJECTIONS, ids=[rejection.claim for rejection in REJECTIONS])
def test_a_wrong_request_is_rejected_with_its_ground(rejection: Rejection) -> None:
    env = staged(**rejection.causes)
    if rejection.verified:
        verify(env)
    changes = dict(rejection.changes)
    if changes.get("ticket_id"):
        changes["ticket_id"] = role(env, "blocker")
    if changes.get("cost_center") == "ticket":
        changes["cost_center"] = ticket(env).cost_center
    assert decision(env, rejection.approver, **changes) == ("rejected", rejection.code)


def test_a_request_for_a_finished_ticket_is_rejected() -> None:
    env = staged()
    verify(env)
    request = asked(env)
    closing: dict[str, Any] = {"resolution": "declined", "reason": "no_budget", "evidence": []}
    assert say(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **closing).ok
    decided = answered(env, request)
    assert (decided.status, decided.code) == ("rejected", "finished")


@pytest.mark.parametrize(
    ("office", "outcome"),
    [("CFO", APPROVED), ("Head of Research", ("rejected", "not_mine")), ("Wizard", ("rejected", "unknown_office"))],
)
def test_a_form_can_say_itself_which_office_decides_it(office: str, outcome: tuple[str, str]) -> None:
    env = staged()
    verify(env)
    form = env.world.get(ApprovalType, FAMILY)
    env.world.put_at_start(replace(form, offices=("{office}",), optional=(*form.optional, "office")))
    assert decision(env, "cfo", office=office) == outcome


def test_every_ground_for_a_rejection_is_tried_above() -> None:
    grounds = set(re.findall(r'return "(\w+)", f?"', inspect.getsource(colleagues))) | set(OBJECTION_CODES)
    elsewhere = {"finished", "unknown_office", "below_minimum"}  # the last one in the tests of handbook updates
    assert grounds == {rejection.code for rejection in REJECTIONS} | elsewhere


def test_a_rejection_says_in_words_which_field_is_wrong_and_not_what_is_right() -> None:
    env = staged()
    verify(env)
    request = answered(env, asked(env, reference="TAX-1"))
    assert "reference" in request.reason
    assert ticket(env).reference not in request.reason


@pytest.mark.parametrize("causes", [{"amount": "huge"}, {"score": "under"}])
def test_a_request_with_a_wrong_value_does_not_tell_how_the_case_stands(causes: dict[str, str]) -> None:
    env = staged(**causes)
    verify(env)
    assert answered(env, asked(env, certificate="none")).code == "mismatch"


# -- who signs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "signer"),
    [
        ({}, "head"),
        ({"amount": "large"}, "cfo"),
        ({"head_away": True}, "head_deputy"),
        ({"head_away": True, "head_deputy_away": True}, "head_third"),
        ({"amount": "large", "cfo_away": True}, "controller"),
        ({"amount": "large", "cfo_away": True, "controller_away": True}, "treasurer"),
        ({"head_deputy_away": True}, "head"),
        ({"amount": "large", "head_away": True}, "cfo"),
    ],
)
def test_the_holder_of_a_sufficient_office_signs_or_their_delegate(causes: dict[str, Any], signer: str) -> None:
    env = staged(**causes)
    verify(env)
    signed = answered(env, asked(env, signer))
    assert (signed.status, signed.code, signed.decided_by) == (*APPROVED, role(env, signer))
    # The form does not say which office has to sign, so the CFO may sign each of them.
    others = {"head", "head_deputy", "head_third", "controller", "treasurer"} - {signer}
    for other in sorted(others):
        fresh = staged(**causes)
        verify(fresh)
        request = asked(fresh, other)
        fresh.world.advance(5 * DAY)
        assert fresh.world.get(Approval, request).status != "approved", other


def test_a_delegate_signs_with_the_holders_authority_beyond_their_own() -> None:
    env = staged(amount="large", cfo_away=True)
    verify(env)
    assert (ticket(env).amount or 0) > (env.world.get(Person, role(env, "controller")).limit or 0)
    assert decision(env, "controller") == APPROVED


def test_a_delegate_has_no_say_once_the_holder_is_back() -> None:
    env = staged(head_away=True)
    verify(env)
    back = env.world.get(Person, role(env, "head")).away_until or 0
    env.world.advance(back - env.world.now)
    say(env, "datahub.refresh_data", metric_name=role(env, "score"))
    assert decision(env, "head_deputy") == ("rejected", "not_mine")
    assert decision(env, "head") == APPROVED


def test_an_absent_approver_sends_a_notice_and_decides_after_returning() -> None:
    env = staged(head_away=True)
    verify(env)
    back = env.world.get(Person, role(env, "head")).away_until or 0
    request = asked(env, "head")
    (notice,) = letters(env, "out_of_office")
    assert (notice.sender, notice.about, notice.at) == (role(env, "head"), request, env.world.now)
    env.world.advance(back - env.world.now)
    assert env.world.get(Approval, request).status == "pending"
    decided = answered(env, request)
    assert decided.decided_by == role(env, "head")
    assert (decided.decided_at or 0) >= back
    assert len(letters(env, "out_of_office")) == 1


def test_a_present_approver_sends_no_notice() -> None:
    env = staged()
    asked(env)
    assert letters(env, "out_of_office") == []


def test_decisions_fall_in_working_hours_and_come_from_people_who_are_in() -> None:
    decided = 0
    for seed in range(30):
        env = played("expert", seed, chaos=1.0)
        for request in env.world.all(Approval):
            if request.decided_at is not None:
                decided += 1
                signer = env.world.get(Person, request.decided_by or "")
                assert at_work(request.decided_at)
                assert not (signer.away_from or 0) <= request.decided_at < (signer.away_until or 0)
                assert request.decided_at >= request.submitted_at + env.world.get(Mind, signer.id).pace
    assert decided > 5


# -- values ------------------------------------------------------------------------------------------------------------


def test_a_number_may_come_as_text() -> None:
    env = staged()
    verify(env)
    assert decision(env, amount=f" {ticket(env).amount} ") == APPROVED


def test_optional_fields_may_be_given_when_they_are_right() -> None:
    env = staged()
    verify(env)
    details = env.world.get(Entry, role(env, "entry")).details
    assert decision(env, certificate=details["certificate"], contract=details["contract"]) == APPROVED


def test_a_stale_metric_is_put_right_by_a_refresh_and_a_request_with_its_true_value() -> None:
    env = staged(score_stale=True)
    verify(env)
    old = env.world.get(Metric, role(env, "score")).value
    assert decision(env) == ("rejected", "stale")
    say(env, "datahub.refresh_data", metric_name=role(env, "score"))
    assert decision(env, score=old) == ("rejected", "mismatch")
    assert decision(env) == APPROVED


@pytest.mark.parametrize(("extra_days", "verdict"), [(0, APPROVED), (1, ("rejected", "stale"))])
def test_a_measurement_counts_to_the_last_day_of_its_limit(extra_days: int, verdict: tuple[str, str]) -> None:
    env = staged()
    verify(env)
    to_monday(env)
    metric = env.world.get(Metric, role(env, "score"))
    env.world.put_at_start(replace(metric, measured_at=env.world.now - (metric.max_age_days + extra_days) * DAY))
    assert decision(env) == verdict


def test_a_metric_that_went_stale_while_the_request_lay_there_is_not_held_against_it() -> None:
    env = staged(head_away=True)
    verify(env)
    metric = env.world.put_at_start(
        replace(env.world.get(Metric, role(env, "score")), max_age_days=0, measured_at=env.world.now)
    )
    assert decision(env, "head") == APPROVED
    assert age_days(metric, env.world.now) > 0


def test_an_approver_of_a_higher_office_than_needed_rejects_unless_the_form_lets_any_office_sign() -> None:
    env = staged()
    verify(env)
    assert decision(env, "cfo") == APPROVED
    env = staged()
    verify(env)
    env.world.put_at_start(replace(env.world.get(ApprovalType, FAMILY), any_office=False))
    assert decision(env, "cfo") == ("rejected", "not_mine")


def test_an_approver_does_not_apply_the_rules_of_a_form_that_any_office_may_sign() -> None:
    for causes in ({"score": "under"}, {"duplicate": "open"}, {"conflict": "requester"}, {"insurance": "expired"}):
        env = staged(**causes)
        verify(env)
        assert decision(env) == APPROVED


def test_an_outdated_cost_centre_is_put_right_on_the_ticket_first() -> None:
    env = staged(cost_center_outdated=True)
    verify(env)
    right = env.world.get(Person, ticket(env).requester).cost_center
    assert decision(env, cost_center=right) == ("rejected", "mismatch")
    say(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="cost_center", value=right)
    assert decision(env, cost_center=right) == APPROVED


# -- objections --------------------------------------------------------------------------------------------------------


def test_an_approver_who_wants_evidence_signs_once_the_certificate_is_attached() -> None:
    env = staged(objection="evidence")
    verify(env)
    assert decision(env) == ("rejected", "needs_evidence")
    certificate = env.world.get(Entry, role(env, "entry")).details["certificate"]
    assert decision(env, certificate="IC-1") == ("rejected", "mismatch")
    assert decision(env, certificate=certificate) == APPROVED


def test_an_approver_who_wants_a_superior_needs_escalation_and_not_evidence() -> None:
    env = staged(objection="superior")
    verify(env)
    certificate = env.world.get(Entry, role(env, "entry")).details["certificate"]
    request = asked(env, certificate=certificate)
    assert answered(env, request).code == "needs_superior"
    assert say(env, "approvalflow.escalate", approval_id=request, reason="As you wish.").ok
    decided = answered(env, request)
    assert (decided.status, decided.decided_by) == ("approved", role(env, "cfo"))


def test_a_request_that_is_wrong_hears_what_is_wrong_before_any_objection() -> None:
    env = staged(objection="evidence")
    verify(env)
    assert decision(env, reference="TAX-1") == ("rejected", "mismatch")


def test_every_objection_has_a_code_and_names_its_remedy() -> None:
    assert {code for code, _ in OBJECTIONS.values()} == OBJECTION_CODES
    assert "field {attachment}" in OBJECTIONS["evidence"][1]
    assert "escalate" in OBJECTIONS["superior"][1]


# -- patience ----------------------------------------------------------------------------------------------------------


def days_to_answer(env: CompanyEnv, **changes: Any) -> int:
    """Return how many days the decision takes on a request that is submitted on a Monday morning."""
    to_monday(env)
    start = env.world.now
    return ((answered(env, asked(env, **changes)).decided_at or 0) - start) // DAY


@pytest.mark.parametrize(("wrong", "days"), [(0, 0), (2, 0), (3, 1), (4, 1)])
def test_after_three_wrong_requests_the_answer_takes_a_day_longer(wrong: int, days: int) -> None:
    env = staged()
    verify(env)
    patience = env.world.get(Mind, role(env, "head")).patience
    assert patience == 3
    for _ in range(wrong):
        assert decision(env, reference="TAX-1") == ("rejected", "mismatch")
    assert days_to_answer(env) == days


def test_somebody_elses_patience_is_not_worn_out_by_it() -> None:
    env = staged(head_deputy_away=True)
    verify(env)
    for _ in range(3):
        decision(env, "cfo", reference="TAX-1")
    assert days_to_answer(env) == 0


def test_objections_of_their_own_do_not_wear_out_patience() -> None:
    env = staged(objection="evidence")
    verify(env)
    for _ in range(4):
        assert decision(env) == ("rejected", "needs_evidence")
    assert days_to_answer(env) == 0


# -- comments ----------------------------------------------------------------------------------------------------------


def test_a_colleague_with_nothing_open_says_so() -> None:
    env = staged()
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Anything?", to=role(env, "compliance"))
    env.world.advance(5 * DAY)
    (answer,) = letters(env, "comment")
    assert "nothing open" in answer.text


def test_an_absent_colleague_answers_a_comment_after_returning() -> None:
    env = staged(cfo_away=True)
    back = env.world.get(Person, role(env, "cfo")).away_until or 0
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Anything?", to=role(env, "cfo"))
    env.world.advance(back - env.world.now)
    assert letters(env, "comment") == []
    env.world.advance(4 * DAY)
    assert len(letters(env, "comment")) == 1


def one_after_the_other() -> CompanyEnv:
    """The head and the CFO each know something about the ticket, and the CFO waits for the head."""
    env = staged()
    head, cfo, ticket_id = role(env, "head"), role(env, "cfo"), ticket(env).id
    env.world.put_at_start(replace(env.world.get(Mind, head), knows={ticket_id: {"need": "real"}}))
    mind = replace(env.world.get(Mind, cfo), knows={ticket_id: {"funds": "left"}}, after={ticket_id: {head: "need"}})
    env.world.put_at_start(mind)
    return env


def answer_of(env: CompanyEnv, person: str) -> dict[str, str]:
    """Return what a person states when asked on the ticket."""
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Please?", to=role(env, person))
    env.world.advance(7 * DAY)
    *_, last = (comment for comment in env.world.all(Comment) if comment.author == role(env, person))
    return last.facts


def test_a_colleague_who_waits_for_another_says_nothing_before_and_names_the_other() -> None:
    env = one_after_the_other()
    assert answer_of(env, "cfo") == {}
    *_, letter = letters(env, "comment")
    assert f"{role(env, 'head')} states need" in letter.text
    assert "left" not in letter.text
    assert answer_of(env, "head") == {"need": "real"}
    assert answer_of(env, "cfo") == {"funds": "left"}


def test_a_statement_by_somebody_else_does_not_count() -> None:
    env = one_after_the_other()
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="They said so.", facts={"need": "real"}).ok
    assert answer_of(env, "cfo") == {}


def test_a_statement_counts_however_much_was_written_after_it() -> None:
    env = one_after_the_other()
    assert answer_of(env, "head") == {"need": "real"}
    for number in range(12):
        say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text=f"Remark {number}.")
    assert answer_of(env, "cfo") == {"funds": "left"}


def test_colleagues_write_under_their_own_name_and_never_as_the_one_who_works_the_task() -> None:
    for seed in range(10):
        env = make(task_id(seed, "100"))
        for person in ("head", "cfo"):
            say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="?", to=role(env, person))
        mark = len(env.world.journal)
        env.world.advance(60 * DAY)
        later = env.world.journal[mark:]
        assert later
        assert me(env) not in {change.actor for change in later}


def test_nobody_is_kept_busy_for_ever() -> None:
    env = staged(objection="superior", block="waiting", head_away=True)
    asked(env, "head_deputy")
    say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="?", to=role(env, "cfo"))
    env.world.advance(100 * DAY)
    mark = len(env.world.journal)
    env.world.advance(365 * DAY + HOUR)
    assert len(env.world.journal) == mark
