"""Writes again what our pages show of real runs: `python -m tests.golden.pages`, after a change of what is printed.

These are the ticket of the five lines, every block titled `output`, and the episode of docs/start.md with its animation.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from companyos.env import make
from tests.blocks import OUTPUT, PAGES, ROOT, blocks_of, run_block
from tools import terminal

FIVE_LINES = ROOT / "examples" / "five_lines.py"
MADE = re.compile(r'make\("(?P<family>\w+)", seed=(?P<seed>\d+), chaos=(?P<chaos>[\d.]+)\)')
TICKET = re.compile(r'"ticket_id": "(T-\d+)"')


def write_ticket() -> None:
    """Puts the ticket of the five lines' task wherever the old one is shown."""
    lines = FIVE_LINES.read_text()
    [made], [old] = MADE.finditer(lines), TICKET.findall(lines)
    brief = make(made["family"], int(made["seed"]), float(made["chaos"])).reset().task
    new = re.findall(r"T-\d+", brief)[0]
    for path in [FIVE_LINES, ROOT / "examples" / "curl.sh", *PAGES]:
        path.write_text(path.read_text().replace(f'"ticket_id": "{old}"', f'"ticket_id": "{new}"'))


def write_outputs(page: Path) -> None:
    """Runs the blocks of a page, and puts what they print into the output blocks after them."""
    outputs, printed = [], ""
    with TemporaryDirectory() as folder:
        for block in blocks_of(page):
            if block.is_file:
                (Path(folder) / block.title).write_text(block.code)
            elif block.runs:
                done = run_block(block, Path(folder))
                assert done.returncode == 0, f"{block}: {done.stderr}"
                printed = done.stdout
            elif block.title == OUTPUT:
                outputs.append((block, printed))
    lines = page.read_text().splitlines(keepends=True)
    for block, printed in reversed(outputs):  # from the end, so that the line numbers before it stay true
        lines[block.line : block.line + block.code.count("\n")] = [printed]
    page.write_text("".join(lines))


def main() -> None:
    write_ticket()
    for page in PAGES:
        if any(block.title == OUTPUT for block in blocks_of(page)):
            write_outputs(page)
    terminal.main()


if __name__ == "__main__":
    main()
