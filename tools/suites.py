"""Write the frozen suites, the lists of task ids in the package. Run it when the benchmark version changes.

python -m tools.suites
"""

from pathlib import Path

from companyos.evaluate.suites.selection import FROZEN

FOLDER = Path(__file__).parents[1] / "src" / "companyos" / "evaluate" / "suites"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, (make, families) in FROZEN.items():
        suite = make(families)
        (FOLDER / f"{name}.txt").write_text(suite.to_text())
        print(f"{name}: {len(suite.tasks)} tasks, {len(suite.pairs)} pairs, {suite.hash}")


if __name__ == "__main__":
    main()
