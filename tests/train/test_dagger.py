"""A model that is told at its own states what an expert would do agrees with it more, and goes on after it was killed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from companyos.core.task import TaskId
from companyos.evaluate.suites.suite import suite_of
from companyos.train.data.labels import Rules, label
from companyos.train.decoding.attempts import LOOP, LOOPED, BoundedEpisode
from companyos.train.decoding.rollout import TimeSpent, rollout
from companyos.train.decoding.speakers import SpokenTurn, speaker_for
from companyos.train.loops.dagger import DaggerRecipe, DaggerRun, run, tasks_of, trees_of
from companyos.train.model.branches import Tree
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.exam import OUTCOMES, examine, sittings, summary
from companyos.train.runs.journal import Journal, Record, records
from tests.helpers import FAMILY, task_id
from tests.train.tiny_model import learner_of, schooled

torch.set_num_threads(1)
RECIPE = DaggerRecipe(families=(FAMILY,), rounds=3, episodes=4, doses=((0.0, 1.0),), rows=4, at_once=2, rate=3e-3, warm_up=1)
COMPARED = ("update", "success", "agreement", "labels", "loss", "loss_branches", "updates", "ended", "decision_accuracy")


def made(working: bool = False) -> Learner:
    return learner_of(schooled())._replace(limit=4096, working=working)


def attempt(learner: Learner, seed: int, greedy: bool, loop: int = 4) -> BoundedEpisode:
    one = BoundedEpisode(task_id(seed), greedy, learner.script_tokenizer(), learner.limit, learner.reserve)
    one.loop = loop
    return one


# -- attempts ----------------------------------------------------------------------------------------------------------


def test_an_attempt_is_cut_off_where_it_repeats_itself_and_is_labelled_all_the_same() -> None:
    learner = made()
    one = attempt(learner, 0, True)
    same = learner.encode(" my_changes\n")
    for _ in range(4):
        assert not one.over
        one.take(SpokenTurn(0, same, [0.0] * len(same)), TimeSpent())
    assert (one.over, one.ended) == (True, LOOP)
    story = one.story()
    assert [len(spans) for _, spans in story.windows] == [4]
    found = label(Rules(), learner.tokenizer_json, story)
    (tree,) = trees_of(story, found)
    assert [branch.at for branch in tree.branches] == [start for start, _ in story.windows[0][1]]
    assert tree.spans == []
    for branch in tree.branches:
        assert learner.decode(branch.tokens).startswith(" get_ticket T-")


def test_an_attempt_that_waits_and_looks_again_is_cut_off_only_after_many_looks() -> None:
    learner = made()
    one, looks = attempt(learner, 0, True), 0
    while not one.over:
        for line in ("wait 1", "my_changes"):
            said = learner.encode(f" {line}\n")
            if not one.over:
                one.take(SpokenTurn(0, said, [0.0] * len(said)), TimeSpent())
        looks += 1
    assert (one.ended, looks) == (LOOP, LOOPED)


def test_an_attempt_ends_when_the_time_is_over() -> None:
    learner = made()
    one = attempt(learner, 0, True)
    one.until, one.clock = 1.0, lambda: 2.0
    said = learner.encode(" my_changes\n")
    one.take(SpokenTurn(0, said, [0.0] * len(said)), TimeSpent())
    assert (one.over, one.ended) == (True, "time")


def test_tasks_of_rounds_are_fresh_and_of_the_train_split() -> None:
    recipe = msgspec.structs.replace(RECIPE, families=(FAMILY, "license_renewal"), episodes=20)
    first, again, second = tasks_of(recipe, 0), tasks_of(recipe, 0), tasks_of(recipe, 1)
    assert first == again
    assert not set(first) & set(second)
    assert {TaskId.parse(one).split for one in first} == {"train"}
    assert [TaskId.parse(one).family for one in first[:4]] == [FAMILY, "license_renewal"] * 2


# -- the loop ----------------------------------------------------------------------------------------------------------


def until(update: int) -> Callable[[Iterator[Record], int], Iterator[Record]]:
    """Breaks a run off after a round: as if it was killed, but for the exit code."""

    def watch(found: Iterator[Record], total: int) -> Iterator[Record]:
        for record in found:
            yield record
            if record["update"] >= update:
                return

    return watch


@pytest.mark.parametrize("working", [True, False])
def test_a_run_that_was_killed_goes_on_the_same_and_learns(tmp_path: Path, working: bool) -> None:
    checkup = checkup_of((FAMILY,), 0.0, 0, 1)

    def learnt(out: str, breaks: list[int]) -> list[dict[str, Any]]:
        for last in breaks:
            journal = Journal(tmp_path / out, {"recipe": RECIPE}, every=0.0)
            run(DaggerRun(made(working), RECIPE, checkup), journal, 0, watch=until(last))
        return [{name: record[name] for name in COMPARED} for record in records(tmp_path / out)]

    whole, broken = learnt("whole", [99]), learnt("broken", [0, 1, 99])
    assert [record["update"] for record in whole] == [0, 1, 2]
    assert broken == whole
    assert whole[-1]["loss"] < whole[0]["loss"]
    assert (tmp_path / "whole" / "model" / "model.safetensors").is_file()


def test_the_rate_decays_to_zero_over_the_run() -> None:
    dagger = DaggerRun(made(), msgspec.structs.replace(RECIPE, rounds=4))
    tree = [Tree([1, 2, 3, 4], [(1, 3)])]
    rates = []
    for number in range(4):
        dagger.standing.round = number
        rates.append(dagger.learn([tree] * 8, iter(()), number / 4)["rate"])
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.9 * RECIPE.rate
    assert rates[-1] < 0.05 * RECIPE.rate


def test_workers_label_and_demonstrate_the_same(tmp_path: Path) -> None:
    recipe = msgspec.structs.replace(RECIPE, rounds=1)
    found = []
    for workers in (0, 1):
        run(DaggerRun(made(), recipe), Journal(tmp_path / str(workers), {}), workers)
        found.append([record["labels"] | {"loss": record["loss"]} for record in records(tmp_path / str(workers))])
    assert found[0] == found[1]


# -- exams -------------------------------------------------------------------------------------------------------------


def test_an_exam_goes_on_with_what_is_missing_and_counts_every_episode_once(tmp_path: Path) -> None:
    learner = made()
    tasks = suite_of("exam", [task_id(seed) for seed in range(3)])
    plan = sittings(tasks.tasks, 1)
    speaker = speaker_for(learner, 4)
    torch.manual_seed(0)
    found = list(examine(learner, speaker, plan, tmp_path))
    assert sorted(one.sitting for one in found) == sorted(plan)
    lines = (tmp_path / OUTCOMES).read_bytes().splitlines(keepends=True)
    (tmp_path / OUTCOMES).write_bytes(b"".join(lines[:4]) + lines[4][:20])  # killed while it wrote
    again = list(examine(learner, speaker, plan, tmp_path))
    greedy = [one for one in found if one.temperature == 0]
    assert sorted(one.sitting for one in again) == sorted(plan)
    assert sorted([one for one in again if one.temperature == 0], key=str) == sorted(greedy, key=str)
    assert len((tmp_path / OUTCOMES).read_bytes().splitlines()) == len(plan)
    numbers = summary(tasks, again)
    assert numbers["temperature 0"]["episodes"] == numbers["temperature 1"]["episodes"] == 3
    assert sum(numbers["temperature 0"]["ended"].values()) == 3


def test_an_exam_counts_loops_as_rollouts_show_them(tmp_path: Path) -> None:
    learner = made()
    tasks = suite_of("exam", [task_id(0)])
    (sat,) = examine(learner, speaker_for(learner, 1), sittings(tasks.tasks, 0), tmp_path)
    (one,) = rollout(speaker_for(learner, 1), [attempt(learner, 0, True, loop=0)], TimeSpent())
    assert (sat.steps, sat.most_alike, sat.success) == (len(one.lines), one.most_alike, bool(one.env.success))
