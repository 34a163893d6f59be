"""The commands `compare` and `blame`."""

from pathlib import Path

import msgspec
import pytest

from companyos.agents.agent import Usage
from companyos.cli.main import main
from companyos.core.calls import Call
from companyos.env import make, task_named
from companyos.evaluate.runs.episode_file import EpisodeKey, save_episode
from tests.evaluate.helpers import transcript


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs, as `eval` writes them: of the expert and of an agent that only waits."""
    for agent in ("expert", "null"):
        for seed in range(3):
            task = str(task_named("license_renewal", seed, 0.5, "test"))
            save_episode(tmp_path / agent, EpisodeKey(task, 0), transcript(task, agent).to_jsonl(), [Usage(tokens_in=1)])
        (tmp_path / agent / "outcomes.jsonl").write_text("{}\n")
    return tmp_path


def test_compare_prints_the_difference_and_the_number_of_tasks(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(runs / "null"), str(runs / "expert")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "+100.0" in shown
    assert "3 tasks that both played." in shown
    assert "Cannot tell which is better: they share the tasks of 3 seeds; 20 or more are needed." in shown
    assert main(["compare", str(runs / "null"), str(runs / "expert"), "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["success"]["value"], found["verdict"]) == (1, "cannot tell")


def test_blame_lists_the_habits_of_a_folder_and_tells_the_story_of_a_single_episode(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["blame", str(runs / "null")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 episodes: 0 succeeded; 3 failed."
    assert "3 of 3: ran out of steps, mostly waiting" in lines
    paths = sorted((runs / "null").rglob("*.0.jsonl"))
    assert [line.strip() for line in lines if line.startswith("  ") and line.endswith(".jsonl")] == list(map(str, paths))
    assert main(["blame", str(paths[0])]) == 0
    assert "Ran out of steps: all " in capsys.readouterr().out
    assert main(["blame", str(runs / "expert")]) == 0
    assert capsys.readouterr().out == "3 episodes: 3 succeeded, 0 of them by luck; 0 failed.\n"


def test_blame_lists_at_most_five_episodes_of_a_habit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in range(7):
        task = str(task_named("vendor_onboarding", seed))
        save_episode(tmp_path, EpisodeKey(task, 0), transcript(task, "null").to_jsonl(), [])
    assert main(["blame", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("    Ran out of steps") == 5
    assert "  and 2 more; --json lists all" in shown


def test_the_story_that_blame_proposes_is_of_the_most_frequent_habit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file that comes first belongs to another habit."""
    env = make("vendor_onboarding", seed=0)
    wrong = {"resolution": "cannot_be_done", "reason": "unused", "evidence": []}
    env.step(Call("ticketdesk", "resolve_ticket", {"ticket_id": env.setting.case.ticket_id} | wrong))
    assert env.done
    waiting = [transcript(str(task_named("vendor_onboarding", seed)), "null") for seed in (1, 2)]
    for number, episode in enumerate([env.transcript(), *waiting]):
        (tmp_path / f"{number}.jsonl").write_text(episode.to_jsonl())
    assert main(["blame", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith(f"The story of one episode: companyos blame {tmp_path / '1.jsonl'}\n")


def test_blame_as_json_has_counts_habits_and_the_story_of_every_episode(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["blame", str(runs / "null"), "--json"]) == 0
    result = msgspec.json.decode(capsys.readouterr().out)
    assert (result["sheet"]["successes"], len(result["episodes"]), result["skipped"]) == (0, 3, [])
    assert [(habit["habit"], habit["count"]) for habit in result["habits"]] == [("ran out of steps, mostly waiting", 3)]
    for episode in result["episodes"]:
        assert Path(episode["file"]).is_file()
        assert episode["headline"] == episode["sentences"][0]
        assert episode["habit"] == "ran out of steps, mostly waiting"
        assert episode["story"]["clause"]["title"] == "Licence renewal: order of checks"


def test_blame_skips_files_of_a_folder_that_are_not_transcripts(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = next((runs / "null").rglob("*.0.jsonl"))
    folder = runs / "mixed"
    folder.mkdir()
    (folder / "whole.jsonl").write_bytes(whole.read_bytes())
    (folder / "cut.jsonl").write_bytes(b"\n".join(whole.read_bytes().split(b"\n")[:5]))
    (folder / "notes.jsonl").write_text("{}\n{}\n")
    assert main(["blame", str(folder)]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("1 episode: 0 succeeded; 1 failed.")
    cut, notes = printed.err.splitlines()
    assert cut.startswith(f"companyos: skipped {folder / 'cut.jsonl'}: truncated transcript: ")
    assert notes.startswith(f"companyos: skipped {folder / 'notes.jsonl'}: not a transcript: ")
    (folder / "whole.jsonl").unlink()
    assert main(["blame", str(folder)]) == 2
    assert capsys.readouterr().err.endswith(f"companyos: {folder}: no transcript in it\n")


def test_a_place_without_a_run_is_refused_in_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nothing, empty, broken = runs / "nothing", runs / "empty", runs / "broken.jsonl"
    empty.mkdir()
    broken.write_text("{}\n{}\n")
    alone = next((runs / "null").rglob("*.0.jsonl"))
    for arguments in (
        ["blame", str(nothing)],
        ["blame", str(empty)],
        ["blame", str(broken)],
        ["compare", str(runs / "null"), str(empty)],
        ["compare", str(alone), str(alone)],
    ):
        assert main(arguments) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith("companyos: ")
        assert said.err.count("\n") == 1


def test_a_file_with_calls_after_the_end_is_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = next((runs / "expert").rglob("*.0.jsonl"))
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], lines[-2], lines[-1]]) + "\n")
    assert main(["blame", str(path)]) == 2
    assert "a turn after the episode was over" in capsys.readouterr().err
