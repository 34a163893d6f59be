"""Clauses: the sentence of a policy that requires an ending."""

import pytest

from companyos.company import Policy, Ticket
from companyos.env import make
from companyos.evaluate.judge.clauses import clause_for
from companyos.families import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_a_policy_in_force_has_a_sentence_about_every_ending_of_a_family(name: str) -> None:
    for seed in range(10):
        env = make(name, seed=seed)
        ending = env.setting.ending
        clause = clause_for(env.setting.world, (name,), ending.resolution, ending.reason)
        assert clause is not None, (env.task_id, ending.name)
        policy = env.world.get(Policy, clause.policy_id)
        assert (policy.status, policy.title) == ("in force", clause.title)
        assert clause.text in policy.text
        assert ending.reason in clause.text


def test_the_clause_is_the_check_that_decides_and_not_a_mention_of_the_reason() -> None:
    env = make("data_deletion", seed=0)
    every_holding_stays = clause_for(env.world, ("data_deletion",), "declined", "not_due")
    some_holdings_stay = clause_for(env.world, ("data_deletion",), "completed", "not_due")
    assert every_holding_stays is not None
    assert every_holding_stays.text == "Every holding stays: declined, not_due."
    assert some_holdings_stay is not None
    assert some_holdings_stay.text.startswith("Else get it signed, set approval: completed;")


def test_a_ticket_in_a_queue_may_be_closed_by_a_rule_of_the_queue() -> None:
    clauses = set()
    for seed in range(5):
        env = make("quarter_close", seed=seed)
        for linked in env.setting.ending.linked:
            kind = env.world.get(Ticket, linked.ticket_id).kind
            clause = clause_for(env.world, (kind, "quarter_close"), linked.ending.resolution, linked.ending.reason)
            if clause is not None:
                clauses.add((linked.ending.name, clause.title))
    assert ("on_hold/not_due", "Quarter close: queue") in clauses
    assert ("declined/below_minimum", "Vendor onboarding: order of checks") in clauses


def test_an_ending_that_no_policy_mentions_has_no_clause() -> None:
    env = make("vendor_onboarding", seed=0)
    assert clause_for(env.world, ("vendor_onboarding",), "declined", "unused") is None
    assert clause_for(env.world, ("no_such_family",), "declined", "below_minimum") is None
