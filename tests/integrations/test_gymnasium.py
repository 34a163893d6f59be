"""The Gymnasium environments: Gymnasium's checker, vector environments, spaces, and the end of episodes."""

import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

from companyos.core.calls import BAD_ACTION, Call
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.data.splits import TASK_COUNTS
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.families import FAMILIES
from companyos.integrations.gymnasium_env import MAX_LENGTH, CompanyOS, CompanyOSDiscrete
from companyos.integrations.gymnasium_vector import CompanyOSVector
from tests.helpers import STEADY, task_id
from tests.integrations.law import experts_calls, holds
from tests.integrations.pages import run_blocks

IDS = ["CompanyOS-v0", "CompanyOSDiscrete-v0", *(f"CompanyOS/{name}-v0" for name in FAMILIES)]
# Gymnasium never reads a text again from shared memory, once it was read.
VECTORS: dict[str, dict[str, Any]] = {"sync": {}, "async": {"shared_memory": False}}
WAIT = write_line(Call("ticketdesk", "wait", {"hours": 24}))


def opened(named: str, **options: Any) -> tuple[CompanyOS, dict[str, Any]]:
    env = CompanyOS(reward="score")
    _, info = env.reset(seed=1, options={"task_id": named, **options})
    return env, info


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_has_nothing_to_say(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name).unwrapped)


def test_an_experts_episode_gives_the_score_that_it_has_in_process() -> None:
    def played(named: str) -> float:
        env, _ = opened(named)
        total = 0.0
        for call in experts_calls(named):
            _, reward, terminated, truncated, info = env.step(write_line(call))
            total += reward
        assert (terminated, truncated, info["success"]) == (True, False, True)
        return total

    holds(played)


def test_who_resolves_is_terminated_and_who_runs_out_of_steps_is_truncated() -> None:
    env, _ = opened(task_id())
    for number in range(1, env.company.max_steps + 1):
        _, _, terminated, truncated, info = env.step(WAIT)
        assert (terminated, truncated) == (False, number == env.company.max_steps)
    assert info["success"] is False
    env, _ = opened(task_id())
    ticket = env.company.setting.case.ticket_id
    line = f"resolve_ticket {ticket} declined below_minimum []"
    _, _, terminated, truncated, info = env.step(line)
    assert (terminated, truncated, info["success"]) == (True, False, False)


def test_who_resolves_with_the_last_step_is_terminated() -> None:
    env, _ = opened(task_id())
    calls = experts_calls(task_id())
    spare = env.company.max_steps - len(calls)
    for call in [*calls[:-1], *[Call("ticketdesk", "read_inbox")] * spare]:
        assert env.step(write_line(call))[2:4] == (False, False)
    assert env.step(write_line(calls[-1]))[2:4] == (True, False)
    assert env.company.step_count == env.company.max_steps


@pytest.mark.parametrize("name", ["CompanyOS-v0", "CompanyOS/data_deletion-v0", "CompanyOSDiscrete-v0"])
@pytest.mark.parametrize("mode", VECTORS)
def test_vectors_of_environments_see_what_single_ones_see(name: str, mode: str) -> None:
    vector = gymnasium.make_vec(name, num_envs=3, vectorization_mode=mode, vector_kwargs=VECTORS[mode])
    singles = [gymnasium.make(name) for _ in range(3)]
    texts, info = vector.reset(seed=5)
    begun = [single.reset(seed=5 + number) for number, single in enumerate(singles)]
    assert list(texts) == [text for text, _ in begun]
    assert list(info["task_id"]) == [single_info["task_id"] for _, single_info in begun]
    vector.action_space.seed(3)
    over = [False] * 3
    while not any(over) and singles[0].unwrapped.company.step_count < 20:
        actions = vector.action_space.sample()
        texts, rewards, terminated, truncated, _ = vector.step(actions)
        alone = [single.step(action) for single, action in zip(singles, actions, strict=True)]
        assert list(texts) == [seen[0] for seen in alone]
        assert np.allclose(rewards, [seen[1] for seen in alone])
        assert list(zip(terminated, truncated, strict=True)) == [seen[2:4] for seen in alone]
        over = list(terminated | truncated)
    vector.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_the_vector_of_a_batch_returns_what_gymnasiums_own_vector_returns(workers: int) -> None:
    ours = gymnasium.make_vec("CompanyOS/vendor_onboarding-v0", num_envs=3, workers=workers)
    theirs = gymnasium.make_vec("CompanyOS/vendor_onboarding-v0", num_envs=3, vectorization_mode="sync")
    assert isinstance(ours, CompanyOSVector)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    assert_same(ours.reset(seed=5), theirs.reset(seed=5))
    for number in range(make(task_id()).max_steps + 5):  # beyond the end of an episode, so that all begin another task
        actions = [(WAIT, "read_inbx", "list_tickets")[(number + place) % 3] for place in range(3)]
        assert_same(ours.step(actions), theirs.step(actions))
    ours.close()
    theirs.close()


