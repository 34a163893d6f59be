"""The code of the pages runs as it is shown, and prints what the page says that it prints."""

from itertools import groupby
from pathlib import Path

import pytest

from tests.blocks import BLOCKS, OUTPUT, ROOT, run_block

RUN = {page: list(blocks) for page, blocks in groupby(BLOCKS, lambda block: block.page)}


@pytest.mark.parametrize("page", [page for page, blocks in RUN.items() if any(block.runs for block in blocks)])
def test_what_a_page_shows_runs(page: str, tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")  # some pages run tests of a checkout
    printed = ""
    for block in RUN[page]:
        if block.is_file:
            (tmp_path / block.title).write_text(block.code)
        elif block.runs:
            done = run_block(block, tmp_path)
            assert done.returncode == 0, f"{block}:\n{done.stdout}\n{done.stderr}"
            printed = done.stdout
        elif block.title == OUTPUT:
            assert printed == block.code, f"{block}: the block before it prints\n{printed}"
