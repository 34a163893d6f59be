"""Journals can be broken off anywhere, and go on."""

from pathlib import Path

import pytest
import torch

from companyos.core.errors import BadChoice, Misuse
from companyos.train.runs.journal import CHECKPOINT, LOG, Journal, check_run, check_tracker, records

PLAN = {"model": "small", "rate": 0.1}


def updates(folder: Path) -> list[int]:
    return [record["update"] for record in records(folder)]


def test_what_was_logged_after_the_newest_checkpoint_is_cut_off(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run", PLAN)
    assert journal.resume() is None
    for update in (1, 2):
        journal.log({"update": update})
    journal.save({"update": 2, "weights": torch.ones(3)})
    journal.log({"update": 3})
    again = Journal(tmp_path / "run", PLAN)
    state = again.resume()
    assert state is not None
    assert (state["update"], state["weights"].tolist()) == (2, [1.0, 1.0, 1.0])
    again.log({"update": 3})
    assert updates(tmp_path / "run") == [1, 2, 3]


def test_without_a_checkpoint_a_run_begins_anew(tmp_path: Path) -> None:
    Journal(tmp_path, PLAN).log({"update": 1})
    again = Journal(tmp_path, PLAN)
    assert again.resume() is None
    assert updates(tmp_path) == []


def test_a_checkpoint_that_was_not_finished_is_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLAN)
    journal.save({"update": 1})
    (tmp_path / f"{CHECKPOINT}.part").write_bytes(b"half")
    assert Journal(tmp_path, PLAN).resume() == {"update": 1}


def test_a_line_that_was_not_finished_is_not_read(tmp_path: Path) -> None:
    Journal(tmp_path, PLAN).log({"update": 1})
    with (tmp_path / LOG).open("ab") as file:
        file.write(b'{"upda')
    assert updates(tmp_path) == [1]


def test_time_adds_up_over_sittings(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLAN)
    journal._spent = 100.0
    journal.save({})
    again = Journal(tmp_path, PLAN)
    again.resume()
    assert again.elapsed >= 100.0


def test_checkpoints_are_due_by_the_clock(tmp_path: Path) -> None:
    assert Journal(tmp_path, PLAN, every=0.0).due()
    assert not Journal(tmp_path, PLAN, every=1000.0).due()


def test_another_run_is_not_mixed_in(tmp_path: Path) -> None:
    Journal(tmp_path / "run", PLAN)
    with pytest.raises(Misuse, match=r"rate is 0.1, not 0.2"):
        Journal(tmp_path / "run", {**PLAN, "rate": 0.2})
    with pytest.raises(Misuse, match="neither empty nor"):
        Journal(tmp_path, PLAN)


def test_what_was_learnt_is_replaced_as_a_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path, PLAN)
    for name in ("first", "second"):
        model = journal.publish(lambda folder, name=name: (folder / name).mkdir(parents=True))  # type: ignore[misc]
    assert [path.name for path in model.iterdir()] == ["second"]


def test_folders_and_trackers_that_are_none_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"no log\.jsonl"):
        check_run(tmp_path)
    with pytest.raises(BadChoice, match="valid: trackio, wandb"):
        check_tracker("mlflow")
    with pytest.raises(Misuse, match="pip install wandb"):
        check_tracker("wandb")
