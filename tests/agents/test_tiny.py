"""The small learner learns from its own attempts, gives the same result each time, and resumes after a crash."""

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from companyos.agents.agent import play
from companyos.agents.choices.candidate_types import CandidateTypes
from companyos.agents.tiny import Choices, Floats, chances, load, look, packed, save
from companyos.cli.main import main
from companyos.core.task import TaskId
from companyos.env import make, task_named
from companyos.evaluate.runs.roster import agent_named
from companyos.evaluate.suites.suite import suite
from companyos.families import Ending, setting
from companyos.train.runs.journal import Record, records
from companyos.train.tiny.curve import drawn
from companyos.train.tiny.gradient import Gradients, LearningStep, advantages_of, write_gradients
from companyos.train.tiny.learner import Exam, TinyLearner, examine
from companyos.train.tiny.rollout import TinyRecipe, held_out
from companyos.train.tiny.starts import begin, starts
from tests.helpers import FAMILY, task_id
from tools.tiny_table import page

SMALL = TinyRecipe((FAMILY,), chaos=0.0, workers=1, episodes=32)


def taught(recipe: TinyRecipe, batches: int) -> TinyLearner:
    learner = TinyLearner(recipe)
    for _ in range(batches):
        learner.batch(0.0)
    return learner


def test_near_the_end_it_soon_wins_far_more_often_than_at_first() -> None:
    learner = TinyLearner(SMALL)
    first = [learner.batch(0.0)["reward"] for _ in range(8)]
    later = [learner.batch(0.0)["reward"] for _ in range(72)][-16:]
    assert np.mean(later) > 0.3 > 3 * np.mean(first)


def test_the_same_seed_gives_the_same_weights_and_another_seed_different_ones() -> None:
    first, same = taught(SMALL, 3), taught(SMALL, 3)
    other = taught(TinyRecipe((FAMILY,), chaos=0.0, seed=1, workers=1, episodes=32), 3)
    assert (first.pool.weights.output_weights == same.pool.weights.output_weights).all()
    assert (first.pool.weights.output_weights != other.pool.weights.output_weights).any()


def test_an_earlier_run_in_the_same_process_does_not_change_the_weights() -> None:
    fresh = subprocess.run([sys.executable, "-c", FRESH], check=True, timeout=300, capture_output=True, text=True).stdout
    taught(TinyRecipe((FAMILY,), chaos=1.0, seed=5, workers=1, episodes=32), 3)
    assert fresh.strip() == fingerprint(taught(SMALL, 12))


FRESH = "from tests.agents.test_tiny import *; print(fingerprint(taught(SMALL, 12)))"


def fingerprint(learner: TinyLearner) -> str:
    return hashlib.sha256(learner.pool.weights.output_weights.tobytes()).hexdigest()


def test_episodes_start_part_of_the_way_to_the_end_and_can_be_won_from_there() -> None:
    task = TaskId.parse(task_id(5, "25"))
    early, late = starts(task, [0.9, 0.1], CandidateTypes())
    assert 0 < early.env.step_count < late.env.step_count
    assert early.env.lost() is None is late.env.lost()
    assert begin(task, CandidateTypes()).env.step_count == 0


def test_after_three_fifths_of_the_run_all_episodes_start_at_the_beginning() -> None:
    learner = TinyLearner(SMALL)
    learner.batch(0.3)
    assert learner.share_left < 1
    learner.batch(0.6)
    assert learner.share_left == math.inf
    assert TinyLearner(TinyRecipe((FAMILY,), curriculum=False, workers=1, episodes=8)).share_left == math.inf


def test_held_out_tasks_come_from_another_split_and_from_all_families() -> None:
    recipe = TinyRecipe((FAMILY, "expense_report"))
    tasks = held_out(recipe, "validation", 4)
    assert [TaskId.parse(task).family for task in tasks] == [FAMILY, "expense_report"] * 2
    assert {TaskId.parse(task).split for task in tasks} == {"validation"}


