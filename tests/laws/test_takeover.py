"""Law: the expert can take over an episode at any time, and wins exactly where `lost()` is None."""

from collections import Counter

import pytest

from companyos.agents.adversaries.slips import slip
from companyos.core.errors import Stuck
from companyos.core.world import Streams
from companyos.env import make, run_expert
from tests.laws import DOSES, NAMES, seeds


@pytest.mark.parametrize("from_middle", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_after_slips_the_expert_wins_exactly_where_it_is_not_lost(name: str, from_middle: bool) -> None:
    seen: Counter[tuple[str | None, bool]] = Counter()
    for seed in seeds(150, 1000, fresh=20, name=name):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)], reward="sparse")
        slip(env, Streams(f"slip/{seed}/{from_middle}"), from_middle)
        lost = env.lost()
        again = env.fresh_budget()
        try:
            run_expert(again)
        except Stuck:
            assert lost is not None, env.task_id
        assert bool(again.success) == (lost is None), (env.task_id, lost)
        seen[lost, bool(again.success)] += 1
    print(name, dict(seen))
    assert len(seen) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_the_expert_can_take_over_from_itself_anywhere(name: str) -> None:
    for seed in seeds(6, 60, name=name):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)], reward="sparse")
        solved = env.fork()
        run_expert(solved)
        for turn in solved.turns[:-1]:
            env.step(turn.call)
            again = env.fresh_budget()
            run_expert(again)
            assert again.success, (env.task_id, len(env.turns))
