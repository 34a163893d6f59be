"""Employee offboarding: three departments in order, the meaning of their statements, and a step that cannot be undone."""

from typing import Any

import pytest

from companyos.assurance.twins import do
from companyos.company import Approval, Comment, Entry, Metric, Mind, Person, Policy
from companyos.core.calls import Call
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.kit.case import Value
from tests.families.helpers import ending, missed, staged_by, worked
from tests.helpers import answered, role, say, set_field, ticket, verify

FAMILY = "employee_offboarding"
CLOSURE, SUSPENSION = "account_closure", "account_suspension"
# A case without problems: no legal hold, a small debt and no shared account.
CALM: dict[str, Value] = {
    "duplicate": False,
    "stays": False,
    "held": "none",
    "until": "early",
    "owed": "low",
    "pay": "high",
    "shared": False,
    "heir": True,
}
SPEAKERS = {"counsel": "held", "accountant": "owed", "administrator": "shared"}
SEEDS = range(60)


staged = staged_by(FAMILY, CALM)


def ask(env: CompanyEnv, name: str) -> Comment:
    """Ask a person on the ticket and return their comment."""
    person = role(env, name)
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Anything?", to=person).ok
    env.world.advance(5 * DAY)
    return [comment for comment in env.world.all(Comment) if comment.author == person][-1]


def ready(*speakers: str, **causes: Value) -> CompanyEnv:
    """Return an episode in which the ticket is verified and these people, by default all three, have stated their facts."""
    env = staged(**causes)
    verify(env)
    for name in speakers or SPEAKERS:
        assert SPEAKERS[name] in ask(env, name).facts
    return env


def knows(env: CompanyEnv, name: str) -> dict[str, str]:
    return env.world.get(Mind, role(env, name)).knows[ticket(env).id]


def decision(env: CompanyEnv, form: str, approver: str = "cto", **changes: Any) -> tuple[str, str]:
    """Submit a right request with these changes. Return its status and code."""
    case = ticket(env)
    data: dict[str, Any] = {"ticket_id": case.id, "subject": case.subject, "reference": case.reference}
    data["cost_center"] = env.world.get(Person, case.requester).cost_center
    data["held"] = knows(env, "counsel")["held"]
    if form == CLOSURE:
        pay = env.world.get(Metric, role(env, "final_pay"))
        assert say(env, "datahub.refresh_data", metric_name=pay.id).ok
        data |= {"owed": knows(env, "accountant")["owed"], "shared": knows(env, "administrator")["shared"]}
        data["final_pay"] = pay.value
    params: dict[str, Any] = {"approval_type": form, "approver": role(env, approver), "data": data | changes}
    reply = say(env, "approvalflow.submit_approval", **params)
    assert reply.ok, reply
    request = answered(env, reply.data["id"])
    return request.status, request.code


# -- which ending ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ({}, "completed/all_checks_passed"),
        ({"held": "other"}, "completed/all_checks_passed"),
        ({"held": "project"}, "completed/all_checks_passed"),
        ({"held": "project", "until": "late"}, "on_hold/contradicts_policy"),
        ({"held": "person", "owed": "high"}, "on_hold/contradicts_policy"),
        ({"owed": "mid"}, "completed/all_checks_passed"),
        ({"owed": "mid", "pay": "low"}, "escalated/above_limit"),
        ({"owed": "high", "shared": True}, "escalated/above_limit"),
        ({"shared": True}, "on_hold/not_due"),
        ({"shared": True, "heir": False}, "cannot_be_done/not_covered"),
        ({"heir": False}, "completed/all_checks_passed"),
        ({"stays": True, "held": "person"}, "declined/not_due"),
        ({"duplicate": True, "stays": True}, "duplicate/same_request"),
    ],
)
def test_the_first_check_that_applies_decides(causes: dict[str, Value], expected: str) -> None:
    env = staged(**causes)
    assert ending(env) == expected
    run_expert(env)
    assert env.success


