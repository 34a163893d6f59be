"""Submissions: every forgery is found and named; an honest run has no findings."""

import random
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from companyos.core.episode import Transcript
from companyos.env.multi_actor import chairs
from companyos.evaluate.runs.episode_file import EpisodeKey, places
from companyos.evaluate.runs.run import BadRun, evaluate, on_processes
from companyos.evaluate.runs.submission import WHAT_SUBMIT_CHECK_PROVES, check
from companyos.families.kit.goals import add_up
from tests.evaluate.runs import TRIALS, few_tasks, own_suite, small_run
from tests.shell import run as command

SIZE = 4


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_run(tmp_path_factory.mktemp("submission"), size=SIZE)


@pytest.fixture
def forged(honest: Path, tmp_path: Path) -> Path:
    return shutil.copytree(honest, tmp_path / "forged")


def test_an_honest_run_passes_and_its_numbers_are_recomputed(honest: Path) -> None:
    checked = check(honest)
    assert (checked.findings, checked.episodes) == ((), SIZE * TRIALS)
    assert checked.results == msgspec.json.decode((honest / "results.json").read_bytes())


def test_the_check_says_what_it_proves_and_what_it_does_not(honest: Path) -> None:
    code, out, _ = command("submit-check", honest, "--workers", 1)
    assert code == 0
    assert "jittered on few: 8 episodes, every number follows from the calls" in out
    assert "does not prove who made the calls" in WHAT_SUBMIT_CHECK_PROVES
    assert out.endswith(WHAT_SUBMIT_CHECK_PROVES + "\n")


def test_identical_trials_are_counted_but_are_no_finding(tmp_path: Path) -> None:
    run = tmp_path / "run"
    evaluate("expert", own_suite(tmp_path, SIZE), 3, run, on_processes(1))
    checked = check(run)
    assert (checked.findings, checked.repeated) == ((), 2 * SIZE)


# -- forgeries ---------------------------------------------------------------------------------------------------------

Forgery = Callable[[Path, random.Random], str]  # does it, and says which file must be named


def _some_episode(run: Path, luck: random.Random) -> Path:
    return run / luck.choice(sorted(places(run)))


def _rewrite(path: Path, run: Path, change: Callable[[list[dict[str, Any]]], object]) -> str:
    """Edit the lines of an episode and its hash in the manifest, so that only a replay can show it."""
    before = path.read_bytes()
    lines = [msgspec.json.decode(line) for line in before.splitlines()]
    change(lines)
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    manifest = run / "manifest.txt"
    after = sha256(path.read_bytes()).hexdigest()
    manifest.write_text(manifest.read_text().replace(sha256(before).hexdigest(), after))
    return path.relative_to(run).as_posix()


def forged_reward(run: Path, luck: random.Random) -> str:
    """A reward is raised, with a total that adds up."""

    def pay(lines: list[dict[str, Any]]) -> None:
        turn, more = luck.choice(lines[1:-1]), luck.choice((0.01, 1.0, 25.0))
        turn["reward"] += more
        turn["parts"]["milestone"] = turn["parts"].get("milestone", 0.0) + more
        lines[-1]["total"] = add_up(line["reward"] for line in lines[1:-1])

    return _rewrite(_some_episode(run, luck), run, pay)


def missing_episode(run: Path, luck: random.Random) -> str:
    """An episode is left out, in the manifest and the outcomes too."""
    path = _some_episode(run, luck)
    place = path.relative_to(run).as_posix()
    path.unlink()
    for name in ("manifest.txt", "outcomes.jsonl"):
        task_id, trial = path.name.removesuffix(".jsonl").rsplit(".", 1)
        marks = (place,) if name == "manifest.txt" else (f'"{task_id}"', f'"trial":{trial}')
        lines = (run / name).read_text().splitlines(keepends=True)
        (run / name).write_text("".join(line for line in lines if not all(mark in line for mark in marks)))
    return place


def edited_reply(run: Path, luck: random.Random) -> str:
    """A reply is changed."""

    def say(lines: list[dict[str, Any]]) -> None:
        reply = luck.choice([line["reply"] for line in lines[1:-1]])
        if luck.random() < 0.5 and isinstance(reply.get("data"), dict) and reply["data"]:
            reply["data"][luck.choice(sorted(reply["data"]))] = "approved"
        else:
            reply["message"] = reply.get("message", "") + "."

    return _rewrite(_some_episode(run, luck), run, say)


def edited_number(run: Path, luck: random.Random) -> str:
    """A number anywhere in the results is changed."""
    results = msgspec.json.decode((run / "results.json").read_bytes())
    numbers = list(_numbers(results))
    holder, key = luck.choice(numbers)
    holder[key] += luck.choice((1, 0.001, -0.5))
    (run / "results.json").write_bytes(msgspec.json.encode(results))
    return "results.json"


