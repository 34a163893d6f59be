"""The floor: what can be had without doing the work."""

import pytest

from companyos import agents
from companyos.agents.adversaries import SOURCES, BlindScript
from companyos.env import make
from companyos.twins import same_ending, siblings
from tests.laws import NAMES, seeds, size


@pytest.mark.parametrize("agent", ["null", "random", "poll_farmer"])
@pytest.mark.parametrize("name", NAMES)
def test_who_does_not_do_the_work_does_not_win(name: str, agent: str) -> None:
    wins, total = 0, 0.0
    tasks = seeds(60, 500)
    for seed in tasks:
        env = make(name, seed=seed, chaos=0.5)
        agents.play(env, agents.make(agent, seed))
        wins += bool(env.success)
        total += env.transcript().footer.total
    print(f"{name} {agent}: {wins} of {len(tasks)}, mean return {total / len(tasks):.2f}")
    assert wins <= 0.01 * len(tasks)


@pytest.mark.parametrize("name", NAMES)
def test_no_script_that_won_another_seed_wins_blindly(name: str) -> None:
    tasks = seeds(30, 500)
    wins = []
    for source in range(SOURCES):
        envs = [make(name, seed=seed, chaos=0.5, reward="sparse") for seed in tasks]
        wins.append(sum(bool(agents.play(env, BlindScript(source)).success) for env in envs))
    print(f"{name} blind_script, best of {SOURCES}: {max(wins)} of {len(tasks)}")
    assert max(wins) <= 0.01 * len(tasks)


@pytest.mark.parametrize("name", NAMES)
def test_no_blind_script_passes_both_of_an_ending_pair(name: str) -> None:
    pairs = 0
    for seed in seeds(10, 100):
        env = make(name, seed=seed, chaos=0.5, reward="sparse")
        for cause, value, other in siblings(env.task_id):
            theirs = make(other, reward="sparse")
            if same_ending(env, theirs):
                continue
            pairs += 1
            for source in range(size(3, SOURCES)):
                both = all(agents.play(e, BlindScript(source)).success for e in (env, theirs))
                assert not both, (env.task_id, cause.name, value, source)
    print(f"{name}: 0 of {pairs} ending pairs")
    assert pairs
