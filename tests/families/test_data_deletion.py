"""Data deletion: each holding by its own ground, two departments in order, and a step that cannot be undone."""

from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.assurance.twins import twins
from companyos.company import Approval, Comment, Entry, Metric, Mind, Policy, Ticket
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.kit.case import Value
from tests.families.helpers import missed, staged_by, worked
from tests.helpers import answered, me, role, say, set_field, ticket, verify

FAMILY = "data_deletion"
HOLDING_ROLES = ("first", "second", "third")
# A case without problems: everything may be deleted.
CALM: dict[str, Value] = {
    "duplicate": False,
    "foreign": False,
    "identity": "proven",
    "first": False,
    "second": False,
    "third": False,
    "hold": "none",
    "copies": "near",
}
SEEDS = range(80)
APPROVED = ("approved", "signed")


staged = staged_by(FAMILY, CALM)


def ready(**causes: Value) -> CompanyEnv:
    """Return an episode in which the ticket is verified and Legal and the steward have stated their facts."""
    env = staged(**causes)
    verify(env)
    for speaker in ("counsel", "steward"):
        asked(env, speaker)
    return env


def asked(env: CompanyEnv, speaker: str) -> dict[str, str]:
    """Ask a person on the ticket and return the facts that they state."""
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Please?", to=role(env, speaker)).ok
    env.world.advance(4 * DAY)
    return [c.facts for c in env.world.all(Comment) if c.author == role(env, speaker)][-1]


def holding(env: CompanyEnv, place: str) -> Entry:
    return env.world.get(Entry, role(env, place))


def category(env: CompanyEnv, place: str) -> str:
    return holding(env, place).details["category"]


def submit(env: CompanyEnv, **changes: Any) -> str:
    """Submit a request to delete everything, with these changes, where None leaves a field out. Return its id."""
    case = ticket(env)
    assert say(env, "datahub.refresh_data", metric_name=role(env, "identity")).ok  # days have passed
    right: dict[str, Any] = {"ticket_id": case.id, "subject": case.subject, "reference": case.reference}
    right["identity"] = env.world.get(Metric, role(env, "identity")).value
    right["copies"] = env.world.get(Mind, role(env, "steward")).knows[case.id]["copies"]
    right |= {category(env, place): "delete" for place in HOLDING_ROLES}
    data = {field: value for field, value in (right | changes).items() if value is not None}
    reply = say(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "officer"), data=data)
    assert reply.ok, reply
    return str(reply.data["id"])


def decision(env: CompanyEnv, **changes: Any) -> tuple[str, str]:
    request = answered(env, submit(env, **changes))
    return request.status, request.code


# -- which ending ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ({}, "completed/all_checks_passed"),
        ({"second": True}, "completed/not_due"),
        ({"hold": "part"}, "completed/not_due"),
        ({"copies": "lost"}, "escalated/beyond_authority"),
        ({"first": True, "second": True, "third": True, "copies": "lost"}, "declined/not_due"),
        ({"first": True, "second": True, "third": True, "hold": "whole"}, "declined/contradicts_policy"),
        ({"identity": "refuted", "hold": "whole"}, "declined/below_minimum"),
        ({"identity": "doubt", "copies": "lost"}, "on_hold/missing_information"),
        ({"foreign": True, "identity": "refuted"}, "cannot_be_done/not_covered"),
        ({"duplicate": True, "foreign": True}, "duplicate/same_request"),
    ],
)
def test_the_first_check_that_applies_decides(causes: dict[str, Value], expected: str) -> None:
    env = staged(**causes)
    assert env.setting.ending.name == expected
    run_expert(env)
    assert env.success


def test_identity_is_proven_doubtful_or_refuted_by_the_terms_of_the_policy_in_force() -> None:
    for level, proven, doubtful in (("proven", True, True), ("doubt", False, True), ("refuted", False, False)):
        env = staged(identity=level)
        terms = env.world.get(Policy, role(env, "policy")).terms
        value = env.world.get(Metric, role(env, "identity")).value
        assert (value >= terms["proven_from"], value >= terms["doubt_from"]) == (proven, doubtful)


def test_data_of_another_controller_are_left_as_they_were() -> None:
    env = staged(foreign=True)
    agreement = env.world.get(Entry, role(env, "agreement"))
    assert agreement.reference == env.world.get(Entry, role(env, "entry")).details["agreement"]
    assert agreement.details["controller"] != "ourselves"
    run_expert(env)
    assert env.success
    assert list(env.world.all(Approval)) == []


def test_the_namesake_is_one_letter_apart_and_cannot_be_verified_instead() -> None:
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        ours, theirs = (e for e in env.world.all(Entry) if e.kind == "customer")
        assert len(ours.name) == len(theirs.name)
        assert sum(a != b for a, b in zip(ours.name, theirs.name, strict=True)) == 1
        assert set_field(env, "verified", theirs.id).code == "no_match"