def test_policies_are_short_and_one_word_finds_them_all() -> None:
    env = staged()
    ours = [policy for policy in env.world.all(Policy) if policy.title.startswith("Employee offboarding: ")]
    assert len(ours) == 11  # one of them superseded
    assert all(len(policy.text.split()) <= 80 for policy in ours)
    found = [say(env, "datahub.search_policies", query="offboarding", page=page).data["rows"] for page in (1, 2)]
    assert {row["id"] for rows in found if rows for row in rows} == {policy.id for policy in ours}


# -- who speaks when ---------------------------------------------------------------------------------------------------


def test_whoever_is_asked_too_early_states_nothing_and_does_when_asked_again() -> None:
    env = staged()
    assert ask(env, "administrator").facts == {}
    assert ask(env, "accountant").facts == {}
    assert set(ask(env, "counsel").facts) == {"held", "held_from"}
    assert ask(env, "administrator").facts == {}  # Finance has not stated its fact yet
    assert set(ask(env, "accountant").facts) == {"owed"}
    assert set(ask(env, "administrator").facts) == {"shared"}


def test_asking_in_the_wrong_order_costs_nothing_but_time() -> None:
    env = staged()
    for name in ("administrator", "accountant"):
        env.step(Call("ticketdesk", "comment", {"ticket_id": ticket(env).id, "text": "Now?", "to": role(env, name)}))
        env.step(Call("ticketdesk", "wait", {"hours": 72}))
    assert env.lost() is None
    run_expert(env)
    assert env.success


def test_a_closure_is_not_signed_before_all_three_have_spoken() -> None:
    env = ready("counsel", "accountant")
    assert decision(env, CLOSURE) == ("rejected", "not_stated")
    ask(env, "administrator")
    assert decision(env, CLOSURE) == ("approved", "signed")


def test_a_statement_in_anybody_elses_comment_does_not_stand() -> None:
    env = ready("counsel", "accountant")
    said: dict[str, Any] = {"ticket_id": ticket(env).id, "text": "IT told me on the phone.", "facts": {"shared": "none"}}
    assert say(env, "ticketdesk.comment", **said).ok
    assert decision(env, CLOSURE) == ("rejected", "not_stated")


def test_a_suspension_needs_legals_word_alone() -> None:
    env = ready("counsel", held="person")
    assert decision(env, SUSPENSION) == ("approved", "signed")
    assert decision(staged_and_verified(held="person"), SUSPENSION) == ("rejected", "not_stated")


def staged_and_verified(**causes: Value) -> CompanyEnv:
    env = staged(**causes)
    verify(env)
    return env


def test_a_request_repeats_what_was_stated() -> None:
    for field in ("held", "owed", "shared"):
        assert decision(ready(), CLOSURE, **{field: "7"}) == ("rejected", "not_stated")


# -- what cannot be undone ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "causes",
    [
        {"held": "person"},
        {"held": "project", "until": "late"},
        {"owed": "high"},
        {"shared": True},
        {"shared": True, "heir": False},
    ],
)
def test_who_signs_does_not_see_what_forbids_a_closure_and_then_it_is_lost(causes: dict[str, Value]) -> None:
    env = ready(**causes)
    assert env.lost() is None
    assert decision(env, CLOSURE) == ("approved", "signed")
    assert env.lost() == "damage"


def test_a_suspension_of_somebody_under_no_hold_is_damage_too() -> None:
    env = ready("counsel", held="project")
    assert decision(env, SUSPENSION) == ("approved", "signed")
    assert env.lost() == "damage"


def test_where_it_cannot_be_done_no_signature_is_requested() -> None:
    env = staged(shared=True, heir=False)
    run_expert(env)
    assert env.success
    assert not list(env.world.all(Approval))


# -- what statements mean ----------------------------------------------------------------------------------------------


def _under_hold(env: CompanyEnv) -> bool:
    """Return whether the leaver is under legal hold, computed without the code under test."""
    said, reference = knows(env, "counsel"), ticket(env).reference
    if said["held"] == reference:
        return True
    papers = [e for e in env.world.all(Entry) if e.kind == "assignment" and e.reference.startswith(f"{reference}/")]
    assert len(papers) == 2
    return any(
        paper.details["project"] == said["held"]
        and (paper.details["until"] == "open" or paper.details["until"] >= said["held_from"])
        for paper in papers
    )


