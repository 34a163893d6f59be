"""A batch advances many episodes at once, and each is the same as one that is stepped alone."""

import os
import signal

import pytest

from companyos import Batch
from companyos.core.calls import EPISODE_OVER, Call
from companyos.env import make, run_expert, task_named
from companyos.env.batch import WorkerLost
from companyos.env.observations import Observation
from companyos.families import SHORT_FAMILIES

TASKS = {number: str(task_named(name, 3, 0.5)) for number, name in enumerate(SHORT_FAMILIES)}
LIST = Call("ticketdesk", "list_tickets")


@pytest.mark.parametrize("workers", [0, 2])
def test_episodes_of_a_batch_equal_episodes_that_are_stepped_alone(workers: int) -> None:
    alone = {number: make(task_id) for number, task_id in TASKS.items()}
    for env in alone.values():
        run_expert(env)
    with Batch(workers) as batch:
        assert batch.begin(TASKS) == {number: make(task_id).look() for number, task_id in TASKS.items()}
        last: dict[int, Observation] = {}
        for turn in range(max(env.step_count for env in alone.values())):
            calls = {number: env.turns[turn].call for number, env in alone.items() if turn < env.step_count}
            last |= batch.step(calls)
        assert {number: (obs.reply, obs.done) for number, obs in last.items()} == {
            number: (env.turns[-1].reply, True) for number, env in alone.items()
        }
        transcripts = batch.transcripts(list(TASKS))
    assert {number: one.to_jsonl() for number, one in transcripts.items()} == {
        number: env.transcript().to_jsonl() for number, env in alone.items()
    }


def test_only_the_named_episodes_advance() -> None:
    with Batch() as batch:
        batch.begin(TASKS)
        assert [(number, obs.step) for number, obs in batch.step({3: LIST, 1: LIST}).items()] == [(3, 1), (1, 1)]
        assert {number: len(one.turns) for number, one in batch.transcripts([0, 1, 3]).items()} == {0: 0, 1: 1, 3: 1}


def test_a_number_can_begin_another_task() -> None:
    with Batch() as batch:
        batch.begin({0: TASKS[0]})
        batch.step({0: LIST})
        assert batch.begin({0: TASKS[1]})[0] == make(TASKS[1]).look()
        assert batch.step({0: LIST})[0].step == 1


def test_an_episode_that_is_over_says_so() -> None:
    expert = make(TASKS[0])
    run_expert(expert)
    with Batch() as batch:
        batch.begin({0: TASKS[0]})
        for turn in expert.turns:
            obs = batch.step({0: turn.call})[0]
        assert obs.done
        assert batch.step({0: LIST})[0].code == EPISODE_OVER


@pytest.mark.parametrize("workers", [0, 2])
def test_a_mistake_names_its_episode_and_the_others_go_on(workers: int) -> None:
    with Batch(workers) as batch:
        with pytest.raises(ValueError, match=r"^episode 1: .*no_such_family"):
            batch.begin({0: TASKS[0], 1: "no_such_family-v4-train-1-0"})
        with pytest.raises(ValueError, match=r"^episode 1: it has not begun$"):
            batch.step({0: LIST, 1: LIST})
        assert len(batch.transcripts([0])[0].turns) == 1


def test_a_killed_worker_is_reported() -> None:
    with Batch(1) as batch:
        batch.begin({0: TASKS[0]})
        [process] = batch._processes
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with pytest.raises(WorkerLost, match="worker process 0"):
            batch.step({0: LIST})
