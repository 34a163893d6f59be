"""Access request: the smallest sufficient role, the roles that the account has, and who must not sign."""

from typing import Any

import pytest

from companyos.company import Approval, Comment, Entry, Metric, Mind, Person, Policy, Ticket
from companyos.core.world import DAY, stamp
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.access_roles import ROLE_TEMPLATES
from companyos.families.access_rules import ACCOUNTS, OWNER_FORM, REVIEW_FORM
from companyos.families.kit.case import Value
from tests.families.helpers import ending, missed, staged_by, worked
from tests.helpers import answered, me, role, say, set_field, ticket, verify

# A case without problems: the editor role is right, and the owner of the system signs.
CALM: dict[str, Value] = {
    "duplicate": False,
    "over": False,
    "idle": False,
    "need": "editor",
    "holds": "analyst",
    "trained": True,
    "own_people": False,
}
SEEDS = range(80)
APPROVED = ("approved", "signed")


staged = staged_by(OWNER_FORM, CALM)


def details(env: CompanyEnv, name: str) -> dict[str, str]:
    return env.world.get(Entry, role(env, name)).details


def stated_need(env: CompanyEnv) -> str:
    """Ask the requester and return the need that they state."""
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="What for?", to=role(env, "requester")).ok
    env.world.advance(5 * DAY)
    return next(c.facts["need"] for c in env.world.all(Comment) if "need" in c.facts)


def ready(**causes: Value) -> CompanyEnv:
    """Return an episode in which the ticket is verified and the requester has stated the need."""
    env = staged(**causes)
    verify(env)
    stated_need(env)
    return env


def decision(
    env: CompanyEnv, approver: str, shape: str = "editor", form: str = OWNER_FORM, **changes: Any
) -> tuple[str, str]:
    """Submit a right request for this role with these changes. Return its status and code."""
    case = ticket(env)
    data: dict[str, Any] = {"ticket_id": case.id, "subject": case.subject, "reference": case.reference}
    data |= {"account": role(env, "account"), "role": role(env, shape)}
    data["need"] = env.world.get(Mind, role(env, "requester")).knows[case.id]["need"]
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
        ({"own_people": True}, "completed/all_checks_passed"),
        ({"trained": False}, "on_hold/document_expired"),
        ({"holds": "controller", "trained": False}, "escalated/conflict_of_interest"),
        ({"holds": "controller", "need": "lead"}, "escalated/conflict_of_interest"),
        ({"holds": "controller", "need": "clerk"}, "completed/all_checks_passed"),
        ({"holds": "editor"}, "declined/already_done"),
        ({"holds": "editor", "need": "clerk"}, "declined/already_done"),
        ({"holds": "editor", "need": "lead"}, "completed/all_checks_passed"),
        ({"holds": "editor", "need": "none"}, "cannot_be_done/not_covered"),
        ({"idle": True, "need": "none"}, "declined/unused"),
        ({"over": True, "idle": True}, "declined/too_late"),
        ({"duplicate": True, "over": True}, "duplicate/same_request"),
    ],
)
def test_the_first_check_that_applies_decides(causes: dict[str, Value], expected: str) -> None:
    env = staged(**causes)
    assert ending(env) == expected
    run_expert(env)
    assert env.success


def test_the_requesters_manager_decides_who_signs() -> None:
    deciders = {own: staged(own_people=own).setting.ending.decider for own in (False, True)}
    assert deciders == {False: "owner", True: "Risk Officer"}


def test_a_need_that_no_role_covers_leaves_nothing_signed() -> None:
    env = staged(need="none")
    run_expert(env)
    assert env.success
    assert not [request for request in env.world.all(Approval) if request.requester == me(env)]
    assert ticket(env).waiting_on == role(env, "requester")


def test_what_waits_for_training_waits_for_the_hr_lead() -> None:
    rest, last = worked(staged(trained=False))
    assert ticket(rest).waiting_on == role(rest, "hr_lead")
    assert set_field(rest, "waiting_on", role(rest, "requester")).ok
    assert missed(rest, last) == ["TicketIs:waiting_on"]


# -- sets and what they inherit ----------------------------------------------------------------------------------------


def _inherited(env: CompanyEnv, *role_ids: str) -> set[str]:
    """Return roles and all that they inherit, computed from the records without the code under test."""
    entries = {entry.id: entry for entry in env.world.all(Entry) if entry.kind == "role"}
    found = {role_id for role_id in role_ids if role_id in entries}
    while more := {entries[r].details["inherits"] for r in found} & set(entries) - found:
        found |= more
    return found


def _allowed(env: CompanyEnv, *role_ids: str) -> set[str]:
    words = [env.world.get(Entry, r).details["permissions"] for r in _inherited(env, *role_ids)]
    return {word for line in words for word in line.split(", ")}


def _need(env: CompanyEnv) -> set[str]:
    return set(env.world.get(Mind, role(env, "requester")).knows[ticket(env).id]["need"].split(", "))