@pytest.mark.parametrize("table", [0, 1, 2])
def test_the_computed_gradient_matches_a_finite_difference(table: int) -> None:
    weights = taught(SMALL, 4).pool.weights
    tasks, types = [TaskId.parse(task_id(seed, "25")) for seed in range(4)], CandidateTypes()
    boards = [episode.board for task in tasks for episode in starts(task, [0.2, 0.5, 0.8], types)]
    choices = Choices([look(board) for board in boards], weights, types)
    gains = np.linspace(-1, 1, len(boards)).astype(np.float32)
    taken = choices.begins + np.arange(len(boards)) * 7

    def objective() -> float:
        units = weights.units(choices.boards)
        likely = chances(weights, choices, units).astype(np.float64)
        undecided = -np.add.reduceat(likely * np.log(likely), choices.begins)
        missed = gains - units @ weights.value_weights
        return float((gains * np.log(likely[taken]) + 0.1 * undecided - missed**2 / 2).mean())

    up = Gradients(*(np.zeros_like(array) for array in weights[:4]))
    before = chances(weights, choices, weights.units(choices.boards))[taken]
    write_gradients(weights, LearningStep(choices, taken, before, gains, gains), 0.1, 0.2, up)
    here, length = objective(), float(np.linalg.norm(up[table]))
    weights[table][:] += 1e-3 / length * up[table]
    assert (objective() - here) / 1e-3 == pytest.approx(length, rel=0.03)


def test_the_gradient_is_clipped_once_an_action_has_become_likely_enough() -> None:
    weights = taught(SMALL, 4).pool.weights
    table = CandidateTypes()
    choices = Choices([look(begin(TaskId.parse(task_id(5, "25")), table).board)], weights, table)
    taken, gain = choices.begins + 3, np.ones(1, np.float32)
    likely = chances(weights, choices, weights.units(choices.boards))[taken]

    def pulled(before: Floats) -> bool:
        up = Gradients(*(np.zeros_like(array) for array in weights[:4]))
        write_gradients(weights, LearningStep(choices, taken, before, gain, gain), 0.0, 0.2, up)
        return bool(up.output_weights.any())

    assert pulled(likely / 1.1)
    assert not pulled(likely / 1.3)


def test_an_advantage_counts_later_rewards_until_the_episode_is_over() -> None:
    paid, over = np.array([[0.0], [1.0], [5.0]], np.float32), np.array([[0.0], [1.0], [0.0]], np.float32)
    expected, after = np.array([[0.5], [0.5], [0.5]], np.float32), np.array([2.0], np.float32)
    gains = advantages_of(paid, over, expected, after, discount=0.5, trace=1.0)
    assert gains.ravel().tolist() == [0.0 + 0.5 * 1.0 - 0.5, 1.0 - 0.5, 5.0 + 0.5 * 2.0 - 0.5]


# -- resuming ----------------------------------------------------------------------------------------------------------

RUN = """
import os, sys
from pathlib import Path
from companyos.train.tiny.learner import ArrayJournal, TinyLearner, train
from companyos.train.tiny.rollout import TinyRecipe

def main(folder, last):
    recipe = TinyRecipe(("vendor_onboarding",), episodes=32)
    learner = TinyLearner(recipe)
    def show(record):
        if record["update"] == int(last):
            os._exit(9)
    train(learner, ArrayJournal(Path(folder), {"recipe": recipe}, every=0.0), (3600.0, 64.0), show)
    learner.close()

if __name__ == "__main__":
    main(*sys.argv[1:])
"""


NEVER = -1


def run(script: Path, folder: Path, killed_at: int) -> int:
    return subprocess.run([sys.executable, script, folder, str(killed_at)], check=False, timeout=300).returncode


def weights_in(folder: Path) -> Floats:
    with np.load(folder / "policy.npz") as kept:
        speaks: Floats = kept["speaks"]
        return speaks


def timeless(record: Record) -> Record:
    return {name: value for name, value in record.items() if name != "elapsed"}


