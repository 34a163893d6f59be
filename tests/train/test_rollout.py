"""Rollouts say what the model would have said, however many are at work and whatever has shrunk."""

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
from companyos.train.decoding.speakers import Streaming, Waiting, speaker_of
from companyos.train.model.layers import fits
from tests.helpers import task_id
from tests.train.tiny_model import learner_of, schooled, tiny_gpt2, tiny_llama, tiny_qwen, tiny_tokenizer

torch.set_num_threads(1)
ROOM, MOST = 1024, 18
NEWLINE = tiny_tokenizer().encode("\n")[0]


@cache
def model() -> Any:
    return schooled()


@cache
def tokenizer() -> Tokenizer:
    return learner_of(model()).script_tokenizer()


def episodes_of(tasks: list[tuple[str, bool]]) -> Iterator[ModelEpisode]:
    return (ModelEpisode(task, greedy, tokenizer(), ROOM, MOST) for task, greedy in tasks)


def played(tasks: list[tuple[str, bool]], rows: int = 8, seed: int = 0) -> list[ModelEpisode]:
    speaker = speaker_of(model(), tokenizer().decode, rows, ROOM, MOST)
    torch.manual_seed(seed)
    return rollout(speaker, episodes_of(tasks), TimeSpent())


@pytest.fixture(scope="module")
def episodes() -> list[ModelEpisode]:
    return played([(task_id(seed), seed % 2 == 0) for seed in range(7)], rows=3)


@pytest.mark.parametrize("make_model", [tiny_llama, tiny_qwen])
def test_rows_of_any_length_see_what_the_whole_model_sees(make_model: Any) -> None:
    made, luck = make_model(), random.Random(0)
    decoder = Decoder(made, rows=4, room=64, enders=[NEWLINE], most=MOST)
    scripts = [[luck.randrange(256) for _ in range(size)] for size in (3, 17, 9)]
    decoder.feed([2, 0, 3], [script[:-2] for script in scripts], [0, 0, 0], [False] * 3)
    drawn = decoder.feed([3, 2, 0], [scripts[2][-2:], scripts[0][-2:], scripts[1][-2:]], [7, 1, 15], [False] * 3)
    tokens, logprobs, _ = drawn.read()
    for script, token, logprob in zip((scripts[2], scripts[0], scripts[1]), tokens, logprobs, strict=True):
        whole = made(torch.tensor([script])).logits[0, -1].log_softmax(-1)
        assert token == whole.argmax()
        assert logprob == pytest.approx(whole[token].item(), abs=1e-4)


def test_log_probabilities_are_those_of_the_whole_forward_pass(episodes: list[ModelEpisode]) -> None:
    for window in (window for episode in episodes for window in episode.windows):
        whole = model()(torch.tensor([window.tokens])).logits[0].log_softmax(-1)
        for start, logprobs in window.calls:
            said = window.tokens[start : start + len(logprobs)]
            expected = whole[range(start - 1, start + len(said) - 1), said]
            assert torch.allclose(torch.tensor(logprobs), expected, atol=1e-4)


def test_every_call_is_in_one_window_with_what_it_was_drawn_from(episodes: list[ModelEpisode]) -> None:
    assert any(len(episode.windows) > 1 for episode in episodes), "none was long enough to shrink"
    for episode in episodes:
        assert sum(len(window.calls) for window in episode.windows) == episode.env.step_count
        assert all(len(window.tokens) <= ROOM for window in episode.windows)


def test_a_greedy_rollout_says_what_generate_says(episodes: list[ModelEpisode]) -> None:
    for window in (window for episode in episodes if episode.greedy for window in episode.windows):
        for start, logprobs in window.calls:
            made = model().generate(
                torch.tensor([window.tokens[:start]]),
                attention_mask=torch.ones(1, start, dtype=torch.int64),
                max_new_tokens=MOST,
                do_sample=False,
                eos_token_id=NEWLINE,
                pad_token_id=NEWLINE,
            )
            assert made[0, start : start + len(logprobs)].tolist() == window.tokens[start : start + len(logprobs)]


