"""Tests of transcripts: what their files contain and which files are refused."""

from collections.abc import Callable

import msgspec
import pytest

from companyos.core.calls import Call
from companyos.core.episode import CANARY, Footer, Header, Transcript, Turn
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make
from companyos.families.kit.goals import add_up
from tests.helpers import FAMILY, played, staged, step, ticket

AGENTS = ("expert", "random", "jittered", "null")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_transcript_comes_back_from_its_file_as_it_was(agent: str) -> None:
    for seed in range(5):
        transcript = played(agent, seed).transcript()
        text = transcript.to_jsonl()
        assert Transcript.from_jsonl(text) == Transcript.from_jsonl(text.encode()) == transcript
        assert Transcript.from_jsonl(text).to_jsonl() == text


def test_a_transcript_is_a_header_one_line_for_each_turn_and_a_footer() -> None:
    env = played("random", 3)
    lines = env.transcript().to_jsonl().split("\n")
    assert lines.pop() == ""
    assert len(lines) == env.step_count + 2
    header, footer = msgspec.json.decode(lines[0], type=Header), msgspec.json.decode(lines[-1], type=Footer)
    assert (header.task_id, header.reward, header.version, header.canary) == (
        env.task_id,
        "dense",
        BENCHMARK_VERSION,
        CANARY,
    )
    assert header.brief == env.setting.case.brief
    assert (footer.done, footer.success) == (True, env.success)
    assert footer.total == add_up(turn.reward for turn in env.turns)
    assert [msgspec.json.decode(line, type=Turn) for line in lines[1:-1]] == env.turns


def test_the_canary_never_changes() -> None:
    assert CANARY == "companyos-canary-8f1d2c70-do-not-train-on-held-out-splits"


def test_a_transcript_can_be_taken_at_any_time() -> None:
    env = make(FAMILY, seed=1)
    for turns in range(4):
        transcript = env.transcript()
        assert len(transcript.turns) == turns
        assert (transcript.footer.done, transcript.footer.success, transcript.footer.verdict) == (False, None, {})
        assert Transcript.from_jsonl(transcript.to_jsonl()) == transcript
        step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)


def test_a_footer_tells_each_goal_and_all_damage() -> None:
    env = played("expert", 2)
    verdict = env.transcript().footer.verdict
    assert verdict["success"] is True
    assert all(verdict["goals"].values())
    assert len(verdict["goals"]) == len(env.setting.ending.goals)
    assert verdict["damage"] == []


def test_a_turn_records_the_call_as_it_was_sent() -> None:
    env = make(FAMILY, seed=1)
    said = {"app": "ticketdesk", "method": "get_ticket", "params": {"ticket_id": "T-1", "x": [1, {"y": None}]}}
    env.step(said)
    turn = env.transcript().turns[0]
    assert (turn.call.app, turn.call.method, turn.call.params) == (said["app"], said["method"], said["params"])
    assert "action" not in msgspec.json.decode(env.transcript().to_jsonl().split("\n")[1])


def test_a_turn_keeps_an_invalid_action() -> None:
    env = make(FAMILY, seed=1)
    env.step([1, "two"])
    turn = Transcript.from_jsonl(env.transcript().to_jsonl()).turns[0]
    assert turn.call == Call("", "", {})
    assert turn.action == ([1, "two"],)


def episode() -> CompanyEnv:
    env = staged()
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    step(env, "datahub.list_metrics")
    return env


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("junk", ["{", "[]", "null", "{}", "\x00", '{"call": 5}'])
def test_an_invalid_line_of_a_transcript_is_named(number: int, junk: str) -> None:
    lines = episode().transcript().to_jsonl().splitlines()
    lines[number - 1] = junk
    with pytest.raises(ValueError, match=f"line {number}: "):
        Transcript.from_jsonl("\n".join(lines))


@pytest.mark.parametrize("text", ["", "\n\n", "{}", b"\xff\xfe"])
def test_text_that_is_not_a_transcript_is_refused(text: str | bytes) -> None:
    with pytest.raises(ValueError, match="not a transcript"):
        Transcript.from_jsonl(text)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (lambda text: text.splitlines()[0], "truncated transcript: only the header line is there"),
        (lambda text: text[: text.rindex("\n", 0, -1)], r"truncated transcript: the footer line is missing after line \d+"),
        (lambda text: text[:-20], r"truncated transcript: line \d+: the line is cut off"),
        (lambda text: text[: text.rindex("\n", 0, -1) - 20], r"truncated transcript: line \d+: the line is cut off"),
    ],
)
def test_a_transcript_whose_end_is_missing_is_called_truncated(kept: Callable[[str], str], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        Transcript.from_jsonl(kept(episode().transcript().to_jsonl()))


def test_bytes_that_are_not_utf8_are_named_by_their_line() -> None:
    lines = episode().transcript().to_jsonl().encode().splitlines()
    lines[2] = b'{"now": "\xff"}'
    with pytest.raises(ValueError, match="line 3: "):
        Transcript.from_jsonl(b"\n".join(lines))


@pytest.mark.parametrize("text", ["two\nlines", "sep\u2028arated", "nel\x85", "\x1c", 'quote"s', "🦦"])
def test_any_text_stays_on_its_line(text: str) -> None:
    env = staged()
    step(env, "ticketdesk.comment", ticket_id=ticket(env).id, text=text)
    written = env.transcript().to_jsonl()
    assert len(written.encode().splitlines()) == 3
    assert Transcript.from_jsonl(written).turns[0].call.params["text"] == text
