"""Pages: what docs/hosts.md shows, run as it stands there."""

import re
from pathlib import Path

HOSTS = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text()


def run_blocks(host: str) -> int:
    """Runs the Python of a host's section, each block by itself; gives how many there are."""
    [section] = [part for part in HOSTS.split("\n## ") if part.startswith(f"{host}\n")]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    for block in blocks:
        exec(compile(block, f"docs/hosts.md, {host}", "exec"), {})
    return len(blocks)
