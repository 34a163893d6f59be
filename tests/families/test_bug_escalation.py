"""Bug escalation: following dependencies to the service that causes the errors, and the right ending there."""

from collections.abc import Callable
from typing import Any

import pytest

from companyos.company import Comment, Entry, Metric, Person, Policy, Source, Ticket
from companyos.core.calls import Call, Reply
from companyos.core.errors import Stuck
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make
from companyos.families import ExpertStyle, family_of
from companyos.families.bug_rules import FORM
from companyos.families.bug_services import CHAIN, IN_HOUSE
from companyos.families.kit.case import Value
from tests.families.helpers import solved, staged_by
from tests.helpers import answered, me, role, say, set_field, ticket

NAME = "bug_escalation"
# A case in which the last service of the chain is the culprit, nothing else is special, and one customer is affected.
CALM: dict[str, Value] = {
    "front": "high",
    "middle": "high",
    "deep": "high",
    "known": "none",
    "outside": "none",
    "works": "none",
    "customers": "one",
}
SEVERE: dict[str, Value] = {"customers": "many"}


staged = staged_by(NAME, CALM, reward="sparse")


def ended_as(env: CompanyEnv) -> str:
    ending = env.setting.ending
    return f"{ending.resolution}/{ending.reason}"


def fooled(env: CompanyEnv, bend: Callable[[Call, Any], Any]) -> bool:
    """Return whether the expert fails when `bend` changes the replies that it gets. Being stuck is a failure, too."""
    trial = env.fork()
    program = family_of(trial.setting.case.brief).expert(trial.so_far(), ExpertStyle())
    call = next(program)
    while not trial.done:
        trial.step(call)
        reply = trial.turns[-1].reply
        if trial.done:
            break
        try:
            call = program.send(Reply(True, reply.code, bend(call, reply.data)) if reply.ok else reply)
        except Stuck:
            return True
    return not trial.success


def share_fooled(bend: Callable[[Call, Any], Any], chaos: float = 0.0, seeds: int = 60) -> float:
    return sum(fooled(make(NAME, seed=seed, chaos=chaos, reward="sparse"), bend) for seed in range(seeds)) / seeds


# -- the walk ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("front", "middle", "deep", "culprit"),
    [
        ("high", "high", "high", "deep"),
        ("high", "high", "low", "middle"),
        ("high", "low", "low", "front"),
        ("high", "low", "high", "front"),
    ],
)
def test_the_last_service_above_its_limit_without_a_healthy_one_before_it_gets_the_ticket(
    front: str, middle: str, deep: str, culprit: str
) -> None:
    done = solved(staged(front=front, middle=middle, deep=deep))
    assert ended_as(done) == "completed/all_checks_passed"
    assert ticket(done).assignee == role(done, f"{culprit}_on_call")


@pytest.mark.parametrize(("middle", "deep"), [("low", "low"), ("high", "high")])
def test_a_symptom_within_its_limit_is_not_reproducible_however_bad_the_services_behind_it(middle: str, deep: str) -> None:
    assert ended_as(solved(staged(front="low", middle=middle, deep=deep))) == "declined/not_reproducible"


def test_rates_lie_on_the_side_of_their_limit_that_the_facts_say() -> None:
    at_the_limit = 0
    for seed in range(150):
        env = make(NAME, seed=seed)
        limits = env.world.get(Policy, role(env, "policy")).terms
        for place in CHAIN:
            limit = limits[f"limit_tier_{env.world.get(Entry, role(env, place)).details['tier']}"]
            rate = env.world.get(Source, role(env, f"{place}_rate")).value
            level = getattr(env.setting.causes, place)
            assert level == ("low" if rate <= limit else "high" if rate <= 2 * limit else "double")
            at_the_limit += rate == limit
    assert at_the_limit


def test_chains_are_three_or_four_long_and_beside_them_stand_services_above_their_limit() -> None:
    lengths = set()
    for seed in range(30):
        env = make(NAME, seed=seed)
        on_the_way, ahead = [], role(env, "front")
        while ahead:
            on_the_way.append(ahead)
            ahead = env.world.get(Entry, ahead).details["depends_on"]
        lengths.add(len(on_the_way))
        assert tuple(on_the_way[:3]) == tuple(role(env, place) for place in CHAIN)
        limits = env.world.get(Policy, role(env, "policy")).terms
        beside = [e for e in env.world.all(Entry) if e.kind == "service" and e.id not in on_the_way]
        rates = [env.world.get(Metric, e.details["error_rate_metric"]).value for e in beside]
        assert any(rate > limits[f"limit_tier_{e.details['tier']}"] for rate, e in zip(rates, beside, strict=True))
    assert lengths == {3, 4}