def _numbers(tree: Any) -> list[tuple[Any, Any]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [
        found
        for key, value in items
        for found in (
            _numbers(value) if isinstance(value, dict | list) else [(tree, key)] if type(value) in (int, float) else []
        )
    ]


def swapped_episode(run: Path, luck: random.Random) -> str:
    """An episode is copied over one of another task or trial, or to an additional trial."""
    one, other = luck.sample(few_tasks(SIZE), 2)
    source = EpisodeKey(one, 0)
    target = luck.choice((EpisodeKey(other, 0), EpisodeKey(one, 1), EpisodeKey(one, TRIALS)))
    text = (run / source.place).read_text()
    (run / target.place).write_text(text)
    return "manifest.txt" if target == EpisodeKey(one, 1) else target.place


@pytest.mark.parametrize("forgery", [forged_reward, missing_episode, edited_reply, edited_number, swapped_episode])
def test_twenty_of_twenty_forgeries_are_found_and_named(honest: Path, tmp_path: Path, forgery: Forgery) -> None:
    for number in range(20):
        run = shutil.copytree(honest, tmp_path / str(number))
        place = forgery(run, random.Random(number))
        findings = check(run).findings
        assert place in [finding.where for finding in findings], (number, findings)
        shutil.rmtree(run)


def test_an_episode_with_the_old_name_of_the_reward_profile_is_accepted(forged: Path) -> None:
    place = _rewrite(_some_episode(forged, random.Random(3)), forged, lambda lines: lines[0].update(reward="seed"))
    assert place not in [finding.where for finding in check(forged).findings]


def test_a_finding_says_which_line_and_what_it_should_be(forged: Path) -> None:
    place = forged_reward(forged, random.Random(3))
    code, out, _ = command("submit-check", forged, "--workers", 1)
    assert code == 1
    first = out.splitlines()[0]
    assert first.startswith(f"{place}: edited episode: line ")
    assert "was recorded as" in first


def test_an_edited_number_is_named_with_its_path_and_right_value(forged: Path) -> None:
    results = (forged / "results.json").read_bytes()
    (forged / "results.json").write_bytes(results.replace(b'"tasks": 4', b'"tasks": 5', 1))
    assert [finding.what for finding in check(forged).findings] == ["tasks says 5, and is 4"]


@pytest.mark.parametrize(
    ("name", "old", "new", "kind"),
    [
        ("run.json", '"suite": "few"', '"suite": "smoke"', "another suite"),
        ("run.json", '"trials": 2', '"trials": 1', "stray file"),
        ("run.json", '"trials": 2', '"trials": 3', "missing episode"),
        ("run.json", '"agent": "jittered"', '"agent": "expert"', "edited number"),
        ("outcomes.jsonl", '"success":true', '"success":false', "edited line"),
    ],
)
def test_the_files_around_the_episodes_are_checked_too(forged: Path, name: str, old: str, new: str, kind: str) -> None:
    text = (forged / name).read_text()
    assert old in text
    (forged / name).write_text(text.replace(old, new, 1))
    assert kind in [finding.kind for finding in check(forged).findings]


def test_an_unfinished_episode_is_found(forged: Path) -> None:
    path = sorted(forged.rglob("episodes/*/*.jsonl"))[0]
    lines = path.read_bytes().splitlines(keepends=True)
    footer = msgspec.json.encode({"done": False, "success": None, "total": 0.0, "verdict": {}})
    path.write_bytes(b"".join(lines[:3]) + footer + b"\n")
    assert "unfinished episode" in [finding.kind for finding in check(forged).findings]


def test_an_episode_with_a_second_actor_is_found(forged: Path) -> None:
    path = sorted(forged.rglob("episodes/*/*.jsonl"))[0]
    handle = next(iter(chairs(Transcript.from_jsonl(path.read_bytes()).header.task_id).values()))
    place = _rewrite(path, forged, lambda lines: lines[0].update(actors=[handle]))
    assert (place, "more than one") in [(finding.where, finding.kind) for finding in check(forged).findings]


@pytest.mark.parametrize("content", [b"", b"\xff", b"{}\n{}\n", b"[]"])
def test_an_unreadable_transcript_is_named_and_the_check_goes_on(forged: Path, content: bytes) -> None:
    path = sorted(forged.rglob("episodes/*/*.jsonl"))[0]
    path.write_bytes(content)
    found = [finding for finding in check(forged).findings if finding.kind == "unreadable episode"]
    assert [finding.where for finding in found] == [path.relative_to(forged).as_posix()]


def test_a_folder_that_holds_no_run_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="not the folder of a run"):
        check(tmp_path)
    assert command("submit-check", tmp_path / "nowhere")[0] == 2
