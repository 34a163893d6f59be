"""Tests of the reward profiles: every success beats every failure, and no cycle of calls pays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.company import Approval
from companyos.company.colleagues import OBJECTION_CODES
from companyos.core.calls import NO_ANSWER
from companyos.core.task import TaskId
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, par, rewards, run_expert
from companyos.env.rewards import (
    FAILED_CALL,
    FAILURE,
    MAX_POTENTIAL,
    MIN_POTENTIAL,
    PROFILES,
    REJECTION,
    STEP,
    STEPS_CHARGED,
    SUCCESS,
    UNKNOWN_TOOL,
    Offences,
    TurnEffects,
    Verdict,
    max_penalty,
)
from companyos.families.kit.goals import Damage, add_up
from tests.helpers import (
    FAMILY,
    STEADY,
    asked,
    form,
    me,
    played,
    role,
    staged,
    step,
    ticket,
)

NEAR = 1e-9


def phi(env: CompanyEnv) -> float:
    """Compute, from scratch, the sum of the milestones that hold now and did not hold at the start."""
    if env.success:
        return whole(env)
    return sum(
        m.worth for m in env.setting.ending.milestones if m.goal.holds(env.world) and not m.goal.holds(env.setting.world)
    )


def whole(env: CompanyEnv) -> float:
    return sum(m.worth for m in env.setting.ending.milestones if not m.goal.holds(env.setting.world))


def penalties(env: CompanyEnv) -> float:
    """Compute, from scratch, what an episode is charged, from its replies and its journal."""
    codes = [turn.reply.code for turn in env.turns]
    unknown = sum(code in ("unknown_tool", "bad_action") for code in codes)
    failed = sum(code not in ("ok", "no_answer", "unknown_tool", "bad_action") for code in codes)
    rejected = sum(
        isinstance(change.after, Approval)
        and change.after.status == "rejected"
        and change.after.requester == me(env)
        and change.after.code not in OBJECTION_CODES
        for change in env.world.journal
    )
    steps = sum(code != NO_ANSWER for code in codes)
    charged = STEP * min(1.0, STEPS_CHARGED / env.max_steps) * steps
    for (first, factor), count in ((FAILED_CALL, failed), (UNKNOWN_TOOL, unknown), (REJECTION, rejected)):
        charged += sum(first * factor**k for k in range(count))
    return charged


def total(env: CompanyEnv) -> float:
    return add_up(turn.reward for turn in env.turns)


# -- from the constants ------------------------------------------------------------------------------------------------


def test_the_constants_are_those_of_the_first_release() -> None:
    assert (SUCCESS, FAILURE, STEP, STEPS_CHARGED) == (15.0, -5.0, 0.1, 30)
    assert (FAILED_CALL, REJECTION, UNKNOWN_TOOL) == ((0.3, 0.9), (0.5, 0.8), (1.0, 0.7))
    assert (MIN_POTENTIAL, MAX_POTENTIAL) == (2.0, 10.0)


def test_all_penalties_of_an_episode_come_to_less_than_12() -> None:
    worst = STEP * STEPS_CHARGED + sum(first / (1 - factor) for first, factor in (FAILED_CALL, REJECTION, UNKNOWN_TOOL))
    assert max_penalty() == pytest.approx(worst)
    assert max_penalty() < 12


@STEADY
@given(st.floats(MIN_POTENTIAL, MAX_POTENTIAL), st.floats(0, 1))
def test_every_success_is_worth_more_than_every_failure(potential: float, share: float) -> None:
    worst_success = potential + SUCCESS - max_penalty()
    best_failure = potential * share + FAILURE
    assert worst_success > best_failure
    assert worst_success > potential + FAILURE


def test_every_task_has_milestones_worth_2_to_10() -> None:
    for seed in range(300):
        for chaos in (0.0, 0.5, 1.0):
            env = make(FAMILY, seed=seed, chaos=chaos)
            assert MIN_POTENTIAL <= env.whole_potential <= MAX_POTENTIAL
            assert env.whole_potential == whole(env)


# -- turn by turn ------------------------------------------------------------------------------------------------------


WON = Verdict(True, {}, ())
LOST = Verdict(False, {}, ())
SPOILED = Verdict(False, {}, (Damage("T-1", "priority", True),))


def happened(**changes: Any) -> TurnEffects:
    """A turn without consequences."""
    quiet: dict[str, Any] = {
        "fault": False,
        "failed": False,
        "unknown": False,
        "rejections": 0,
        "before": Offences(),
        "potential_before": 0.0,
        "potential": 0.0,
        "whole_potential": 5.0,
        "max_steps": 30,
        "step": 10,
        "verdict": None,
        "par": lambda: 10,
    }
    return TurnEffects(**(quiet | changes))


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, {"step": -0.1}),
        ({"max_steps": 60}, {"step": -0.05}),
        ({"max_steps": 10}, {"step": -0.1}),
        ({"fault": True}, {}),
        ({"failed": True}, {"step": -0.1, "failed_call": -0.3}),
        ({"failed": True, "before": Offences(failed=2)}, {"step": -0.1, "failed_call": -0.3 * 0.81}),
        ({"unknown": True, "before": Offences(unknown=1)}, {"step": -0.1, "unknown_tool": -0.7}),
        ({"rejections": 2, "before": Offences(rejected=1)}, {"step": -0.1, "rejection": -0.4 - 0.32}),
        ({"potential": 2.5, "potential_before": 1.0}, {"milestones": 1.5, "step": -0.1}),
        ({"potential": 1.0, "potential_before": 2.5}, {"milestones": -1.5, "step": -0.1}),
        ({"verdict": LOST, "potential": 2.0, "potential_before": 2.0}, {"step": -0.1, "end": -5.0}),
        ({"verdict": WON, "potential_before": 2.0}, {"milestones": 3.0, "step": -0.1, "end": 15.0}),
        ({"verdict": SPOILED}, {"step": -0.1, "end": -5.0}),
    ],
)
def test_the_dense_profile_names_every_part(changes: dict[str, Any], parts: dict[str, float]) -> None:
    assert rewards.dense(happened(**changes)) == pytest.approx(parts)


@pytest.mark.parametrize(
    ("changes", "reward"),
    [
        ({}, 0.0),
        ({"potential": 5.0}, 0.0),
        ({"verdict": WON, "step": 10}, 1.0),
        ({"verdict": WON, "step": 5}, 1.0),
        ({"verdict": WON, "step": 20}, 0.95),
        ({"verdict": LOST, "potential": 2.5}, 0.2),
        ({"verdict": LOST, "potential": 5.0}, 0.4),
        ({"verdict": SPOILED, "potential": 5.0}, 0.0),
    ],
)
def test_the_score_is_one_number_at_the_end(changes: dict[str, Any], reward: float) -> None:
    assert sum(rewards.score(happened(**changes)).values()) == pytest.approx(reward)


def test_the_sparse_profile_pays_1_for_success_and_for_nothing_else() -> None:
    assert rewards.sparse(happened(verdict=WON)) == {"success": 1.0}
    assert rewards.sparse(happened(verdict=LOST)) == {}
    assert rewards.sparse(happened(potential=5.0)) == {}


# -- whole episodes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chaos", [0.0, 0.5, 1.0])
def test_the_experts_return_is_its_milestones_plus_15_less_penalties(chaos: float) -> None:
    for seed in range(25):
        env = played("expert", seed, chaos)
        assert env.success
        assert abs(total(env) - (whole(env) + 15 - penalties(env))) < NEAR


def half_done(seed: int, chaos: float) -> CompanyEnv:
    """An episode that an expert left in the middle."""
    whole_way = played("expert", seed, chaos)
    env = make(FAMILY, seed=seed, chaos=chaos)
    for turn in whole_way.turns[: 5 * len(whole_way.turns) // 6]:
        env.step(turn.call)
    while not env.done:
        step(env, "ticketdesk.wait", hours=1)
    return env


@pytest.mark.parametrize("chaos", [0.0, 0.5, 1.0])
def test_a_failing_return_is_what_stands_less_5_less_penalties(chaos: float) -> None:
    standing = 0
    for seed in range(15):
        for env in (played("random", seed, chaos), half_done(seed, chaos)):
            assert not env.success
            standing += phi(env) > 0
            assert abs(total(env) - (phi(env) - 5 - penalties(env))) < NEAR
    assert standing > 5


@pytest.mark.parametrize("agent", ["expert", "random", "jittered"])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_parts_of_every_turn_sum_to_its_reward(agent: str, profile: str) -> None:
    for seed in range(5):
        env = played(agent, seed, reward=profile)
        for turn in env.turns:
            assert turn.reward == add_up(turn.parts.values())
        assert env.transcript().footer.total == total(env)


def test_the_score_is_0_until_the_end_and_then_from_0_to_1() -> None:
    for agent in ("expert", "random", "null"):
        for seed in range(10):
            env = played(agent, seed, reward="score")
            assert all(turn.reward == 0 for turn in env.turns[:-1])
            last = env.turns[-1].reward
            assert 0 <= last <= 1
            assert (last >= 0.9) == bool(env.success)
            if env.success:
                assert last == pytest.approx(1.0)
            elif env.verdict and not env.verdict.damage:
                assert last == pytest.approx(0.4 * phi(env) / whole(env))
            else:
                assert last == 0


def test_par_is_how_many_steps_the_expert_takes() -> None:
    for seed in range(5):
        env = played("expert", seed)
        assert par(TaskId.parse(env.task_id)) == env.step_count


def test_the_sparse_profile_pays_once_at_the_end_of_a_success() -> None:
    env = played("expert", 1, reward="sparse")
    assert [turn.reward for turn in env.turns] == [0.0] * (env.step_count - 1) + [1.0]
    assert total(played("null", 1, reward="sparse")) == 0


def test_profiles_change_what_is_paid_and_nothing_else() -> None:
    episodes = [played("random", 4, reward=profile) for profile in PROFILES]
    assert len({tuple((turn.call.tool, turn.digest) for turn in env.turns) for env in episodes}) == 1


# -- who is charged for what -------------------------------------------------------------------------------------------


def test_a_fault_of_the_company_is_never_charged() -> None:
    faults = 0
    for agent in ("expert", "random"):
        for seed in range(20):
            for turn in played(agent, seed, chaos=1.0).turns:
                if turn.reply.code == NO_ANSWER:
                    faults += 1
                    assert not {"step", "failed_call", "unknown_tool"} & set(turn.parts)
    assert faults > 20


def test_an_objection_to_a_correct_request_is_not_charged_as_a_rejection() -> None:
    env = staged(objection="evidence")
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="verified", value=role(env, "entry"))
    request = asked(env)
    step(env, "ticketdesk.wait", hours=72)
    assert env.world.get(Approval, request).code == "needs_evidence"
    assert all("rejection" not in turn.parts for turn in env.turns)


def test_a_rejection_that_was_earned_is_charged_once_and_the_next_one_less() -> None:
    env = staged()
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="verified", value=role(env, "entry"))
    charged = []
    for _ in range(3):
        data = form(env, reference="TAX-1")
        step(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "head"), data=data)
        for _ in range(3):
            step(env, "ticketdesk.wait", hours=72)
        charged += [turn.parts["rejection"] for turn in env.turns[-4:] if "rejection" in turn.parts]
    assert charged == pytest.approx([-0.5, -0.4, -0.32])


def test_unknown_tools_and_failed_calls_cost_their_price_and_less_each_time() -> None:
    env = staged()
    for _ in range(3):
        step(env, "payroll.pay")
        env.step("gibberish")
        step(env, "ticketdesk.get_ticket", ticket_id="T-1")
        step(env, "ticketdesk.get_ticket")
    unknown = [turn.parts["unknown_tool"] for turn in env.turns if "unknown_tool" in turn.parts]
    failed = [turn.parts["failed_call"] for turn in env.turns if "failed_call" in turn.parts]
    assert unknown == pytest.approx([-(0.7**k) for k in range(6)])
    assert failed == pytest.approx([-0.3 * 0.9**k for k in range(6)])


def test_a_step_costs_less_where_there_are_more_of_them() -> None:
    for chaos in ("0", "100"):
        env = staged(chaos)
        while env.step_count < 10:
            step(env, "ticketdesk.wait", hours=1)
        assert {turn.parts["step"] for turn in env.turns} == {-0.1 * min(1.0, 30 / env.max_steps)}


def test_undoing_a_milestone_takes_its_reward_back() -> None:
    env = staged()
    case = {"ticket_id": ticket(env).id, "field": "verified"}
    there = step(env, "ticketdesk.update_ticket", **case, value=role(env, "entry"))
    back = step(env, "ticketdesk.update_ticket", **case, value="")
    again = step(env, "ticketdesk.update_ticket", **case, value=role(env, "entry"))
    paid = [turn.parts["milestones"] for turn in env.turns]
    assert paid == [1.5, -1.5, 1.5]
    assert there.reward == again.reward
    assert there.reward + back.reward < 0


def test_what_held_at_the_start_pays_nothing_and_costs_nothing_when_undone() -> None:
    env = staged()
    assert ticket(env).priority
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="priority", value="")
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="priority", value="low")
    assert all("milestones" not in turn.parts for turn in env.turns)


def test_a_request_that_is_withdrawn_leaves_nothing_to_be_paid_at_the_end() -> None:
    env = staged()
    step(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "head"), data=form(env))
    request, valid = env.turns[-1].reply.data["id"], env.potential
    step(env, "approvalflow.withdraw", approval_id=request)
    assert valid > 0
    assert env.potential == 0
    assert all("milestones" not in turn.parts for turn in env.turns)


# -- what is paid when -------------------------------------------------------------------------------------------------


def test_what_belongs_to_the_right_ending_alone_is_paid_in_the_last_turn() -> None:
    env = staged()
    run_expert(env)
    assert env.setting.ending.signatures
    assert add_up(turn.parts.get("milestones", 0.0) for turn in env.turns[:-1]) == env.shared_potential
    assert env.turns[-1].parts["milestones"] == whole(env) - env.shared_potential
    assert whole(env) - env.shared_potential >= 5  # the request and its approval


def test_recording_the_right_outcome_pays_no_more_on_the_way_than_a_wrong_one() -> None:
    env = staged(conflict="requester")
    paid = []
    for person in (role(env, "compliance"), role(env, "cfo"), ""):
        step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="escalated_to", value=person)
        paid.append(env.turns[-1].parts)
    assert paid[0] == paid[1] == paid[2]


def test_fresh_data_pays_where_the_right_ending_does_not_need_it_and_is_taken_back_at_the_end() -> None:
    env = staged(duplicate="open")
    assert "fresh data read" not in {milestone.name for milestone in env.setting.ending.milestones}
    step(env, "datahub.query_metric", metric_name=role(env, "score"))
    assert env.turns[-1].parts["milestones"] == 0.5
    while not env.done:
        step(env, "ticketdesk.wait", hours=1)
    assert env.turns[-1].parts["milestones"] == -0.5
    assert add_up(turn.parts.get("milestones", 0.0) for turn in env.turns) == env.potential == 0


def rejected(env: CompanyEnv) -> str:
    """An episode with a justified rejection that no reply has shown to the agent yet."""
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="verified", value=role(env, "entry"))
    data = form(env, reference="TAX-1")
    step(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "head"), data=data)
    request = str(env.turns[-1].reply.data["id"])
    env.world.advance(2 * DAY)
    step(env, "ticketdesk.update_ticket", ticket_id=ticket(env).id, field="status", value="in_progress")
    assert env.world.get(Approval, request).status == "rejected"
    return request


@pytest.mark.parametrize(
    ("tool", "named"),
    [("approvalflow.check_status", True), ("approvalflow.list_approvals", False), ("ticketdesk.read_inbox", False)],
)
def test_a_rejection_is_charged_in_the_turn_that_tells_of_it(tool: str, named: bool) -> None:
    env = staged()
    request = rejected(env)
    assert all("rejection" not in turn.parts for turn in env.turns)
    for _ in range(2):
        step(env, tool, **({"approval_id": request} if named else {}))
    assert [turn.parts.get("rejection") for turn in env.turns[-2:]] == [-0.5, None]


def test_a_rejection_that_nothing_tells_of_is_charged_in_the_last_turn() -> None:
    env = staged()
    rejected(env)
    while not env.done:
        step(env, "approvalflow.list_approval_types")
    assert [turn.parts["rejection"] for turn in env.turns if "rejection" in turn.parts] == [-0.5]
    assert "rejection" in env.turns[-1].parts


def test_every_profile_says_what_it_reveals() -> None:
    assert rewards.REVEALS.keys() == PROFILES.keys()


def test_rewards_are_added_one_by_one_so_that_every_python_comes_to_the_same_total() -> None:
    assert add_up([0.1] * 10) == 0.9999999999999999  # `sum` says 1.0 from Python 3.12 on
    assert add_up([1.0, 1e17, -1e17]) == 0.0
    assert add_up([-1e17, 1e17, 1.0]) == 1.0


# -- names -------------------------------------------------------------------------------------------------------------


def test_the_old_name_of_a_profile_warns_once_and_new_transcripts_have_the_new_name() -> None:
    rewards._warn_of_old_name.cache_clear()
    with pytest.warns(FutureWarning, match="'seed' is now called 'dense'") as warned:
        env = make("vendor_onboarding", seed=3, reward="seed")
    assert [warning.filename for warning in warned] == [__file__]
    again = make("vendor_onboarding", seed=3, reward="seed")  # a second warning would be an error here
    assert env.transcript().header.reward == again.transcript().header.reward == "dense"


def test_an_episode_pays_the_same_under_the_old_name_of_its_profile() -> None:
    task = TaskId.parse(make("vendor_onboarding", seed=3, chaos=0.5).task_id)
    now, before = CompanyEnv(task, "dense"), CompanyEnv(task, "seed")
    for env in (now, before):
        run_expert(env)
    assert now.turns == before.turns
    assert before.transcript().header.reward == "seed"
