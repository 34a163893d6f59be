"""Slips: how work goes wrong, for every family."""

import pytest

from companyos.agents.adversaries.slips import FAILURES, MOST_SLIPS, experts_way, slip
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make
from companyos.families import FAMILIES

EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES)


@EVERY_FAMILY
@pytest.mark.parametrize("from_middle", [False, True])
def test_slips_are_the_last_turns_and_the_company_carried_them_out(family: str, from_middle: bool) -> None:
    for seed in range(20):
        env = make(family, seed=seed, chaos=0.5)
        way = experts_way(env)
        slips = slip(env, Streams(f"{seed}"), from_middle)
        assert slips.stop == len(env.turns)
        assert len(slips) <= MOST_SLIPS
        assert all(env.turns[number].reply.ok for number in slips)
        assert env.turns[: slips.start] == way[: slips.start]
        assert from_middle or slips.start == 0


@EVERY_FAMILY
def test_the_experts_way_from_the_middle_is_the_rest_of_an_episode_that_is_won(family: str) -> None:
    env = make(family, seed=3, chaos=0.5)
    for turn in experts_way(env)[:4]:
        env.step(turn.call)
    for turn in experts_way(env):
        env.step(turn.call)
    assert env.success


def failures(family: str, way: str, chaos: float = 0.5) -> list[CompanyEnv]:
    """The episodes of twenty that this way of working brings to a bad end."""
    found = []
    for seed in range(20):
        env = make(family, seed=seed, chaos=chaos)
        FAILURES[way](env, Streams(f"{seed}"))
        if env.success is False:
            found.append(env)
    return found


@EVERY_FAMILY
@pytest.mark.parametrize("way", FAILURES)
def test_every_bad_way_of_working_fails_sooner_or_later(family: str, way: str) -> None:
    assert failures(family, way)


@EVERY_FAMILY
def test_where_nothing_goes_wrong_by_itself_one_can_still_fail(family: str) -> None:
    assert all(failures(family, way, chaos=0.0) for way in FAILURES if way != "careless")


@EVERY_FAMILY
def test_who_is_mistaken_has_done_all_but_the_closing(family: str) -> None:
    for env in failures(family, "mistaken"):
        assert env.verdict is not None
        assert not env.verdict.damage
        missed = [goal for goal, holds in env.verdict.goals.items() if not holds]
        assert missed in (["Ended"], ["Cites"]), env.task_id


@EVERY_FAMILY
def test_who_is_harmful_leaves_damage(family: str) -> None:
    for env in failures(family, "harmful"):
        assert env.verdict is not None
        assert env.verdict.damage
