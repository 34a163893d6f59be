"""Incident response: simple rules fail, commanders check requests without revealing facts, departments answer in order."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from companyos.company import Approval, Comment, Entry, Metric, Policy, Ticket
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.incident_rules import (
    DECLARE,
    FIGURES,
    FORM,
    POLICIES,
    POLICIES_WITH_NUMBERS,
    ROLL_BACK,
    SEVERITIES,
    WATCHES,
)
from companyos.families.kit.case import Value
from tests.families.helpers import staged_by
from tests.helpers import answered, me, role, say, ticket, verify

# An incident of the company's own service with the highest severity and without a deployment; the first watch declares it.
CALM: dict[str, Value] = {
    "client": False,
    "origin": "here",
    "severe": True,
    "hit": "many",
    "long": True,
    "late": True,
    "recent": False,
    "runs": True,
    "silent": False,
    "second": False,
}
SIGNED = ("completed/all_checks_passed", "escalated/above_limit")


staged = staged_by(FORM, CALM, reward="sparse")


def solved(**causes: Any) -> CompanyEnv:
    env = staged(**causes)
    run_expert(env)
    assert env.success
    return env


def detail(env: CompanyEnv, place: str, name: str) -> str:
    return env.world.get(Entry, role(env, place)).details[name]


def term(env: CompanyEnv, name: str, status: str = "in force") -> int:
    policies = [p for p in env.world.all(Policy) if p.title.startswith("Incident") and p.status == status]
    return next(p.terms[name] for p in policies if name in p.terms)


def value(env: CompanyEnv, figure: str) -> int:
    return env.world.get(Metric, role(env, figure)).value


def asked(env: CompanyEnv, person: str) -> Comment:
    """Ask a person on the ticket and return the facts that they state."""
    before = {comment.id for comment in env.world.all(Comment)}
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Well?", to=role(env, person)).ok
    env.world.advance(4 * DAY)
    return next(c for c in env.world.all(Comment) if c.id not in before and c.author == role(env, person))


def right_request(env: CompanyEnv) -> dict[str, Any]:
    """Return the values of the expert's request, after the statements that it needs were made in this episode."""
    done = env.fork()
    run_expert(done)
    verify(env)
    asked(env, "on_call")
    asked(env, "communications")
    for figure in (*FIGURES, "self_check"):
        say(env, "datahub.refresh_data", metric_name=role(env, figure))
    return dict(next(a.data for a in done.world.all(Approval) if a.status == "approved"))


def decided(env: CompanyEnv, approver: str = "first", **changes: Any) -> Approval:
    """Submit the right request with these changes, where None leaves a field out. Return it when it is decided."""
    data = {field: said for field, said in (right_request(env) | changes).items() if said is not None}
    reply = say(env, "approvalflow.submit_approval", approval_type=FORM, approver=role(env, approver), data=data)
    assert reply.ok, reply
    return answered(env, reply.data["id"])


# -- the rules ---------------------------------------------------------------------------------------------------------


def test_every_policy_has_at_most_80_words_and_all_are_found_by_one_word() -> None:
    env = staged()
    mine = [p for p in env.world.all(Policy) if p.title in POLICIES_WITH_NUMBERS | POLICIES]
    assert len(mine) == len(POLICIES_WITH_NUMBERS) + len(POLICIES) + 1  # one is superseded
    for policy in mine:
        assert len(policy.text.split()) <= 80, policy.title
        assert policy.title.startswith("Incident response: ")
        assert all(str(number) in policy.text for number in policy.terms.values())


def test_each_ending_stands_in_the_order_of_checks_and_in_the_policy_on_evidence() -> None:
    for seed in range(120):
        ending = make(FORM, seed=seed).setting.ending
        assert f"{ending.resolution}, {ending.reason}" in " ".join(POLICIES["Incident response: order of checks"].split())
        assert ending.reason in POLICIES["Incident response: evidence"]


def test_no_ending_is_rare_and_none_is_right_too_often() -> None:
    names = [make(FORM, seed=seed).setting.ending.name for seed in range(600)]
    for name in set(names):
        assert 0.04 <= names.count(name) / 600 <= 0.25, name
    assert 0.08 <= names.count("cannot_be_done/not_covered") / 600 <= 0.2


