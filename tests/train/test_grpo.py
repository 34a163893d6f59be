"""The lean loop learns from groups, pays for twins, and a killed run continues exactly."""

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
from companyos.train.data.script import turn_text
from companyos.train.decoding.rollout import ModelEpisode, PlayedWindow, TimeSpent
from companyos.train.decoding.speakers import SpokenTurn
from companyos.train.loops.grpo import AttemptGroup, GrpoRecipe, GrpoRun, Sample, grouped, loss_of, run, samples_of
from companyos.train.model.forward import by_length
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.journal import CHECKPOINT, Journal, records
from tests.helpers import STEADY, task_id
from tests.train.tiny_model import learner_of, tiny_llama, trained_llama

torch.set_num_threads(1)
TOKENIZER = learner_of(tiny_llama()).script_tokenizer()
RECIPE = GrpoRecipe(
    families=("vendor_onboarding",),
    tasks=4,
    group=3,
    doses=(0.0,),
    reward="dense",  # it pays for valid calls, which a tiny model can learn
    rate=1e-2,
    batch=4096,
    rows=10,
    reserve=18,
)


CHECKUP = checkup_of(("vendor_onboarding",), 0.0, tasks=1, pairs=1)


def new_run(kind: type[GrpoRun] = GrpoRun) -> GrpoRun:
    model = trained_llama()
    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    return kind(learner_of(get_peft_model(model, config)), RECIPE, CHECKUP)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of two updates."""
    folder = tmp_path_factory.mktemp("runs") / "two"
    with closing(Journal(folder, {})) as journal:
        run(new_run(), journal, updates=2, minutes=60)
    return folder


def attempt(task: str, as_expert: bool) -> ModelEpisode:
    """Return an episode with the expert's calls, or with nothing but invalid ones."""
    episode, expert = ModelEpisode(task, False, TOKENIZER, limit=8192), make(task)
    run_expert(expert)
    lines = [write_line(turn.call) for turn in expert.turns] if as_expert else ["hm"] * expert.max_steps
    for line in lines:
        tokens = TOKENIZER.encode(turn_text(line))
        episode.take(SpokenTurn(0, tokens, [-1.0] * len(tokens)), TimeSpent())
    return episode


def sample(size: int = 8, advantage: float = 1.0, logprob: float = -1.0) -> Sample:
    """Return a sample of a script whose second half is a call."""
    tokens, half = [65 + n % 26 for n in range(size)], size // 2
    return Sample(PlayedWindow(tokens, [(half, [logprob] * (size - half))]), advantage)


def likelihood(model: Any, sample: Sample) -> float:
    """Return the log probability of a sample's call."""
    ((start, logprobs),) = sample.window.turns
    with torch.no_grad():
        whole = model(input_ids=torch.tensor([sample.window.tokens])).logits[0].log_softmax(-1)
    return float(sum(whole[index - 1, sample.window.tokens[index]] for index in range(start, start + len(logprobs))))


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
def attempts_at_twins(as_expert: bool) -> tuple[ModelEpisode, ModelEpisode]:
    task, twin = twin_tasks()
    return attempt(task, as_expert), attempt(twin, as_expert)


@pytest.mark.parametrize(("successes", "bonus"), [((2, 2), 0.2), ((2, 1), 0.0), ((1, 3), 0.0), ((3, 3), 0.2)])
def test_twins_that_are_both_solved_get_a_bonus(successes: tuple[int, int], bonus: float) -> None:
    """If more than half of the three attempts at each twin succeed, each success gets the bonus."""
    attempts = [attempts_at_twins(n < wins)[index] for index, wins in enumerate(successes) for n in range(3)]
    groups = grouped([twin_tasks()], attempts, bonus=0.2)
    for group, wins in zip(groups, successes, strict=True):
        gained = [reward - attempt.total for reward, attempt in zip(group.rewards, group.attempts, strict=True)]
        assert gained == pytest.approx([bonus] * wins + [0.0] * (3 - wins))


def test_the_reward_of_a_single_task_is_its_score() -> None:
    good, bad = (attempts_at_twins(as_expert)[0] for as_expert in (True, False))
    (group,) = grouped([(task_id(1),)], [good, good], bonus=0.2)
    assert group.rewards == [good.total] * 2
    assert good.total > 0.9 > 0.4 >= bad.total


def test_a_group_with_equal_rewards_changes_no_weight() -> None:
    grpo = new_run()
    before = {name: weight.detach().clone() for name, weight in grpo.weights.items()}
    good = attempts_at_twins(True)[0]
    assert grpo.learn(grouped([(task_id(1),)], [good, good], bonus=0.2)) == {"teaching": 0.0}
    assert all(torch.equal(weight, before[name]) for name, weight in grpo.weights.items())


def test_every_sampled_token_is_learned_from_once() -> None:
    groups = grouped([twin_tasks()], [*attempts_at_twins(True)], bonus=0.2)
    sampled = [logprob for sample in samples_of(groups) for _, logprobs in sample.window.turns for logprob in logprobs]
    calls = [write_line(turn.call) for group in groups for attempt in group.attempts for turn in attempt.env.turns]
    assert len(sampled) == sum(len(TOKENIZER.encode(turn_text(call))) for call in calls)


