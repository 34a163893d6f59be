"""The temporary folder in which the workers of one server share their metrics."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "companyos-workers-"
MIN_AGE = 60.0  # seconds; the server that made a younger folder may not have locked it yet


@contextmanager
def worker_folder() -> Iterator[Path]:
    """Make a folder and remove it at the end. First remove the folders of servers that were killed.

    The process holds a lock on its folder. The system releases the lock however the process ends.
    """
    remove_stale_folders()
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        lock = os.open(name, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def remove_stale_folders() -> None:
    """Remove the folders that no living server has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # another server removes it as well, or it belongs to another user
            if time.time() - folder.stat().st_mtime > MIN_AGE:
                _remove_if_unlocked(folder)


def _remove_if_unlocked(folder: Path) -> None:
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
