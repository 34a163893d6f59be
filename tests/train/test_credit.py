"""Exact credit: a failed attempt is blamed for the call that lost it, and for no other."""

from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import torch

from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, run_expert
from companyos.evaluate.judge.blame import blame
from companyos.train.decoding.rollout import PlayedWindow
from companyos.train.loops.credit import call_factors
from companyos.train.loops.grpo import AttemptGroup, GrpoRun, Sample, loss_of, run, samples_of
from companyos.train.runs.journal import Journal, records
from tests.helpers import task_id
from tests.train.test_grpo import CHECKUP, RECIPE, attempt
from tests.train.tiny_model import learner_of, tiny_llama, trained_llama

torch.set_num_threads(1)


def closed_wrongly(seed: int, omitted: int) -> CompanyEnv:
    """Return an episode with the expert's calls except the last ones, and then a close without evidence."""
    env, expert = make(task_id(seed)), make(task_id(seed))
    run_expert(expert)
    for turn in expert.turns[:-omitted]:
        env.step(turn.call)
    closing_call = {"ticket_id": env.setting.case.ticket_id, "resolution": "declined", "reason": "unused", "evidence": []}
    env.step(Call("ticketdesk", "resolve_ticket", closing_call))
    return env


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("omitted", [1, 2])
def test_the_call_that_lost_an_attempt_is_blamed_and_no_other(seed: int, omitted: int) -> None:
    lost, won = closed_wrongly(seed, omitted), make(task_id(seed))
    assert lost.done
    assert not lost.success
    run_expert(won)
    factors = call_factors([lost, won], blame=8.0, workers=1)
    assert factors == [[0.0] * (lost.step_count - 1) + [8.0], [1.0] * won.step_count]
    assert blame(lost.transcript()).step == lost.step_count


def test_several_processes_find_the_same_calls() -> None:
    episodes = [closed_wrongly(seed, 1) for seed in range(6)]
    assert call_factors(episodes, 8.0, workers=2) == call_factors(episodes, 8.0, workers=1)


def test_calls_that_are_not_blamed_are_not_learnt_from() -> None:
    task = task_id(0)
    won, lost = attempt(task, as_expert=True), attempt(task, as_expert=False)
    calls_of_lost = len(lost.lines)
    group = AttemptGroup(task, [won, lost], [1.0, 0.0], [[1.0] * len(won.lines), [0.0] * (calls_of_lost - 1) + [8.0]])
    samples = samples_of([group])
    assert sum(len(sample.window.turns) for sample in samples) == len(won.lines) + 1
    assert min(min(sample.advantages) for sample in samples) == pytest.approx(-0.5 * 8)


def test_a_factor_scales_the_gain_of_its_call() -> None:
    model, window = tiny_llama(), PlayedWindow([65, 66, 67, 68], [(1, [-1.0]), (3, [-1.0])])
    whole, halves = Sample(window, 1.0), [Sample(window, 1.0, factors).learnt_from for factors in ([1.0, 0.0], [0.0, 1.0])]
    wide = (0.99, 100.0)  # a clip that does not bind
    parts = [loss_of(model, [half], wide)[0].item() for half in halves]
    assert sum(parts) == pytest.approx(loss_of(model, [whole], wide)[0].item(), rel=1e-4)
    doubled = loss_of(model, [Sample(window, 1.0, [2.0, 2.0])], wide)[0].item()
    assert doubled == pytest.approx(2 * sum(parts), rel=1e-4)


def test_a_run_with_exact_credit_makes_its_updates(tmp_path: Path) -> None:
    recipe = msgspec.structs.replace(RECIPE, credit="exact", reward="dense")
    with closing(Journal(tmp_path, {})) as journal:
        run(GrpoRun(learner_of(trained_llama()), recipe, CHECKUP), journal, updates=1, minutes=60)
    (first, *_) = records(tmp_path)
    assert first["learned_tokens"] > 0
