"""Scripts say all that one is told and nothing else, and forget in the right order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.prove import solve
from companyos.core.calls import Call, Reply
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.env.observations import Observation
from companyos.families import SHORT_FAMILIES
from companyos.train.data.demonstrations import stands_in, values_of
from companyos.train.data.script import Script, heard, opening, spoken
from tests.helpers import STEADY, staged

LIMIT, RESERVE = 600, 60


def encode(text: str) -> list[int]:
    return list(text.encode())


def decode(tokens: list[int]) -> str:
    return bytes(tokens).decode()


def script(limit: int = LIMIT) -> Script:
    made = Script(encode, limit, RESERVE)
    made.open("Mon 2026-01-05 09:00, 60 steps\nPlease.\n>")
    return made


def turn(made: Script, line: str, reply: str) -> bool:
    made.say(encode(spoken(line)))
    return made.hear(f"{reply}\n>")


def observed(reply: Reply) -> Observation:
    env = staged()
    return Observation(env.scene, "Mon 2026-01-05 09:00", 1, reply, 0.0, False)


# -- what is said ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT_FAMILIES)
@pytest.mark.parametrize("chaos", [0.0, 0.5])
def test_whatever_an_expert_was_told_and_uses_stands_in_the_text(name: str, chaos: float) -> None:
    for seed in range(3):
        env = make(name, seed=seed, chaos=chaos)
        obs = env.reset()
        said, told = opening(obs), obs.text
        for turn in solve(env.fork()).turns:
            for value in values_of(turn.call):
                assert stands_in(value, said) or not stands_in(value, told)
            obs = env.step(turn.call)
            said, told = said + spoken(write_line(turn.call)) + heard(obs), told + obs.text


def test_every_field_is_named_whether_or_not_it_is_empty() -> None:
    env = staged()
    obs = env.step(Call("ticketdesk", "get_ticket", {"ticket_id": env.setting.case.ticket_id}))
    said, empty = heard(obs).split("\n")[0].split(" "), [k for k, v in obs.last_result.items() if v is None]
    assert "blocked_by" in empty
    assert set(empty) <= set(said)
    assert {word.partition("=")[0] for word in said} >= obs.last_result.keys() - {"id"}


def test_a_fault_says_its_code_and_a_refusal_its_rule() -> None:
    assert heard(observed(Reply(False, "no_answer", None, "no answer within 30 s"))) == "no_answer\n>"
    assert heard(observed(Reply(False, "blocked", None, "T-1 waits for T-2"))) == "blocked: T-1 waits for T-2\n>"
    assert (
        heard(observed(Reply(False, "bad_action", None, "JSON")), "there is no tool 'x'")
        == "bad_action: there is no tool 'x'\n>"
    )


@STEADY
@given(st.text(), st.text(), st.text())
def test_no_text_can_pass_for_a_call_or_for_the_end_of_a_reply(one: str, other: str, prose: str) -> None:
    rows = [{"id": "T-1", "title": one, "text": prose}, {"id": "T-2", "title": other, "text": prose}]
    for data in ({"rows": rows}, rows[0], {"arrived": rows}):
        *lines, prompt = heard(observed(Reply(True, "ok", data))).split("\n")
        assert prompt == ">"
        assert not any(line.startswith(">") for line in lines)
    *lines, prompt = heard(observed(Reply(False, "refused", None, prose)), other).split("\n")
    assert (len(lines), prompt) == (1, ">")


# -- what is forgotten -------------------------------------------------------------------------------------------------


def test_lines_on_what_was_read_again_go_first_then_prose_then_rows() -> None:
    made, rows = script(), "\n".join(f"P-{n} policy{n}" for n in range(1, 9))
    turn(made, "search", f"id title:\n{rows}")
    turn(made, "read P-1", "P-1 title=policy1 minimum=60\n " + "prose " * 50)
    assert turn(made, "read P-2", "P-2 title=policy2 limit=5\n " + "words " * 6)
    shown = decode(made.tokens)
    assert "P-1 policy1" not in shown
    assert "P-3 policy3" in shown
    assert "prose" not in shown
    assert "P-1 title=policy1 minimum=60" in shown
    assert "words" in shown


def test_what_a_later_line_does_not_say_is_kept() -> None:
    made = script()
    turn(made, "get T-1", "T-1 amount=900 cost_center verified")
    turn(made, "update T-1", "T-1 verified=E-5")
    turn(made, "read", "P-1 a=1\n " + "prose " * 60)
    assert turn(made, "read", "P-2 a=1\n " + "prose " * 20)
    assert "T-1 amount=900 cost_center verified" in decode(made.tokens)


calls = st.text("abc -", max_size=40)
replies = st.lists(st.text('abcT-1=" :', min_size=1, max_size=120), min_size=1, max_size=8).map("\n".join)


@STEADY
@given(st.lists(st.tuples(calls, replies), max_size=30))
def test_there_is_always_room_for_the_next_call_and_spans_are_calls(turns: list[tuple[str, str]]) -> None:
    made = script()
    before: list[int] = []
    for line, reply in turns:
        before = made.tokens.copy()
        shrunk = turn(made, line, reply)
        assert len(made.tokens) <= LIMIT - RESERVE
        assert decode(made.tokens).startswith("Mon 2026-01-05 09:00, 60 steps\nPlease.\n>")
        assert decode(made.tokens).endswith("\n>")
        assert all(
            decode(made.tokens)[start - 1] == ">" and decode(made.tokens)[end - 1] == "\n" for start, end in made.calls
        )
        if not shrunk:
            assert made.tokens[: len(before)] == before
        assert decode(made.tokens[slice(*made.calls[-1])]) == spoken(line)


@STEADY
@given(st.lists(replies, min_size=1, max_size=12))
def test_calls_stay_as_long_as_replies_can_shrink(heard_replies: list[str]) -> None:
    made = script()
    for number, reply in enumerate(heard_replies):
        turn(made, f"call {number}", reply)
    said = [decode(made.tokens[start:end]) for start, end in made.calls]
    assert said == [spoken(f"call {number}") for number in range(len(heard_replies))]


def test_a_brief_that_leaves_no_room_for_work_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no room"):
        Script(encode, 100, 20).open("x" * 100)
