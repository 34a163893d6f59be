"""The commands `compare` and `blame`."""

from pathlib import Path

import msgspec
import pytest

from companyos.agents.agent import Usage
from companyos.cli.main import main
from companyos.env import task_named
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


def test_blame_summarises_a_folder_and_describes_a_single_episode(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["blame", str(runs / "null")]) == 0
    shown = capsys.readouterr().out
    assert "3 episodes: 0 succeeded; 3 failed." in shown
    assert "for lack of time" in shown
    single = next((runs / "null").rglob("*.0.jsonl"))
    assert main(["blame", str(single)]) == 0
    assert "Lost at step" in capsys.readouterr().out
    assert main(["blame", str(runs / "expert"), "--json"]) == 0
    found = msgspec.json.decode(capsys.readouterr().out)
    assert (found["sheet"]["successes"], len(found["episodes"])) == (3, 3)


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
