"""Import contracts: they cover every family and every module, those added later included."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from companyos.families import FAMILIES

ROOT = Path(__file__).parents[2]
ROOMS = ("core", "env", "evaluate", "train", "serve", "web")  # their modules have layers of their own
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def violations(root: Path) -> str:
    """The report of import-linter on the package under `root`, which must break a contract."""
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    command = [sys.executable, "-c", LINT]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_goals_may_import_no_family_and_every_module_needs_a_layer(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    package = tmp_path / "src" / "companyos"
    experts = sorted({family.stage.__module__ for family in FAMILIES.values()} | {"companyos.families.kit.moves"})
    assert len(experts) == len(FAMILIES) + 1
    with (package / "families" / "kit" / "goals.py").open("a") as goals:
        goals.writelines(f"import {module}\n" for module in experts)
    for stray in ("stray", *(f"{room}/stray" for room in ROOMS)):
        (package / f"{stray}.py").touch()

    report = violations(tmp_path)

    assert [one for one in experts if f"companyos.families.kit.goals is not allowed to import {one}:" not in report] == []
    for where in ("companyos", *(f"companyos.{room}" for room in ROOMS)):
        assert f"- {where}.stray" in report
