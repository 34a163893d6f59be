"""Contract renewal: which terms apply, whether notice is still possible, and the order of the departments."""

from datetime import date
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.assurance.twins import do
from companyos.company import Approval, Comment, Entry, Metric, Mind, Person, Policy, Ticket
from companyos.core.world import DAY, stamp
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.contract_rules import LAWYER, NOTICE_FORM, OFFICER, RENEWAL_FORM, USAGE
from companyos.families.kit.case import Value
from tests.families.helpers import calm_episodes, ending, missed, worked
from tests.helpers import answered, letters, me, role, say, set_field, ticket, verify

# A case without problems: the contract is wanted, the budget suffices, and its own terms apply.
CALM: dict[str, Value] = {
    "duplicate": False,
    "frame": "holds",
    "gap": "between",
    "amended": False,
    "used": True,
    "budget": "ample",
    "annex": "valid",
    "value": "low",
}
SEEDS = range(80)
APPROVED = ("approved", "signed")


@cache
def calm_task(longer: bool, dearer: bool) -> str:
    """Return a calm task whose amendment makes the notice period longer (or shorter) and the amount higher (or lower)."""
    for env in calm_episodes(RENEWAL_FORM, CALM):
        own, amended = (paper(env, name) for name in ("entry", "amendment"))
        if (own["notice_days"] < amended["notice_days"], own["amount"] < amended["amount"]) == (longer, dearer):
            return env.task_id
    raise AssertionError("no such seed")


def staged(longer: bool = True, dearer: bool = True, **causes: Any) -> CompanyEnv:
    """Return an episode of the calm case with these causes changed."""
    return make(do(calm_task(longer, dearer), **causes))


def paper(env: CompanyEnv, name: str) -> dict[str, int]:
    """Return the terms of the contract or of an amendment."""
    details = env.world.get(Entry, role(env, name)).details
    return {field: int(details[field]) for field in ("notice_days", "amount")}


def ask(env: CompanyEnv, name: str) -> dict[str, str]:
    """Ask a person on the ticket and return the facts that they state."""
    person = role(env, name)
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Could you, please?", to=person).ok
    env.world.advance(5 * DAY)
    return next(c.facts for c in reversed(list(env.world.all(Comment))) if c.author == person)


def ready(**causes: Any) -> CompanyEnv:
    """Return an episode in which the ticket is verified and both departments have stated their facts."""
    env = staged(**causes)
    verify(env)
    ask(env, "lawyer")
    ask(env, "officer")
    return env


def decision(
    env: CompanyEnv, form: str, approver: str, terms: str = "entry", named: str = "", **changes: Any
) -> tuple[str, str]:
    """Submit a right request that names these terms, with these changes. Return its status and code."""
    case, entry = ticket(env), env.world.get(Entry, role(env, "entry"))
    data: dict[str, Any] = {"ticket_id": case.id, "subject": case.subject, "reference": case.reference}
    data["terms"] = named or role(env, terms)
    if form == RENEWAL_FORM:
        data["amount"] = paper(env, terms)["amount"]
        usage = env.world.put_at_start(replace(env.world.get(Metric, role(env, "usage")), measured_at=env.world.now))
        data["usage"] = usage.value
        data["cost_center"] = env.world.get(Person, case.requester).cost_center
    else:
        data["notice_days"] = paper(env, terms)["notice_days"]
        data["renews_on"] = entry.details["renews_on"]
    asked: dict[str, Any] = {"approval_type": form, "approver": role(env, approver), "data": data | changes}
    reply = say(env, "approvalflow.submit_approval", **asked)
    assert reply.ok, reply
    request = answered(env, reply.data["id"])
    return request.status, request.code


