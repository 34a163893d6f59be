"""The pages' code, run as it stands."""

import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.blocks import BLOCKS, ROOT, Block

RUN = {page: list(blocks) for page, blocks in groupby(BLOCKS, lambda block: block.page)}
SECONDS = 300


@pytest.mark.parametrize("page", [page for page, blocks in RUN.items() if any(block.runs for block in blocks)])
def test_what_a_page_shows_runs(page: str, tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # what stands in a checkout and is spoken of
    for block in RUN[page]:
        if block.is_file:
            (tmp_path / block.title).write_text(block.code)
        elif block.runs:
            done = carried_out(block, tmp_path)
            assert done.returncode == 0, f"{block}:\n{done.stdout}\n{done.stderr}"


def carried_out(block: Block, folder: Path) -> subprocess.CompletedProcess[str]:
    """A block's end, in a folder, where `companyos` and `python` are the ones that run this test."""
    script = folder / f"block_{block.line}"
    script.write_text(block.code)
    program = [sys.executable] if block.language == "python" else ["bash", "-euo", "pipefail"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        [*program, str(script)],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