# -- severity ----------------------------------------------------------------------------------------------------------


def severity(env: CompanyEnv, status: str = "in force") -> str:
    """Return the severity, computed without the code under test."""
    errors, customers, minutes = (value(env, figure) for figure in ("errors", "customers", "minutes"))
    if errors >= term(env, "errors_1", status) and customers >= term(env, "customers_1", status):
        return "sev_1"
    if customers >= term(env, "customers_2", status) and minutes >= term(env, "minutes_2", status):
        return "sev_2"
    return "sev_3"


@pytest.mark.parametrize(("severe", "hit", "long"), [*product((False, True), ("few", "some", "many"), (False, True))])
def test_the_figures_decide_what_is_signed_or_that_it_can_wait(severe: bool, hit: str, long: bool) -> None:
    env = solved(severe=severe, hit=hit, long=long)
    found = severity(env)
    if found == "sev_3":
        assert ticket(env).reason == "not_due"
    else:
        assert env.world.get(Approval, ticket(env).approval or "").data["severity"] == found


def test_each_figure_alone_can_change_the_severity() -> None:
    assert [severity(staged(hit=hit)) for hit in ("many", "some", "few")] == ["sev_1", "sev_2", "sev_3"]
    assert severity(staged(severe=False)) == "sev_2"
    assert severity(staged(severe=False, long=False)) == "sev_3"
    assert severity(staged(long=False)) == "sev_1"


def _mistakes() -> dict[str, Callable[[CompanyEnv], str]]:
    def loudest(env: CompanyEnv) -> str:
        """Return the severity as if one condition of a row were enough."""
        if value(env, "errors") >= term(env, "errors_1") or value(env, "customers") >= term(env, "customers_1"):
            return "sev_1"
        return "sev_2" if value(env, "minutes") >= term(env, "minutes_2") else "sev_3"

    def errors_alone(env: CompanyEnv) -> str:
        return "sev_1" if value(env, "errors") >= term(env, "errors_1") else "sev_2"

    return {
        "believes the claim": lambda env: detail(env, "entry", "claimed"),
        "reads the superseded policy": lambda env: severity(env, "superseded"),
        "takes any condition for all": loudest,
        "looks at errors alone": errors_alone,
    }


@pytest.mark.parametrize("mistake", _mistakes())
def test_each_simplified_severity_rule_is_often_wrong(mistake: str) -> None:
    envs = [make(FORM, seed=seed, reward="sparse") for seed in range(200)]
    assert sum(_mistakes()[mistake](env) != severity(env) for env in envs) >= 40


def test_the_claim_is_wrong_in_either_direction() -> None:
    envs = [make(FORM, seed=seed, reward="sparse") for seed in range(100)]
    rated = [(detail(env, "entry", "claimed"), severity(env)) for env in envs]
    assert sum(claimed < right for claimed, right in rated) >= 10
    assert sum(claimed > right for claimed, right in rated) >= 10


# -- what came before what ---------------------------------------------------------------------------------------------


def test_only_what_began_before_the_onset_explains_it_though_all_of_it_was_there_when_it_was_noticed() -> None:
    for seed in range(150):
        env = make(FORM, seed=seed, reward="sparse")
        causes = env.setting.causes
        onset, detected = detail(env, "entry", "onset"), detail(env, "entry", "detected")
        assert (detail(env, "release", "deployed") < onset) == causes.recent
        assert (detail(env, "supplier", "outage_since") < onset) == (causes.origin == "outage")
        assert (detail(env, "middle_alarm", "onset") < onset) == (causes.origin == "above")
        assert detail(env, "other_supplier", "outage_since") < onset
        for place, name in (("release", "deployed"), ("supplier", "outage_since"), ("middle_alarm", "onset")):
            assert detail(env, place, name) < detected


