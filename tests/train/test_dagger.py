"""DAgger labels a model's own states and learns from the labels, and a killed run continues exactly."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from companyos.core.task import TaskId
from companyos.evaluate.suites.suite import suite_of
from companyos.train.data.labels import LabelRules, label
from companyos.train.decoding.attempts import LOOP, LOOP_CALLS, BoundedEpisode
from companyos.train.decoding.rollout import TimeSpent, rollout
from companyos.train.decoding.speakers import SpokenTurn, speaker_for
from companyos.train.loops.dagger import DaggerRecipe, DaggerRun, run, tasks_of, trees_of
from companyos.train.model.branches import Tree
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.exam import OUTCOMES, examine, planned_episodes, summary
from companyos.train.runs.journal import Journal, Record, records
from tests.helpers import FAMILY, task_id
from tests.train.tiny_model import learner_of, trained_llama

torch.set_num_threads(1)
RECIPE = DaggerRecipe(families=(FAMILY,), rounds=3, episodes=4, doses=((0.0, 1.0),), rows=4, at_once=2, rate=3e-3, warm_up=1)
COMPARED = ("update", "success", "agreement", "labels", "loss", "loss_branches", "updates", "ended", "decision_accuracy")


def new_learner(working: bool = False) -> Learner:
    return learner_of(trained_llama())._replace(limit=4096, working=working)


def attempt(learner: Learner, seed: int, greedy: bool, loop: int = 4) -> BoundedEpisode:
    episode = BoundedEpisode(task_id(seed), greedy, learner.script_tokenizer(), learner.limit, learner.reserve)
    episode.max_repeats = loop
    return episode


# -- attempts ----------------------------------------------------------------------------------------------------------


def test_an_attempt_that_repeats_itself_is_cut_off_and_still_labelled() -> None:
    learner = new_learner()
    episode = attempt(learner, 0, True)
    repeated_call = learner.encode(" my_changes\n")
    for _ in range(4):
        assert not episode.over
        episode.take(SpokenTurn(0, repeated_call, [0.0] * len(repeated_call)), TimeSpent())
    assert (episode.over, episode.ended) == (True, LOOP)
    record = episode.record()
    assert [len(spans) for _, spans in record.windows] == [4]
    labelled = label(LabelRules(), learner.tokenizer_json, record)
    (tree,) = trees_of(record, labelled)
    assert [branch.at for branch in tree.branches] == [start for start, _ in record.windows[0][1]]
    assert tree.spans == []
    for branch in tree.branches:
        assert learner.decode(branch.tokens).startswith(" get_ticket T-")


def test_an_attempt_that_waits_between_equal_calls_is_cut_off_only_after_many() -> None:
    learner = new_learner()
    episode, rounds = attempt(learner, 0, True), 0
    while not episode.over:
        for line in ("wait 1", "my_changes"):
            turn = learner.encode(f" {line}\n")
            if not episode.over:
                episode.take(SpokenTurn(0, turn, [0.0] * len(turn)), TimeSpent())
        rounds += 1
    assert (episode.ended, rounds) == (LOOP, LOOP_CALLS)


def test_an_attempt_ends_when_the_time_is_over() -> None:
    learner = new_learner()
    episode = attempt(learner, 0, True)
    episode.until, episode.clock = 1.0, lambda: 2.0
    turn = learner.encode(" my_changes\n")
    episode.take(SpokenTurn(0, turn, [0.0] * len(turn)), TimeSpent())
    assert (episode.over, episode.ended) == (True, "time")


def test_tasks_of_rounds_are_fresh_and_of_the_train_split() -> None:
    recipe = msgspec.structs.replace(RECIPE, families=(FAMILY, "license_renewal"), episodes=20)
    first, first_again, second = tasks_of(recipe, 0), tasks_of(recipe, 0), tasks_of(recipe, 1)
    assert first == first_again
    assert not set(first) & set(second)
    assert {TaskId.parse(task).split for task in first} == {"train"}
    assert [TaskId.parse(task).family for task in first[:4]] == [FAMILY, "license_renewal"] * 2


# -- the loop ----------------------------------------------------------------------------------------------------------


def until(update: int) -> Callable[[Iterator[Record], int], Iterator[Record]]:
    """Return a `watch` that stops a run after a round, as if it was killed."""

    def watch(log: Iterator[Record], total: int) -> Iterator[Record]:
        for record in log:
            yield record
            if record["update"] >= update:
                return

    return watch


@pytest.mark.parametrize("working", [True, False])
def test_the_loss_falls_and_a_killed_run_continues_exactly(tmp_path: Path, working: bool) -> None:
    checkup = checkup_of((FAMILY,), 0.0, 0, 1)

    def log_of(out: str, last_rounds: list[int]) -> list[dict[str, Any]]:
        for last in last_rounds:
            journal = Journal(tmp_path / out, {"recipe": RECIPE}, every=0.0)
            run(DaggerRun(new_learner(working), RECIPE, checkup), journal, 0, watch=until(last))
        return [{name: record[name] for name in COMPARED} for record in records(tmp_path / out)]

    whole, resumed = log_of("whole", [99]), log_of("resumed", [0, 1, 99])
    assert [record["update"] for record in whole] == [0, 1, 2]
    assert resumed == whole
    assert whole[-1]["loss"] < whole[0]["loss"]
    assert (tmp_path / "whole" / "model" / "model.safetensors").is_file()


def test_the_rate_decays_to_zero_over_the_run() -> None:
    dagger = DaggerRun(new_learner(), msgspec.structs.replace(RECIPE, rounds=4))
    tree = [Tree([1, 2, 3, 4], [(1, 3)])]
    rates = []
    for number in range(4):
        dagger.progress.round = number
        rates.append(dagger.learn([tree] * 8, iter(()), number / 4)["rate"])
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.9 * RECIPE.rate
    assert rates[-1] < 0.05 * RECIPE.rate


def test_workers_label_and_demonstrate_the_same(tmp_path: Path) -> None:
    recipe = msgspec.structs.replace(RECIPE, rounds=1)
    logs = []
    for workers in (0, 1):
        run(DaggerRun(new_learner(), recipe), Journal(tmp_path / str(workers), {}), workers)
        logs.append([record["labels"] | {"loss": record["loss"]} for record in records(tmp_path / str(workers))])
    assert logs[0] == logs[1]


# -- exams -------------------------------------------------------------------------------------------------------------


def test_a_resumed_exam_plays_only_what_is_missing(tmp_path: Path) -> None:
    learner = new_learner()
    suite = suite_of("exam", [task_id(seed) for seed in range(3)])
    plan = planned_episodes(suite.tasks, 1)
    speaker = speaker_for(learner, 4)
    torch.manual_seed(0)
    episodes = list(examine(learner, speaker, plan, tmp_path))
    assert sorted(episode.key for episode in episodes) == sorted(plan)
    lines = (tmp_path / OUTCOMES).read_bytes().splitlines(keepends=True)
    (tmp_path / OUTCOMES).write_bytes(b"".join(lines[:4]) + lines[4][:20])  # killed while it wrote
    resumed = list(examine(learner, speaker, plan, tmp_path))
    greedy = [episode for episode in episodes if episode.temperature == 0]
    assert sorted(episode.key for episode in resumed) == sorted(plan)
    assert sorted([episode for episode in resumed if episode.temperature == 0], key=str) == sorted(greedy, key=str)
    assert len((tmp_path / OUTCOMES).read_bytes().splitlines()) == len(plan)
    numbers = summary(suite, resumed)
    assert numbers["temperature 0"]["episodes"] == numbers["temperature 1"]["episodes"] == 3
    assert sum(numbers["temperature 0"]["ended"].values()) == 3


def test_an_exam_counts_loops_as_rollouts_show_them(tmp_path: Path) -> None:
    learner = new_learner()
    suite = suite_of("exam", [task_id(0)])
    (exam_episode,) = examine(learner, speaker_for(learner, 1), planned_episodes(suite.tasks, 0), tmp_path)
    (episode,) = rollout(speaker_for(learner, 1), [attempt(learner, 0, True, loop=0)], TimeSpent())
    assert (exam_episode.steps, exam_episode.success) == (len(episode.lines), bool(episode.env.success))
    assert exam_episode.most_alike == episode.highest_count
