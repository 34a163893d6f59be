"""Golden digests: 50 task ids, the digest of their first morning and that of their expert's last step.

Run `python -m tests.golden.write` from the root of the repository to write the file anew. A digest that changed means that
some task is no longer what its id has always named: raise `BENCHMARK_VERSION` and say why in the changelog.
"""

import json
from pathlib import Path

from companyos.assurance.twins import do
from companyos.chaos import DIALS, doses_of, write_doses
from companyos.core.task import BENCHMARK_VERSION, SPLITS, TaskId
from companyos.env import make, run_expert
from companyos.families import FAMILIES, setting

FILE = Path(__file__).with_name("digests.json")
SEEDS = (0, 1, 2, 3, 5, 7, 8, 11, 13, 21, 34, 42, 55, 89, 99, 144, 233, 377, 610, 987, 1597, 2584, 10**6, 10**9, 10**12 - 1)
EVEN = (0.0, 0.25, 0.5, 0.75, 1.0)


def task_ids() -> list[str]:
    """Two tasks for each of 25 seeds: one at an even dose, one with a single dial or with one cause overridden."""
    found = []
    dials = list(DIALS)
    for family in FAMILIES.values():
        causes = family.specs()
        for number, seed in enumerate(SEEDS):
            split = SPLITS[number % len(SPLITS)]
            even = TaskId(family.name, split, seed, write_doses(doses_of(EVEN[number % len(EVEN)])))
            found.append(str(even))
            if number % 2:
                single = {dials[number // 2 % len(dials)]: 1.0 - number / 100}
                found.append(str(TaskId(family.name, split, seed, write_doses(doses_of(single)))))
            else:
                cause = causes[number // 2 % len(causes)]
                other = family.alternatives(cause, setting(even).causes, even.split)[0]
                found.append(do(str(even), **{cause.name: other}))
    return found


def digests(task_id: str) -> list[str]:
    """The digest of a task's first morning, and that of the company when its expert is done."""
    env = make(task_id)
    first = env.digest()
    run_expert(env)
    return [first, env.digest()]


def write() -> None:
    golden = {"version": BENCHMARK_VERSION, "digests": {task_id: digests(task_id) for task_id in task_ids()}}
    FILE.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    write()
