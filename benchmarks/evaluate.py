"""Benchmark of `companyos eval`: episodes a second with one worker and with two, in alternating rounds.

python -m benchmarks.evaluate --episodes 20000 --rounds 5
"""

import argparse
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from companyos.data.splits import task_at
from companyos.evaluate.runs.run import evaluate, on_processes
from companyos.families import SHORT_FAMILIES

WORKERS = (1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=20_000, help="total for each number of workers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--agent", default="expert")
    args = parser.parse_args()
    size = args.episodes // args.rounds
    speeds: dict[int, list[float]] = {workers: [] for workers in WORKERS}
    for number in range(args.rounds):
        for workers in WORKERS:
            speeds[workers].append(speed(args.agent, number * size, size, workers))
        one, two = (speeds[workers][-1] for workers in WORKERS)
        print(
            f"round {number + 1}: {one:.0f} episodes/s with one worker, {two:.0f} with two, {two / one:.2f} times",
            flush=True,
        )
    ratio = statistics.median(two / one for one, two in zip(*speeds.values(), strict=True))
    print(f"{args.episodes} episodes of {len(SHORT_FAMILIES)} families by {args.agent}: {ratio:.2f} times (median)")


def speed(agent: str, first: int, size: int, workers: int) -> float:
    """Return the episodes a second of a whole run, including the start of the workers."""
    with TemporaryDirectory() as folder:
        tasks = Path(folder) / "tasks.txt"
        tasks.write_text("\n".join(str(task_at("train", (first + n) % 10_000)) for n in range(size)))
        begun = time.perf_counter()
        evaluate(agent, str(tasks), 1, Path(folder) / "run", on_processes(workers))
        return size / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