# -- what is right at its end ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "ending"),
    [
        ({"known": "deep"}, "duplicate/same_request"),
        ({"known": "front"}, "completed/all_checks_passed"),
        ({"known": "front", "middle": "low"}, "duplicate/same_request"),
        ({"outside": "deep"}, "cannot_be_done/beyond_authority"),
        ({"outside": "middle"}, "completed/all_checks_passed"),
        ({"outside": "middle", "deep": "low"}, "cannot_be_done/beyond_authority"),
        ({"works": "deep"}, "on_hold/not_due"),
        ({"works": "front"}, "completed/all_checks_passed"),
        ({"known": "deep", "outside": "deep", "works": "deep"}, "duplicate/same_request"),
        ({"outside": "deep", "works": "deep"}, "cannot_be_done/beyond_authority"),
        ({"works": "deep", "front": "double"}, "on_hold/not_due"),
        ({"front": "double"}, "escalated/above_limit"),
        ({"customers": "many"}, "escalated/above_limit"),
    ],
)
def test_what_decides_is_written_at_the_culprit_and_the_first_check_that_applies_wins(
    causes: dict[str, Value], ending: str
) -> None:
    assert ended_as(solved(staged(**causes))) == ending


def test_every_ending_has_its_share() -> None:
    names = [make(NAME, seed=seed).setting.ending.name for seed in range(400)]
    shares = {name: names.count(name) / 400 for name in set(names)}
    assert len(shares) == 6
    assert min(shares.values()) >= 0.05
    assert max(shares.values()) <= 0.38


# -- traps ---------------------------------------------------------------------------------------------------------------


def test_who_takes_the_reported_service_for_the_culprit_mostly_fails() -> None:
    def bend(call: Call, data: Any) -> Any:
        return {**data, "depends_on": ""} if call.method == "get_entry" else data

    assert share_fooled(bend) > 0.5


def test_who_reads_the_superseded_limits_often_fails() -> None:
    def bend(call: Call, data: Any) -> Any:
        if call.method != "read_policy" or "limit_tier_1" not in data:
            return data
        return {**data, **{name: data[name] * 2 // 3 for name in data if name.startswith("limit_tier")}}

    assert share_fooled(bend) > 0.3


def test_who_holds_every_service_against_one_limit_often_fails() -> None:
    def bend(call: Call, data: Any) -> Any:
        return {**data, "tier": "2"} if call.method == "get_entry" else data

    assert share_fooled(bend) > 0.3


def test_who_takes_old_figures_for_fresh_often_fails() -> None:
    def bend(call: Call, data: Any) -> Any:
        return {**data, "age_days": 0} if call.method == "query_metric" else data

    assert share_fooled(bend, chaos=0.0) == 0.0
    assert share_fooled(bend, chaos=1.0) > 0.5


def test_the_superseded_policy_has_the_limits_that_the_trap_is_made_of() -> None:
    env = staged()
    in_force = env.world.get(Policy, role(env, "policy"))
    (older,) = [p for p in env.world.all(Policy) if p.title == in_force.title and p.status == "superseded"]
    for tier in ("1", "2", "3"):
        assert older.terms[f"limit_tier_{tier}"] == in_force.terms[f"limit_tier_{tier}"] * 2 // 3


# -- what only the requester knows ---------------------------------------------------------------------------------------


def comment_of(env: CompanyEnv, person: str) -> Comment:
    """Ask a person on the ticket and return their comment."""
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="How many customers?", to=person).ok
    env.world.advance(4 * DAY)
    return [c for c in env.world.all(Comment) if c.author == person][-1]


@pytest.mark.parametrize("customers", ["one", "many"])
def test_the_requester_says_how_many_customers_are_affected_when_asked(customers: str) -> None:
    env = staged(customers=customers)
    assert comment_of(env, role(env, "requester")).facts == {"customers": customers}


def test_nobody_else_knows() -> None:
    env = staged()
    assert comment_of(env, role(env, "deep_on_call")).facts == {}


def test_ones_own_word_on_it_does_not_count() -> None:
    env = staged()
    done = solved(env)
    for turn in done.turns[:-1]:
        env.step(turn.call)
    said = say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="One.", facts={"customers": "one"}).data
    last = done.turns[-1].call
    evidence = [{**c, "record": said["id"]} if c["field"] == "customers" else c for c in last.params["evidence"]]
    env.step(Call(last.app, last.method, {**last.params, "evidence": evidence}))
    assert env.verdict is not None
    assert [goal for goal, holds in env.verdict.goals.items() if not holds] == ["Cites", "CitesNoOther"]