def test_a_killed_run_resumes_and_gives_the_same_result(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(RUN)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(script, whole, NEVER) == 0
    assert run(script, broken, 48) == 9
    assert run(script, broken, NEVER) == 0
    assert (weights_in(whole) == weights_in(broken)).all()
    assert [timeless(record) for record in records(whole)] == [timeless(record) for record in records(broken)]


# -- the learnt policy -------------------------------------------------------------------------------------------------


def test_a_learnt_policy_plays_whole_episodes_and_is_reproducible(tmp_path: Path) -> None:
    path = tmp_path / "policy.npz"
    save(path, taught(SMALL, 4).pool.weights)
    plays = [
        play(make(task_id(split="test")), agent_named(f"tiny:{path}").open().agent("a task", trial)) for trial in (0, 0, 1)
    ]
    assert all(env.done for env in plays)
    calls = [[turn.call for turn in env.turns] for env in plays]
    assert calls[0] == calls[1] != calls[2]


@pytest.mark.parametrize("wrong", ["nowhere.npz", "text.npz", "small.npz"])
def test_a_file_that_is_not_a_policy_gives_a_one_line_error(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "small.npz", speaks=np.zeros((2, 2)))
    assert main(["eval", "--agent", f"tiny:{tmp_path / wrong}", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("companyos: unknown policy")
    assert error.count("\n") == 1


def test_a_saved_policy_is_loaded_unchanged(tmp_path: Path) -> None:
    weights = taught(SMALL, 3).pool.weights
    save(tmp_path / "policy.npz", weights)
    read = packed(load(str(tmp_path / "policy.npz")))
    for name, written in packed(weights).items():
        assert (written == read[name]).all(), name


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--family", "gardening"], "unknown family 'gardening'"),
        (["--minutes", "0"], "'0' is not a number above 0"),
        (["--chaos", "2"], "'2' is not a number from 0 to 1"),
        (["--workers", "0"], "'0' is not a number from 1 up"),
        (["--seed", "-1"], "'-1' is not a whole number from 0 up"),
        (["--family", FAMILY, "--out", "full"], "neither empty nor the folder of a training run"),
    ],
)
def test_bad_input_gives_a_one_line_error(
    given: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    assert main(["train", "tiny", *given]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_curve_draws_its_points_at_their_places() -> None:
    lines = drawn([(0.0, 0.0)], [(0.99, 1.0)], "so far").splitlines()
    assert lines[0].endswith("#")
    assert lines[11].startswith("  0 % |.")
    assert lines[-1].strip() == "so far"


# -- the exam ----------------------------------------------------------------------------------------------------------


def test_an_exam_compares_the_policy_with_baselines_that_did_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("companyos.train.tiny.learner.EXAMINED", 6)
    learner = taught(TinyRecipe((FAMILY, "expense_report"), chaos=0.0, workers=1, episodes=16), 2)
    exam = examine(learner, minutes=1.0)
    assert exam.tasks == 6
    assert set(exam.families) == {FAMILY, "expense_report"}
    assert sum(exam.families.values()) / 2 == pytest.approx(exam.policy)
    assert 0 <= exam.anyhow <= 1
    assert 0 <= exam.untaught <= 1
    examined = held_out(learner.recipe, "test", 6, 200)
    assert not {*examined} & {*held_out(learner.recipe, "test", 400)}, "settings were chosen by the first 200 of each family"
    assert exam.ending in [(ending.resolution, ending.reason) for ending in map(ending_of, examined)]


def test_the_command_names_the_tasks_of_its_exam_and_writes_them_as_a_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("companyos.train.tiny.learner.EXAMINED", 4)
    out = tmp_path / "tiny"
    options = ["--family", FAMILY, "--chaos", "0.25", "--updates", "1", "--workers", "1", "--out", str(out)]
    assert main(["train", "tiny", *options]) == 0
    printed = capsys.readouterr().out
    assert f"Success on new seeds of what it was trained on, {FAMILY} at chaos 0.25:" in printed
    assert suite(str(out / "held-out.txt")).tasks == tuple(str(task_named(FAMILY, 200 + n, 0.25, "test")) for n in range(4))
    command = printed.partition("companyos eval ")[2].splitlines()[0]
    assert main(["eval", *command.split(), "--workers", "1"]) == 0
    assert "on held-out, version" in capsys.readouterr().out


def ending_of(task_id: str) -> Ending:
    return setting(TaskId.parse(task_id)).ending


def test_the_page_shows_every_seed_and_the_median() -> None:
    exams = {
        seed: Exam(share, {}, 0.2, ("declined", "below_minimum"), 0.01, 0.0, 200, 5.0, 10, 1000)
        for seed, share in SHARES.items()
    }
    text = page(5.0, exams, {seed: exam for seed, exam in exams.items() if seed != 1}, None)
    assert all(f"| {seed} | {share:.1%} |" in text for seed, share in SHARES.items())
    assert "Median of 3 seeds: **70.0%**" in text
    assert "Median: **75.0%**" in text


SHARES = {0: 0.7, 1: 0.6, 2: 0.8}
