"""The PettingZoo environment: PettingZoo's checker, and departments that work together."""

import warnings

import pytest
from pettingzoo.test import parallel_api_test

from companyos.core.calls import Program
from companyos.core.errors import BadChoice
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.env.multi_actor import cooperate, expert
from companyos.integrations.pettingzoo_env import CompanyOS, crossing, parallel_env
from tests.env.test_multi_actor import CROSSING, handed_over
from tests.integrations.law import score_of
from tests.integrations.pages import run_blocks

WAIT = "wait 24"


def played_by_experts(env: CompanyOS, task_id: str) -> float:
    """What everybody earns when experts sit in all chairs; who has nothing left to do waits."""
    env.reset(options={"task_id": task_id})
    at_work: dict[str, Program] = {agent: expert(env.company, env.handle(agent)) for agent in env.agents}
    due = {agent: write_line(next(program)) for agent, program in at_work.items()}
    total = 0.0
    while env.agents:
        _, rewards, _, _, infos = env.step({agent: due[agent] for agent in env.agents})
        total += rewards[env.possible_agents[0]]
        for agent in [agent for agent in env.agents if infos[agent]["acted"] and agent in at_work]:
            try:
                due[agent] = write_line(at_work[agent].send(env.company.look(env.handle(agent)).reply))
            except StopIteration:
                del at_work[agent]
                due[agent] = WAIT
    return total


@pytest.mark.parametrize("name", CROSSING)
def test_pettingzoos_checker_has_nothing_to_say(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel_env(name), num_cycles=1000)
    assert capsys.readouterr().out == "Passed Parallel API test\n"


def test_it_is_there_for_all_work_that_crosses_departments() -> None:
    assert sorted(crossing()) == sorted(CROSSING)
    with pytest.raises(BadChoice, match="valid: incident_response"):
        parallel_env("vendor_onboarding")


@pytest.mark.parametrize("dose", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", CROSSING)
def test_experts_cooperate_to_win_every_case_for_the_score_that_they_have_in_process(name: str, dose: float) -> None:
    env = parallel_env(name, reward="score")
    for seed in range(12):
        together = handed_over(name, seed, dose)
        cooperate(together)
        alone = make(together.task_id, reward="score", actors=together.actors[1:])
        cooperate(alone)
        assert alone.success
        assert played_by_experts(env, together.task_id) == pytest.approx(max(turn.reward for turn in alone.turns)), seed
        assert env.company.success
    assert score_of(alone) > 0


@pytest.mark.parametrize("name", CROSSING)
def test_agents_are_departments_the_same_in_every_task(name: str) -> None:
    env = parallel_env(name)
    assert len(env.possible_agents) >= 3
    for seed in range(40):
        texts, _ = env.reset(seed=seed)
        assert list(env._handles) == env.possible_agents
        assert list(texts) == env.agents == env.possible_agents


def test_the_seed_draws_the_task() -> None:
    env = parallel_env("data_deletion")
    drawn = [env.reset(seed=seed)[1]["Compliance"]["task_id"] for seed in (1, 1, 2)]
    drawn.append(env.reset()[1]["Compliance"]["task_id"])
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_all_are_truncated_when_the_budget_of_the_one_who_works_the_task_is_spent() -> None:
    env = parallel_env("data_deletion")
    env.reset(seed=1)
    for _ in range(env.company.max_steps):
        assert env.agents == env.possible_agents
        _, _, terminated, truncated, infos = env.step(dict.fromkeys(env.agents, "read_inbox"))
    assert not env.agents
    assert set(truncated.values()) == {True}
    assert set(terminated.values()) == {False}
    assert not infos["Compliance"]["success"]


def test_who_has_spent_a_budget_of_their_own_is_done_before_the_others() -> None:
    env = parallel_env("data_deletion")
    env.reset(seed=1)
    for _ in range(env.company.max_steps):
        _, _, terminated, truncated, _ = env.step({"Legal": "read_inbox"})
    assert truncated == {"Compliance": False, "Legal": True, "Engineering": False}
    assert set(terminated.values()) == {False}
    assert env.agents == ["Compliance", "Engineering"]


def test_whoever_waits_while_others_work_makes_no_step() -> None:
    env = parallel_env("data_deletion")
    env.reset(seed=1)
    texts, _, _, _, infos = env.step({"Compliance": "read_inbx", "Legal": WAIT, "Engineering": WAIT})
    assert [infos[agent]["acted"] for agent in env.agents] == [True, False, False]
    assert "did you mean read_inbox?" in texts["Compliance"]
    assert "step 0 of" in texts["Legal"]


def test_what_the_page_shows_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_blocks("PettingZoo") == 1
    assert capsys.readouterr().out.startswith("['Compliance', 'Legal', 'Engineering']\n{'Compliance': True, 'Legal': False,")
