"""Rollouts sample what the model would have written alone, however many episodes run and whenever scripts shrink."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest
import torch

from companyos.env import make, task_named
from companyos.env.line_syntax import parse_line
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.decoding.decoder import Decoder
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, rollout
from companyos.train.decoding.speakers import TokenSpeaker, TurnSpeaker, narrower, speaker_of
from companyos.train.model.layers import is_supported
from tests.helpers import task_id
from tests.train.tiny_model import learner_of, tiny_gpt2, tiny_llama, tiny_qwen, tiny_tokenizer, trained_llama

torch.set_num_threads(1)
SCRIPT_TOKENS, TURN_TOKENS = 1024, 18
NEWLINE = tiny_tokenizer().encode("\n")[0]


@cache
def model() -> Any:
    return trained_llama()


@cache
def tokenizer() -> Tokenizer:
    return learner_of(model()).script_tokenizer()


def episodes_of(tasks: list[tuple[str, bool]]) -> Iterator[ModelEpisode]:
    return (ModelEpisode(task, greedy, tokenizer(), SCRIPT_TOKENS, TURN_TOKENS) for task, greedy in tasks)


def played(tasks: list[tuple[str, bool]], rows: int = 8, seed: int = 0) -> list[ModelEpisode]:
    speaker = speaker_of(model(), tokenizer().decode, rows, SCRIPT_TOKENS, TURN_TOKENS)
    torch.manual_seed(seed)
    return rollout(speaker, episodes_of(tasks), TimeSpent())


@pytest.fixture(scope="module")
def episodes() -> list[ModelEpisode]:
    return played([(task_id(seed), seed % 2 == 0) for seed in range(7)], rows=3)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_rows_of_any_length_get_the_logits_of_the_whole_model(make_model: Any) -> None:
    model_under_test, rng = make_model(), random.Random(0)
    decoder = Decoder(model_under_test, rows=4, row_tokens=64, line_ends=[NEWLINE], turn_tokens=TURN_TOKENS)
    scripts = [[rng.randrange(256) for _ in range(size)] for size in (3, 17, 9)]
    decoder.feed([2, 0, 3], [script[:-2] for script in scripts], [0, 0, 0], [False] * 3)
    drawn = decoder.feed([3, 2, 0], [scripts[2][-2:], scripts[0][-2:], scripts[1][-2:]], [7, 1, 15], [False] * 3)
    tokens, logprobs, _ = drawn.read()
    for script, token, logprob in zip((scripts[2], scripts[0], scripts[1]), tokens, logprobs, strict=True):
        whole = model_under_test(torch.tensor([script])).logits[0, -1].log_softmax(-1)
        assert token == whole.argmax()
        assert logprob == pytest.approx(whole[token].item(), abs=1e-4)


def test_log_probabilities_are_those_of_the_whole_forward_pass(episodes: list[ModelEpisode]) -> None:
    for window in (window for episode in episodes for window in episode.windows):
        whole = model()(torch.tensor([window.tokens])).logits[0].log_softmax(-1)
        for start, logprobs in window.turns:
            sampled = window.tokens[start : start + len(logprobs)]
            expected = whole[range(start - 1, start + len(sampled) - 1), sampled]
            assert torch.allclose(torch.tensor(logprobs), expected, atol=1e-4)


def test_every_turn_is_in_one_window_with_what_it_was_sampled_from(episodes: list[ModelEpisode]) -> None:
    assert any(len(episode.windows) > 1 for episode in episodes), "no script was long enough to shrink"
    for episode in episodes:
        assert sum(len(window.turns) for window in episode.windows) == episode.env.step_count
        assert all(len(window.tokens) <= SCRIPT_TOKENS for window in episode.windows)


def test_a_greedy_rollout_samples_what_generate_samples(episodes: list[ModelEpisode]) -> None:
    for window in (window for episode in episodes if episode.greedy for window in episode.windows):
        for start, logprobs in window.turns:
            generated = model().generate(
                torch.tensor([window.tokens[:start]]),
                attention_mask=torch.ones(1, start, dtype=torch.int64),
                max_new_tokens=TURN_TOKENS,
                do_sample=False,
                eos_token_id=NEWLINE,
                pad_token_id=NEWLINE,
            )
            assert generated[0, start : start + len(logprobs)].tolist() == window.tokens[start : start + len(logprobs)]


def test_equal_calls_get_equal_rewards_in_an_environment_alone(episodes: list[ModelEpisode]) -> None:
    for episode in episodes:
        env = make(episode.task_id, reward="score")
        total = 0.0
        for window in episode.windows:
            for start, _ in window.turns:
                end = window.tokens.index(NEWLINE, start)
                line = tokenizer().decode(window.tokens[start:end]).strip()
                call = parse_line(line, env.toolbox)
                total += env.step(line if isinstance(call, str) else call).reward
        assert env.done
        assert total == episode.total
        assert env.digest() == episode.env.digest()


def test_an_episode_that_repeats_one_line_is_given_up_without_reward() -> None:
    speaker = speaker_of(model(), tokenizer().decode, 3, SCRIPT_TOKENS, TURN_TOKENS)
    tasks = [task_id(seed) for seed in range(3)]
    whole = rollout(
        speaker, (ModelEpisode(task, True, tokenizer(), SCRIPT_TOKENS, TURN_TOKENS) for task in tasks), TimeSpent()
    )
    cut = rollout(
        speaker,
        (ModelEpisode(task, True, tokenizer(), SCRIPT_TOKENS, TURN_TOKENS, patience=2) for task in tasks),
        TimeSpent(),
    )
    pairs = list(zip(cut, whole, strict=True))
    assert any(given_up.env.step_count < complete.env.step_count for given_up, complete in pairs)
    for given_up, complete in pairs:
        calls = [turn.call for turn in given_up.env.turns]
        assert calls == [turn.call for turn in complete.env.turns[: len(calls)]]
        assert given_up.env.done == (given_up.env.step_count == complete.env.step_count)
        assert given_up.total == (complete.total if given_up.env.done else 0.0)
        assert sum(len(window.turns) for window in given_up.windows) == given_up.env.step_count


def test_episodes_do_not_depend_on_how_many_run_at_once() -> None:
    tasks = [(task_id(seed), True) for seed in range(5)]
    few, many = (played(tasks, rows) for rows in (2, 5))
    assert [episode.script.tokens for episode in few] == [episode.script.tokens for episode in many]


def test_when_few_episodes_are_left_their_rows_are_moved_to_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [(str(task_named(name, seed)), True) for seed in range(2) for name in ("vendor_onboarding", "expense_report")]
    moved: list[int] = []
    move = Decoder.move

    def counted(self: Decoder, rows: Sequence[int]) -> None:
        moved.append(len(rows))
        move(self, rows)

    monkeypatch.setattr(Decoder, "move", counted)
    narrowed = played(tasks, rows=4)
    assert moved
    assert moved == sorted(set(moved), reverse=True)
    assert moved[0] < 4
    assert [episode.script.tokens for episode in narrowed] == [episode.script.tokens for episode in played(tasks, rows=1)]


@pytest.mark.parametrize(
    ("width", "rows_in_use", "on_gpu", "expected"),
    [(16, 15, False, 15), (16, 1, False, 1), (512, 257, True, 512), (512, 256, True, 256), (512, 3, True, 64)],
)
def test_a_cpu_computes_only_rows_in_use_and_a_gpu_halves_its_width(
    width: int, rows_in_use: int, on_gpu: bool, expected: int
) -> None:
    assert narrower(width, rows_in_use, on_gpu) == expected


def test_on_a_cpu_long_scripts_are_fed_one_by_one_because_padding_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[list[int]] = []
    feed = Decoder.feed

    def counted(self: Decoder, rows: Any, tokens: Sequence[Sequence[int]], *others: Any, **more: Any) -> Any:
        batches.append([len(row) for row in tokens])
        return feed(self, rows, tokens, *others, **more)

    monkeypatch.setattr(Decoder, "feed", counted)
    speaker = speaker_of(model(), tokenizer().decode, 4, SCRIPT_TOKENS, TURN_TOKENS)
    for number, size in enumerate((20, 300, 30, 200)):
        speaker.listen(number, [65] * (size - 1) + [NEWLINE], 0.0)
    speaker.speak()
    assert batches[:3] == [[20, 30], [200], [300]]


def test_greedy_turns_draw_no_random_numbers() -> None:
    speaker = speaker_of(model(), tokenizer().decode, 1, SCRIPT_TOKENS, TURN_TOKENS)  # making the model draws numbers
    before = torch.get_rng_state()
    speaker.listen(0, tokenizer().encode("a\n>"), 0.0)
    speaker.speak()
    assert torch.equal(torch.get_rng_state(), before)


def test_the_seed_decides_sampled_tokens() -> None:
    tasks = [(task_id(1), False)] * 3
    first, same_seed, other = ([episode.script.tokens for episode in played(tasks, seed=seed)] for seed in (1, 1, 2))
    assert first == same_seed != other
    assert len(set(map(tuple, first))) == 3


def test_a_model_that_the_decoder_does_not_support_is_sampled_turn_by_turn() -> None:
    gpt2 = tiny_gpt2()
    assert not is_supported(gpt2)
    speaker = speaker_of(gpt2, tokenizer().decode, 4, SCRIPT_TOKENS, TURN_TOKENS)
    assert isinstance(speaker, TurnSpeaker)
    (episode,) = rollout(speaker, episodes_of([(task_id(0), True)]), TimeSpent())
    assert episode.env.done


def test_both_speakers_sample_the_same() -> None:
    assert isinstance(speaker_of(model(), tokenizer().decode, 2, SCRIPT_TOKENS, TURN_TOKENS), TokenSpeaker)
    tasks = [(task_id(seed), True) for seed in range(2)]
    turn_by_turn = rollout(TurnSpeaker(model(), 2, [NEWLINE], TURN_TOKENS), episodes_of(tasks), TimeSpent())
    assert [episode.script.tokens for episode in turn_by_turn] == [episode.script.tokens for episode in played(tasks)]


def test_a_speaker_can_be_used_again_after_all_episodes_have_left() -> None:
    speaker = speaker_of(model(), tokenizer().decode, 4, SCRIPT_TOKENS, TURN_TOKENS)
    tasks = [(task_id(seed), True) for seed in range(4)]
    first = rollout(speaker, episodes_of(tasks), TimeSpent())
    second = rollout(speaker, episodes_of(tasks), TimeSpent())
    assert [episode.script.tokens for episode in first] == [episode.script.tokens for episode in second]
