"""Leaderboard: checked submissions only, with the numbers that the check computed."""

import shutil
import tarfile
from pathlib import Path

import msgspec
import pytest

from companyos.core.episode import CANARY
from companyos.core.task import BENCHMARK_VERSION
from companyos.evaluate.runs.run import evaluate, on_processes
from tests.laws import FULL
from tools import leaderboard
from tools.leaderboard import EXAMPLE_CARD, NOBODY, OURS, PAGE, THEIRS, Card, main

CARD = {"agent": "jittered", "suite": "smoke", "trained": "other families", "saw_source": "no"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board") / "run"
    evaluate("jittered", "smoke", 1, folder, on_processes(1))
    return folder


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboard, "WORKERS", 1)


def submit(folder: Path, run: Path | None = None, **card: object) -> Path:
    """Submit a run, or only its card."""
    place = folder / "submissions" / "somebody"
    place.mkdir(parents=True)
    (place / "card.json").write_bytes(msgspec.json.encode(CARD | card))
    if run is not None:
        with tarfile.open(place / "run.tar.xz", "w:xz") as packed:
            packed.add(run, ".")
    return folder / "submissions"


def board(folder: Path, submissions: Path) -> tuple[int, list[list[str]]]:
    """The exit code and the rows of the page."""
    page = folder / "page.md"
    code = main(submissions, page)
    rows = [line.strip("| \n").split(" | ") for line in page.read_text().splitlines() if line.startswith("| `")]
    return code, rows


def test_a_submitted_run_is_self_reported_and_a_built_in_agent_is_run_here(tmp_path: Path, run: Path) -> None:
    rows = {}
    for who, archive in ((THEIRS, run), (OURS, None)):
        (tmp_path / who).mkdir()
        code, found = board(tmp_path / who, submit(tmp_path / who, archive))
        assert code == 0
        rows[who] = found[0]
    assert [rows[who][9] for who in (THEIRS, OURS)] == [THEIRS, OURS]
    assert rows[THEIRS][:9] + rows[THEIRS][10:] == rows[OURS][:9] + rows[OURS][10:]
    assert rows[OURS][7:9] == ["no", "other families"]


def test_contestants_stand_apart_from_reference_agents(tmp_path: Path, run: Path) -> None:
    """The expert's calls, submitted under a name that is not built in."""
    plan = run.parent / "contestant"
    evaluate(f"saved:{run}", "smoke", 1, plan, on_processes(1))
    submissions = submit(tmp_path, plan, agent=f"saved:{run}", saw_source="yes")
    shutil.copytree(submissions / "somebody", submissions / "ours")
    (submissions / "ours" / "card.json").write_bytes(msgspec.json.encode(CARD))
    (submissions / "ours" / "run.tar.xz").unlink()
    code, rows = board(tmp_path, submissions)
    assert (code, [row[0] for row in rows]) == (0, [f"`saved:{run}`", "`jittered`"])
    text = (tmp_path / "page.md").read_text()
    assert (
        text.index("## Contestants") < text.index("`saved:") < text.index("## Reference agents") < text.index("`jittered`")
    )
    assert rows[0][7] == "yes"
    assert NOBODY not in text


def test_without_contestants_the_page_invites(tmp_path: Path) -> None:
    board(tmp_path, submit(tmp_path, suite="smoke"))
    text = (tmp_path / "page.md").read_text()
    assert text.index("## Contestants") < text.index(NOBODY) < text.index("## Reference agents")


def test_the_card_that_the_page_shows_is_valid() -> None:
    assert msgspec.json.decode(EXAMPLE_CARD, type=Card).trials == 4


def test_a_run_of_an_earlier_version_is_named_and_is_no_failure(tmp_path: Path, run: Path) -> None:
    old = tmp_path / "old"
    shutil.copytree(run, old)
    plan = msgspec.json.decode((old / "run.json").read_bytes())
    (old / "run.json").write_bytes(msgspec.json.encode(plan | {"version": BENCHMARK_VERSION - 1}))
    assert board(tmp_path, submit(tmp_path, old)) == (0, [])
    assert f"`jittered` on smoke v{BENCHMARK_VERSION - 1}." in (tmp_path / "page.md").read_text()


def test_a_forged_submission_is_left_out_and_named(tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = run / "results.json"
    honest = results.read_bytes()
    results.write_bytes(honest.replace(b'"agent": "jittered"', b'"agent": "gpt"'))
    submissions = submit(tmp_path, run)
    results.write_bytes(honest)
    assert board(tmp_path, submissions) == (1, [])
    assert "somebody: left out: 1 findings, such as results.json: edited number: agent says 'gpt'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "card",
    [
        {"agent": "gpt"},
        {"suite": "gardening"},
        {"trained": "maybe"},
        {"stars": 5},
        {"trials": 2},
        {"saw_source": "perhaps"},
        {"agent": "expert"},
    ],
)
def test_a_card_that_does_not_fit_the_run_is_left_out(tmp_path: Path, run: Path, card: dict[str, object]) -> None:
    assert board(tmp_path, submit(tmp_path, run, **card)) == (1, [])


def test_an_invalid_archive_or_one_that_leaves_its_folder_is_left_out(tmp_path: Path, run: Path) -> None:
    submissions = submit(tmp_path, run)
    archive = submissions / "somebody" / "run.tar.xz"
    archive.write_bytes(archive.read_bytes()[:1000])
    assert board(tmp_path, submissions) == (1, [])
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(run / "run.json", "../outside.json")
    assert board(tmp_path, submissions) == (1, [])
    assert not list(tmp_path.rglob("outside.json"))


def test_the_page_lists_these_submissions_and_contains_the_canary(tmp_path: Path) -> None:
    text = PAGE.read_text()
    lines = [line for line in text.splitlines() if line.startswith(("| `", "Left out"))]
    listed = {line.split("`")[1] for line in lines}
    cards = (leaderboard.ROOT / "submissions").glob("*/card.json")
    assert listed == {msgspec.json.decode(card.read_bytes())["agent"] for card in cards}
    assert CANARY in text
    if FULL:
        main(page=tmp_path / "page.md")
        assert (tmp_path / "page.md").read_text() == text, "run `python -m tools.leaderboard`"
