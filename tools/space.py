"""Make a folder in the layout that `openenv push` needs: `make space` writes build/space.

It holds the files from which the image is built and those that the validator reads. The card and two files that OpenEnv
requires at the top of a package come from `space/`; at the top of this repository they would break its tests.
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
    """Write a new package to this folder, replacing an old one."""
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
