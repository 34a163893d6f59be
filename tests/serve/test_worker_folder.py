"""The folder in which the workers of a server share their metrics."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from companyos.serve.ops.worker_folder import MIN_AGE, PREFIX, remove_stale_folders, worker_folder
from tests.serve.servers import Server, serving

HOLDER = """
import time
from companyos.serve.ops.worker_folder import worker_folder
with worker_folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def grow_old(folder: Path) -> None:
    """Set the age of a folder to more than `MIN_AGE`."""
    before = folder.stat().st_mtime - MIN_AGE - 1
    os.utime(folder, (before, before))


def test_a_folder_is_removed_at_the_end() -> None:
    with worker_folder() as folder:
        (folder / "counts.db").touch()
        assert folder.is_dir()
    assert not folder.exists()


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_kept(temporary: Path) -> None:
    command = [sys.executable, "-c", HOLDER]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(temporary)})
    assert process.stdout is not None
    with process.stdout:
        folder = Path(process.stdout.readline().strip())
        (folder / "counts.db").touch()
        grow_old(folder)
        remove_stale_folders()
        assert folder.is_dir()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder.is_dir()
    remove_stale_folders()
    assert not folder.exists()


def test_a_young_folder_and_other_files_are_left_alone(temporary: Path) -> None:
    young, other = temporary / f"{PREFIX}young", temporary / "other"
    young.mkdir()
    other.mkdir()
    grow_old(other)
    remove_stale_folders()
    assert young.is_dir()
    assert other.is_dir()


def left_behind(server: Server) -> list[Path]:
    return list(server.ledger.parent.glob("companyos-*"))


def test_a_server_with_several_workers_removes_its_folder_when_it_stops(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger", WORKERS="2") as server:
        assert len(left_behind(server)) == 1
        server.signal(signal.SIGTERM)
        server.ended()
        assert left_behind(server) == []


def test_a_server_with_one_worker_makes_no_folder(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger") as server:
        assert left_behind(server) == []