# -- which ending ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ({}, "completed/all_checks_passed"),
        ({"gap": "past"}, "completed/all_checks_passed"),  # too late for notice, but the contract is wanted
        ({"value": "high"}, "completed/all_checks_passed"),
        ({"value": "high", "amended": True}, "escalated/beyond_authority"),
        ({"annex": "ends", "value": "high", "amended": True}, "on_hold/document_expired"),
        ({"budget": "tight"}, "completed/all_checks_passed"),
        ({"budget": "tight", "amended": True, "gap": "wide"}, "declined/no_budget"),
        ({"budget": "tight", "amended": True, "annex": "ends", "gap": "wide"}, "declined/no_budget"),
        ({"budget": "tight", "amended": True}, "escalated/too_late"),
        ({"used": False}, "declined/unused"),
        ({"used": False, "amended": True}, "escalated/too_late"),
        ({"used": False, "gap": "past"}, "escalated/too_late"),
        ({"used": False, "gap": "past", "frame": "ends"}, "cannot_be_done/not_covered"),
        ({"duplicate": True, "frame": "ends"}, "duplicate/same_request"),
    ],
)
def test_the_first_check_that_applies_decides(causes: dict[str, Any], expected: str) -> None:
    env = staged(**causes)
    assert ending(env) == expected
    run_expert(env)
    assert env.success


def test_an_amendment_can_open_the_way_out_as_well_as_close_it() -> None:
    for longer in (True, False):
        own, amended = (ending(staged(longer=longer, used=False, amended=binds)) for binds in (False, True))
        assert {own, amended} == {"declined/unused", "escalated/too_late"}
        assert (amended == "escalated/too_late") == longer


def test_an_amendment_can_make_a_renewal_affordable_as_well_as_too_dear() -> None:
    for dearer in (True, False):
        tight = [ending(staged(dearer=dearer, budget="tight", gap="wide", amended=binds)) for binds in (False, True)]
        assert sorted(tight) == ["completed/all_checks_passed", "declined/no_budget"]
        assert (tight[1] == "declined/no_budget") == dearer


def test_whose_limit_covers_the_amount_that_holds_decides() -> None:
    deciders = {amended: staged(amended=amended).setting.ending.decider for amended in (False, True)}
    assert deciders == {False: "Procurement Lead", True: "CFO"}


# -- dates against dates -----------------------------------------------------------------------------------------------


def _day(text: str) -> date:
    return date.fromisoformat(text[:10])


def _holds(env: CompanyEnv) -> str:
    """Return the role of the entry whose terms apply, computed from the records without the code under test."""
    amendment = env.world.get(Entry, role(env, "amendment")).details
    said = env.world.get(Mind, role(env, "lawyer")).knows[ticket(env).id]["countersigned"]
    in_time = (_day(said) - _day(amendment["sent_on"])).days <= int(amendment["open_days"])
    return "amendment" if in_time else "entry"


def test_the_way_out_is_closed_exactly_where_the_ticket_was_opened_after_the_deadline() -> None:
    seen = set()
    for seed in SEEDS:
        env = make(RENEWAL_FORM, seed=seed)
        causes = env.setting.causes
        assert (_holds(env) == "amendment") == causes.amended
        if causes.duplicate or causes.frame == "ends" or causes.used:
            continue
        renews_on = _day(env.world.get(Entry, role(env, "entry")).details["renews_on"])
        late = (renews_on - _day(stamp(ticket(env).opened))).days < paper(env, _holds(env))["notice_days"]
        assert ending(env) == ("escalated/too_late" if late else "declined/unused"), env.task_id
        seen.add((causes.gap, late))
    assert len(seen) >= 4


def test_each_short_cut_to_the_deadline_is_often_wrong() -> None:
    wrong = {"contract": 0, "amendment": 0, "longest": 0, "today": 0}
    for seed in SEEDS:
        env = make(RENEWAL_FORM, seed=seed)
        renews_on = _day(env.world.get(Entry, role(env, "entry")).details["renews_on"])
        days = (renews_on - _day(stamp(ticket(env).opened))).days
        own, amended = (paper(env, name)["notice_days"] for name in ("entry", "amendment"))
        holds = paper(env, _holds(env))["notice_days"]
        wrong["contract"] += (days < own) != (days < holds)
        wrong["amendment"] += (days < amended) != (days < holds)
        wrong["longest"] += (days < max(own, amended)) != (days < holds)
        wrong["today"] += ((renews_on - _day(stamp(env.world.now))).days < holds) != (days < holds)
    assert min(wrong.values()) >= 0.1 * len(SEEDS), wrong


