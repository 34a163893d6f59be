"""Space: the repository as `openenv push` wants it. `make space` lays it out in build/space.

It holds what the image is built from and what the validator reads. From `space/` come the card and the two files that
OpenEnv asks for at the top of a package, where they would stand in the way of this repository's own tests.
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OVERLAY = ROOT / "space"
PARTS = (
    ".dockerignore",
    "Dockerfile",
    "LICENSE",
    "discovery.json",
    "openenv.yaml",
    "pyproject.toml",
    "requirements.txt",
    "server",
    "src",
    "validation",
)


def lay_out(target: Path) -> None:
    """A fresh package in this folder."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    leave = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=leave)
        else:
            shutil.copy2(ROOT / part, target / part)
    shutil.copytree(OVERLAY, target, ignore=leave, dirs_exist_ok=True)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
