"""Turns have lines of working and then a call, never more working than allowed, whoever says them."""

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
from companyos.train.data.script import Script, spoken
from companyos.train.data.turns import BEGINS, LINES, PROMPTED, ROOM, Progress, WorkingSyntax, encoded, split, working_syntax
from companyos.train.decoding.decoder import Decoder
from companyos.train.decoding.rollout import ModelEpisode, TimeSpent, rollout
from companyos.train.decoding.speakers import SpokenTurn, Waiting, speaker_for
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
@given(st.lists(words, max_size=LINES), words)
def test_what_was_said_is_found_again_in_the_text(working: list[str], line: str) -> None:
    assert split(spoken(line, working)) == (tuple(working), line)


@STEADY
@given(st.lists(words, max_size=20), words)
def test_working_is_shortened_from_its_beginning_until_it_fits(working: list[str], line: str) -> None:
    tokens, syntax = encoded(encode, line, working)
    kept, call = split(bytes(tokens).decode())
    assert syntax <= ROOM
    assert len(kept) <= LINES
    assert call == line
    assert list(kept) == working[len(working) - len(kept) :]
    assert bytes(tokens[syntax:]).decode() == f" {line}\n"


def test_a_model_without_working_has_all_that_it_says_taken_for_a_call() -> None:
    tokenizer = learner_of(tiny_llama()).script_tokenizer()
    assert tokenizer.call_of(tokenizer.encode(" = 1 < 2\n> wait 60\n")) == ("= 1 < 2\n> wait 60", 0)


def test_a_tongue_tells_working_from_the_call_by_tokens() -> None:
    tokenizer = learner_of(tiny_llama())._replace(working=True).script_tokenizer()
    tokens, syntax = encoded(tokenizer.encode, "wait 60", ("1 > 0: late", "so"))
    assert tokenizer.call_of(tokens) == ("wait 60", syntax)
    assert tokenizer.call_of(tokenizer.encode(" wait 60\n")) == ("wait 60", 0)


def test_tokens_of_working_are_found_in_the_vocabulary() -> None:
    syntax = working_syntax(TEXTS)
    assert {TEXTS[token] for token in syntax.marks} == {"="}
    assert {TEXTS[token] for token in syntax.blanks} == {" "}
    assert TEXTS[syntax.prompt] == ">"


# -- whoever says them -------------------------------------------------------------------------------------------------


def follows(tokens: Sequence[int], enders: Sequence[int], most: int, syntax: WorkingSyntax) -> list[int]:
    """The states that a turn went through; fails where it said what it may not."""
    progress, states = Progress(enders, most, syntax), list[int]()
    for token in tokens:
        assert not progress.over
        if progress.must_end:
            assert token == enders[0] or (token in enders)
        if progress.state == PROMPTED:
            assert token == syntax.prompt
        if progress.state == BEGINS and not progress.may_work:
            assert token not in syntax.marks
        states.append(progress.state)
        progress.take(token)
    assert progress.over
    assert len(tokens) <= most
    return states


def test_a_decoder_lets_turns_be_said_as_they_may_be() -> None:
    """Every third token begins working, every eighth ends a line: all that can happen does."""
    luck = random.Random(0)
    vocabulary = list(range(260))
    luck.shuffle(vocabulary)
    prompt, *rest = vocabulary
    syntax = WorkingSyntax(tuple(rest[:80]), tuple(rest[80:110]), prompt, lines=2, room=14)
    enders = rest[110:142]
    decoder = Decoder(tiny_llama(), rows=64, room=64, enders=enders, most=24, syntax=syntax)
    torch.manual_seed(0)
    first, _, over = decoder.feed(range(64), [[n] for n in range(64)], [0] * 64, [1.0] * 64).read()
    said, done = [[token] for token in first], over
    while not all(done):
        tokens, _, over = decoder.step(64, 1 + max(map(len, said))).read()
        for row in (row for row in range(64) if not done[row]):
            said[row].append(tokens[row])
            done[row] = over[row]
    seen = [follows(turn, enders, 24, syntax) for turn in said]
    assert {state for states in seen for state in states} == {0, 1, 2, 3}
    assert max(states.count(PROMPTED) for states in seen) == 2
    assert any(len(turn) == 24 for turn in said), "no turn was cut off"


