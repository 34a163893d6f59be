"""Write the held-out suites in `results`, with which trained models are compared.

    python -m tools.held_out

All tasks are of the test split. `held_out` has, at dose 0.5, tasks and pairs of the families that models are trained on, and
tasks of families that no model is trained on. `doses` has the first seeds of the trained families at other doses. Two more
suites are the first tasks of `held_out`, for quick runs. The suites were frozen before training; a test compares them.
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
BEGINNINGS = {"twenty_four": 24, "base": 128}  # for a CPU, and for the untrained model, whose episodes are long


def seen() -> Checkup:
    """Return tasks and pairs of the families that models are trained on."""
    return checkup_of(STARTER_FAMILIES, CHAOS, TASKS, PAIRS, SPLIT)


def unseen() -> tuple[str, ...]:
    """Return tasks of the families that no model is trained on."""
    return checkup_of(UNSEEN, CHAOS, OF_UNSEEN, 0, SPLIT).tasks


def held_out() -> Suite:
    return suite_of("held_out", [*seen().tasks, *unseen()], seen().pairs)


def at_other_doses() -> Suite:
    """Return the first seeds of every trained family at other doses. At dose 0.5 they are part of `held_out`."""
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
