"""The expert can take over: it wins exactly where `lost()` says that somebody can."""

from collections import Counter

import pytest

from companyos.agents.candidates import Candidates
from companyos.env import CompanyEnv, make, work
from companyos.errors import Stuck
from companyos.told import Told
from companyos.world import Streams
from tests.laws import DOSES, NAMES, seeds


def _slip(env: CompanyEnv, seed: int, from_middle: bool) -> None:
    """Up to six random calls that the company carries out, from the start or from somewhere on the expert's way."""
    streams = Streams(f"slip/{seed}/{from_middle}")
    told = Told(env.setting.case.brief)
    if from_middle:
        solved = env.fork()
        work(solved)
        for turn in solved.turns[: streams.at("cut").between(0, len(solved.turns) - 1)]:
            env.step(turn.call)
            told.hear(turn.reply)
    left = streams.at("slips").between(0, 6)
    for attempt in range(100):
        if not left or env.done:
            return
        call = Candidates(told).sample(streams.at("call", attempt))
        trial = env.fork()
        trial.step(call)
        if trial.turns[-1].reply.ok:
            env.step(call)
            told.hear(env.turns[-1].reply)
            left -= 1


@pytest.mark.parametrize("from_middle", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_after_slips_the_expert_wins_exactly_where_it_is_not_lost(name: str, from_middle: bool) -> None:
    seen: Counter[tuple[str | None, bool]] = Counter()
    for seed in seeds(150, 1000, fresh=20):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)], reward="sparse")
        _slip(env, seed, from_middle)
        lost = env.lost()
        again = env.fresh_budget()
        try:
            work(again)
        except Stuck:
            assert lost is not None, env.task_id
        assert bool(again.success) == (lost is None), (env.task_id, lost)
        seen[lost, bool(again.success)] += 1
    print(name, dict(seen))
    assert len(seen) >= 2


@pytest.mark.parametrize("name", NAMES)
def test_the_expert_can_take_over_from_itself_anywhere(name: str) -> None:
    for seed in seeds(6, 60):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)], reward="sparse")
        solved = env.fork()
        work(solved)
        for turn in solved.turns[:-1]:
            env.step(turn.call)
            again = env.fresh_budget()
            work(again)
            assert again.success, (env.task_id, len(env.turns))
