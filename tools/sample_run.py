"""Makes the sample run that the gallery shows on a server without a results folder.

Run `python -m tools.sample_run` after a change of the benchmark version. It lets the agent `naive` play a few short tasks
and writes the run to `src/companyos/web/sample`, which is part of the wheel.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from companyos.env import task_named
from companyos.evaluate.runs.run import evaluate, on_processes
from companyos.evaluate.suites.suite import suite_of
from companyos.web.results_folder import SAMPLE

AGENT, CHAOS = "naive", 0.5
# Short episodes, some won and some lost: family and seeds.
TASKS = {
    "vendor_onboarding": (2, 5),
    "expense_report": (2,),
    "bug_escalation": (1,),
    "license_renewal": (6,),
    "handbook_update": (3,),
    "access_request": (1, 4),
    "incident_response": (2,),
    "budget_transfer": (7,),
    "data_deletion": (1, 3),
}


def write(folder: Path) -> None:
    """Play the tasks and write the run to a folder, in place of what it contained."""
    tasks = [str(task_named(family, seed, CHAOS)) for family, seeds in TASKS.items() for seed in seeds]
    shutil.rmtree(folder, ignore_errors=True)
    with TemporaryDirectory() as temporary:
        file = Path(temporary) / "sample.txt"
        file.write_text(suite_of("sample", tasks).to_text())
        evaluate(AGENT, str(file), 1, folder / AGENT, on_processes(1))


if __name__ == "__main__":
    write(SAMPLE)
    size = sum(file.stat().st_size for file in SAMPLE.rglob("*") if file.is_file())
    print(f"{SAMPLE}: {size / 1000:.0f} kB")