def test_what_ends_before_the_renewal_still_runs_when_the_ticket_is_opened() -> None:
    env = staged(frame="ends", annex="ends")
    opened = stamp(ticket(env).opened)[:10]
    contract = env.world.get(Entry, role(env, "entry")).details
    for ends in (env.world.get(Entry, role(env, "framework")).details["ends"], contract["data_annex_ends"]):
        assert opened < ends < contract["renews_on"]


def test_terms_that_do_not_hold_may_not_be_cited() -> None:
    for causes in ({}, {"used": False, "amended": True}):
        rest, last = worked(staged(**causes))
        wrong = "entry" if _holds(rest) == "amendment" else "amendment"
        for field, value in paper(rest, wrong).items():
            more = {"record": role(rest, wrong), "field": field, "value": str(value)}
            assert missed(rest.fork(), last, evidence=[*last.params["evidence"], more]) == ["CitesNoOther"]


def test_a_renewal_on_terms_that_do_not_hold_is_signed_and_cannot_be_put_back() -> None:
    env = ready(amended=True)
    assert decision(env, RENEWAL_FORM, "lead", terms="entry") == APPROVED
    assert env.lost() == "damage"


def test_a_notice_that_comes_too_late_is_signed_and_cannot_be_put_back() -> None:
    env = ready(used=False, gap="past")
    assert decision(env, NOTICE_FORM, "counsel") == APPROVED
    assert env.lost() == "damage"


def test_what_cannot_be_renewed_leaves_nothing_signed() -> None:
    env = staged(frame="ends")
    run_expert(env)
    assert env.success
    assert not [request for request in env.world.all(Approval) if request.requester == me(env)]
    assert ticket(env).waiting_on == role(env, "requester")


# -- who speaks before whom --------------------------------------------------------------------------------------------


def test_finance_says_nothing_before_legal_has_spoken() -> None:
    env = staged()
    assert ask(env, "officer") == {}
    assert "countersigned first" in letters(env, "comment")[-1].text
    assert set(ask(env, "lawyer")) == {"countersigned"}
    assert set(ask(env, "officer")) == {"committed"}


def test_what_the_departments_know_stands_nowhere_before_they_are_asked() -> None:
    env = staged()
    known = env.world.fork()
    said = {**ask(env, "lawyer"), **ask(env, "officer")}
    shown = [repr(record) for kind in known.kinds() if not kind.hidden for record in known.own(kind).values()]
    assert not any(value in text for value in said.values() for text in shown)


@pytest.mark.parametrize(
    ("name", "form", "approver"), [("officer", RENEWAL_FORM, "lead"), ("lawyer", NOTICE_FORM, "counsel")]
)
def test_nothing_is_signed_before_the_departments_have_spoken(name: str, form: str, approver: str) -> None:
    env = staged()
    verify(env)
    if name == "officer":
        ask(env, "lawyer")
    assert decision(env, form, approver) == ("rejected", "not_stated")
    ask(env, name)
    assert decision(env, form, approver) == APPROVED


def test_what_the_analyst_says_in_their_place_does_not_count() -> None:
    env = staged()
    verify(env)
    stated = {"countersigned": "2026-01-01", "committed": "900000"}
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="All said.", facts=stated).ok
    assert decision(env, RENEWAL_FORM, "lead") == ("rejected", "not_stated")


def test_those_who_speak_are_never_away_and_sign_nothing() -> None:
    env = make(RENEWAL_FORM, seed=3, chaos=1.0)
    for name, office in (("lawyer", LAWYER), ("officer", OFFICER)):
        person = env.world.get(Person, role(env, name))
        assert (person.role, person.limit, person.away_from) == (office, None, None)


