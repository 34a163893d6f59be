"""Scripts contain all that an agent is told and nothing else, and drop parts in the right order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.prove import solve
from companyos.core.calls import Call, Reply
from companyos.env import make
from companyos.env.line_syntax import write_line
from companyos.env.observations import Observation
from companyos.families import SHORT_FAMILIES
from companyos.train.data.demonstrations import contains_value, values_of
from companyos.train.data.script import Script, opening, reply_text, turn_text
from tests.helpers import STEADY, staged

LIMIT, RESERVE = 600, 60


def encode(text: str) -> list[int]:
    return list(text.encode())


def decode(tokens: list[int]) -> str:
    return bytes(tokens).decode()


def script(limit: int = LIMIT) -> Script:
    new_script = Script(encode, limit, RESERVE)
    new_script.open("Mon 2026-01-05 09:00, 60 steps\nPlease.\n>")
    return new_script


def add(script: Script, line: str, reply: str) -> bool:
    """Add a turn and its reply. Return whether the script had to shrink."""
    script.add_turn(encode(turn_text(line)))
    return script.add_reply(f"{reply}\n>")


def observed(reply: Reply) -> Observation:
    env = staged()
    return Observation(env.scene, "Mon 2026-01-05 09:00", 1, reply, 0.0, False)


# -- texts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHORT_FAMILIES)
@pytest.mark.parametrize("chaos", [0.0, 0.5])
def test_every_told_value_that_the_expert_uses_is_in_the_script(name: str, chaos: float) -> None:
    for seed in range(3):
        env = make(name, seed=seed, chaos=chaos)
        obs = env.reset()
        text, observed_text = opening(obs), obs.text
        for turn in solve(env.fork()).turns:
            for value in values_of(turn.call):
                assert contains_value(value, text) or not contains_value(value, observed_text)
            obs = env.step(turn.call)
            text, observed_text = text + turn_text(write_line(turn.call)) + reply_text(obs), observed_text + obs.text


def test_every_field_is_named_whether_or_not_it_is_empty() -> None:
    env = staged()
    obs = env.step(Call("ticketdesk", "get_ticket", {"ticket_id": env.setting.case.ticket_id}))
    words, empty = reply_text(obs).split("\n")[0].split(" "), [k for k, v in obs.last_result.items() if v is None]
    assert "blocked_by" in empty
    assert set(empty) <= set(words)
    assert {word.partition("=")[0] for word in words} >= obs.last_result.keys() - {"id"}


def test_a_fault_is_its_code_and_a_refusal_is_its_message() -> None:
    assert reply_text(observed(Reply(False, "no_answer", None, "no answer within 30 s"))) == "no_answer\n>"
    assert reply_text(observed(Reply(False, "blocked", None, "T-1 waits for T-2"))) == "blocked: T-1 waits for T-2\n>"
    assert (
        reply_text(observed(Reply(False, "bad_action", None, "JSON")), "there is no tool 'x'")
        == "bad_action: there is no tool 'x'\n>"
    )


@STEADY
@given(st.text(), st.text(), st.text())
def test_no_text_can_pass_for_a_call_or_for_the_end_of_a_reply(title: str, other_title: str, prose: str) -> None:
    rows = [{"id": "T-1", "title": title, "text": prose}, {"id": "T-2", "title": other_title, "text": prose}]
    for data in ({"rows": rows}, rows[0], {"arrived": rows}):
        *lines, prompt = reply_text(observed(Reply(True, "ok", data))).split("\n")
        assert prompt == ">"
        assert not any(line.startswith(">") for line in lines)
    *lines, prompt = reply_text(observed(Reply(False, "refused", None, prose)), other_title).split("\n")
    assert (len(lines), prompt) == (1, ">")


# -- shrinking ---------------------------------------------------------------------------------------------------------


def test_stale_lines_are_dropped_first_then_prose_then_rows() -> None:
    shrinking, rows = script(), "\n".join(f"P-{n} policy{n}" for n in range(1, 9))
    add(shrinking, "search", f"id title:\n{rows}")
    add(shrinking, "read P-1", "P-1 title=policy1 minimum=60\n " + "prose " * 50)
    assert add(shrinking, "read P-2", "P-2 title=policy2 limit=5\n " + "words " * 6)
    text = decode(shrinking.tokens)
    assert "P-1 policy1" not in text
    assert "P-3 policy3" in text
    assert "prose" not in text
    assert "P-1 title=policy1 minimum=60" in text
    assert "words" in text


def test_a_line_stays_if_a_later_line_lacks_one_of_its_fields() -> None:
    shrinking = script()
    add(shrinking, "get T-1", "T-1 amount=900 cost_center verified")
    add(shrinking, "update T-1", "T-1 verified=E-5")
    add(shrinking, "read", "P-1 a=1\n " + "prose " * 60)
    assert add(shrinking, "read", "P-2 a=1\n " + "prose " * 20)
    assert "T-1 amount=900 cost_center verified" in decode(shrinking.tokens)


calls = st.text("abc -", max_size=40)
replies = st.lists(st.text('abcT-1=" :', min_size=1, max_size=120), min_size=1, max_size=8).map("\n".join)


@STEADY
@given(st.lists(st.tuples(calls, replies), max_size=30))
def test_there_is_always_room_for_the_next_call_and_spans_are_calls(turns: list[tuple[str, str]]) -> None:
    shrinking = script()
    before: list[int] = []
    for line, reply in turns:
        before = shrinking.tokens.copy()
        shrunk = add(shrinking, line, reply)
        assert len(shrinking.tokens) <= LIMIT - RESERVE
        assert decode(shrinking.tokens).startswith("Mon 2026-01-05 09:00, 60 steps\nPlease.\n>")
        assert decode(shrinking.tokens).endswith("\n>")
        assert all(
            decode(shrinking.tokens)[start - 1] == ">" and decode(shrinking.tokens)[end - 1] == "\n"
            for start, end in shrinking.turn_spans
        )
        if not shrunk:
            assert shrinking.tokens[: len(before)] == before
        assert decode(shrinking.tokens[slice(*shrinking.turn_spans[-1])]) == turn_text(line)


@STEADY
@given(st.lists(replies, min_size=1, max_size=12))
def test_calls_stay_as_long_as_replies_can_shrink(replies_in_order: list[str]) -> None:
    shrinking = script()
    for number, reply in enumerate(replies_in_order):
        add(shrinking, f"call {number}", reply)
    turns = [decode(shrinking.tokens[start:end]) for start, end in shrinking.turn_spans]
    assert turns == [turn_text(f"call {number}") for number in range(len(replies_in_order))]


def test_a_brief_that_leaves_no_room_for_work_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no room"):
        Script(encode, 100, 20).open("x" * 100)
