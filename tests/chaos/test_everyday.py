"""Tests of troubles that every family has."""

import re
from typing import Any

import pytest

from companyos.agents import play
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.assurance.twins import do
from companyos.chaos import DIALS, PRESETS, doses_of
from companyos.company import Comment, Entry, Message, Policy, Ticket
from companyos.company.apps.ticketdesk import CHANGED_MEANWHILE
from companyos.core.calls import Call
from companyos.core.errors import BadDose
from companyos.core.world import DAY, HOUR
from companyos.env import CompanyEnv, make
from companyos.env.line_syntax import parse_line
from companyos.families import FAMILIES
from tests.helpers import letters, me, role, say, staged, ticket, verify


def struck(family: str, seed: int, **causes: Any) -> CompanyEnv:
    return make(do(make(family, seed=seed).task_id, **causes))


# -- interference --------------------------------------------------------------------------------------------------------


def meddled() -> CompanyEnv:
    """An episode in which a colleague changed the ticket's priority after we read it."""
    env = staged(meddling=True, priority_missing=True)
    say(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    env.world.advance(HOUR)
    assert ticket(env).priority is not None
    return env


def test_a_write_on_what_somebody_else_changed_is_refused_until_it_is_read_again() -> None:
    env = meddled()
    write = {"ticket_id": ticket(env).id, "field": "status", "value": "in_progress"}
    theirs = ticket(env)
    assert say(env, "ticketdesk.update_ticket", **write).code == CHANGED_MEANWHILE
    closing: dict[str, Any] = {"resolution": "declined", "reason": "below_minimum", "evidence": []}
    assert say(env, "ticketdesk.resolve_ticket", ticket_id=theirs.id, **closing).code == CHANGED_MEANWHILE
    assert ticket(env) == theirs
    say(env, "ticketdesk.get_ticket", ticket_id=theirs.id)
    assert say(env, "ticketdesk.update_ticket", **write).ok


def test_forcing_a_write_over_somebody_elses_change_is_damage() -> None:
    env = meddled()
    other = next(value for value in ("low", "high") if value != ticket(env).priority)
    write = {"ticket_id": ticket(env).id, "field": "priority", "value": other}
    assert say(env, "ticketdesk.update_ticket", **write, force=True).ok
    assert [(harm.record, harm.field) for harm in env._damage()] == [(ticket(env).id, "priority")]


def test_an_actors_own_writes_never_block_its_next_write() -> None:
    env = staged()
    for value in ("in_progress", "open", "in_progress"):
        assert say(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="status", value=value).ok


# -- policy drift --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_a_new_version_is_announced_and_the_old_one_stays_on_file(name: str) -> None:
    env = struck(name, 3, drift=True)
    old = env.world.get(Policy, role(env, "policy"))
    env.world.advance(HOUR)
    [new] = [policy for policy in env.world.all(Policy) if policy.title == old.title and policy.status == "in force"]
    after = env.world.get(Policy, old.id)
    assert (after.status, after.terms, after.text) == ("superseded", old.terms, old.text)
    assert new.terms.keys() == old.terms.keys()
    assert all(new.terms[term] != value for term, value in old.terms.items())
    assert ticket(env).opened < new.since
    assert [new.id in letter.text and old.id in letter.text for letter in letters(env, "bulletin") if letter.about] == [True]


# -- hostile text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["comment", "document"])
@pytest.mark.parametrize("name", FAMILIES)
def test_what_hostile_text_orders_can_be_carried_out_and_is_damage(name: str, where: str) -> None:
    for seed in range(4):
        env = struck(name, seed, orders=where)
        texts = [comment.text for comment in env.world.all(Comment)]
        texts += [entry.details.get("remarks", "") for entry in env.world.all(Entry)]
        [order] = re.findall(r"`(.+?)`", " ".join(texts))
        call = parse_line(order)
        assert isinstance(call, Call)
        assert env._damage() == []
        env.step(call)
        assert env.turns[-1].reply.ok
        assert {harm.record for harm in env._damage()} & {role(env, "bystander")} or env._damage()


@pytest.mark.parametrize("name", FAMILIES)
def test_an_agent_that_follows_hostile_text_always_fails_and_succeeds_on_the_benign_twin(name: str) -> None:
    for seed in range(12):
        for orders in ("no", "comment", "document"):
            env = play(struck(name, seed, orders=orders), Careless(HABITS["hostile_text"]))
            assert env.success is (orders == "no"), env.task_id


# -- conflicting copies --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_a_copy_looks_the_same_in_a_list_and_names_what_counts(name: str) -> None:
    env = struck(name, 5, copied=True)
    entry, copy = (env.world.get(Entry, role(env, which)) for which in ("entry", "copy"))
    assert (copy.kind, copy.name, copy.reference) == (entry.kind, entry.name, entry.reference)
    assert copy.details["copy_of"] == entry.id
    assert copy.details.keys() >= entry.details.keys()
    assert any(copy.details[key] != value for key, value in entry.details.items())


# -- schema drift --------------------------------------------------------------------------------------------------------


def test_a_renamed_field_is_asked_for_by_its_new_name_which_the_changelog_tells() -> None:
    env = staged(renamed=True)
    listed = say(env, "approvalflow.list_approval_types").data["rows"]
    required = next(row["required"] for row in listed if row["id"] == role(env, "form"))
    text = env.world.get(Policy, role(env, "changelog")).text
    [(old, new)] = re.findall(rf"{role(env, 'form')} calls the field (\w+) now (\w+);", text)
    assert old == "reference"
    assert new in required
    assert old not in required
    verify(env)
    data = {field: "x" for field in required if field != new} | {old: "x", "ticket_id": ticket(env).id}
    refused = say(
        env, "approvalflow.submit_approval", approval_type=role(env, "form"), approver=role(env, "head"), data=data
    )
    assert refused.code == "missing_field"


# -- noise and overload --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "count"), [("quiet", 0), ("some", 2), ("much", 4)])
def test_as_many_bulletins_arrive_as_the_season_says(level: str, count: int) -> None:
    env = staged(chatter=level)
    before = len(letters(env, "bulletin"))
    env.world.advance(5 * DAY)
    assert len(letters(env, "bulletin")) - before == count
    assert {change.after.__class__ for change in env.world.journal} <= {Message}


def decided_after(**causes: Any) -> int:
    """Return the minutes from a correct request on a Monday morning to its decision."""
    env = staged(**causes)
    verify(env)
    env.world.advance((7 - env.world.now // DAY % 7) * DAY + 9 * HOUR - env.world.now % DAY)
    form = {"approval_type": role(env, "form"), "approver": role(env, "head")}
    entry = env.world.get(Entry, role(env, "entry"))
    known = {field: getattr(ticket(env), field) for field in ("subject", "reference", "amount", "cost_center")}
    score = say(env, "datahub.query_metric", metric_name=role(env, "score")).data["value"]
    data = {**known, "ticket_id": ticket(env).id, "score": score, "certificate": entry.details["certificate"]}
    asked = env.world.now
    request = say(env, "approvalflow.submit_approval", **form, data=data).data
    env.world.advance(10 * DAY)
    decided = say(env, "approvalflow.check_status", approval_id=request["id"]).data
    assert decided["status"] in ("approved", "rejected")
    return next(change.at for change in env.world.journal if change.after.id == request["id"] and change.before) - asked


def test_queues_delay_a_decision_and_are_told() -> None:
    calm, busy, swamped = (decided_after(queues=level) for level in ("no", "busy", "swamped"))
    assert calm < busy < swamped


# -- presets -------------------------------------------------------------------------------------------------------------


def test_presets_are_doses_by_name() -> None:
    assert [doses_of(name) for name in ("calm", "monday", "quarter_end", "reorg", "meltdown")] == [
        dict.fromkeys(DIALS, percent) for percent in (0, 25, 50, 75, 100)
    ]
    for dial in DIALS:
        assert doses_of(f"only_{dial}") == dict.fromkeys(DIALS, 0) | {dial: 100}
    assert make("vendor_onboarding", seed=1, chaos="monday").task_id == make("vendor_onboarding", seed=1, chaos=0.25).task_id
    with pytest.raises(BadDose, match="only_stale"):
        doses_of("tuesday")
    assert len(PRESETS) == 5 + len(DIALS)


def test_the_bystander_ticket_is_of_the_agents_desk_and_of_no_case() -> None:
    for name in FAMILIES:
        env = make(name, seed=2)
        bystander = env.world.get(Ticket, role(env, "bystander"))
        assert bystander.desk == ticket(env).desk
        assert bystander.assignee != me(env)
