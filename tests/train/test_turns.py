"""A turn has working lines and then a call, and never more working than allowed, in all three samplers."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companyos.core.calls import Program, silent
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.train.data import demonstrations
from companyos.train.data.demonstrations import Demonstration, DemoPlan, demonstrate
from companyos.train.data.repeats import Decoding
from companyos.train.data.script import RESERVE, Script, turn_text
from companyos.train.data.turns import (
    BEGINS,
    MAX_WORKING_LINES,
    MAX_WORKING_TOKENS,
    PROMPT_DUE,
    TurnProgress,
    WorkingSyntax,
    encode_turn,
    split_turn,
    working_syntax,
)
from companyos.train.decoding.decoder import Decoder
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, rollout
from companyos.train.decoding.speakers import SpokenTurn, TurnSpeaker, speaker_for
from companyos.train.model.models import Learner, load
from companyos.train.runs.local import LocalAgent, TurnGenerator
from tests.helpers import FAMILY, STEADY, task_id
from tests.train.tiny_model import learner_of, tiny_llama, tiny_tokenizer

torch.set_num_threads(1)
TEXTS = {token: tiny_tokenizer().decode([token]) for token in range(260)}
NEWLINE = next(token for token, text in TEXTS.items() if text == "\n")


def encode(text: str) -> list[int]:
    return list(text.encode())


# -- one turn ----------------------------------------------------------------------------------------------------------

words = st.text("ab<=: 0123456789", min_size=1, max_size=20).map(str.strip).filter(lambda text: text and text[0] != "=")


@STEADY
@given(st.lists(words, max_size=MAX_WORKING_LINES), words)
def test_a_turn_is_split_into_the_lines_it_was_written_from(working: list[str], line: str) -> None:
    assert split_turn(turn_text(line, working)) == (tuple(working), line)


@STEADY
@given(st.lists(words, max_size=20), words)
def test_working_is_shortened_from_its_beginning_until_it_fits(working: list[str], line: str) -> None:
    tokens, working_tokens = encode_turn(encode, line, working)
    kept, call = split_turn(bytes(tokens).decode())
    assert working_tokens <= MAX_WORKING_TOKENS
    assert len(kept) <= MAX_WORKING_LINES
    assert call == line
    assert list(kept) == working[len(working) - len(kept) :]
    assert bytes(tokens[working_tokens:]).decode() == f" {line}\n"


def test_without_working_the_whole_turn_is_the_call() -> None:
    tokenizer = learner_of(tiny_llama()).script_tokenizer()
    assert tokenizer.call_of(tokenizer.encode(" = 1 < 2\n> wait 60\n")) == ("= 1 < 2\n> wait 60", 0)


def test_a_tokenizer_counts_the_tokens_of_working_before_the_call() -> None:
    tokenizer = learner_of(tiny_llama())._replace(working=True).script_tokenizer()
    tokens, working_tokens = encode_turn(tokenizer.encode, "wait 60", ("1 > 0: late", "so"))
    assert tokenizer.call_of(tokens) == ("wait 60", working_tokens)
    assert tokenizer.call_of(tokenizer.encode(" wait 60\n")) == ("wait 60", 0)


def test_tokens_of_working_are_found_in_the_vocabulary() -> None:
    syntax = working_syntax(TEXTS)
    assert {TEXTS[token] for token in syntax.marks} == {"="}
    assert {TEXTS[token] for token in syntax.blanks} == {" "}
    assert TEXTS[syntax.prompt] == ">"


# -- samplers ----------------------------------------------------------------------------------------------------------


def states_of(tokens: Sequence[int], line_ends: Sequence[int], max_tokens: int, syntax: WorkingSyntax) -> list[int]:
    """Return the states that a turn went through. Fail if it has a token that is not allowed."""
    progress, states = TurnProgress(line_ends, max_tokens, syntax), list[int]()
    for token in tokens:
        assert not progress.over
        if progress.must_end:
            assert token in line_ends
        if progress.state == PROMPT_DUE:
            assert token == syntax.prompt
        if progress.state == BEGINS and not progress.may_work:
            assert token not in syntax.marks
        states.append(progress.state)
        progress.take(token)
    assert progress.over
    assert len(tokens) <= max_tokens
    return states


def test_a_decoder_samples_only_turns_that_follow_the_rules() -> None:
    """Every third token begins working and every eighth ends a line, so that every rule is applied."""
    rng = random.Random(0)
    vocabulary = list(range(260))
    rng.shuffle(vocabulary)
    prompt, *rest = vocabulary
    syntax = WorkingSyntax(tuple(rest[:80]), tuple(rest[80:110]), prompt, max_lines=2, max_tokens=14)
    line_ends = rest[110:142]
    decoder = Decoder(tiny_llama(), rows=64, row_tokens=64, line_ends=line_ends, turn_tokens=24, syntax=syntax)
    torch.manual_seed(0)
    first, _, over = decoder.feed(range(64), [[n] for n in range(64)], [0] * 64, [1.0] * 64).read()
    turns, done = [[token] for token in first], over
    while not all(done):
        tokens, _, over = decoder.step(64, 1 + max(map(len, turns))).read()
        for row in (row for row in range(64) if not done[row]):
            turns[row].append(tokens[row])
            done[row] = over[row]
    states_of_turns = [states_of(turn, line_ends, 24, syntax) for turn in turns]
    assert {state for states in states_of_turns for state in states} == {0, 1, 2, 3}
    assert max(states.count(PROMPT_DUE) for states in states_of_turns) == 2
    assert any(len(turn) == 24 for turn in turns), "no turn was cut off"


def model_with_working() -> Learner:
    """Return a model that writes working lines before most of its calls."""
    learner = learner_of(tiny_llama())._replace(limit=2048, working=True)
    tokenizer, rng = learner.tokenizer, random.Random(0)
    optimizer = torch.optim.AdamW(learner.model.parameters(), lr=1e-2)
    for _ in range(80):
        texts = []
        for _ in range(8):
            working = ([rng.choice("abc")] * rng.choice((1, 2, 2, 3)) for _ in range(20))
            texts.append("".join(f"{rng.choice('xyz')}\n>" + turn_text("wait 60", lines) for lines in working))
        batch = torch.tensor([tokenizer.encode(text)[:80] for text in texts])
        learner.model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return learner


@pytest.fixture(scope="module")
def working_learner() -> Learner:
    return model_with_working()


def test_working_costs_no_step_and_is_not_part_of_the_call(working_learner: Learner) -> None:
    tokenizer, task = working_learner.script_tokenizer(), task_id(0)
    played = ModelEpisode(task, True, tokenizer, working_learner.limit, working_learner.reserve)
    tokens, working_tokens = encode_turn(tokenizer.encode, "my_changes", ("5675 <= 6695: enough",))
    assert working_tokens
    played.take(SpokenTurn(0, tokens, [0.0] * len(tokens)), TimeSpent())
    assert [write_line(turn.call) for turn in played.env.turns] == ["my_changes"]
    assert played.env.step_count == 1
    start, logprobs = played._window.turns[0]
    assert played.script.tokens[start : start + len(tokens)] == tokens
    assert len(logprobs) == len(tokens)


def test_both_speakers_and_single_agents_play_the_same_with_working(working_learner: Learner) -> None:
    tasks, tokenizer = [task_id(seed) for seed in range(2)], working_learner.script_tokenizer()

    def episodes() -> Iterator[ModelEpisode]:
        return (ModelEpisode(task, True, tokenizer, working_learner.limit, working_learner.reserve) for task in tasks)

    played = rollout(speaker_for(working_learner, 2), episodes(), TimeSpent())
    texts = [tokenizer.decode(window.tokens) for episode in played for window in episode.windows]
    assert any("\n> = " in text for text in texts), "no turn has working"
    line_ends = sorted((token for token, text in TEXTS.items() if "\n" in text), key=lambda token: TEXTS[token] != "\n")
    turn_by_turn = rollout(
        TurnSpeaker(working_learner.model, 2, line_ends, working_learner.reserve, working_syntax(TEXTS)),
        episodes(),
        TimeSpent(),
    )
    assert [episode.script.tokens for episode in turn_by_turn] == [episode.script.tokens for episode in played]
    env, agent = make(tasks[0]), LocalAgent(TurnGenerator(working_learner))
    obs = env.reset()
    while not obs.done:
        obs = env.step(agent.act(obs))
    assert env.digest() == played[0].env.digest()


def test_a_silent_speaker_writes_no_working(working_learner: Learner) -> None:
    tokenizer = working_learner.script_tokenizer()
    episodes = [ModelEpisode(task_id(0), False, tokenizer, working_learner.limit, working_learner.reserve)]
    (episode,) = rollout(speaker_for(working_learner, 1, silent=True), episodes, TimeSpent())
    assert "\n> =" not in tokenizer.decode(episode.script.tokens)


# -- repeated calls ----------------------------------------------------------------------------------------------------


def test_a_call_that_had_the_same_reply_too_often_is_sampled_again(working_learner: Learner) -> None:
    tokenizer = working_learner.script_tokenizer()
    played = ModelEpisode(task_id(0), True, tokenizer, 4096, 128, decoding=Decoding(0.0, repeats=3))
    repeated_call = tokenizer.encode(" my_changes\n")
    for _ in range(3):
        assert played.temperature == 0.0
        played.take(SpokenTurn(0, repeated_call, [0.0] * len(repeated_call)), TimeSpent())
    played.take(SpokenTurn(0, repeated_call, [0.0] * len(repeated_call)), TimeSpent())
    assert played.env.step_count == 3
    assert played.temperature == 1.0
    other_call = tokenizer.encode(" wait 60\n")
    played.take(SpokenTurn(0, other_call, [0.0] * len(other_call)), TimeSpent())
    assert (played.env.step_count, played.temperature) == (4, 0.0)
    played.take(SpokenTurn(0, repeated_call, [0.0] * len(repeated_call)), TimeSpent())
    assert played.env.step_count == 5, "time has passed, so the call may be made again"


def test_a_model_that_only_repeats_one_call_is_not_sampled_for_ever(working_learner: Learner) -> None:
    tokenizer = working_learner.script_tokenizer()
    played = ModelEpisode(task_id(0), True, tokenizer, 4096, 128, decoding=Decoding(0.0, repeats=1))
    repeated_call = tokenizer.encode(" my_changes\n")
    for _ in range(30):
        played.take(SpokenTurn(0, repeated_call, [0.0] * len(repeated_call)), TimeSpent())
    assert 1 < played.env.step_count < 30


# -- in scripts and demonstrations -------------------------------------------------------------------------------------


def test_old_working_is_dropped_when_a_script_shrinks() -> None:
    script = Script(encode, 600, 60)
    script.open("Mon 2026-01-05 09:00, 60 steps\nPlease.\n>")
    for number in range(5):
        script.add_turn(*encode_turn(encode, f"call {number}", (f"{number} < 7: working",)))
        shrunk = script.add_reply(f"T-{number} a=1\n " + "prose " * 20 + "\n>")
    text = bytes(script.tokens).decode()
    assert shrunk or text.count("working") < 5
    assert "> = 4 < 7: working\n> call 4\n" in text
    assert "0 < 7" not in text
    assert text.count("> call ") == 5
    for start, end in script.turn_spans:
        assert text[start - 1] == ">"
        assert text[end - 1] == "\n"


def with_working(program: Program) -> Iterator[Any]:
    """Yield the calls of an expert, each with the same working line."""
    reply = None
    while True:
        try:
            call = next(program) if reply is None else program.send(reply)
        except StopIteration:
            return
        reply = yield ("5675 <= 6695: enough",), call


@pytest.fixture
def demonstrations_by_working(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> dict[bool, Demonstration]:
    monkeypatch.setattr(demonstrations, "aloud", lambda procedure: with_working(silent(procedure)))
    tokenizer = learner.script_tokenizer()
    return {
        working: demonstrate(DemoPlan((FAMILY,), slips=0.0, limit=2400, working=working), tokenizer, 0)
        for working in (True, False)
    }


def test_working_is_learnt_with_its_call_and_only_if_asked_for(
    demonstrations_by_working: dict[bool, Demonstration], learner: Learner
) -> None:
    turns = {
        working: [learner.decode(window.tokens[a:b]) for window in demonstration.windows for a, b in window.spans]
        for working, demonstration in demonstrations_by_working.items()
    }
    assert all(text.startswith(" = 5675 <= 6695: enough\n> ") for text in turns[True])
    assert [split_turn(text)[1] for text in turns[True]] == [text.strip() for text in turns[False]]


def test_whether_a_model_writes_working_is_saved_with_it(learner: Learner, tmp_path: Any) -> None:
    for working in (True, False):
        learner._replace(working=working).save(tmp_path / str(working))
        loaded = load(str(tmp_path / str(working)))
        assert loaded.working == working
        assert (loaded.reserve > RESERVE) == working
