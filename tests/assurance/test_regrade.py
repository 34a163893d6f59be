"""Regrading reports the transcripts whose verdict or rewards differ under the present grader."""

import json
from pathlib import Path
from typing import Any

import pytest

from companyos.assurance.regrade import (
    CHANGED,
    NO_TRANSCRIPT,
    OTHER_VERSION,
    REPLAY_FAILED,
    UNCHANGED,
    Regraded,
    regrade,
    regrade_all,
)
from companyos.assurance.replay import replay
from companyos.core.errors import ReplayDiffers
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make, rewards
from companyos.env import env as environment
from companyos.families.kit.citations import Cites
from companyos.families.kit.goals import Damage
from tests.assurance.test_replay import TAMPERING, episode, tampered
from tests.helpers import FAMILY, played, step


def text_of(env: CompanyEnv) -> bytes:
    return env.transcript().to_jsonl().encode()


@pytest.mark.parametrize("reward", ["dense", "score", "sparse"])
@pytest.mark.parametrize("agent", ["expert", "random"])
def test_under_the_same_grader_nothing_changes(agent: str, reward: str) -> None:
    env = played(agent, 3, reward=reward)
    assert regrade(text_of(env), "a") == Regraded("a", UNCHANGED, env.task_id)


def test_an_episode_that_has_the_old_name_of_a_reward_profile_is_unchanged() -> None:
    text = text_of(played("expert", 3, reward="dense"))
    assert regrade(text.replace(b'"reward":"dense"', b'"reward":"seed"', 1)).outcome == UNCHANGED


def test_an_unfinished_episode_is_unchanged_too() -> None:
    env = make(FAMILY, seed=1)
    step(env, "ticketdesk.wait", hours=5)
    assert regrade(text_of(env)).outcome == UNCHANGED


# -- another grader ----------------------------------------------------------------------------------------------------


def test_another_goal_changes_verdict_goal_and_return(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(played("expert", 7))
    monkeypatch.setattr(Cites, "holds", lambda goal, world: False)
    again = regrade(text)
    assert again.outcome == CHANGED
    assert again.what[:2] == ("success -> failure", "Cites: reached -> missed")
    assert again.what[2].startswith("return +")


def test_new_damage_and_former_damage_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    harm = Damage("T-1", "priority", True)
    right = text_of(played("expert", 7))
    monkeypatch.setattr(environment, "damage", lambda *_: [harm])
    wrong = text_of(played("expert", 7))
    assert regrade(right).what[:2] == ("success -> failure", "damage: T-1 priority")
    monkeypatch.undo()
    assert regrade(wrong).what[:2] == ("failure -> success", "no longer damage: T-1 priority")


def test_another_reward_changes_only_the_return(monkeypatch: pytest.MonkeyPatch) -> None:
    env = played("expert", 7)
    total = env.transcript().footer.total
    monkeypatch.setattr(rewards, "SUCCESS", rewards.SUCCESS + 1)
    assert regrade(text_of(env)).what == (f"return {total:+.10g} -> {total + 1:+.10g}",)


def test_a_new_goal_is_named() -> None:
    lines = text_of(played("expert", 7)).decode().splitlines()
    footer = json.loads(lines[-1])
    del footer["verdict"]["goals"]["Cites"]
    assert regrade("\n".join([*lines[:-1], json.dumps(footer)]).encode()).what == ("Cites: not asked for -> reached",)


# -- other worlds, other versions, other files -----------------------------------------------------------------------------

GRADES = {"reward", "parts", "done", "success", "total", "verdict"}


@pytest.mark.parametrize("number", range(len(TAMPERING)))
def test_a_transcript_is_unchanged_only_if_every_line_replays(number: int) -> None:
    field, line, change = TAMPERING[number]
    text = tampered(line, change)
    with pytest.raises(ReplayDiffers) as difference:
        replay(text)
    again = regrade(text.encode())
    if field == "version":
        assert (again.outcome, again.what) == (OTHER_VERSION, ("of version 0",))
    elif field not in GRADES:
        assert (again.outcome, again.what) == (REPLAY_FAILED, (str(difference.value),))
    else:
        assert again.outcome in (CHANGED, NO_TRANSCRIPT)
        assert again.what


def test_an_equal_return_with_other_rewards_on_the_way_is_a_change() -> None:
    again = regrade(tampered(2, lambda line: line.update(reward=1.0)).encode())
    assert again.outcome == CHANGED
    assert again.what[0].startswith("line 2: reward was recorded as 1.0")


def test_a_turn_after_the_end_is_another_world() -> None:
    lines = episode().transcript().to_jsonl().split("\n")
    lines.insert(6, lines[1])
    assert regrade("\n".join(lines).encode()).what == ("line 7: a turn after the episode was over",)


@pytest.mark.parametrize("header", [{"task_id": f"gardening-v{BENCHMARK_VERSION}-train-7-50"}, {"reward": "generous"}])
def test_a_header_with_unknown_names_is_another_world(header: dict[str, str]) -> None:
    again = regrade(tampered(1, lambda line: line.update(header)).encode())
    assert again.outcome == REPLAY_FAILED
    assert again.what[0].startswith("line 1: unknown ")


def test_a_transcript_of_another_version_is_recognised_in_any_form() -> None:
    old = b'{"task_id":"vendor_onboarding-v1-train-7-50","version":1,"mood":"good"}\n{"nothing":"we know"}\n'
    assert regrade(old, "a") == Regraded("a", OTHER_VERSION, "vendor_onboarding-v1-train-7-50", ("of version 1",))


@pytest.mark.parametrize("version", [0, BENCHMARK_VERSION - 1, BENCHMARK_VERSION + 1, 99])
def test_an_older_or_a_newer_transcript_is_of_another_version(version: int) -> None:
    later = tampered(1, lambda line: line.update(version=version, more_than_we_know=True))
    again = regrade(later.encode())
    assert (again.outcome, again.what) == (OTHER_VERSION, (f"of version {version}",))


@pytest.mark.parametrize("text", [b"", b"\n\n", b"hello", b"\xff\xfe", b"{}\n{}", b'{"task_id":7,"version":1}', b"[1]\n[2]"])
def test_a_file_that_is_not_a_transcript_is_reported(text: bytes) -> None:
    again = regrade(text)
    assert again.outcome == NO_TRANSCRIPT
    assert again.what


def test_a_verdict_of_unknown_form_is_not_a_transcript() -> None:
    def odd(line: dict[str, Any]) -> None:
        line["verdict"] = {"grade": "B+"}

    assert regrade(tampered(7, odd).encode()).outcome == NO_TRANSCRIPT


def test_an_unreadable_file_does_not_stop_the_others(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_bytes(text_of(played("expert", 7)))
    gone, kept = regrade_all([tmp_path / "gone.jsonl", good])
    assert (gone.outcome, gone.what) == (NO_TRANSCRIPT, ("cannot be read: No such file or directory",))
    assert kept.outcome == UNCHANGED