def assert_same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> None:
    """Check that two vectors have returned the same."""
    *values, info = ours
    *expected, expected_info = theirs
    assert [list(value) for value in values] == [list(value) for value in expected]
    assert {key: list(value) for key, value in info.items()} == {key: list(value) for key, value in expected_info.items()}


def test_a_vector_begins_the_next_task_where_one_is_over() -> None:
    vector = gymnasium.make_vec("CompanyOS/vendor_onboarding-v0", num_envs=2, vectorization_mode="sync")
    _, info = vector.reset(seed=5)
    first = list(info["task_id"])
    for _ in range(make(first[0]).max_steps):
        _, _, terminated, truncated, info = vector.step((WAIT, WAIT))
    assert (terminated[0], truncated[0]) == (False, True)
    assert info["task_id"][0] == first[0]
    texts, _, _, _, info = vector.step((WAIT, WAIT))
    assert info["task_id"][0] != first[0]
    assert "step 0 of" in texts[0]


def test_the_seed_draws_the_task_and_every_task_is_of_the_split() -> None:
    for family in ("", "refund_dispute", "quarter_close"):
        env = CompanyOS(family=family, split="validation", chaos=0.25)
        drawn = [env.reset(seed=seed)[1]["task_id"] for seed in (1, 1, 2)]
        drawn += [env.reset()[1]["task_id"] for _ in range(10)]
        assert drawn[0] == drawn[1]
        assert len(set(drawn)) > 8
        for task in map(TaskId.parse, drawn):
            assert (task.split, task.doses) == ("validation", "25")
            assert task.seed < TASK_COUNTS["validation"]
            assert not family or task.family == family


@pytest.mark.parametrize("choices", [{"family": "nothing"}, {"split": "exam"}, {"family": "refund_dispute", "split": ""}])
def test_what_is_not_valid_is_said_at_once(choices: dict[str, str]) -> None:
    with pytest.raises(BadTask, match="valid: "):
        CompanyOS(**choices)


@STEADY
@given(st.lists(st.text(max_size=200), max_size=5), st.text(max_size=600))
def test_whatever_is_written_what_is_read_lies_in_the_space(texts: list[str], prose: str) -> None:
    env, _ = opened(task_id())
    ticket = env.company.setting.case.ticket_id
    prosaic = write_line(Call("ticketdesk", "comment", {"ticket_id": ticket, "text": prose}))
    for text in (*texts, prosaic, "x" * 2 * MAX_LENGTH):
        seen, reward, *_, info = env.step(text)
        assert seen in env.observation_space
        assert isinstance(reward, float)
    assert info["code"] == BAD_ACTION


def test_a_slip_is_explained_and_costs_a_step() -> None:
    env, _ = opened(task_id())
    text, *_ = env.step("read_inbx")
    assert "step 1 of" in text
    assert "did you mean read_inbox?" in text


# -- by numbers --------------------------------------------------------------------------------------------------------


def test_what_the_mask_offers_can_be_done_and_nothing_else() -> None:
    for name in ("vendor_onboarding", "quarter_close"):
        env = CompanyOSDiscrete(family=name)
        env.action_space.seed(1)
        _, info = env.reset(seed=2)
        used = set()
        for _ in range(60):
            mask = info["action_mask"]
            meanings = [env.meaning(number) for number in range(env.action_space.n)]
            assert [call is not None for call in meanings] == list(mask.astype(bool))
            action = env.action_space.sample(mask=mask)
            *_, terminated, truncated, info = env.step(action)
            assert env.company.turns[-1].call == meanings[action]
            assert info["code"] not in (BAD_ACTION, "unknown_tool", "bad_arguments")
            used.add(meanings[action].tool)
            if terminated or truncated:
                _, info = env.reset()
        assert len(used) > 8


def test_a_number_without_a_card_is_no_action() -> None:
    env = CompanyOSDiscrete(family="vendor_onboarding")
    _, info = env.reset(seed=2)
    empty = int(np.flatnonzero(info["action_mask"] == 0)[0])
    text, *_, info = env.step(empty)
    assert info["code"] == BAD_ACTION
    assert text.isascii()


def test_numbers_mean_the_same_tools_in_every_episode_and_the_same_calls_in_the_same_one() -> None:
    first, second, other = (CompanyOSDiscrete(family=name) for name in ("refund_dispute", "refund_dispute", "data_deletion"))
    for env in (first, second, other):
        env.reset(seed=4)
    for number in range(first.action_space.n):
        assert first.meaning(number) == second.meaning(number)
        calls = [call for call in (first.meaning(number), other.meaning(number)) if call is not None]
        assert len({call.tool for call in calls}) <= 1


def test_the_environment_shows_what_the_company_shows() -> None:
    env, info = opened(task_id())
    assert env.render() == make(task_id()).reset().text
    assert info == {"task_id": task_id(), "code": "ok", "success": False}


def test_what_the_page_shows_runs() -> None:
    assert run_blocks("Gymnasium") == 2
