"""SQLite: the ledger in a file, shared by any number of processes on one machine."""

import sqlite3
from pathlib import Path

import pytest

from companyos.serve.errors import LedgerDown
from companyos.serve.ledger import Row, SqliteLedger, open_ledger
from companyos.serve.settings import BadSetting
from tests.serve.test_ledger import WAIT, header


def test_a_ledger_that_does_not_answer_is_said_to_be_down(tmp_path: Path) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"), patience=0.01)
    ledger.begin([header("a")])
    other = sqlite3.connect(tmp_path / "it", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerDown):
        ledger.append(Row("a", 1, WAIT, 101.0))
    other.execute("COMMIT")
    other.close()
    ledger.append(Row("a", 1, WAIT, 101.0))
    ledger.close()


@pytest.mark.parametrize(("fsync", "level"), [(False, 1), (True, 2)])  # NORMAL, FULL
def test_each_commit_is_flushed_to_disk_with_fsync_and_only_then(tmp_path: Path, fsync: bool, level: int) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"), fsync)
    found = [ledger._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert found == ["wal", level]
    assert ledger.quick is not fsync  # whoever waits for a disk does so in a thread
    ledger.close()


def test_a_place_that_can_hold_no_ledger_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, " * 100)
    later = sqlite3.connect(tmp_path / "later")
    later.execute("PRAGMA user_version = 99")
    later.close()
    for name in ("", "text", "later", "no/such/folder"):
        with pytest.raises(BadSetting, match=r"\A[^\n]+\Z"):
            open_ledger(str(tmp_path / name))