def test_an_alarm_upstream_is_always_noticed_after_ours_and_one_that_coincides_is_never_upstream() -> None:
    for seed in range(60):
        env = make(FORM, seed=seed, reward="sparse")
        for place in ("middle", "root"):
            assert detail(env, f"{place}_alarm", "detected") > detail(env, "entry", "detected")
        assert detail(env, "stranger_alarm", "onset") < detail(env, "entry", "onset")
        assert role(env, "stranger") not in detail(env, "service", "depends_on")


def test_the_parent_is_the_furthest_upstream_and_not_the_first_to_have_trouble() -> None:
    deep = set()
    for seed in range(80):
        env = make(FORM, seed=seed, reward="sparse")
        if env.setting.ending.name == "duplicate/same_request" and env.setting.causes.origin == "above":
            run_expert(env)
            place = "root" if detail(env, "middle", "depends_on") else "middle"
            parent = env.world.get(Ticket, ticket(env).duplicate_of or "")
            assert parent.reference == env.world.get(Entry, role(env, f"{place}_alarm")).reference
            assert detail(env, "root_alarm", "onset") < detail(env, "middle_alarm", "onset")
            deep.add(place)
    assert deep == {"root", "middle"}


def test_rolling_back_what_came_after_the_onset_is_signed_and_loses_the_case() -> None:
    env = staged(runs=True, recent=False)
    signed = decided(env, act=ROLL_BACK, deployment=role(env, "release"), wording=None)
    assert signed.status == "approved"
    assert env.lost() == "damage"


def test_rolling_back_what_came_long_before_is_signed_and_loses_the_case() -> None:
    env = staged(runs=False, recent=True)
    assert decided(env, act=ROLL_BACK, deployment=role(env, "previous"), wording=None).status == "approved"
    assert env.lost() == "damage"


def test_only_the_build_that_runs_is_rolled_back() -> None:
    assert solved(recent=True, runs=True).setting.ending.name == "completed/all_checks_passed"
    env = staged(recent=True, runs=False)
    assert env.setting.ending.name == "escalated/above_limit"
    assert decided(env, act=ROLL_BACK, deployment=role(env, "release"), wording=None).code == "not_running"


# -- the hand-overs ----------------------------------------------------------------------------------------------------


def test_communications_say_nothing_before_engineering_has() -> None:
    env = staged()
    assert asked(env, "communications").facts == {}
    assert asked(env, "on_call").facts == {"build": detail(env, "release", "build")}
    assert set(asked(env, "communications").facts) == {"wording"}


def test_asking_out_of_order_costs_time_and_nothing_else() -> None:
    env = staged()
    asked(env, "communications")
    again = env.fresh_budget()
    run_expert(again)
    assert again.success


def test_a_notice_is_due_for_the_highest_severity_and_for_the_next_where_the_clock_ran_out() -> None:
    for late, severe in product((False, True), (False, True)):
        env = solved(late=late, severe=severe)
        told = env.world.get(Approval, ticket(env).approval or "").data.get("wording")
        assert (told is not None) == (severe or late), (late, severe)
        ending = staged(late=late, severe=severe, silent=True).setting.ending.name
        assert ending == ("on_hold/missing_information" if severe or late else "escalated/above_limit")


def test_the_clock_was_kept_or_not_when_somebody_took_it_up_and_the_claim_would_mislead() -> None:
    for seed in range(100):
        env = make(FORM, seed=seed, reward="sparse")
        hours, minutes = (int(part) for part in detail(env, "entry", "acknowledged")[-5:].split(":"))
        began, since = (int(part) for part in detail(env, "entry", "detected")[-5:].split(":"))
        took = 60 * (hours - began) + minutes - since
        assert term(env, "respond_1") < took <= term(env, "respond_3")
        assert (took > term(env, "respond_2")) == env.setting.causes.late


def test_a_notice_that_is_not_due_is_signed_and_loses_the_case() -> None:
    env = staged(severe=False, late=False)
    asked(env, "on_call")
    wording = asked(env, "communications").facts["wording"]
    assert decided(env, wording=wording).status == "approved"
    assert env.lost() == "damage"


# -- who commands, and what they look into -----------------------------------------------------------------------------


