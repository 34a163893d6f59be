"""Rehearse a whole training run on a CPU, with a model of a million weights. Each phase is killed once.

    make rehearse        (some minutes on two cores)

Warm-up, GRPO, evaluation and plots are the commands of a real run, only smaller. The first three are killed as soon as there
is a checkpoint, and started again with the same command. Afterwards no update and no episode may be missing or doubled.
"""

import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from companyos.evaluate.suites.suite import suite_of
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.journal import CHECKPOINT, records
from tools.small_model import small_model

PHASE_SECONDS = 8 * 60
PICTURES = ("stages.png", "progress.png")
_DEMONSTRATIONS, _AT_ONCE, _UPDATES, _PLAYED = 192, 8, 4, 6
_CHECKUP = "--check-tasks 1 --check-pairs 1 --check-every {} --check-chaos 0.25 --families vendor_onboarding"
_LOOK_EVERY = 0.2  # seconds


def main(folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    small, warm, grpo, played, few = (folder / name for name in ("small", "warm", "grpo", "played", "few.txt"))
    small_model(small)
    few.write_text(suite_of("few", checkup_of(("vendor_onboarding", "handbook_update"), 0.25, _PLAYED, 0).tasks).to_text())
    sft = f"--full {_CHECKUP.format(12)} --demonstrations {_DEMONSTRATIONS} --at-once {_AT_ONCE} --rate 3e-3 --workers 1"
    attempts = f"--full {_CHECKUP.format(2)} --updates {_UPDATES} --tasks 4 --group 4 --doses 0 --patience 3 --rows 16"
    went_well = [
        phase("warm-up", f"train sft --model {small} --out {warm} {sft}", lambda: (warm / CHECKPOINT).exists()),
        phase("GRPO", f"train grpo --model {warm / 'model'} --out {grpo} {attempts}", lambda: (grpo / CHECKPOINT).exists()),
        phase(
            "evaluation", f"eval --agent local:{grpo / 'model'} --suite {few} --out {played}", lambda: _episodes(played) > 0
        ),
        phase("plots", f"train plot {warm} {grpo} --out {folder}"),
        _each_once(warm, _DEMONSTRATIONS // _AT_ONCE),
        _each_once(grpo, _UPDATES),
        report(f"{_episodes(played)} episodes played", _episodes(played) == _PLAYED and (played / "results.json").exists()),
        report(f"pictures: {', '.join(PICTURES)}", all((folder / name).exists() for name in PICTURES)),
    ]
    return 0 if all(went_well) else 1


def phase(name: str, line: str, ripe: Callable[[], bool] | None = None) -> bool:
    """Run a command. With `ripe`, kill it once `ripe` is true and run it again. Return whether that worked."""
    print("+ companyos", line, flush=True)
    command = [sys.executable, "-m", "companyos", *shlex.split(line)]
    began = time.monotonic()
    killed = ripe is not None and _killed(command, ripe)
    until = f", killed after {time.monotonic() - began:.0f} s and resumed" if killed else ""
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0
    seconds = time.monotonic() - began
    return report(f"{name}: {seconds:.0f} s{until}", done and killed == (ripe is not None) and seconds < PHASE_SECONDS)


def _killed(command: Sequence[str], ripe: Callable[[], bool]) -> bool:
    """Kill a command once `ripe` is true. Return False if it ended before."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while running.poll() is None:
        if ripe():
            running.kill()
            return running.wait() == -signal.SIGKILL
        time.sleep(_LOOK_EVERY)
    return False


def _each_once(run: Path, updates: int) -> bool:
    logged = [record["update"] for record in records(run) if "tokens_per_second" in record]  # not a checkup alone
    whole = len(logged) == updates and logged == [*range(logged[0], logged[0] + updates)]
    return report(f"{run.name}: {len(logged)} updates, from {logged[0]} to {logged[-1]}", whole)


def _episodes(run: Path) -> int:
    return sum(not path.name.endswith(".usage.jsonl") for path in run.glob("episodes/*/*.jsonl"))


def report(line: str, well: bool) -> bool:
    """Print a line with its result, and return the result."""
    print(f"{'ok ' if well else 'BAD'}  {line}", flush=True)
    return well


if __name__ == "__main__":
    sys.exit(main(Path("build/rehearsal")))