# -- each holding by its own ground ----------------------------------------------------------------------------------------


def _terms(env: CompanyEnv, status: str = "in force") -> dict[str, int]:
    return next(p.terms for p in env.world.all(Policy) if p.title == "Data deletion: retention" and p.status == status)


def _age(env: CompanyEnv, entry: Entry) -> int:
    opened = date(2026, 1, 5).toordinal() + ticket(env).opened // DAY
    return opened - date.fromisoformat(entry.details["last_entry"]).toordinal()


def _within_its_term(env: CompanyEnv, entry: Entry, status: str = "in force") -> bool:
    return _age(env, entry) < _terms(env, status)[f"keep_days_{entry.details['category']}"]


def _stays(env: CompanyEnv, entry: Entry) -> bool:
    """Return whether a holding must be kept, computed from the records without the code under test."""
    hold = env.world.get(Mind, role(env, "counsel")).knows[ticket(env).id]["hold"]
    if hold in ("all", entry.details["category"]):
        return True
    by_ground = {"law": _within_its_term(env, entry), "contract": entry.status == "running", "consent": False}
    return by_ground[entry.details["ground"]]


def test_what_must_be_signed_is_what_the_records_call_for() -> None:
    parts = set()
    for seed in range(200):
        env = make(FAMILY, seed=seed)
        for signature in env.setting.ending.signatures:
            says = dict(signature.says)
            called_for = {category(env, p): "keep" if _stays(env, holding(env, p)) else "delete" for p in HOLDING_ROLES}
            assert says == called_for | {"copies": says["copies"]}, env.task_id
            parts.add(tuple(says[category(env, p)] for p in HOLDING_ROLES))
    assert len(parts) == 7


def test_no_short_cut_tells_what_stays() -> None:
    """The status, the date or the ground alone, or the outdated policy, gives the wrong result for some holdings."""
    wrong = {"status": 0, "date": 0, "ground": 0, "old terms": 0, "no hold": 0}
    judged = 0
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        for place in HOLDING_ROLES:
            entry, judged = holding(env, place), judged + 1
            stays, law = _stays(env, entry), entry.details["ground"] == "law"
            wrong["status"] += (entry.status == "running") != stays
            wrong["date"] += _within_its_term(env, entry) != stays
            wrong["ground"] += (entry.details["ground"] != "consent") != stays
            wrong["old terms"] += law and stays and not _within_its_term(env, entry, "superseded")
            wrong["no hold"] += stays and not getattr(env.setting.causes, place)
    assert min(wrong.values()) >= 0.06 * judged, wrong


