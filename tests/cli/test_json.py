"""`--json`: one object on stdout and nothing else."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from companyos import BENCHMARK_VERSION
from companyos.env import task_named
from companyos.evaluate.suites.suite import suite
from tests.helpers import FAMILY, played, task_id
from tests.shell import run


def result(*argv: object, code: int = 0) -> dict[str, Any]:
    """The object that a command prints."""
    ended, out, _ = run(*argv, "--json")
    assert ended == code
    return msgspec.json.decode(out, type=dict[str, Any])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an agent that wins some tasks and loses others."""
    top = tmp_path_factory.mktemp("json")
    tasks = [str(task_named(FAMILY, seed, 0.5, "validation")) for seed in range(8)]
    (top / "mine.txt").write_text("\n".join(tasks))
    assert run("eval", "--agent", "naive", "--suite", top / "mine.txt", "--out", top / "run", "--workers", 1)[0] == 0
    return top / "run"


def test_eval_says_success_with_its_interval_the_failures_and_the_next_command(folder: Path) -> None:
    found = result("eval", "--agent", "naive", "--suite", folder.parent / "mine.txt", "--out", folder, "--workers", 1)
    success = found["success"]
    assert 0 <= success["low"] < success["value"] < success["high"] <= 1
    assert (found["episodes"], found["successes"]) == (8, round(8 * success["value"]))
    assert found["kept"] == 8
    assert 1 <= len(found["failures"]) <= 2
    assert found["examined"] == 8 - found["successes"]
    blamed = {episode["file"]: episode["habit"] for episode in result("blame", folder)["episodes"]}
    for failure in found["failures"]:
        assert failure["habit"] == blamed[failure["transcript"]]
        assert failure["episodes"] == list(blamed.values()).count(failure["habit"])
    words = found["next"][0].split()
    assert words[:2] == ["companyos", "blame"]
    assert run(*words[1:])[0] == 0


def test_the_text_of_eval_ends_with_the_same(folder: Path) -> None:
    found = result("eval", "--agent", "naive", "--suite", folder.parent / "mine.txt", "--out", folder, "--workers", 1)
    _, out, _ = run("eval", "--agent", "naive", "--suite", folder.parent / "mine.txt", "--out", folder, "--workers", 1)
    lines = out.splitlines()
    success = f"{found['successes']} of 8 episodes succeeded, {100 * found['success']['value']:.1f} % (95 % interval: "
    assert lines[0].startswith(f"naive on mine, version {BENCHMARK_VERSION}: {success}")
    assert [line.strip() for line in lines if line.endswith(".jsonl")][: len(found["failures"])] == [
        failure["transcript"] for failure in found["failures"]
    ]
    assert lines[-1] == f"Next: {found['next'][0]}"


def test_an_agent_without_failures_is_sent_to_its_report(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(task_id())
    found = result("eval", "--agent", "expert", "--suite", tmp_path / "one.txt", "--out", tmp_path / "run", "--workers", 1)
    assert (found["failures"], found["success"]["low"]) == ([], None)
    assert found["next"] == [f"companyos report {tmp_path / 'run'}"]


def test_submit_check_prints_its_findings(folder: Path) -> None:
    assert result("submit-check", folder, "--workers", 1)["passed"] is True
    results = folder / "results.json"
    honest = results.read_bytes()
    results.write_bytes(honest.replace(b'"agent": "naive"', b'"agent": "gpt"'))
    found = result("submit-check", folder, "--workers", 1, code=1)
    results.write_bytes(honest)
    assert (found["passed"], found["findings"][0]["kind"]) == (False, "edited number")


def test_replay_and_regrade_name_every_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(played("expert", 7, chaos=0).transcript().to_jsonl())
    assert result("replay", file)["files"][0] | {"return": 0} == {
        "file": str(file),
        "task_id": task_id(),
        "steps": played("expert", 7, chaos=0).step_count,
        "success": True,
        "return": 0,
    }
    assert result("regrade", tmp_path)["counts"] == {"unchanged": 1}


def test_watch_prints_the_footer_of_the_transcript() -> None:
    found = result("watch", task_id(), "--agent", "expert")
    assert (found["task_id"], found["agent"], found["done"], found["success"]) == (task_id(), "expert", True, True)


def test_lists_of_tasks_twins_suites_and_tools() -> None:
    assert result("tasks", "--families", FAMILY, "--seeds", "0:2")["tasks"] == [str(task_named(FAMILY, n)) for n in (0, 1)]
    assert {twin["relevance"] for twin in result("twins", task_id())["twins"]} == {"ending", "way", "none"}
    assert result("suite", "smoke")["hash"] == suite("smoke").hash
    assert {"smoke", "core"} <= {frozen["name"] for frozen in result("suite")["suites"]}


def test_prove_counts_what_was_proved() -> None:
    found = result("prove", "--families", FAMILY, "--seeds", "0:2", "--chaos", "0.5", "--workers", 1, "--no-twins")
    assert found == {"tasks": 2, "proved": 2, "twins": 0, "failed": []}