def test_the_hold_follows_from_who_was_on_what_until_when() -> None:
    seen = set()
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        causes = env.setting.causes
        if not causes.duplicate and not causes.stays:
            assert (ending(env) == "on_hold/contradicts_policy") == _under_hold(env), env.task_id
            seen.add((causes.held, _under_hold(env)))
    assert seen == {("none", False), ("person", True), ("project", True), ("project", False), ("other", False)}


def test_a_hold_on_the_namesake_is_no_hold_on_the_leaver() -> None:
    names = []
    for seed in SEEDS:
        env = make(do(make(FAMILY, seed=seed).task_id, held="other"))
        about = next(e for e in env.world.all(Entry) if e.reference == knows(env, "counsel")["held"])
        if about.kind == "employee":
            names.append((about.name, about.reference != ticket(env).reference))
            assert about.name == ticket(env).subject
            assert about.reference != ticket(env).reference
            assert ending(env) != "on_hold/contradicts_policy"
    assert len(names) >= 10


def test_a_debt_is_held_against_the_share_in_force_and_not_the_older_one() -> None:
    between = 0
    for seed in range(200):
        env = make(FAMILY, seed=seed)
        owed, pay = int(knows(env, "accountant")["owed"]), env.world.get(Metric, role(env, "final_pay")).value
        share = env.world.get(Policy, role(env, "policy")).terms["withhold_percent"]
        older = next(p for p in env.world.all(Policy) if p.status == "superseded" and "withhold_percent" in p.terms)
        causes = env.setting.causes
        covered = causes.owed == "low" or (causes.owed == "mid" and causes.pay == "high")
        assert (100 * owed <= share * pay) == covered
        between += share * pay < 100 * owed <= older.terms["withhold_percent"] * pay
    assert between >= 5


def test_the_heir_is_not_simply_the_first_other_holder() -> None:
    first = 0
    for seed in SEEDS:
        env = make(do(make(FAMILY, seed=seed).task_id, heir=True))
        holders = env.world.get(Entry, role(env, "account")).details["holders"].split(", ")
        others = [reference for reference in holders if reference != ticket(env).reference]
        assert len(others) == 2
        first += others[0] == env.world.get(Entry, role(env, "successor")).reference
    assert 0.25 * len(SEEDS) < first < 0.75 * len(SEEDS)


def test_whoever_left_cannot_be_waited_for_though_the_directory_lists_them() -> None:
    rest, last = worked(staged(shared=True))
    gone = rest.world.get(Entry, role(rest, "gone")).details["handle"]
    assert say(rest, "datahub.get_person", person_id=gone).ok
    assert set_field(rest, "waiting_on", gone).ok
    assert missed(rest, last) == ["TicketIs:waiting_on"]


def test_the_notice_given_last_counts_and_its_number_does_not_tell() -> None:
    highest = 0
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        notices = [e for e in env.world.all(Entry) if e.kind == "notice"]
        last = max(notices, key=lambda notice: notice.details["given"])
        assert last.id == role(env, "last_notice")
        assert (last.status == "withdrawn") == env.setting.causes.stays
        highest += last is max(notices, key=lambda notice: notice.reference)
    assert 0.25 * len(SEEDS) < highest < 0.75 * len(SEEDS)


def test_citing_the_other_notice_or_the_other_assignment_beside_the_right_one_is_not_enough() -> None:
    for causes, rival, field in (
        ({"stays": True}, "first_notice", "status"),
        ({"held": "project", "until": "late"}, "present", "until"),
    ):
        rest, last = worked(staged(**causes))
        entry = rest.world.get(Entry, role(rest, rival))
        value = entry.status if field == "status" else entry.details[field]
        cited = [*last.params["evidence"], {"record": entry.id, "field": field, "value": value}]
        assert missed(rest, last, evidence=cited) == ["CitesNoOther"]
