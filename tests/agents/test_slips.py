"""Slips and failing episodes can be made for every family."""

import pytest

from companyos.agents.adversaries.slips import FAILURES, MAX_SLIPS, expert_turns, slip
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make
from companyos.families import FAMILIES

EVERY_FAMILY = pytest.mark.parametrize("family", FAMILIES)


@EVERY_FAMILY
@pytest.mark.parametrize("from_middle", [False, True])
def test_slips_are_the_last_turns_and_all_succeeded(family: str, from_middle: bool) -> None:
    for seed in range(20):
        env = make(family, seed=seed, chaos=0.5)
        solution = expert_turns(env)
        slips = slip(env, Streams(f"{seed}"), from_middle)
        assert slips.stop == len(env.turns)
        assert len(slips) <= MAX_SLIPS
        assert all(env.turns[number].reply.ok for number in slips)
        assert env.turns[: slips.start] == solution[: slips.start]
        assert from_middle or slips.start == 0


@EVERY_FAMILY
def test_the_experts_turns_from_the_middle_win_the_episode(family: str) -> None:
    env = make(family, seed=3, chaos=0.5)
    for turn in expert_turns(env)[:4]:
        env.step(turn.call)
    for turn in expert_turns(env):
        env.step(turn.call)
    assert env.success


def failures(family: str, kind: str, chaos: float = 0.5) -> list[CompanyEnv]:
    """Play twenty episodes with this kind of failure, and return those that failed."""
    failed = []
    for seed in range(20):
        env = make(family, seed=seed, chaos=chaos)
        FAILURES[kind](env, Streams(f"{seed}"))
        if env.success is False:
            failed.append(env)
    return failed


@EVERY_FAMILY
@pytest.mark.parametrize("kind", FAILURES)
def test_every_kind_of_failure_fails_sooner_or_later(family: str, kind: str) -> None:
    assert failures(family, kind)


@EVERY_FAMILY
def test_every_kind_of_failure_but_the_careless_one_fails_at_chaos_0_too(family: str) -> None:
    assert all(failures(family, kind, chaos=0.0) for kind in FAILURES if kind != "careless")


@EVERY_FAMILY
def test_a_mistaken_failure_is_wrong_only_in_the_closing_call(family: str) -> None:
    for env in failures(family, "mistaken"):
        assert env.verdict is not None
        assert not env.verdict.damage
        missed = [goal for goal, holds in env.verdict.goals.items() if not holds]
        assert missed in (["Ended"], ["Cites"]), env.task_id


@EVERY_FAMILY
def test_a_harmful_failure_leaves_damage(family: str) -> None:
    for env in failures(family, "harmful"):
        assert env.verdict is not None
        assert env.verdict.damage
