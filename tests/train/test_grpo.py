"""The lean loop learns from groups, tells twins apart, and goes on after it was killed as if it had not been."""

from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model

from companyos.assurance.twins import twins_with_other_ending
from companyos.env import make, run_expert
from companyos.env.line_syntax import write_line
from companyos.train.data.script import spoken
from companyos.train.decoding.rollout import ModelEpisode, PlayedWindow, TimeSpent
from companyos.train.decoding.speakers import SpokenTurn
from companyos.train.loops.grpo import AttemptGroup, GrpoRecipe, GrpoRun, Sample, grouped, loss_of, run, samples_of
from companyos.train.model.forward import by_length
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.journal import CHECKPOINT, Journal, records
from tests.helpers import STEADY, task_id
from tests.train.tiny_model import learner_of, schooled, tiny_llama

torch.set_num_threads(1)
TOKENIZER = learner_of(tiny_llama()).script_tokenizer()
RECIPE = GrpoRecipe(
    families=("vendor_onboarding",),
    tasks=4,
    group=3,
    doses=(0.0,),
    reward="dense",  # pays for calls that are calls, which is about what a tiny model can learn
    rate=1e-2,
    batch=4096,
    rows=10,
    reserve=18,
)


CHECKUP = checkup_of(("vendor_onboarding",), 0.0, tasks=1, pairs=1)


