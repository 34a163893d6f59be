"""Outcomes follow from the calls alone, whatever else a file states."""

import msgspec
import pytest

from companyos.assurance.twins import do, twins
from companyos.chaos import PRESETS
from companyos.company import TOOLBOX
from companyos.core.calls import NO_ANSWER, Call, Reply
from companyos.core.episode import Footer
from companyos.core.errors import BadTask, ReplayDiffers
from companyos.env import make, par, run_expert, task_named
from companyos.env.multi_actor import chairs
from companyos.evaluate.judge.blame import blame
from companyos.evaluate.judge.outcome import DESK, _faults, judge, owner
from companyos.families import FAMILIES
from tests.evaluate.helpers import played, transcript
from tests.helpers import staged

EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES)


@EVERY_FAMILY
def test_the_experts_episode_is_right_in_everything(family: str) -> None:
    for seed in range(6):
        task = task_named(family, seed, 0.5, "test")
        found = played(str(task), "expert")
        assert found.success
        assert found.said == found.right
        assert found.steps == found.par == par(task)
        assert found.score == 1
        assert (found.damage, found.invalid) == ((), 0)
        assert found.recovered == found.faults
        assert ("flaky" in found.struck) == bool(found.faults)
        assert 0 < found.routed <= found.steps - found.waits


def test_a_forged_file_does_not_change_the_outcome_of_its_calls() -> None:
    honest = transcript(str(task_named("expense_report", 1, 0.5)), "null")
    turns = tuple(msgspec.structs.replace(turn, reward=9.0) for turn in honest.turns)
    forged = msgspec.structs.replace(honest, turns=turns, footer=Footer(True, True, 99.0))
    assert judge(forged) == judge(honest)
    assert not judge(forged).success


def test_calls_after_the_end_are_refused() -> None:
    won = transcript(str(task_named("expense_report", 1, 0.5)), "expert")
    with pytest.raises(ReplayDiffers):
        judge(msgspec.structs.replace(won, turns=(*won.turns, won.turns[-1])))


def test_an_episode_with_a_second_actor_is_not_measured() -> None:
    task_id = str(task_named("expense_report", 1, 0.5))
    env = make(task_id, actors=chairs(task_id).values())
    for measured in (judge, blame):
        with pytest.raises(BadTask, match="one is measured alone"):
            measured(env.transcript())


def test_extra_tools_count_as_trouble_by_tool_clutter() -> None:
    for seed in range(3):
        env = make("vendor_onboarding", seed=seed, chaos=PRESETS["only_tool_clutter"])
        assert judge(env.transcript()).struck == ("tool_clutter",)
    assert judge(make("vendor_onboarding", seed=0).transcript()).struck == ()


def test_the_return_and_score_are_those_of_their_reward_profiles() -> None:
    for agent in ("expert", "naive", "random"):
        for seed in range(4):
            task_id = str(task_named("license_renewal", seed, 0.5))
            found = played(task_id, agent)
            for reward, value in (("dense", found.total), ("score", found.score)):
                env = make(task_id, reward=reward)
                for turn in transcript(task_id, agent).turns:
                    env.step(turn.action[0] if turn.action else turn.call)
                assert sum(turn.reward for turn in env.turns) == pytest.approx(value)


def test_invalid_calls_are_distinguished_from_refused_calls() -> None:
    env = make("vendor_onboarding", seed=7)
    env.step(Call("ticketdesk", "get_ticket", {"ticket_id": "T-1"}))
    env.step(Call("ticketdesk", "get_ticket", {}))
    env.step(Call("ticketdesk", "no_such_tool", {}))
    env.step("no call at all")
    found = judge(env.transcript())
    assert (found.refused, found.invalid) == (1, 3)
    assert (found.success, found.said, found.decider) == (False, "", DESK)


def test_a_fault_is_recovered_only_by_a_later_answered_call() -> None:
    env = make("vendor_onboarding", seed=7, chaos=PRESETS["only_flaky"])
    call = Call("ticketdesk", "get_ticket", {"ticket_id": env.setting.case.ticket_id})
    found = judge(env.transcript())
    while not found.faults:
        env.step(call)
        found = judge(env.transcript())
    assert found.recovered == 0
    while not found.recovered:
        env.step(call)
        found = judge(env.transcript())
    assert found.faults == found.recovered == 1
    assert (found.refused, found.invalid) == (0, 0)  # a fault is the company's


def silenced(*said: tuple[str, bool]) -> tuple[int, int]:
    """Faults and recovered targets of an episode in which `get_ticket` was called with these ids, answered or not."""
    env = make("vendor_onboarding", seed=7)
    for ticket_id, answered in said:
        env.step(Call("ticketdesk", "get_ticket", {"ticket_id": ticket_id}))
        if not answered:
            env.turns[-1] = msgspec.structs.replace(env.turns[-1], reply=Reply(False, NO_ANSWER))
    return _faults(env)


def test_a_fault_belongs_to_a_tool_with_its_arguments() -> None:
    assert silenced(("T-1", False), ("T-1", False)) == (1, 0)
    assert silenced(("T-1", False), ("T-2", False)) == (2, 0)
    assert silenced(("T-1", False), ("T-2", True)) == (1, 0)
    assert silenced(("T-1", False), ("T-2", True), ("T-1", True)) == (1, 1)
    assert silenced(("T-1", True), ("T-1", False)) == (1, 0)
    assert silenced(("T-1", False), ("T-1", True), ("T-1", False)) == (1, 0)


def test_a_success_has_recovered_from_every_fault() -> None:
    env = make("vendor_onboarding", seed=7)
    run_expert(env)
    assert env.success
    env.turns[0] = msgspec.structs.replace(env.turns[0], reply=Reply(False, NO_ANSWER))
    assert _faults(env) == (1, 1)


@EVERY_FAMILY
def test_every_milestone_belongs_to_an_app(family: str) -> None:
    for seed in range(40):
        for milestone in make(family, seed=seed).setting.ending.milestones:
            assert owner(milestone.goal) in TOOLBOX.apps


def test_waiting_is_not_routed() -> None:
    found = played(str(task_named("vendor_onboarding", 7, 0.5)), "null")
    assert (found.routed, found.waits) == (0, found.steps)


@EVERY_FAMILY
def test_the_expert_decides_differently_exactly_where_the_ending_differs(family: str) -> None:
    task_id = str(task_named(family, 0, 0.5))
    ours = played(task_id, "expert").choice
    for twin in twins(task_id):
        theirs = played(twin.task_id, "expert")
        assert (theirs.choice != ours) == (twin.relevance == "ending"), (twin, ours)


def test_an_office_that_signs_through_its_deputy_is_the_same_office() -> None:
    calm = staged()
    run_expert(calm)
    away = make(do(calm.task_id, head_away=True))
    run_expert(away)
    assert judge(calm.transcript()).decider == judge(away.transcript()).decider != DESK
