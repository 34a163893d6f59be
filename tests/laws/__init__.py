"""Laws: what must hold for every family, run over the registry. `LAWS=full` runs them at the size that the docs quote."""

import os
import subprocess
from pathlib import Path

from companyos.assurance.laws import DOSES
from companyos.core.world import Streams
from companyos.families import FAMILIES

FULL = os.environ.get("LAWS") == "full"
NAMES = tuple(FAMILIES)
LONGER = 5  # by how many times the samples of a long family are smaller


def size(sample: int, full: int, name: str = "") -> int:
    """How many to look at; of a long family fewer, since each of its tasks is as long as several."""
    return share(full if FULL else sample, name)


def seeds(sample: int, full: int, fresh: int = 0, name: str = "") -> list[int]:
    """Fixed seeds, and a few that change with every commit, so that the laws do not grow used to the fixed ones."""
    draw = Streams(f"laws/{_commit()}").at("seeds")
    return [*range(size(sample, full, name)), *(draw.between(10**6, 10**9) for _ in range(share(fresh, name)))]


def share(count: int, name: str) -> int:
    return -(-count // LONGER) if name and FAMILIES[name].long else count


def _commit() -> str:
    root = Path(__file__).parent
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    return found.stdout.strip()


__all__ = ["DOSES", "FULL", "NAMES", "seeds", "size"]
