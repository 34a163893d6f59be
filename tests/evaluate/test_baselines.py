"""The baselines page: runs of built-in agents, the commands that make them, and claims about their results."""

from pathlib import Path

import msgspec
import pytest

from companyos.agents import AGENTS
from companyos.core.episode import CANARY
from companyos.evaluate.runs.run import evaluate, on_processes
from companyos.evaluate.suites.suite import suite
from tests.evaluate.test_leaderboard import submit
from tools import baselines, leaderboard
from tools.baselines import COLUMNS, NO_MODEL, main, model, thinned, trials

FEW = ["expert", "null", "blind_script"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("baselines")
    arguments = ["--runs", str(folder / "runs"), "--out", str(folder / "page.md"), "--every", "120", "--workers", "1"]
    assert main([*arguments, "--submissions", str(folder), "--agents", *FEW]) == 0
    return folder


def test_the_page_has_a_row_and_a_command_for_every_agent_and_suite(written: Path) -> None:
    text = (written / "page.md").read_text()
    for name, columns in COLUMNS.items():
        part = text.partition(f"## `{name}`")[2].partition("\n## ")[0]
        assert f"| agent | {' | '.join(columns)} | episodes |" in part
        for agent in FEW:
            assert f"\n| `{agent}` | " in part
            assert f"companyos eval --agent {agent} --suite {name} --trials {trials(agent)}" in part
    assert text.count("\n- `") == 3
    assert "every 120th task" in text
    assert CANARY in text
    assert NO_MODEL in text


def test_finished_runs_are_reused_and_give_the_same_page(written: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (written / "runs").rglob("episodes/*/*.jsonl")}
    arguments = ["--runs", str(written / "runs"), "--out", str(written / "again.md"), "--every", "120", "--workers", "1"]
    assert main([*arguments, "--submissions", str(written), "--agents", *FEW]) == 0
    assert (written / "again.md").read_bytes() == (written / "page.md").read_bytes()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_false_claim_is_named_and_not_written_to_the_page(
    written: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(AGENTS, "null", AGENTS["expert"])
    arguments = ["--runs", str(written / "cheat"), "--out", "-", "--every", "120", "--workers", "1"]
    assert main([*arguments, "--submissions", str(written), "--agents", "null"]) == 1
    said = capsys.readouterr()
    assert "does not hold: `null` succeeds in 0 %" in said.err
    assert "- `null` succeeds" not in said.out


def test_thinning_keeps_the_doses_of_a_task_and_the_sides_of_a_pair_together() -> None:
    doses, pairs = thinned(suite("chaos"), 40), thinned(suite("twins"), 100)
    assert len(doses.tasks) == 15
    assert len({task.rpartition("-")[0] for task in doses.tasks}) == 3
    assert {side for pair in pairs.pairs for side in (pair.task, pair.twin)} == set(pairs.tasks)


def test_the_language_model_is_listed_only_with_a_submission_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaderboard, "WORKERS", 1)
    monkeypatch.setattr(baselines, "MODEL", "jittered")
    run = tmp_path / "run"
    evaluate("jittered", "smoke", 1, run, on_processes(1))
    honest, forged = (tmp_path / name for name in ("honest", "forged"))
    honest.mkdir()
    forged.mkdir()
    assert "| `jittered` | 100.0 %" in model(submit(honest, run, trained="no"))
    results = msgspec.json.decode((run / "results.json").read_bytes())
    results["overall"]["numbers"]["success"]["value"] = 0.5
    (run / "results.json").write_bytes(msgspec.json.encode(results))
    assert model(submit(forged, run, trained="no")) == NO_MODEL
