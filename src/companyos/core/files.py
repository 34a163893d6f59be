"""Writes files that are either complete or absent, whatever interrupts the program."""

import os
from pathlib import Path

PART = ".part"  # the suffix of a file that is still being written


def write_atomic(path: Path, content: bytes, make_folder: bool = False) -> None:
    """Write a temporary file in the same folder and rename it to `path`, so that a reader never sees half a file.

    `make_folder` creates missing folders. The process id in the temporary name keeps two processes apart.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    try:
        part.write_bytes(content)
    except FileNotFoundError:
        if not make_folder:
            raise
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
    part.replace(path)
