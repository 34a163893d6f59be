"""Regression tests for faults that reviewers found."""

import pytest

from companyos.assurance.twins import do
from companyos.company import Person
from companyos.core.calls import Call
from companyos.core.world import HOUR
from companyos.env import CompanyEnv, make, run_expert
from tests.laws import NAMES, share


def _wait(env: CompanyEnv, times: int, hours: int = 72) -> None:
    for _ in range(times):
        env.step(Call("ticketdesk", "wait", {"hours": hours}))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chaos", [0.0, 1.0])
def test_no_wait_changes_the_right_ending(name: str, chaos: float) -> None:
    for seed in range(share(20, name)):
        env = make(name, seed=seed, chaos=chaos, reward="sparse")
        _wait(env, env.max_steps - 1)
        again = env.fresh_budget()
        run_expert(again)
        assert again.success, env.task_id


@pytest.mark.parametrize("hours", range(1, 9))
def test_the_expert_wins_when_an_absence_ends_while_it_waits_for_a_signature(hours: int) -> None:
    calm = make("vendor_onboarding", seed=2, chaos=0.0).task_id
    env = make(do(calm, amount="small", score="over", head_away=True), reward="sparse")
    back = env.world.get(Person, env.setting.case.roles["head"]).away_until
    assert back is not None
    env.world.advance(back - env.world.now - hours * HOUR)
    run_expert(env)
    assert env.success


@pytest.mark.parametrize("name", NAMES)
def test_many_comments_do_not_keep_the_expert_from_taking_over(name: str) -> None:
    env = make(name, seed=2, reward="sparse")
    ticket = env.setting.case.ticket_id
    for _ in range(20):
        env.step(
            Call("ticketdesk", "comment", {"ticket_id": ticket, "text": "?", "to": env.setting.case.roles["requester"]})
        )
    assert env.lost() is None
    again = env.fresh_budget()
    run_expert(again)
    assert again.success


@pytest.mark.parametrize("name", NAMES)
def test_what_a_reply_has_just_shown_of_the_ticket_itself_can_be_cited(name: str) -> None:
    for seed in range(share(10, name)):
        env = make(name, seed=seed)
        solved = env.fork()
        run_expert(solved)
        for turn in solved.turns[:-1]:
            env.step(turn.call)
        last, ticket = solved.turns[-1].call, env.setting.case.ticket_id
        cited = [*last.params["evidence"], {"record": ticket, "field": "status", "value": "open"}]
        env.step(Call(last.app, last.method, {**last.params, "evidence": cited}))
        assert env.success, env.verdict