def beginner(kind: type[GrpoRun] = GrpoRun) -> GrpoRun:
    model = schooled()
    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    return kind(learner_of(get_peft_model(model, config)), RECIPE, CHECKUP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run of two updates."""
    made = tmp_path_factory.mktemp("runs") / "two"
    with closing(Journal(made, {})) as journal:
        run(beginner(), journal, updates=2, minutes=60)
    return made


def attempt(task: str, well: bool) -> ModelEpisode:
    """An episode that was worked by the expert, or by somebody who says nothing that makes sense."""
    one, expert = ModelEpisode(task, False, TOKENIZER, limit=8192), make(task)
    run_expert(expert)
    lines = [write_line(turn.call) for turn in expert.turns] if well else ["hm"] * expert.max_steps
    for line in lines:
        tokens = TOKENIZER.encode(spoken(line))
        one.take(SpokenTurn(0, tokens, [-1.0] * len(tokens)), TimeSpent())
    return one


def sample(size: int = 8, advantage: float = 1.0, logprob: float = -1.0) -> Sample:
    """Of a script whose second half is a call."""
    return Sample(PlayedWindow([65 + n % 26 for n in range(size)], [(size // 2, [logprob] * (size - size // 2))]), advantage)


def likelihood(model: Any, one: Sample) -> float:
    """The log probability of a sample's call."""
    ((start, logprobs),) = one.window.calls
    with torch.no_grad():
        whole = model(input_ids=torch.tensor([one.window.tokens])).logits[0].log_softmax(-1)
    return float(sum(whole[at - 1, one.window.tokens[at]] for at in range(start, start + len(logprobs))))


# -- groups ------------------------------------------------------------------------------------------------------------


@STEADY
@given(st.lists(st.floats(-10, 10), min_size=1, max_size=16))
def test_advantages_of_a_group_sum_to_zero(rewards: list[float]) -> None:
    group = AttemptGroup(task_id(), [], rewards)
    assert sum(group.advantages) == pytest.approx(0.0, abs=1e-9)
    assert group.teaches == any(reward != rewards[0] for reward in rewards)


@cache
def twin_tasks() -> tuple[str, str]:
    return task_id(1), twins_with_other_ending(task_id(1))[0][1]


@cache
def some_attempts(well: bool) -> tuple[ModelEpisode, ModelEpisode]:
    one, other = (attempt(task, well) for task in twin_tasks())
    return one, other


@pytest.mark.parametrize(("won", "paid"), [((2, 2), 0.2), ((2, 1), 0.0), ((1, 3), 0.0), ((3, 3), 0.2)])
def test_twins_that_are_told_apart_are_worth_more(won: tuple[int, int], paid: float) -> None:
    """Of three attempts at each: more than half of both have to succeed, and it is the successes that gain."""
    attempts = [some_attempts(n < wins)[which] for which, wins in enumerate(won) for n in range(3)]
    groups = grouped([twin_tasks()], attempts, bonus=0.2)
    for group, wins in zip(groups, won, strict=True):
        gained = [reward - one.total for reward, one in zip(group.rewards, group.attempts, strict=True)]
        assert gained == pytest.approx([paid] * wins + [0.0] * (3 - wins))


def test_tasks_alone_are_paid_their_score() -> None:
    good, bad = (some_attempts(well)[0] for well in (True, False))
    (group,) = grouped([(task_id(1),)], [good, good], bonus=0.2)
    assert group.rewards == [good.total] * 2
    assert good.total > 0.9 > 0.4 >= bad.total


def test_a_group_of_equals_teaches_nothing() -> None:
    lean = beginner()
    before = {name: weight.detach().clone() for name, weight in lean.weights.items()}
    good = some_attempts(True)[0]
    assert lean.learn(grouped([(task_id(1),)], [good, good], bonus=0.2)) == {"teaching": 0.0}
    assert all(torch.equal(weight, before[name]) for name, weight in lean.weights.items())


def test_every_token_that_was_drawn_is_learned_from_once() -> None:
    groups = grouped([twin_tasks()], [*some_attempts(True)], bonus=0.2)
    drawn = [logprob for one in samples_of(groups) for _, logprobs in one.window.calls for logprob in logprobs]
    calls = [write_line(turn.call) for group in groups for one in group.attempts for turn in one.env.turns]
    assert len(drawn) == sum(len(TOKENIZER.encode(spoken(call))) for call in calls)


# -- the loss ----------------------------------------------------------------------------------------------------------


def test_what_was_better_becomes_likelier_and_what_was_worse_less_likely() -> None:
    model = tiny_llama()
    good, bad = sample(8, 1.0), Sample(PlayedWindow([40, 41, 42, 43], [(2, [-5.0, -5.0])]), -1.0)
    before = likelihood(model, good), likelihood(model, bad)
    loss, _ = loss_of(model, [good, bad], clip=(100.0, 100.0))
    loss.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.01 * weight.grad
    assert likelihood(model, good) > before[0]
    assert likelihood(model, bad) < before[1]


@pytest.mark.parametrize(
    ("logprob", "advantage", "moves"),
    [(-100, 1.0, False), (-9, 1.0, False), (-9, -1.0, True), (9, 1.0, True), (9, -1.0, False)],
)
def test_no_token_moves_further_than_the_clip(logprob: float, advantage: float, moves: bool) -> None:
    """Of a token that was drawn at a far smaller probability, only less likely would be a move back."""
    model = tiny_llama()
    loss, (clipped, _) = loss_of(model, [sample(8, advantage, logprob)], clip=(0.2, 0.28))
    loss.backward()
    assert bool(model.lm_head.weight.grad.any()) == moves
    assert bool(clipped) != moves


def test_the_loss_is_that_of_the_whole_forward_pass() -> None:
    """On call tokens alone, each at the ratio of what it is to what it was drawn at."""
    model, ours = tiny_llama(), sample(10, 2.0, -5.5)
    loss, _ = loss_of(model, [ours, sample(4, 1.0, -5.5)], clip=(100.0, 100.0))
    expected = 0.0
    for one in (ours, sample(4, 1.0, -5.5)):
        with torch.no_grad():
            whole = model(input_ids=torch.tensor([one.window.tokens])).logits[0].log_softmax(-1)
        ((start, logprobs),) = one.window.calls
        for at in range(start, start + len(logprobs)):
            expected -= float((whole[at - 1, one.window.tokens[at]] + 5.5).exp()) * one.advantage
    assert loss.item() == pytest.approx(expected, rel=1e-4)


@STEADY
@given(st.lists(st.integers(2, 40), max_size=30), st.integers(1, 100))
def test_batches_hold_every_sample_once_and_no_more_tokens_than_fit(sizes: list[int], most: int) -> None:
    samples = [sample(size) for size in sizes]
    made = list(by_length(samples, len, most))
    assert sorted(map(id, (one for batch in made for one in batch))) == sorted(map(id, samples))
    for batch in made:
        assert len(batch) == 1 or len(batch) * max(len(one.window.tokens) for one in batch) <= most


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_two_updates_run(folder: Path) -> None:
    first, second, last = records(folder)
    assert [record["update"] for record in (first, second, last)] == [0, 1, 2]
    assert first["teaching"] > 0
    assert first["learned_tokens"] > 0
    assert 0 < first["invalid"] < 1
    assert {"reward", "success", "families", "twins", "routing", "tokens_per_second", "episodes_per_second"} <= second.keys()
    assert set(first["ours"]) == {"env", "text", "tasks", "judge", "checkup"}
    assert "checkup" not in second
    assert first["checkup"].keys() == last["checkup"].keys()
    assert first["checkup"]["episodes"] == 3


def test_tokens_are_drawn_as_likely_as_the_loss_finds_them(folder: Path) -> None:
    """Adapters are merged into what is played with, and sit beside the weights in what is learned with."""
    assert all(record["apart"] < 1e-4 for record in records(folder) if "apart" in record)


class Killed(GrpoRun):
    """One that is killed while it learns for the second time."""

    def learn(self, groups: Sequence[AttemptGroup]) -> dict[str, float]:
        if self.standing.update == 1:
            raise KeyboardInterrupt
        return super().learn(groups)


def test_a_run_that_was_killed_goes_on_with_the_same_update(folder: Path, tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "run", {}, every=0)) as journal, pytest.raises(KeyboardInterrupt):
        run(beginner(Killed), journal, updates=2)
    with closing(Journal(tmp_path / "run", {})) as journal:
        run(beginner(), journal, updates=2)
    assert _timeless(tmp_path / "run") == _timeless(folder)
    whole, resumed = (torch.load(one / CHECKPOINT)["state"]["weights"] for one in (folder, tmp_path / "run"))
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


