"""Held out: writes the suites in `results`, the work by which trained models are told from one another.

    python -m tools.held_out

Of the test split, at dose 0.5: tasks of the families that are trained on; pairs of theirs whose right endings differ; tasks
of families that nobody is trained on (`held_out`). The first seeds of the former at other doses (`doses`). Beginnings of
`held_out`, for those who are short of time. They were frozen before the update that they measure, and a test compares.
"""

from pathlib import Path

from companyos.evaluate.suites.suite import Suite, suite_of
from companyos.families import STARTER_FAMILIES
from companyos.train.runs.checkup import Checkup, checkup_of

FOLDER = Path(__file__).parents[1] / "results"
UNSEEN = ("access_request", "contract_renewal")
CHAOS, SPLIT = 0.5, "test"
TASKS, PAIRS, OF_UNSEEN = 200, 120, 80
OTHER_DOSES, OF_A_DOSE = (0.0, 0.25, 0.75, 1.0), 80
BEGINNINGS = {"twenty_four": 24, "base": 128}  # for a processor, and for the untrained model, which is slow to end


def seen() -> Checkup:
    """Of the families that are trained on."""
    return checkup_of(STARTER_FAMILIES, CHAOS, TASKS, PAIRS, SPLIT)


def unseen() -> tuple[str, ...]:
    """Tasks of the others."""
    return checkup_of(UNSEEN, CHAOS, OF_UNSEEN, 0, SPLIT).tasks


def held_out() -> Suite:
    return suite_of("held_out", [*seen().tasks, *unseen()], seen().pairs)


def at_other_doses() -> Suite:
    """The first seeds of every family that is trained on. At dose 0.5 they are held out anyway."""
    alone = [checkup_of(STARTER_FAMILIES, dose, OF_A_DOSE, 0, SPLIT).tasks for dose in OTHER_DOSES]
    return suite_of("doses", [task_id for tasks in alone for task_id in tasks])


def suites() -> list[Suite]:
    whole = held_out()
    return [whole, at_other_doses(), *(suite_of(name, whole.tasks[:size]) for name, size in BEGINNINGS.items())]


def file_of(one: Suite) -> Path:
    return FOLDER / f"{one.name}.txt"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for one in suites():
        file_of(one).write_text(one.to_text())
        print(f"Written to {file_of(one).name}.")