# -- what is signed ----------------------------------------------------------------------------------------------------


def test_a_request_must_name_a_paper_of_the_contract_and_say_what_it_says() -> None:
    env = ready()
    foreign = env.world.get(Entry, role(env, "entry")).details["framework"]
    assert decision(env, RENEWAL_FORM, "lead", named=foreign) == ("rejected", "wrong_terms")
    assert decision(env, RENEWAL_FORM, "lead", amount=1) == ("rejected", "mismatch")
    assert decision(env, NOTICE_FORM, "counsel", notice_days=1) == ("rejected", "mismatch")
    assert decision(env, NOTICE_FORM, "counsel", renews_on="2030-01-01") == ("rejected", "mismatch")


def test_neither_office_signs_for_the_other() -> None:
    env = ready()
    assert decision(env, RENEWAL_FORM, "counsel") == ("rejected", "not_mine")
    assert decision(env, NOTICE_FORM, "lead") == ("rejected", "not_mine")
    assert decision(env, RENEWAL_FORM, "lead", terms="amendment") == ("rejected", "not_mine")


@pytest.mark.parametrize(
    ("causes", "signs"),
    [
        ({"lead_away": True}, "lead_deputy"),
        ({"lead_away": True, "lead_deputy_away": True}, "lead_third"),
        ({"amended": True, "cfo_away": True}, "controller"),
        ({"used": False, "counsel_away": True, "counsel_deputy_away": True}, "counsel_third"),
    ],
)
def test_the_delegate_signs(causes: dict[str, Any], signs: str) -> None:
    env = staged(**causes)
    run_expert(env)
    assert env.success
    assert [a.decided_by for a in env.world.all(Approval) if a.status == "approved"] == [role(env, signs)]


def test_a_notice_cites_what_it_rests_on() -> None:
    rest, last = worked(staged(used=False))
    cited = {fact["field"]: fact["record"] for fact in last.params["evidence"]}
    assert cited["value"] == role(rest, "usage")
    assert cited["minimum_usage"] == role(rest, "policy")
    assert missed(rest, last, evidence=[]) == ["Cites"]


# -- what the policies say ---------------------------------------------------------------------------------------------


def test_one_word_finds_the_rules_of_this_work_on_one_page() -> None:
    found = say(staged(), "datahub.search_policies", query="contract").data
    assert found["pages"] == 1
    assert all(row["title"].startswith("Contract renewal: ") for row in found["rows"])


def test_every_policy_is_short_and_says_its_numbers() -> None:
    for seed in range(10):
        for policy in make(RENEWAL_FORM, seed=seed).world.all(Policy):
            assert len(policy.text.split()) <= 80, policy.title
            assert all(str(value) in policy.text for value in policy.terms.values()), policy.title


def test_the_policies_name_every_way_to_end_and_every_office() -> None:
    env = staged()
    texts = " ".join(policy.text for policy in env.world.all(Policy) if policy.title.startswith("Contract renewal"))
    for seed in SEEDS:
        right = make(RENEWAL_FORM, seed=seed).setting.ending
        assert right.resolution in texts
        assert texts.count(right.reason) >= 2  # when it applies, and what to cite
    for office in (LAWYER, OFFICER, "Procurement Lead", "Legal Counsel", "CFO", "CEO", "Compliance Officer"):
        assert office in texts


def test_the_superseded_rule_would_call_other_contracts_used() -> None:
    env = staged()
    versions = [p for p in env.world.all(Policy) if p.title == USAGE]
    assert sorted(p.status for p in versions) == ["in force", "superseded"]
    assert len({p.terms["minimum_usage"] for p in versions}) == 2


def test_a_namesake_does_not_do() -> None:
    env = staged()
    other = env.world.get(Ticket, role(env, "earlier")).reference
    namesake = next(e for e in env.world.all(Entry) if e.reference == other)
    assert set_field(env, "verified", namesake.id).code == "no_match"
    assert set_field(env, "verified", role(env, "amendment")).code == "no_match"