def _timeless(folder: Path) -> list[dict[str, Any]]:
    by_clock = {"seconds", "rollout_seconds", "tokens_per_second", "episodes_per_second", "ours", "elapsed"}
    return [{name: value for name, value in record.items() if name not in by_clock} for record in records(folder)]


def test_dose_and_families_follow_success() -> None:
    lean = GrpoRun(learner_of(tiny_llama()), GrpoRecipe(families=("vendor_onboarding",), doses=(0.25, 0.5)))
    bad, good = (grouped([(task_id(1),)], [some_attempts(well)[0]], 0.2) for well in (False, True))
    rungs = []
    for groups in (bad, good, good):
        lean.advance(groups)
        rungs.append(lean.standing.rung)
    assert rungs == [0, 1, 1]
    assert lean.standing.success == {"vendor_onboarding": 1.0}


class Clocked(GrpoRun):
    """One whose updates take two minutes each."""

    minutes = 0

    def update(self) -> dict[str, Any]:
        self.minutes += 2
        self.standing.update += 1
        return {}


@pytest.mark.parametrize(("minutes", "made"), [(1, 1), (5, 2), (6, 3), (100, 7)])
def test_no_update_is_begun_that_would_not_be_over_in_time(minutes: float, made: int, tmp_path: Path) -> None:
    """The first one has to be tried to be known."""
    lean = Clocked(learner_of(tiny_llama()), RECIPE)
    with closing(Journal(tmp_path / "run", {})) as journal:
        run(lean, journal, 7, minutes, clock=lambda: lean.minutes * 60.0)
    assert lean.standing.update == made
