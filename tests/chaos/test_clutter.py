"""Tests of the dial that offers distractor tools."""

from itertools import pairwise

import pytest

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.agents.adversaries.careless import HABITS, Careless
from companyos.assurance.prove import prove
from companyos.assurance.twins import twin_tasks
from companyos.chaos import DIALS
from companyos.company import EXTRAS, TOOLBOX
from companyos.env import make, run_expert, task_named
from companyos.env.line_syntax import find_tool
from companyos.families import FAMILIES
from tests.helpers import FAMILY

DIAL = "tool_clutter"
NAMES = {tool.name for tool in EXTRAS}


def extras(seed: int, dose: float, name: str = FAMILY) -> set[str]:
    return set(make(name, seed=seed, chaos={DIAL: dose}).toolbox.names) - set(TOOLBOX.names)


def test_tools_offered_at_a_dose_are_offered_at_a_higher_one_and_none_at_0() -> None:
    for seed in range(200):
        found = [extras(seed, dose) for dose in (0.0, 0.1, 0.3, 0.6, 1.0)]
        assert found[0] == set()
        assert all(fewer <= more for fewer, more in pairwise(found))


def test_at_dose_1_every_extra_occurs_and_none_more_often_than_three_times_in_four() -> None:
    found = [extras(seed, 1.0) for seed in range(300)]
    for name in NAMES:
        assert 0.65 < sum(name in one for one in found) / 300 < 0.82
    assert len({frozenset(one) for one in found}) > 100


def test_the_tools_of_one_episode_tell_nothing_of_another_dial() -> None:
    for seed in range(20):
        assert make(FAMILY, seed=seed, chaos=0.6).toolbox.names == make(FAMILY, seed=seed, chaos={DIAL: 0.6}).toolbox.names


@pytest.mark.parametrize("name", FAMILIES)
def test_twins_have_the_same_tools(name: str) -> None:
    ours = make(name, seed=4, chaos=0.8)
    for _, _, other in twin_tasks(ours.task_id):
        assert make(other).reset().tools == ours.reset().tools


@pytest.mark.parametrize("name", FAMILIES)
def test_the_expert_wins_among_clutter_without_touching_any(name: str) -> None:
    for seed in range(10):
        task_id = str(task_named(name, seed, {DIAL: 1.0}))
        prove(task_id)
        env = make(task_id)
        run_expert(env)
        assert not any(turn.call.tool in NAMES for turn in env.turns)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dose", [0.5, 1.0])
def test_extra_tools_that_are_not_used_change_neither_the_company_nor_the_rewards(name: str, dose: float) -> None:
    for seed in range(6):
        plain, cluttered = (
            make(name, seed=seed, chaos=dict.fromkeys(DIALS, dose) | {DIAL: clutter}) for clutter in (0.0, dose)
        )
        assert plain.digest() == cluttered.digest()
        assert plain.setting.ending == cluttered.setting.ending
        assert plain.max_steps == cluttered.max_steps
        run_expert(plain)
        run_expert(cluttered)
        assert plain.turns == cluttered.turns  # calls, replies, rewards, digests


@pytest.mark.parametrize("name", FAMILIES)
def test_an_agent_that_takes_the_tool_that_sounds_right_loses(name: str) -> None:
    habit = HABITS[DIAL]
    seeds = range(12)
    assert all(play(make(name, seed=seed), Careless(habit)).success for seed in seeds)
    won = sum(bool(play(make(name, seed=seed, chaos={DIAL: 1.0}), Careless(habit)).success) for seed in seeds)
    assert won <= 0.8 * len(seeds)


@pytest.mark.parametrize("agent", ["random", "jittered"])
def test_agents_who_try_things_out_try_what_their_episode_has_and_nothing_else(agent: str) -> None:
    tried = set()
    for seed in range(12):
        env = play(make(FAMILY, seed=seed, chaos={DIAL: 1.0}), make_agent(agent, seed))
        called = {turn.call.tool for turn in env.turns}
        assert called <= set(env.toolbox.names)
        tried |= called & NAMES
    assert tried
    assert all(find_tool(name) for name in tried)