def talkative() -> Learner:
    """A model that says working more often than not: of each line the first token is `=` or a call."""
    learner = learner_of(tiny_llama())._replace(limit=2048, working=True)
    tokenizer, luck = learner.tokenizer, random.Random(0)
    optimizer = torch.optim.AdamW(learner.model.parameters(), lr=1e-2)
    for _ in range(80):
        texts = []
        for _ in range(8):
            working = ([luck.choice("abc")] * luck.choice((1, 2, 2, 3)) for _ in range(20))
            texts.append("".join(f"{luck.choice('xyz')}\n>" + spoken("wait 60", lines) for lines in working))
        batch = torch.tensor([tokenizer.encode(text)[:80] for text in texts])
        learner.model(input_ids=batch, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return learner


@pytest.fixture(scope="module")
def speaking() -> Learner:
    return talkative()


def test_working_costs_no_step_and_is_not_what_is_called(speaking: Learner) -> None:
    tokenizer, task = speaking.script_tokenizer(), task_id(0)
    played = ModelEpisode(task, True, tokenizer, speaking.limit, speaking.reserve)
    tokens, syntax = encoded(tokenizer.encode, "my_changes", ("5675 <= 6695: enough",))
    assert syntax
    played.take(SpokenTurn(0, tokens, [0.0] * len(tokens)), TimeSpent())
    assert [write_line(turn.call) for turn in played.env.turns] == ["my_changes"]
    assert played.env.step_count == 1
    start, logprobs = played._window.calls[0]
    assert played.script.tokens[start : start + len(tokens)] == tokens
    assert len(logprobs) == len(tokens)


def test_rollouts_waiting_speakers_and_single_agents_say_the_same_with_working(speaking: Learner) -> None:
    tasks, tokenizer = [task_id(seed) for seed in range(2)], speaking.script_tokenizer()

    def episodes() -> Iterator[ModelEpisode]:
        return (ModelEpisode(task, True, tokenizer, speaking.limit, speaking.reserve) for task in tasks)

    played = rollout(speaker_for(speaking, 2), episodes(), TimeSpent())
    said = [tokenizer.decode(window.tokens) for one in played for window in one.windows]
    assert any("\n> = " in text for text in said), "nobody said any working"
    enders = sorted((token for token, text in TEXTS.items() if "\n" in text), key=lambda token: TEXTS[token] != "\n")
    waiting = rollout(Waiting(speaking.model, 2, enders, speaking.reserve, working_syntax(TEXTS)), episodes(), TimeSpent())
    assert [one.script.tokens for one in waiting] == [one.script.tokens for one in played]
    env, agent = make(tasks[0]), LocalAgent(TurnGenerator(speaking))
    obs = env.reset()
    while not obs.done:
        obs = env.step(agent.act(obs))
    assert env.digest() == played[0].env.digest()


def test_a_silent_speaker_says_no_working(speaking: Learner) -> None:
    tokenizer = speaking.script_tokenizer()
    episodes = [ModelEpisode(task_id(0), False, tokenizer, speaking.limit, speaking.reserve)]
    (one,) = rollout(speaker_for(speaking, 1, silent=True), episodes, TimeSpent())
    assert "\n> =" not in tokenizer.decode(one.script.tokens)


# -- calls that only repeat --------------------------------------------------------------------------------------------


def test_a_call_that_had_the_same_reply_too_often_is_drawn_anew(speaking: Learner) -> None:
    tokenizer = speaking.script_tokenizer()
    played = ModelEpisode(task_id(0), True, tokenizer, 4096, 128, decoding=Decoding(0.0, repeats=3))
    same = tokenizer.encode(" my_changes\n")
    for _ in range(3):
        assert played.temperature == 0.0
        played.take(SpokenTurn(0, same, [0.0] * len(same)), TimeSpent())
    played.take(SpokenTurn(0, same, [0.0] * len(same)), TimeSpent())
    assert played.env.step_count == 3
    assert played.temperature == 1.0
    other = tokenizer.encode(" wait 60\n")
    played.take(SpokenTurn(0, other, [0.0] * len(other)), TimeSpent())
    assert (played.env.step_count, played.temperature) == (4, 0.0)
    played.take(SpokenTurn(0, same, [0.0] * len(same)), TimeSpent())
    assert played.env.step_count == 5, "time has passed: it may be asked again"


def test_whoever_has_nothing_else_to_say_is_not_asked_for_ever(speaking: Learner) -> None:
    tokenizer = speaking.script_tokenizer()
    played = ModelEpisode(task_id(0), True, tokenizer, 4096, 128, decoding=Decoding(0.0, repeats=1))
    same = tokenizer.encode(" my_changes\n")
    for _ in range(30):
        played.take(SpokenTurn(0, same, [0.0] * len(same)), TimeSpent())
    assert 1 < played.env.step_count < 30


# -- in scripts and demonstrations -------------------------------------------------------------------------------------


def test_old_working_goes_where_a_script_has_to_shrink() -> None:
    script = Script(encode, 600, 60)
    script.open("Mon 2026-01-05 09:00, 60 steps\nPlease.\n>")
    for number in range(5):
        script.say(*encoded(encode, f"call {number}", (f"{number} < 7: working",)))
        shrunk = script.hear(f"T-{number} a=1\n " + "prose " * 20 + "\n>")
    text = bytes(script.tokens).decode()
    assert shrunk or text.count("working") < 5
    assert "> = 4 < 7: working\n> call 4\n" in text
    assert "0 < 7" not in text
    assert text.count("> call ") == 5
    for start, end in script.calls:
        assert text[start - 1] == ">"
        assert text[end - 1] == "\n"


def said_aloud(program: Program) -> Iterator[Any]:
    """An expert that says the same before each of its calls."""
    reply = None
    while True:
        try:
            call = next(program) if reply is None else program.send(reply)
        except StopIteration:
            return
        reply = yield ("5675 <= 6695: enough",), call


@pytest.fixture
def shown(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> dict[bool, Demonstration]:
    monkeypatch.setattr(demonstrations, "aloud", lambda procedure: said_aloud(silent(procedure)))
    tokenizer = learner.script_tokenizer()
    return {
        working: demonstrate(DemoPlan((FAMILY,), slips=0.0, limit=2400, working=working), tokenizer, 0)
        for working in (True, False)
    }


def test_working_is_learnt_with_its_call_and_only_if_asked_for(shown: dict[bool, Demonstration], learner: Learner) -> None:
    turns = {
        working: [learner.decode(window.tokens[start:end]) for window in one.windows for start, end in window.calls]
        for working, one in shown.items()
    }
    assert all(text.startswith(" = 5675 <= 6695: enough\n> ") for text in turns[True])
    assert [split(text)[1] for text in turns[True]] == [text.strip() for text in turns[False]]


def test_whether_a_model_works_aloud_is_kept_with_it(learner: Learner, tmp_path: Any) -> None:
    for working in (True, False):
        learner._replace(working=working).save(tmp_path / str(working))
        again = load(str(tmp_path / str(working)))
        assert again.working == working
        assert (again.reserve > RESERVE_OF_CALLS) == working


RESERVE_OF_CALLS = 128