def test_where_the_symptom_is_twice_its_limit_nobody_need_be_asked() -> None:
    assert all(turn.call.method != "comment" for turn in solved(staged(front="double")).turns)
    assert any(turn.call.method == "comment" for turn in solved(staged(front="high")).turns)


# -- signing -------------------------------------------------------------------------------------------------------------


def decision(env: CompanyEnv, approver: str = "cto", verified: bool = True, **changes: Any) -> tuple[str, str, str]:
    """Submit a right request with these changes. Return its status, code and reason."""
    case, culprit = ticket(env), env.world.get(Entry, role(env, "deep"))
    if verified:
        assert set_field(env, "verified", role(env, "entry")).ok
    rate = env.world.get(Source, culprit.details["error_rate_metric"]).value
    right = {"ticket_id": case.id, "subject": case.subject, "reference": case.reference}
    data = right | {"service": culprit.id, "error_rate": rate} | changes
    made = say(env, "approvalflow.submit_approval", approval_type=FORM, approver=role(env, approver), data=data)
    assert made.ok, made
    request = answered(env, made.data["id"])
    return request.status, request.code, request.reason


def test_a_right_request_is_signed_by_the_cto() -> None:
    assert decision(staged(**SEVERE))[:2] == ("approved", "signed")


@pytest.mark.parametrize("place", ["front", "middle"])
def test_a_request_that_names_a_service_on_the_way_is_signed_and_the_case_is_lost(place: str) -> None:
    env = staged(**SEVERE)
    rate = env.world.get(Source, role(env, f"{place}_rate")).value
    assert decision(env, service=role(env, place), error_rate=rate)[:2] == ("approved", "signed")
    assert env.lost() == "damage"


@pytest.mark.parametrize("healthy", ["front", "middle"])
def test_a_request_for_what_lies_behind_a_healthy_service_is_signed_and_the_case_is_lost(healthy: str) -> None:
    env = staged(**(SEVERE | {healthy: "low"}))
    assert decision(env)[:2] == ("approved", "signed")
    assert env.lost() == "damage"


def test_approvers_give_nothing_away_that_was_not_asked_for() -> None:
    env = staged(**SEVERE)
    for place in CHAIN:
        status, code, reason = decision(env, service=role(env, place), error_rate=-1)
        assert (status, code) == ("rejected", "mismatch")
        assert (
            str(env.world.get(Source, role(env, f"{place}_rate")).value) not in reason.replace(role(env, place), "").split()
        )


def test_a_healthy_service_and_what_is_none_are_not_signed_for() -> None:
    env = staged(**SEVERE, deep="low")
    assert decision(env)[:2] == ("rejected", "within_limit")
    assert decision(env, service="E-0")[:2] == ("rejected", "wrong_service")


def test_approvers_look_at_rate_register_and_verification() -> None:
    assert decision(staged(**SEVERE), error_rate=1)[:2] == ("rejected", "mismatch")
    env = staged(**SEVERE)
    runbook = env.world.get(Entry, role(env, "front")).details["runbook"]
    assert decision(env, runbook=runbook)[:2] == ("rejected", "mismatch")
    assert decision(staged(**SEVERE), verified=False)[:2] == ("rejected", "not_verified")


def test_a_stale_rate_is_named_and_refreshing_it_helps() -> None:
    env = staged(**SEVERE, deep_stale=True)
    status, code, reason = decision(env)
    assert (status, code) == ("rejected", "stale")
    assert reason.split()[0] == role(env, "deep_rate")
    assert say(env, "datahub.refresh_data", metric_name=role(env, "deep_rate")).ok
    assert decision(env)[0] == "approved"