def _covering(env: CompanyEnv) -> list[str]:
    """Return the roles of the system that cover the need, the smallest first."""
    ours = [role(env, shape) for shape in ROLE_TEMPLATES]
    return sorted((r for r in ours if _need(env) <= _allowed(env, r)), key=lambda r: len(_allowed(env, r)))


def _held(env: CompanyEnv) -> set[str]:
    return _inherited(env, details(env, "account")["role"], details(env, "group")["grants"])


def test_the_right_role_is_the_smallest_that_covers_the_need() -> None:
    for seed in SEEDS:
        env = make(OWNER_FORM, seed=seed)
        covering = _covering(env)
        if env.setting.causes.need == "none":
            assert covering == []
            continue
        assert covering[0] == role(env, env.setting.causes.need)
        sizes = [len(_allowed(env, r)) for r in covering]
        assert len(set(sizes)) == len(sizes) >= 2  # there is always a larger one, too


def test_what_is_held_covers_or_clashes_as_the_ending_says() -> None:
    seen = set()
    for seed in SEEDS:
        env = make(OWNER_FORM, seed=seed)
        causes = env.setting.causes
        if causes.duplicate or causes.over or causes.idle or causes.need == "none":
            continue
        covered = _need(env) <= _allowed(env, *_held(env))
        right = _inherited(env, _covering(env)[0])
        pairs = {(r, env.world.get(Entry, r).details["excludes"]) for r in right | _held(env)}
        clashes = any((a, b) in pairs or (b, a) in pairs for a in right for b in _held(env))
        assert (ending(env) == "declined/already_done") == covered
        assert (ending(env) == "escalated/conflict_of_interest") == (clashes and not covered)
        seen.add((covered, clashes))
    assert {(False, False), (True, False), (False, True)} <= seen


def test_no_role_that_somebody_holds_names_the_one_it_clashes_with() -> None:
    """The conflict is between roles that the right role and the group's role inherit."""
    env = staged(holds="controller", need="lead")
    named = {details(env, shape)["excludes"] for shape in ("lead", "controller", "viewer")}
    assert named == {"none"}
    assert ending(env) == "escalated/conflict_of_interest"


def test_an_exclusion_is_written_on_either_side_and_cited_where_it_is() -> None:
    sides = set()
    for seed in range(60):
        env = make(OWNER_FORM, seed=seed)
        if ending(env) == "escalated/conflict_of_interest":
            run_expert(env)
            cited = {fact.record: fact.value for fact in ticket(env).evidence if fact.field == "excludes"}
            sides |= {(shape, cited.get(role(env, shape)) == role(env, other)) for shape, other in PAIRS}
    assert sides == {("editor", True), ("editor", False), ("auditor", True), ("auditor", False)}


PAIRS = (("editor", "auditor"), ("auditor", "editor"))


def test_the_role_that_was_asked_for_is_often_another() -> None:
    asked = [
        details(env, "entry")["asked_for"] == role(env, env.setting.causes.need)
        for env in (make(OWNER_FORM, seed=seed) for seed in SEEDS)
        if env.setting.causes.need != "none"
    ]
    assert 0 < sum(asked) < 0.4 * len(asked)


def test_a_broader_role_is_signed_and_cannot_be_put_back() -> None:
    env = ready()
    assert decision(env, "owner", "lead") == APPROVED
    assert env.lost() == "damage"


def test_another_roles_permissions_may_not_be_cited_beside_the_right_ones() -> None:
    rest, last = worked(staged())
    more = {"record": role(rest, "lead"), "field": "permissions", "value": details(rest, "lead")["permissions"]}
    assert missed(rest, last, evidence=[*last.params["evidence"], more]) == ["CitesNoOther"]


def test_names_and_numbers_of_roles_do_not_tell_what_they_are() -> None:
    for field in ("name", "reference"):
        ends = {getattr(env.world.get(Entry, role(env, "lead")), field)[-3:] for env in map(_of_seed, range(20))}
        assert len(ends) >= 4


def _of_seed(seed: int) -> CompanyEnv:
    return make(OWNER_FORM, seed=seed)


# -- people and dates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cause", "field"), [("over", "engaged_until"), ("trained", "trained_until")])
def test_days_count_from_the_opening_of_the_ticket(cause: str, field: str) -> None:
    lapsed_since = 0
    for seed in SEEDS:
        env = make(OWNER_FORM, seed=seed)
        until, opened = details(env, "account")[field], stamp(ticket(env).opened)[:10]
        assert (until < opened) == (getattr(env.setting.causes, cause) == (cause == "over"))
        lapsed_since += opened <= until < stamp(env.world.now)[:10]
    assert lapsed_since >= 10  # today's date misleads


