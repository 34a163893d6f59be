"""Recipes: the table in CONTRIBUTING.md lists all files that an addition touches."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.blocks import ROOT, blocks_of

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
USE_REOPEN = """
from companyos import Call, make
env = make("vendor_onboarding", seed=7)
obs = env.step(Call("ticketdesk", "reopen", {"ticket_id": env.setting.case.ticket_id, "reason": "It is still open."}))
print(obs.code)
"""


def touched(addition: str) -> tuple[list[str], list[str]]:
    """The new files and the edited files that the table lists for an addition."""
    row = re.search(rf"^\| {addition} \| `\w+` \| (.*?) \| (.*?) \|", CONTRIBUTING.read_text(), re.MULTILINE)
    assert row, f"the table has no row for {addition}"
    new, edited = (re.findall(r"`([\w/.-]+)`", cell) for cell in row.groups())
    return new, edited


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the repository's source, for edits."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(root: Path, *command: str) -> str:
    """The output of a Python command that imports the source under `root`."""
    environment = os.environ | {"PYTHONPATH": str(root / "src"), "COLUMNS": "200"}
    done = subprocess.run([sys.executable, *command], cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def insert_beside(file: Path, neighbour: str, line: str) -> None:
    """Adds a line after each line that consists of `neighbour`, with the same indentation."""
    text, count = re.subn(rf"^( *){re.escape(neighbour)}\n", rf"\g<0>\g<1>{line}\n", file.read_text(), flags=re.MULTILINE)
    assert count == 2, f"{file} has {count} lines {neighbour!r}: one import and one entry were expected"
    file.write_text(text)


def test_a_tool_is_one_function_in_the_file_of_its_app(copy: Path) -> None:
    new, [app] = touched("a tool")
    assert new == []
    [function] = [block.code for block in blocks_of(CONTRIBUTING) if "@app.tool" in block.code]

    with (copy / app).open("a") as file:
        file.write(f"\n\n{function}")

    assert "reopen" in run(copy, "-m", "companyos", "tools", "--json")
    assert run(copy, "-c", USE_REOPEN) == "not_finished\n"


def test_a_family_is_one_file_and_its_registration(copy: Path) -> None:
    [family], [registry, navigation] = touched("a family")

    shutil.copy(ROOT / "tests" / "laws" / "pool_car.py", copy / family)
    insert_beside(copy / registry, "handbook_update,", "pool_car,")

    assert "pool_car" in run(copy, "-c", "import companyos; print(*companyos.families())").split()
    prove = "-m companyos prove --families pool_car --seeds 0:2 --chaos 0.5 --workers 1"
    assert "2 of 2 proved" in run(copy, *prove.split())
    assert "families/handbook_update.md" in (ROOT / navigation).read_text()


def test_an_adapter_is_named_in_the_listed_files_only() -> None:
    new, edited = touched("an adapter")
    candidates = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "tests" / "hosts").glob("*.py"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / name for name in ("Makefile", "pyproject.toml", "mkdocs.yml", "README.md", ".ci/run")),
    ]
    naming = {str(file.relative_to(ROOT)) for file in candidates if "skyrl" in file.read_text().lower()}
    assert naming == {*new, *edited}
