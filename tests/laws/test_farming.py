"""Law: rewards cannot be farmed, that is, collected without doing the work. Search algorithms try to."""

import pytest

from companyos import agents
from companyos.agents.adversaries.search import Search
from companyos.agents.choices.candidates import Candidates
from companyos.core.calls import Call
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert
from companyos.env.knowledge import Knowledge
from companyos.families import FAMILIES
from tests.laws import DOSES, LONGER, NAMES, seeds

NONSENSE = (
    Call("crm", "guess", {}),
    Call("ticketdesk", "get_ticket", {"ticket_id": "T-0"}),
    Call("approvalflow", "submit_approval", {}),
)


def _return(env: CompanyEnv) -> float:
    return env.transcript().footer.total


def _best_failures(env: CompanyEnv, seed: int) -> list[float]:
    """Return the total rewards of failed episodes that search has optimised.

    These are greedy and beam search, from the start and from states of the expert's episode, and the expert's episode with
    a wrong or missing end.
    """
    solved = env.fork()
    run_expert(solved)
    found = []
    track = env.fork()
    stride = 3 * (8 * LONGER if FAMILIES[env.task_id.split("-")[0]].long else 1)  # a long episode has many states
    for number, turn in enumerate(solved.turns):
        if number % stride == 0:
            for width in (1, 3):
                ends = Search(track, seed + number, width=width, tries=8).run()
                so_far = sum(t.reward for t in track.turns)
                found += [so_far + paid for paid, end in ends if not end.success]
        if turn.call.method == "resolve_ticket":
            wrong = track.fork()
            while not wrong.done:
                wrong.step(Call("ticketdesk", "resolve_ticket", {**turn.call.params, "evidence": []}))
            found.append(_return(wrong))
        track.step(turn.call)
    return found


def _restarts(env: CompanyEnv, seed: int) -> list[float]:
    """Return the total rewards of random episodes that failed."""
    found = []
    for restart in range(3):
        trial = env.fork()
        agents.play(trial, agents.make("random", seed * 10 + restart))
        if not trial.success:
            found.append(_return(trial))
    return found


def _worst_success(env: CompanyEnv) -> float:
    """Return the total reward of a success that wasted as many steps as its budget allows."""
    solved = env.fork()
    run_expert(solved)
    wasteful = env.fork()
    # The margin is for the reads with which an expert that takes over finds earlier changes.
    for number in range(max(0, env.max_steps - len(solved.turns) - 12)):
        wasteful.step(NONSENSE[number % len(NONSENSE)])
    run_expert(wasteful)
    return min(_return(trial) for trial in (solved, wasteful) if trial.success)


@pytest.mark.parametrize("name", NAMES)
def test_no_failure_that_search_can_find_pays_more_than_any_success(name: str) -> None:
    closest = float("inf")
    for seed in seeds(6, 200, name=name):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        worst = _worst_success(env)
        best = max([*_best_failures(env, seed), *_restarts(env, seed)])
        assert best < worst, env.task_id
        closest = min(closest, worst - best)
    print(f"{name}: closest distance of a failure below a success {closest:.2f}")


@pytest.mark.parametrize("name", NAMES)
def test_no_cycle_of_calls_has_a_positive_reward(name: str) -> None:
    for seed in seeds(30, 200, name=name):
        env = make(name, seed=seed, chaos=DOSES[seed % len(DOSES)])
        _wander(env, seed)
        paid, milestones = 0.0, 0.0
        best_at: dict[float, float] = {}  # the total reward at which each potential was reached first
        for turn in env.turns[: len(env.turns) - env.done]:
            paid += turn.reward
            milestones += turn.parts.get("milestones", 0.0)
            key = round(milestones, 6)
            assert paid <= best_at.setdefault(key, paid) + 1e-9, (env.task_id, turn.call)
        assert env.done or milestones == pytest.approx(env.shared_potential)


def _wander(env: CompanyEnv, seed: int) -> None:
    """Play the expert's episode with random calls in between, so that milestones are reached, undone and reached again."""
    streams = Streams(f"wander/{seed}")
    solved = env.fork()
    run_expert(solved)
    told = Knowledge(env.setting.case.brief)
    for number, turn in enumerate(solved.turns[:-1]):
        for call in (turn.call, Candidates(told).sample(streams.at(number))):
            if call.method != "resolve_ticket":
                env.step(call)
                if env.done:
                    return
                told.hear(env.turns[-1].reply)
