"""Law: blame finds the call at which an episode was lost."""

import pytest

from companyos.agents import make as make_agent
from companyos.agents import play
from companyos.env import make, run_expert
from companyos.evaluate.judge.blame import blame
from tests.evaluate.planted import planted
from tests.laws import DOSES, NAMES, seeds, size

SIZES = {"act": (6, 25), "slip": (2, 9), "time": (2, 9)}


@pytest.mark.parametrize("sort", SIZES)
@pytest.mark.parametrize("name", NAMES)
def test_planted_failures_are_blamed_on_the_call_that_was_planted(name: str, sort: str) -> None:
    failures = planted(name, sort, size(*SIZES[sort], name))
    wrong = []
    for failure in failures:
        found = blame(failure.transcript)
        if (found.kind, found.step) != (failure.kind, failure.step):
            wrong.append((found.task_id, failure.kind, failure.step, found))
    print(f"planted {name} {sort}: {len(failures) - len(wrong)} of {len(failures)}")
    assert not wrong


@pytest.mark.parametrize("agent", ["jittered", "naive", "constant"])
@pytest.mark.parametrize("name", NAMES)
def test_the_expert_wins_from_every_state_of_a_success(name: str, agent: str) -> None:
    for seed in seeds(3, 30, name=name):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)], reward="sparse")
        won = play(env.fork(), make_agent(agent, seed))
        for turn in won.turns[:-1] if won.success else ():
            env.step(turn.call)
            again = env.fresh_budget()
            run_expert(again)
            assert again.success, (env.task_id, len(env.turns))