def test_on_the_day_its_term_has_passed_a_holding_may_go_and_the_day_before_it_may_not() -> None:
    env = staged()
    entry = holding(env, "first")
    term = _terms(env)[f"keep_days_{entry.details['category']}"]
    for days, expected in ((term, "delete"), (term - 1, "keep")):
        last = date.fromordinal(date(2026, 1, 5).toordinal() + ticket(env).opened // DAY - days).isoformat()
        trial = env.fork()
        details = entry.details | {"ground": "law", "last_entry": last}
        trial.world.put_at_start(replace(entry, status="ended", details=details))
        run_expert(trial)
        (request,) = (a for a in trial.world.all(Approval) if a.status == "approved")
        assert request.data[entry.details["category"]] == expected


def test_a_twin_in_one_holding_can_keep_the_ending_and_still_change_what_must_be_signed() -> None:
    task = staged(first=True).task_id
    way = [twin for twin in twins(task) if twin.cause in ("second", "third") and twin.relevance == "way"]
    assert len(way) == 2


def test_a_holding_too_many_is_signed_without_a_word_and_is_damage_for_good() -> None:
    env = ready(second=True)
    assert decision(env) == APPROVED
    assert env.lost() == "damage"


def test_a_holding_too_few_is_damage_as_well() -> None:
    env = ready()
    assert decision(env, **{category(env, "third"): "keep"}) == APPROVED
    assert env.lost() == "damage"


def test_who_keeps_what_a_hold_covers_and_deletes_the_rest_is_right() -> None:
    env = ready(hold="part")
    held = asked(env, "counsel")["hold"]
    assert held in {category(env, place) for place in HOLDING_ROLES}
    assert decision(env, **{held: "keep"}) == APPROVED
    assert env.lost() is None
    (request,) = env.world.all(Approval)
    assert set_field(env, "approval", request.id).ok
    assert env.setting.ending.named_goals["SignedFor"].holds(env.world)


# -- evidence ----------------------------------------------------------------------------------------------------------


def test_for_each_holding_that_stays_the_one_thing_is_cited_that_keeps_it() -> None:
    seen = set()
    for seed in range(200):
        env = make(FAMILY, seed=seed)
        if env.setting.ending.reason != "not_due":
            continue
        ended = env.fork()
        run_expert(ended)
        cited = {(c.record, c.field) for c in ticket(ended).evidence}
        for place in HOLDING_ROLES:
            entry = holding(env, place)
            if getattr(env.setting.causes, place):
                field = {"law": "last_entry", "contract": "status"}[entry.details["ground"]]
                assert (entry.id, field) in cited
            else:
                field = "hold" if _stays(env, entry) else "none"
                assert any(f == "hold" for _, f in cited) or field == "none"
            seen.add(field)
    assert seen == {"last_entry", "status", "hold", "none"}


def test_who_cites_all_fields_of_all_holdings_has_not_said_what_keeps_them() -> None:
    rest, last = worked(staged(first=True))
    kept = holding(rest, "first")
    other = "status" if kept.details["ground"] == "law" else "last_entry"
    value = kept.status if other == "status" else kept.details[other]
    hedged = [*last.params["evidence"], {"record": kept.id, "field": other, "value": value}]
    assert missed(rest.fork(), last, evidence=hedged) == ["CitesNoOther"]
    assert missed(rest, last) == []


# -- others have to speak ------------------------------------------------------------------------------------------------


def test_the_steward_says_nothing_until_legal_has_spoken() -> None:
    env = staged()
    assert asked(env, "steward") == {}
    assert set(asked(env, "counsel")) == {"hold"}
    assert set(asked(env, "steward")) == {"copies", "reachable"}


def test_asking_out_of_order_costs_only_time() -> None:
    env = staged()
    asked(env, "steward")
    run_expert(env)
    assert env.success


def test_where_legal_and_the_steward_differ_nothing_else_in_the_company_does() -> None:
    for cause, value, speaker in (("hold", "whole", "counsel"), ("copies", "lost", "steward")):
        ours, theirs = staged().world, staged(**{cause: value}).world
        for kind in ours.kinds():
            for record in ours.all(kind):
                if record != theirs.get(kind, record.id):
                    assert (kind, record.id) == (Mind, role(staged(), speaker))


def test_the_officer_signs_nothing_before_both_have_spoken() -> None:
    env = staged()
    verify(env)
    assert decision(env) == ("rejected", "not_stated")
    asked(env, "counsel")
    assert decision(env) == ("rejected", "not_stated")
    asked(env, "steward")
    assert decision(env) == APPROVED


def test_the_agent_cannot_state_a_fact_for_somebody_else() -> None:
    env = staged()
    verify(env)
    facts = {"hold": "none", "copies": "none", "reachable": "yes"}
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="I am sure.", facts=facts).ok
    assert decision(env, copies="none") == ("rejected", "not_stated")


def test_the_officer_wants_every_holding_named_and_the_copies_as_stated() -> None:
    env = ready()
    first = category(env, "first")
    assert decision(env, **{first: None}) == ("rejected", "left_out")
    assert decision(env, **{first: "maybe"}) == ("rejected", "left_out")
    assert decision(env, copies="the cellar") == ("rejected", "not_stated")
    assert decision(env, **{category(env, p): "keep" for p in HOLDING_ROLES}) == ("rejected", "nothing_to_do")
    assert env.lost() is None


def test_copies_out_of_reach_go_to_the_compliance_officer_and_a_full_hold_waits_for_legal() -> None:
    for causes, field, named in (
        ({"copies": "lost"}, "escalated_to", "regulator"),
        ({"hold": "whole"}, "waiting_on", "counsel"),
    ):
        rest, last = worked(staged(**causes))
        assert getattr(ticket(rest), field) == role(rest, named)
        assert set_field(rest, field, role(rest, "officer")).ok
        assert missed(rest, last) == [f"TicketIs:{field}"]


def test_where_copies_are_out_of_reach_even_a_signature_is_damage() -> None:
    env = ready(copies="lost")
    assert decision(env) == APPROVED
    assert env.lost() == "damage"


# -- the rules as a stranger finds them --------------------------------------------------------------------------------


def test_one_search_finds_every_rule_and_none_is_longer_than_80_words() -> None:
    env = staged()
    found = say(env, "datahub.search_policies", query="deletion").data
    assert found["pages"] == 1
    rules = [env.world.get(Policy, row["id"]) for row in found["rows"]]
    assert {p.id for p in env.world.all(Policy) if p.title.startswith("Data deletion: ")} == {p.id for p in rules}
    assert all(len(p.text.split()) <= 80 for p in rules)
    assert sum(p.status == "superseded" for p in rules) == 1


def test_the_brief_ticket_is_the_actors_and_its_blocker_is_not() -> None:
    env = staged()
    blocker = env.world.get(Ticket, role(env, "blocker"))
    assert ticket(env).assignee == me(env)
    assert blocker.assignee != me(env)
    assert blocker.desk != ticket(env).desk