def test_whoever_had_the_watch_when_it_was_detected_signs_though_it_has_passed_on_since() -> None:
    for second, watch in enumerate(WATCHES):
        env = solved(second=bool(second))
        assert env.world.get(Approval, ticket(env).approval or "").decided_by == role(env, watch.lower())
        assert detail(env, "roster", "hand_over") < detail(env, "entry", "acknowledged")
        assert detail(env, "roster", "hand_over") > detail(env, "entry", "onset")


def test_the_wrong_watch_signs_what_names_it_and_that_loses_the_case() -> None:
    env = staged(second=False)
    assert decided(env, "second", watch="Second").status == "approved"
    assert env.lost() == "damage"


@pytest.mark.parametrize(
    ("approver", "changes", "code"),
    [
        ("second", {}, "not_mine"),
        ("first", {"watch": "Third"}, "unknown_office"),
        ("first", {"watch": 1}, "unknown_office"),
        ("first", {"act": "panic"}, "mismatch"),
        ("first", {"severity": "sev_0"}, "mismatch"),
        ("first", {"error_rate": -1}, "mismatch"),
        ("first", {"customers": -1}, "mismatch"),
        ("first", {"minutes": -1}, "mismatch"),
        ("first", {"build": "BLD-0"}, "not_stated"),
        ("first", {"wording": "W-0"}, "not_stated"),
        ("first", {"wording": "withheld"}, "not_stated"),
        ("first", {"deployment": "E-0"}, "mismatch"),
        ("first", {"act": ROLL_BACK}, "mismatch"),
        ("first", {"act": ROLL_BACK, "deployment": True}, "mismatch"),
        ("first", {"bridge": "BR-0"}, "mismatch"),
    ],
)
def test_a_commander_rejects_what_the_records_do_not_bear_out(approver: str, changes: dict[str, Any], code: str) -> None:
    env = staged()
    request = decided(env, approver, **changes)
    assert request.code == code
    assert env.lost() is None


def test_a_commander_signs_any_severity_and_a_wrong_one_loses_the_case() -> None:
    for named in SEVERITIES:
        env = staged()
        assert decided(env, severity=named).status == "approved"
        assert env.lost() == (None if named == "sev_1" else "damage")


def test_a_rejection_names_no_record_that_the_request_did_not() -> None:
    env = staged(recent=True, runs=True)
    request = decided(env, deployment=role(env, "other_release"))
    assert request.code == "mismatch"
    assert role(env, "release") not in request.reason


def test_a_stale_figure_is_not_signed_for() -> None:
    env = staged()
    data = right_request(env)
    env.world.advance(10 * DAY)
    reply = say(env, "approvalflow.submit_approval", approval_type=FORM, approver=role(env, "first"), data=data)
    assert answered(env, reply.data["id"]).code == "stale"


# -- what cannot be done -----------------------------------------------------------------------------------------------


def test_a_service_that_was_handed_over_is_not_touched() -> None:
    env = solved(client=True)
    written = {change.why for change in env.world.journal if change.actor == me(env)}
    assert written <= {"ticketdesk.update_ticket", "ticketdesk.resolve_ticket"}
    assert not list(env.world.all(Approval))
    assert ticket(env).escalated_to == role(env, "care")


def test_a_signature_for_what_was_handed_over_is_damage() -> None:
    env, ours = staged(client=True), staged()
    data = right_request(ours)
    verify(env)
    asked(env, "on_call")
    asked(env, "communications")
    for figure in FIGURES:
        say(env, "datahub.refresh_data", metric_name=role(env, figure))
    reply = say(env, "approvalflow.submit_approval", approval_type=FORM, approver=role(env, "first"), data=data)
    assert answered(env, reply.data["id"]).status == "approved"
    assert env.lost() == "damage"


def test_every_act_and_every_watch_is_right_in_some_tasks() -> None:
    found = set()
    for seed in range(200):
        ending = make(FORM, seed=seed).setting.ending
        if ending.name in SIGNED:
            says = dict(ending.signatures[0].says)
            found.add((says["act"], says["watch"], says["wording"] is not None))
    watches = set(product((DECLARE,), WATCHES, (False, True))) | {(ROLL_BACK, watch, False) for watch in WATCHES}
    assert found == watches