# -- the loss ----------------------------------------------------------------------------------------------------------


def test_better_calls_become_likelier_and_worse_ones_less_likely() -> None:
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
    ("logprob", "advantage", "has_gradient"),
    [(-100, 1.0, False), (-9, 1.0, False), (-9, -1.0, True), (9, 1.0, True), (9, -1.0, False)],
)
def test_a_token_beyond_the_clip_has_no_gradient(logprob: float, advantage: float, has_gradient: bool) -> None:
    """If a token has become far likelier since it was sampled, only a negative advantage still has a gradient."""
    model = tiny_llama()
    loss, (clipped, _) = loss_of(model, [sample(8, advantage, logprob)], clip=(0.2, 0.28))
    loss.backward()
    assert bool(model.lm_head.weight.grad.any()) == has_gradient
    assert bool(clipped) != has_gradient


def test_the_loss_is_that_of_the_whole_forward_pass() -> None:
    """It counts only tokens of calls, each with the ratio of its probability now to that when it was sampled."""
    model, samples = tiny_llama(), [sample(10, 2.0, -5.5), sample(4, 1.0, -5.5)]
    loss, _ = loss_of(model, samples, clip=(100.0, 100.0))
    expected = 0.0
    for each in samples:
        with torch.no_grad():
            whole = model(input_ids=torch.tensor([each.window.tokens])).logits[0].log_softmax(-1)
        ((start, logprobs),) = each.window.turns
        for index in range(start, start + len(logprobs)):
            expected -= float((whole[index - 1, each.window.tokens[index]] + 5.5).exp()) * each.advantage
    assert loss.item() == pytest.approx(expected, rel=1e-4)


@STEADY
@given(st.lists(st.integers(2, 40), max_size=30), st.integers(1, 100))
def test_batches_hold_every_sample_once_and_no_more_tokens_than_fit(sizes: list[int], max_tokens: int) -> None:
    samples = [sample(size) for size in sizes]
    batches = list(by_length(samples, len, max_tokens))
    assert sorted(id(item) for batch in batches for item in batch) == sorted(map(id, samples))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(len(item.window.tokens) for item in batch) <= max_tokens


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


def test_sampling_and_learning_compute_the_same_log_probabilities(folder: Path) -> None:
    """For sampling, adapters are merged into the weights; for learning, they are separate."""
    assert all(record["apart"] < 1e-4 for record in records(folder) if "apart" in record)


class Killed(GrpoRun):
    """A run that is killed in its second update."""

    def learn(self, groups: Sequence[AttemptGroup]) -> dict[str, float]:
        if self.progress.update == 1:
            raise KeyboardInterrupt
        return super().learn(groups)


def test_a_run_that_was_killed_goes_on_with_the_same_update(folder: Path, tmp_path: Path) -> None:
    with closing(Journal(tmp_path / "run", {}, every=0)) as journal, pytest.raises(KeyboardInterrupt):
        run(new_run(Killed), journal, updates=2)
    with closing(Journal(tmp_path / "run", {})) as journal:
        run(new_run(), journal, updates=2)
    assert _timeless(tmp_path / "run") == _timeless(folder)
    whole, resumed = (torch.load(path / CHECKPOINT)["state"]["weights"] for path in (folder, tmp_path / "run"))
    assert all(torch.equal(resumed[name], weight) for name, weight in whole.items())


def _timeless(folder: Path) -> list[dict[str, Any]]:
    """Return the log records without the numbers that depend on the clock."""
    by_clock = {"seconds", "rollout_seconds", "tokens_per_second", "episodes_per_second", "ours", "elapsed"}
    return [{name: value for name, value in record.items() if name not in by_clock} for record in records(folder)]


def test_dose_and_families_follow_success() -> None:
    grpo = GrpoRun(learner_of(tiny_llama()), GrpoRecipe(families=("vendor_onboarding",), doses=(0.25, 0.5)))
    bad, good = (grouped([(task_id(1),)], [attempts_at_twins(as_expert)[0]], 0.2) for as_expert in (False, True))
    rungs = []
    for groups in (bad, good, good):
        grpo.advance(groups)
        rungs.append(grpo.progress.rung)
    assert rungs == [0, 1, 1]
    assert grpo.progress.success == {"vendor_onboarding": 1.0}


class Clocked(GrpoRun):
    """A run whose updates take two minutes each."""

    minutes = 0

    def update(self) -> dict[str, Any]:
        self.minutes += 2
        self.progress.update += 1
        return {}


@pytest.mark.parametrize(("minutes", "updates"), [(1, 1), (5, 2), (6, 3), (100, 7)])
def test_an_update_begins_only_if_it_can_end_in_time(minutes: float, updates: int, tmp_path: Path) -> None:
    """The first update always begins, because nobody knows how long one takes."""
    grpo = Clocked(learner_of(tiny_llama()), RECIPE)
    with closing(Journal(tmp_path / "run", {})) as journal:
        run(grpo, journal, 7, minutes, clock=lambda: grpo.minutes * 60.0)
    assert grpo.progress.update == updates
