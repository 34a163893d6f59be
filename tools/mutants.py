"""Mutation tests: small bugs are planted one at a time in a copy of the source, and the named tests must fail.

`tools/mutants.toml` lists the mutants. `python -m tools.mutants` plants each one and prints whether the tests killed it. A
surviving mutant shows a gap in the tests. `make mutants` runs in the server's environment, which the ledger's tests need.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

ROOT = Path(__file__).parents[1]
LIST = ROOT / "tools" / "mutants.toml"
GOAL = 0.95  # the share of mutants that tests must kill
TIMEOUT = 300  # seconds after which a mutant that makes tests hang counts as killed
_COPIED = ("src", "tests", "tools", "docs", "pyproject.toml", "README.md")
_OPTIONS = ("-p", "xdist", "-n", "0", "-x", "-q", "-p", "no:cacheprovider")
# Plug-ins of pytest that tests do not need take longer to load than most tests take to run.
_ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

Fate = Literal["killed", "survived", "stale", "cannot run"]


class Mutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bug: a text that occurs once in a file of `src/companyos`, its replacement, and the tests that must fail."""

    file: str
    old: str
    new: str
    breaks: str  # a description of the bug
    tests: str  # arguments of pytest

    @property
    def path(self) -> Path:
        return Path("src", "companyos", self.file)


def listed(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of a list in order."""
    return msgspec.convert(tomllib.loads(path.read_text())["mutant"], list[Mutant])


def planted(mutant: Mutant, source: str) -> str | None:
    """Return the source with the bug, or None if its text does not occur exactly once."""
    return source.replace(mutant.old, mutant.new) if source.count(mutant.old) == 1 else None


def copy_of(root: Path, folder: Path) -> Path:
    """Copy the parts of a checkout that tests need."""
    for name in _COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif (root / name).exists():
            shutil.copy(root / name, folder / name)
    return folder


def tests_pass(copy: Path, tests: str) -> bool | None:
    """Return whether tests pass on a copy, or None if pytest could not run them. Tests that hang have failed."""
    environment = os.environ | _ENVIRONMENT | {"PYTHONPATH": str(copy / "src")}
    command = [sys.executable, "-m", "pytest", *_OPTIONS, *shlex.split(tests)]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return False
    return {0: True, 1: False}.get(done.returncode)


def fate(mutant: Mutant, copy: Path) -> Fate:
    """Plant a mutant in a copy, run its tests, and take it out again."""
    path = copy / mutant.path
    source = path.read_text()
    mutated = planted(mutant, source)
    if mutated is None:
        return "stale"
    path.write_text(mutated)
    try:
        passed = tests_pass(copy, mutant.tests)
    finally:
        path.write_text(source)
    return "cannot run" if passed is None else "survived" if passed else "killed"


def fates(mutants: Sequence[Mutant], copy: Path) -> Iterator[tuple[Mutant, Fate]]:
    """Yield the fate of each mutant. Raise `RuntimeError` if tests fail without a mutant."""
    sound: dict[str, bool | None] = {}
    for mutant in mutants:
        if mutant.tests not in sound:
            sound[mutant.tests] = tests_pass(copy, mutant.tests)
        if not sound[mutant.tests]:
            raise RuntimeError(f"without any mutant, pytest {mutant.tests} does not pass")
        yield mutant, fate(mutant, copy)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the fate of every mutant and the counts. The exit code is 1 if too few are killed or one is out of date."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=main.__doc__)
    parser.add_argument("files", nargs="*", metavar="TEXT", help="only mutants whose file or description contains this")
    parser.add_argument("--list", type=Path, default=LIST, metavar="FILE")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="DIR", help="the checkout to copy")
    args = parser.parse_args(argv)
    chosen = [m for m in listed(args.list) if not args.files or any(text in f"{m.file} {m.breaks}" for text in args.files)]
    counts: Counter[Fate] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for mutant, became in fates(chosen, copy_of(args.root, Path(folder))):
            counts[became] += 1
            print(f"{became:<10} {mutant.file}: {mutant.breaks}", flush=True)
    share = counts["killed"] / max(1, len(chosen))
    print(
        f"{counts['killed']} of {len(chosen)} killed ({share:.0%}); "
        + ", ".join(f"{n} {name}" for name, n in counts.items())
    )
    return 0 if share >= GOAL and not counts["stale"] and not counts["cannot run"] else 1


if __name__ == "__main__":
    sys.exit(main())
