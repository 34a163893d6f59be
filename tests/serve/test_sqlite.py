"""The ledger in an SQLite file, shared by any number of processes on one machine."""

import sqlite3
from pathlib import Path

import pytest

from companyos.serve.errors import LedgerDown
from companyos.serve.ledger import SqliteLedger, TurnRow, open_ledger
from companyos.serve.ledger.sqlite import CHECK_INTERVAL
from companyos.serve.ops.settings import BadSetting
from tests.serve.test_ledger import OLD_ATTEMPT, OLD_HANDLE, WAIT, check_upgrade, header


def test_a_ledger_that_does_not_answer_is_said_to_be_down(tmp_path: Path) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"), lock_timeout=0.01)
    ledger.begin([header("a")])
    other = sqlite3.connect(tmp_path / "it", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerDown):
        ledger.append(TurnRow("a", 1, WAIT, 101.0))
    other.execute("COMMIT")
    other.close()
    ledger.append(TurnRow("a", 1, WAIT, 101.0))
    ledger.close()


@pytest.mark.parametrize(("fsync", "level"), [(False, 1), (True, 2)])  # NORMAL, FULL
def test_each_commit_is_flushed_to_disk_with_fsync_and_only_then(tmp_path: Path, fsync: bool, level: int) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"), fsync)
    found = [ledger._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert found == ["wal", level]
    assert ledger.quick is not fsync  # a ledger that waits for a disk must run in a thread
    ledger.close()


@pytest.mark.parametrize("way", ["deleted", "its log deleted", "replaced"])
def test_a_file_that_is_gone_under_a_running_server_is_noticed(tmp_path: Path, way: str) -> None:
    path, kept = tmp_path / "it", tmp_path / "kept"
    ledger = SqliteLedger(str(path))
    ledger.begin([header("a")])
    ledger._checked_at = -CHECK_INTERVAL  # as if it had been some time ago
    ledger.append(TurnRow("a", 1, WAIT, 101.0))
    lost = tmp_path / "it-wal" if way == "its log deleted" else path
    lost.rename(kept)
    if way == "replaced":
        path.touch()
    for _ in range(2):
        ledger._checked_at = -CHECK_INTERVAL
        with pytest.raises(LedgerDown):
            ledger.ping()
        with pytest.raises(LedgerDown):
            ledger.read("a")
        with pytest.raises(LedgerDown):
            ledger.append(TurnRow("a", 2, WAIT, 102.0))
    kept.rename(lost)  # once the file is back, nothing is lost
    ledger.append(TurnRow("a", 2, WAIT, 102.0))
    ledger.close()


TO_FORMAT_2 = "DROP TABLE handle; DROP TABLE attempt; PRAGMA user_version = 2;"
TO_FORMAT_1 = f"{TO_FORMAT_2} DROP INDEX session_owner; ALTER TABLE session DROP COLUMN owner; PRAGMA user_version = 1;"


@pytest.mark.parametrize("downgrade", [TO_FORMAT_1, TO_FORMAT_2])
def test_a_ledger_of_an_older_format_is_brought_up_to_date_and_loses_nothing(tmp_path: Path, downgrade: str) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"))
    ledger.begin([header("a")], [WAIT])
    stored = ledger.read("a")
    ledger.begin([OLD_HANDLE, OLD_ATTEMPT])
    ledger.close()
    old = sqlite3.connect(tmp_path / "it")
    old.executescript(downgrade)
    old.close()
    for _ in range(2):  # the second time it is up to date
        ledger = SqliteLedger(str(tmp_path / "it"))
        ledger.remove("b")
        check_upgrade(ledger, stored)
        ledger.close()


def test_a_place_that_can_hold_no_ledger_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, " * 100)
    later = sqlite3.connect(tmp_path / "later")
    later.execute("PRAGMA user_version = 99")
    later.close()
    for name in ("", "text", "later", "no/such/folder"):
        with pytest.raises(BadSetting, match=r"\A[^\n]+\Z"):
            open_ledger(str(tmp_path / name))
