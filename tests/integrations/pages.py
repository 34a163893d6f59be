"""Runs the code blocks of docs/hosts.md."""

from tests.blocks import ROOT, blocks_of

HOSTS = ROOT / "docs" / "hosts.md"


def run_blocks(host: str) -> int:
    """Runs the Python of a host's section, each block by itself; gives how many there are."""
    [section] = [part for part in HOSTS.read_text().split("\n## ") if part.startswith(f"{host}\n")]
    blocks = [block for block in blocks_of(HOSTS) if block.language == "python" and block.code in section]
    for block in blocks:
        exec(compile(block.code, str(block), "exec"), {})
    return len(blocks)