def test_equal_calls_get_equal_rewards_in_process(episodes: list[ModelEpisode]) -> None:
    for episode in episodes:
        env = make(episode.task_id, reward="score")
        total = 0.0
        for window in episode.windows:
            for start, _ in window.calls:
                end = window.tokens.index(NEWLINE, start)
                line = tokenizer().decode(window.tokens[start:end]).strip()
                call = parse_line(line, env.toolbox)
                total += env.step(line if isinstance(call, str) else call).reward
        assert env.done
        assert total == episode.total
        assert env.digest() == episode.env.digest()


def test_who_says_one_line_over_and_over_is_given_up_and_stays_unpaid() -> None:
    speaker = speaker_of(model(), tokenizer().decode, 3, ROOM, MOST)
    tasks = [task_id(seed) for seed in range(3)]
    whole = rollout(speaker, (ModelEpisode(task, True, tokenizer(), ROOM, MOST) for task in tasks), TimeSpent())
    cut = rollout(speaker, (ModelEpisode(task, True, tokenizer(), ROOM, MOST, patience=2) for task in tasks), TimeSpent())
    assert any(one.env.step_count < other.env.step_count for one, other in zip(cut, whole, strict=True))
    for one, other in zip(cut, whole, strict=True):
        said = [turn.call for turn in one.env.turns]
        assert said == [turn.call for turn in other.env.turns[: len(said)]]
        assert one.env.done == (one.env.step_count == other.env.step_count)
        assert one.total == (other.total if one.env.done else 0.0)
        assert sum(len(window.calls) for window in one.windows) == one.env.step_count


def test_episodes_do_not_depend_on_how_many_are_at_work() -> None:
    tasks = [(task_id(seed), True) for seed in range(5)]
    few, many = (played(tasks, rows) for rows in (2, 5))
    assert [one.script.tokens for one in few] == [one.script.tokens for one in many]


def test_few_who_are_left_are_moved_together(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [(str(task_named(name, seed)), True) for seed in range(2) for name in ("vendor_onboarding", "expense_report")]
    moved: list[int] = []
    move = Decoder.move

    def counted(self: Decoder, rows: Sequence[int]) -> None:
        moved.append(len(rows))
        move(self, rows)

    monkeypatch.setattr(Decoder, "move", counted)
    narrowed = played(tasks, rows=4)
    assert moved[0] == 2
    assert [one.script.tokens for one in narrowed] == [one.script.tokens for one in played(tasks, rows=1)]


def test_drawn_tokens_follow_the_seed() -> None:
    tasks = [(task_id(1), False)] * 3
    first, again, other = ([one.script.tokens for one in played(tasks, seed=seed)] for seed in (1, 1, 2))
    assert first == again != other
    assert len(set(map(tuple, first))) == 3


def test_a_model_that_no_decoder_fits_is_asked_turn_by_turn() -> None:
    gpt2 = tiny_gpt2()
    assert not fits(gpt2)
    speaker = speaker_of(gpt2, tokenizer().decode, 4, ROOM, MOST)
    assert isinstance(speaker, Waiting)
    (episode,) = rollout(speaker, episodes_of([(task_id(0), True)]), TimeSpent())
    assert episode.env.done


def test_both_speakers_say_the_same() -> None:
    assert isinstance(speaker_of(model(), tokenizer().decode, 2, ROOM, MOST), Streaming)
    tasks = [(task_id(seed), True) for seed in range(2)]
    turn_by_turn = rollout(Waiting(model(), 2, [NEWLINE], MOST), episodes_of(tasks), TimeSpent())
    assert [one.script.tokens for one in turn_by_turn] == [one.script.tokens for one in played(tasks)]


def test_a_speaker_takes_as_many_again_after_all_have_left() -> None:
    speaker = speaker_of(model(), tokenizer().decode, 4, ROOM, MOST)
    tasks = [(task_id(seed), True) for seed in range(4)]
    first = rollout(speaker, episodes_of(tasks), TimeSpent())
    again = rollout(speaker, episodes_of(tasks), TimeSpent())
    assert [one.script.tokens for one in first] == [one.script.tokens for one in again]
