"""A replay makes the calls of a transcript again and finds the first line that differs."""

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from companyos.assurance.replay import ReplayedEpisode, replay
from companyos.core.episode import Transcript
from companyos.core.errors import BadTask, ReplayDiffers
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make, task_named
from companyos.env.multi_actor import chairs
from tests.core.test_calls import INVALID_ACTIONS
from tests.helpers import FAMILY, played, staged, step, task_id, ticket


@pytest.mark.parametrize("agent", ["expert", "random", "jittered", "null"])
@pytest.mark.parametrize("reward", ["dense", "score", "sparse"])
def test_every_episode_replays_to_the_same_end(agent: str, reward: str) -> None:
    for seed in range(3):
        env = played(agent, seed, chaos=0.75, reward=reward)
        again = replay(env.transcript().to_jsonl())
        assert again.digest() == env.digest()
        assert again.turns == env.turns
        assert again.verdict == env.verdict


def test_an_unfinished_episode_replays_to_its_last_turn() -> None:
    env = make(FAMILY, seed=1)
    step(env, "ticketdesk.wait", hours=5)
    again = replay(env.transcript())
    assert not again.done
    assert again.digest() == env.digest()


def test_a_transcript_that_has_the_old_name_of_a_reward_profile_replays_to_the_same_bytes() -> None:
    text = played("jittered", 7, reward="dense").transcript().to_jsonl()
    old = text.replace('"reward":"dense"', '"reward":"seed"', 1)
    assert old != text
    assert replay(old).transcript().to_jsonl() == old


@pytest.mark.parametrize("version", [BENCHMARK_VERSION - 1, BENCHMARK_VERSION + 1])
def test_a_transcript_of_another_version_does_not_replay(version: int) -> None:
    text = played("expert", 7).transcript().to_jsonl()
    with pytest.raises(ReplayDiffers, match=f"line 1: version was recorded as {version}"):
        replay(text.replace(f'"version":{BENCHMARK_VERSION}', f'"version":{version}', 1))
    with pytest.raises(BadTask, match=f"is of benchmark version {version}; this is version {BENCHMARK_VERSION}"):
        replay(text.replace(f"-v{BENCHMARK_VERSION}-", f"-v{version}-", 1))


def test_a_transcript_with_fields_of_a_newer_version_is_refused_by_its_line() -> None:
    lines = played("expert", 7).transcript().to_jsonl().splitlines()
    for number in (1, 2, len(lines)):
        newer = lines.copy()
        newer[number - 1] = '{"mood":"good",' + newer[number - 1][1:]
        with pytest.raises(ValueError, match=f"not a transcript: line {number}: .*mood"):
            replay("\n".join(newer))


@pytest.mark.parametrize("number", range(len(INVALID_ACTIONS)))
def test_an_episode_with_invalid_calls_replays_too(number: int) -> None:
    env = make(FAMILY, seed=1)
    env.step(INVALID_ACTIONS[number])
    step(env, "datahub.list_metrics")
    assert replay(env.transcript().to_jsonl()).digest() == env.digest()


def episode(text: str = "Hello.") -> CompanyEnv:
    """Play two reads, a write, a request, a wait, an invalid call, and the closing call."""
    env = staged()
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    step(env, "ticketdesk.comment", ticket_id=ticket(env).id, text=text)
    step(env, "ticketdesk.wait", hours=3)
    env.step(["no call"])
    closing: dict[str, Any] = {"resolution": "declined", "reason": "no_budget", "evidence": []}
    step(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **closing)
    return env


def tampered(number: int, change: Callable[[dict[str, Any]], object], text: str = "Hello.") -> str:
    """Return the transcript with one line changed."""
    lines = episode(text).transcript().to_jsonl().split("\n")
    line = json.loads(lines[number - 1])
    change(line)
    lines[number - 1] = json.dumps(line, ensure_ascii=False)
    return "\n".join(lines)


TAMPERING: list[tuple[str, int, Callable[[dict[str, Any]], object]]] = [
    ("brief", 1, lambda line: line.update(brief="Do something else.")),
    ("version", 1, lambda line: line.update(version=0)),
    ("canary", 1, lambda line: line.update(canary="")),
    ("now", 2, lambda line: line.update(now="Mon 2026-01-05 00:00")),
    ("reward", 2, lambda line: line.update(reward=1.0)),
    ("parts", 2, lambda line: line["parts"].update(bonus=1.0)),
    ("digest", 2, lambda line: line.update(digest="0" * 32)),
    ("reply", 2, lambda line: line["reply"].update(ok=False)),
    ("reply", 2, lambda line: line["reply"].update(code="fine")),
    ("reply", 2, lambda line: line["reply"].update(message="!")),
    ("reply", 2, lambda line: line["reply"]["data"].update(amount=1)),
    ("reply", 2, lambda line: line["reply"]["data"].update(amount=float(line["reply"]["data"]["amount"]))),
    ("reply", 2, lambda line: line["reply"].update(data=dict(reversed(line["reply"]["data"].items())))),
    ("reply", 2, lambda line: line["call"].update(params={"ticket_id": "T-1"})),
    ("reply", 2, lambda line: line["call"].update(method="get_history")),
    ("reply", 3, lambda line: line["call"]["params"].update(text="Something else.")),
    ("now", 4, lambda line: line["call"]["params"].update(hours=4)),
    ("reply", 5, lambda line: line.update(action=["something else"])),
    ("done", 7, lambda line: line.update(done=False)),
    ("success", 7, lambda line: line.update(success=True)),
    ("total", 7, lambda line: line.update(total=100.0)),
    ("verdict", 7, lambda line: line["verdict"].update(success=True)),
    ("verdict", 7, lambda line: line["verdict"].update(damage=[{"record": "x"}])),
]


