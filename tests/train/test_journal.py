"""A run that is interrupted at any point continues from its journal."""

from pathlib import Path

import pytest
import torch

from companyos.core.errors import BadChoice, Misuse
from companyos.train.runs.journal import CHECKPOINT, LOG, Journal, check_run, check_tracker, records

PLAN = {"model": "small", "rate": 0.1}


def updates(folder: Path) -> list[int]:
    return [record["update"] for record in records(folder)]


def test_log_lines_after_the_latest_checkpoint_are_removed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run", PLAN)
    assert journal.resume() is None
    for update in (1, 2):
        journal.log({"update": update})
    journal.save({"update": 2, "weights": torch.ones(3)})
    journal.log({"update": 3})
    resumed = Journal(tmp_path / "run", PLAN)
    state = resumed.resume()
    assert state is not None
    assert (state["update"], state["weights"].tolist()) == (2, [1.0, 1.0, 1.0])
    resumed.log({"update": 3})
    assert updates(tmp_path / "run") == [1, 2, 3]


def test_without_a_checkpoint_a_run_starts_again(tmp_path: Path) -> None:
    Journal(tmp_path, PLAN).log({"update": 1})
    resumed = Journal(tmp_path, PLAN)
    assert resumed.resume() is None
    assert updates(tmp_path) == []


def test_an_unfinished_checkpoint_is_ignored(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLAN)
    journal.save({"update": 1})
    (tmp_path / f"{CHECKPOINT}.part").write_bytes(b"half")
    assert Journal(tmp_path, PLAN).resume() == {"update": 1}


def test_an_unfinished_log_line_is_ignored(tmp_path: Path) -> None:
    Journal(tmp_path, PLAN).log({"update": 1})
    with (tmp_path / LOG).open("ab") as file:
        file.write(b'{"upda')
    assert updates(tmp_path) == [1]


def test_time_adds_up_over_sessions(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLAN)
    journal._earlier_seconds = 100.0
    journal.save({})
    resumed = Journal(tmp_path, PLAN)
    resumed.resume()
    assert resumed.elapsed >= 100.0


def test_checkpoints_are_due_by_the_clock(tmp_path: Path) -> None:
    assert Journal(tmp_path, PLAN, every=0.0).due()
    assert not Journal(tmp_path, PLAN, every=1000.0).due()


def test_a_folder_with_another_run_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "run", PLAN)
    with pytest.raises(Misuse, match=r"rate is 0.1, not 0.2"):
        Journal(tmp_path / "run", {**PLAN, "rate": 0.2})
    with pytest.raises(Misuse, match="neither empty nor"):
        Journal(tmp_path, PLAN)


def test_a_published_model_replaces_the_whole_folder(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLAN)
    for name in ("first", "second"):
        model = journal.publish(lambda folder, name=name: (folder / name).mkdir(parents=True))  # type: ignore[misc]
    assert [path.name for path in model.iterdir()] == ["second"]


def test_a_bad_folder_or_tracker_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"no log\.jsonl"):
        check_run(tmp_path)
    with pytest.raises(BadChoice, match="valid: trackio, wandb"):
        check_tracker("mlflow")
    with pytest.raises(Misuse, match="pip install wandb"):
        check_tracker("wandb")