def test_whoever_stands_in_for_the_cto_signs_and_nobody_else() -> None:
    assert decision(staged(**SEVERE), "platform_lead")[:2] == ("rejected", "not_mine")
    assert decision(staged(**SEVERE, cto_away=True), "platform_lead")[0] == "approved"
    both = staged(**SEVERE, cto_away=True, platform_lead_away=True)
    assert decision(both, "platform_deputy")[0] == "approved"


# -- the assignee --------------------------------------------------------------------------------------------------------


def closed_with_assignee(env: CompanyEnv, person: str, later: int = 0) -> CompanyEnv:
    """Play the expert's episode, but assign the ticket to this person just before the end."""
    done = solved(env)
    rest = env.fork()
    for turn in done.turns[:-1]:
        rest.step(turn.call)
    assert set_field(rest, "assignee", person).ok
    rest.world.advance(later)
    rate = role(rest, "deep_rate")
    assert say(rest, "datahub.refresh_data", metric_name=rate).ok
    rest.step(done.turns[-1].call)
    return rest


def test_while_the_on_call_is_away_the_ticket_goes_to_who_stands_in() -> None:
    env = staged(deep_on_call_away=True)
    assert ticket(solved(env)).assignee == role(env, "stand_in")
    assert closed_with_assignee(env, role(env, "stand_in")).success
    missed = closed_with_assignee(env, role(env, "deep_on_call")).verdict
    assert missed is not None
    assert [goal for goal, holds in missed.goals.items() if not holds] == ["HandedTo"]


def test_who_stood_in_when_it_was_handed_over_stays_right_when_the_on_call_comes_back() -> None:
    env = staged(deep_on_call_away=True)
    back = env.world.get(Person, role(env, "deep_on_call")).away_until
    assert back is not None
    assert closed_with_assignee(env, role(env, "stand_in"), later=back - env.world.now).success


def test_a_ticket_that_is_not_handed_over_keeps_its_assignee_or_gets_the_support_lead() -> None:
    for missing in (False, True):
        done = solved(staged(works="deep", assignee_missing=missing))
        assert ticket(done).assignee == role(done, "support_lead")


def test_to_hand_over_what_the_ending_does_not_hand_over_is_damage() -> None:
    env = staged(works="deep")
    verdict = closed_with_assignee(env, role(env, "deep_on_call")).verdict
    assert verdict is not None
    assert [(harm.record, harm.field) for harm in verdict.damage] == [(ticket(env).id, "assignee")]


# -- the company around it -----------------------------------------------------------------------------------------------


def test_policies_are_short_and_name_every_ending_with_its_evidence() -> None:
    env = staged()
    rules = {p.title: p.text for p in env.world.all(Policy) if p.title.startswith("Bug escalation: ")}
    assert max(len(text.split()) for text in rules.values()) <= 80
    for seed in range(60):
        ending = make(NAME, seed=seed).setting.ending
        assert f"{ending.resolution}, {ending.reason}" in rules["Bug escalation: order of checks"]
        assert ending.reason in rules["Bug escalation: evidence"]


def test_what_blocks_belongs_to_another_desk_and_to_a_colleague() -> None:
    env = staged(block="waiting")
    blocker = env.world.get(Ticket, role(env, "blocker"))
    assert ticket(env).blocked_by == blocker.id
    assert blocker.desk != ticket(env).desk
    assert blocker.assignee not in (None, me(env))


def test_held_out_splits_name_their_services_differently() -> None:
    def names(split: str) -> set[str]:
        worlds = [make(NAME, seed=seed, split=split).world for seed in range(20)]
        return {e.name.split()[0] for world in worlds for e in world.all(Entry) if e.kind == "service"}

    assert names("train").isdisjoint(names("test"))


def test_a_firm_operates_only_the_service_that_the_facts_name() -> None:
    for place in CHAIN:
        env = staged(outside=place)
        run_by = {e.id: e.details["operated_by"] for e in env.world.all(Entry) if e.kind == "service"}
        assert [entry for entry, operator in run_by.items() if operator != IN_HOUSE] == [role(env, place)]
