"""Laws: properties that must hold for every family, tested over the registry.

By default a law tests a small sample. `LAWS=full` runs all laws with the sample sizes that the documentation quotes.
"""

import os
import subprocess
from pathlib import Path

from companyos.assurance.laws import DOSES
from companyos.core.world import Streams
from companyos.families import FAMILIES

FULL = os.environ.get("LAWS") == "full"
NAMES = tuple(FAMILIES)
LONGER = 5  # the samples of a long family are smaller by this factor


def size(sample: int, full: int, name: str = "") -> int:
    """Return the sample size: `sample`, or `full` with LAWS=full, and less for a long family."""
    return share(full if FULL else sample, name)


def seeds(sample: int, full: int, fresh: int = 0, name: str = "") -> list[int]:
    """Return the first seeds, and a few `fresh` ones that change with every commit, so that the code cannot overfit."""
    draw = Streams(f"laws/{_commit()}").at("seeds")
    return [*range(size(sample, full, name)), *(draw.between(10**6, 10**9) for _ in range(share(fresh, name)))]


def share(count: int, name: str) -> int:
    return -(-count // LONGER) if name and FAMILIES[name].long else count


def _commit() -> str:
    root = Path(__file__).parent
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip()


__all__ = ["DOSES", "FULL", "NAMES", "seeds", "size"]