@pytest.mark.parametrize("number", range(len(TAMPERING)))
def test_tampering_is_detected_at_the_first_line_that_differs(number: int) -> None:
    field, line, change = TAMPERING[number]
    with pytest.raises(ReplayDiffers, match=rf"^line {line}: {field} was recorded as "):
        replay(tampered(line, change))


def test_the_transcript_used_for_tampering_replays_unchanged() -> None:
    assert replay(tampered(2, lambda line: None)).done


@pytest.mark.parametrize("text", ["sep\u2028arated", "nel\x85", "two\nlines"])
def test_no_text_in_a_call_hides_the_line_that_differs(text: str) -> None:
    with pytest.raises(ReplayDiffers, match=r"^line 4: now was recorded as "):
        replay(tampered(4, lambda line: line.update(now="?"), text))


def test_another_reward_profile_in_the_header_is_detected_at_the_first_reward() -> None:
    with pytest.raises(ReplayDiffers, match=r"^line 2: reward was recorded as "):
        replay(tampered(1, lambda line: line.update(reward="sparse")))


def test_another_task_in_the_header_is_detected_there() -> None:
    with pytest.raises(ReplayDiffers, match=r"^line 1: brief was recorded as "):
        replay(tampered(1, lambda line: line.update(task_id=task_id(999))))


def test_a_missing_line_is_detected_at_its_place() -> None:
    lines = episode().transcript().to_jsonl().split("\n")
    del lines[2]
    with pytest.raises(ReplayDiffers, match=r"^line 3: "):
        replay("\n".join(lines))


def test_a_turn_after_the_end_is_detected() -> None:
    lines = episode().transcript().to_jsonl().split("\n")
    lines.insert(6, lines[1])
    with pytest.raises(ReplayDiffers, match=r"^line 7: a turn after the episode was over"):
        replay("\n".join(lines))


@pytest.mark.parametrize("header", [{"task_id": "nonsense-7"}, {"reward": "generous"}])
def test_a_header_with_unknown_names_is_a_value_error(header: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"not a task id|valid: dense, score, sparse"):
        replay(tampered(1, lambda line: line.update(header)))


def test_text_that_is_not_a_transcript_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not a transcript"):
        replay("nothing of the kind")


def test_a_replay_accepts_a_transcript_object() -> None:
    transcript = episode().transcript()
    again = Transcript.from_jsonl(transcript.to_jsonl())
    assert replay(again).transcript() == transcript
    assert msgspec.to_builtins(replay(transcript).transcript()) == msgspec.to_builtins(transcript)


def test_a_replayed_episode_keeps_the_environment_before_the_first_call_and_after_each() -> None:
    env = episode()
    replayed = ReplayedEpisode(env.transcript())
    assert [len(state.turns) for state in replayed.states] == list(range(len(env.turns) + 1))
    assert [state.digest() for state in replayed.states[1:]] == [turn.digest for turn in env.turns]
    replayed.states[0].step(env.turns[-1].call)  # each is a copy: nobody who tries something changes the others
    assert replayed.end.transcript() == env.transcript()


def test_a_replay_in_another_reward_profile_pays_by_that_profile() -> None:
    won = played("expert", 7)
    assert ReplayedEpisode(won.transcript(), "sparse").end.total == 1
    assert ReplayedEpisode(won.transcript()).end.total == won.total != 1


def test_a_turn_of_an_actor_who_has_no_steps_left_is_found_out() -> None:
    name = str(task_named("expense_report", 1, 0.5))
    handle = next(iter(chairs(name).values()))
    env = make(name, actors=[handle])
    for _ in range(env.max_steps):
        env.step("no call", handle)
    assert not env.done
    recorded = env.transcript()
    assert replay(recorded).digest() == env.digest()
    with pytest.raises(ReplayDiffers, match=f"line {env.max_steps + 2}: a turn after"):
        replay(msgspec.structs.replace(recorded, turns=(*recorded.turns, recorded.turns[-1])))
