"""Held out: writes `results/held_out.txt`, the work by which trained models are told from one another.

    python -m tools.held_out

Of the test split, at dose 0.5: tasks of the families that are trained on; pairs of theirs whose right endings differ; tasks
of families that nobody is trained on. It was frozen before the first update, and a test compares.
"""

from pathlib import Path

from companyos.evaluate.suite import Suite, suite_of
from companyos.train.checkup import Checkup, checkup_of
from companyos.train.commands import SEED_FAMILIES

FILE = Path(__file__).parents[1] / "results" / "held_out.txt"
UNSEEN = ("access_request", "contract_renewal")
CHAOS, SPLIT = 0.5, "test"
TASKS, PAIRS, OF_UNSEEN = 200, 120, 80


def seen() -> Checkup:
    """Of the families that are trained on."""
    return checkup_of(SEED_FAMILIES, CHAOS, TASKS, PAIRS, SPLIT)


def unseen() -> tuple[str, ...]:
    """Tasks of the others."""
    return checkup_of(UNSEEN, CHAOS, OF_UNSEEN, 0, SPLIT).tasks


def held_out() -> Suite:
    return suite_of("held_out", [*seen().tasks, *unseen()], seen().pairs)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(held_out().to_text())
    print(f"Written to {FILE.name}.")