def test_the_need_stands_nowhere_until_the_requester_is_asked() -> None:
    env = staged(need="lead")
    known = env.world.fork()
    need = stated_need(env)
    assert ", " in need
    assert not any(need in repr(r) for kind in known.kinds() if not kind.hidden for r in known.all(kind))


def test_what_the_analyst_says_in_the_requesters_place_does_not_count() -> None:
    env = staged()
    verify(env)
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="All.", facts={"need": "all"}).ok
    assert decision(env, "owner", need="all") == ("rejected", "not_stated")


def test_idle_means_above_the_limit_in_force() -> None:
    for seed in SEEDS:
        env = make(OWNER_FORM, seed=seed)
        limit = env.world.get(Policy, role(env, "policy")).terms["most_idle"]
        assert (env.world.get(Metric, role(env, "idle")).value > limit) == env.setting.causes.idle


# -- who signs ---------------------------------------------------------------------------------------------------------


def test_the_owner_signs_for_their_own_people_and_that_cannot_be_put_back() -> None:
    env = ready(own_people=True)
    assert env.world.get(Person, role(env, "requester")).manager == role(env, "owner")
    assert decision(env, "owner") == APPROVED
    assert env.lost() == "damage"


def test_the_risk_officer_signs_where_the_owner_may_not_and_only_there() -> None:
    env = ready(own_people=True)
    assert decision(env, "risk", form=REVIEW_FORM) == APPROVED
    assert env.lost() is None
    other = ready()
    assert decision(other, "risk", form=REVIEW_FORM) == APPROVED
    assert other.lost() == "damage"


def test_neither_office_signs_for_the_other() -> None:
    env = ready()
    assert decision(env, "risk") == ("rejected", "not_mine")
    assert decision(env, "owner", form=REVIEW_FORM) == ("rejected", "not_mine")


def test_only_a_role_of_the_system_is_signed_for() -> None:
    env = ready()
    foreign = next(e for e in env.world.all(Entry) if e.kind == "role" and e.id not in env.setting.case.roles.values())
    assert decision(env, "owner", role=foreign.id) == ("rejected", "wrong_role")
    assert decision(env, "owner", role=role(env, "system")) == ("rejected", "wrong_role")
    assert decision(env, "owner", account=role(env, "group")) == ("rejected", "mismatch")


@pytest.mark.parametrize(
    ("causes", "signs"),
    [
        ({"owner_away": True}, "owner_deputy"),
        ({"owner_away": True, "owner_deputy_away": True}, "owner_third"),
        ({"own_people": True, "owner_away": True}, "risk"),  # the delegate of the owner may not sign, either
        ({"own_people": True, "risk_away": True, "risk_deputy_away": True}, "risk_third"),
    ],
)
def test_the_delegate_signs(causes: dict[str, Value], signs: str) -> None:
    env = staged(**causes)
    run_expert(env)
    assert env.success
    assert [a.decided_by for a in env.world.all(Approval) if a.status == "approved"] == [role(env, signs)]


# -- what the policies say ---------------------------------------------------------------------------------------------


def test_one_word_finds_the_rules_of_this_work_on_one_page() -> None:
    found = say(staged(), "datahub.search_policies", query="access").data
    assert found["pages"] == 1
    assert all(row["title"].startswith("Access request: ") for row in found["rows"])


def test_every_policy_is_short_and_says_its_numbers() -> None:
    for seed in range(10):
        for policy in make(OWNER_FORM, seed=seed).world.all(Policy):
            assert len(policy.text.split()) <= 80, policy.title
            assert all(str(value) in policy.text for value in policy.terms.values()), policy.title


def test_the_policies_name_every_way_to_end() -> None:
    texts = " ".join(p.text for p in staged().world.all(Policy) if p.title.startswith("Access request"))
    for seed in SEEDS:
        right = make(OWNER_FORM, seed=seed).setting.ending
        assert right.resolution in texts
        assert texts.count(right.reason) == 2  # when it applies, and what to cite


def test_the_superseded_rule_would_let_idle_accounts_pass() -> None:
    versions = [p for p in staged().world.all(Policy) if p.title == ACCOUNTS]
    assert sorted(p.status for p in versions) == ["in force", "superseded"]
    assert len({p.terms["most_idle"] for p in versions}) == 2


def test_an_application_for_a_namesake_does_not_verify_the_ticket() -> None:
    env = staged()
    other = env.world.get(Ticket, role(env, "earlier")).reference
    namesake = next(e for e in env.world.all(Entry) if e.reference == other)
    assert set_field(env, "verified", namesake.id).code == "no_match"


def test_a_permission_does_not_tell_by_its_name_which_role_it_takes() -> None:
    found: dict[str, set[str]] = {}
    for env in map(_of_seed, SEEDS):
        for word in details(env, "clerk")["permissions"].split(", "):
            found.setdefault(env.world.get(Entry, role(env, "system")).name.split()[-1], set()).add(word)
    assert all(len(words) >= 4 for words in found.values()), found
