"""Tests of plug-ins: families that other distributions bring."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = (ROOT / "tests" / "laws" / "pool_car.py").read_text()


def distribution(folder: Path, module: str, entry: str) -> Path:
    """What an installed distribution leaves on the path: a module, and metadata that names an entry point."""
    (folder / "my_company.py").write_text(module)
    info = folder / "my_company-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-company\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[companyos.plugins]\nany = {entry}\n")
    return folder


def python(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT / "src")])
    return subprocess.run(
        [sys.executable, *argv], env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def test_a_family_of_another_distribution_is_proved_like_ours(tmp_path: Path) -> None:
    distribution(tmp_path, SMALL, "my_company:FAMILY")
    done = python(tmp_path, "-m", "companyos", "prove", "--families", "pool_car", "--seeds", "0:6", "--chaos", "0,1")
    assert "12 of 12 proved" in done.stdout, done.stderr
    assert done.returncode == 0


def test_a_plugged_in_family_is_listed_and_played_but_not_part_of_the_benchmark(tmp_path: Path) -> None:
    distribution(tmp_path, SMALL, "my_company:FAMILY")
    check = """
import companyos
from companyos import agents
from companyos.data import splits
from companyos.families import FAMILIES, SHORT_FAMILIES
assert companyos.families() == [*FAMILIES, "pool_car"]
assert {splits.task_at("train", index).family for index in range(100)} == set(SHORT_FAMILIES)
env = agents.play(companyos.make("pool_car", seed=3, chaos=0.5), agents.make("expert", 0))
assert env.success
"""
    done = python(tmp_path, "-c", check)
    assert done.returncode == 0, done.stderr


def test_nothing_is_loaded_before_it_is_asked_for(tmp_path: Path) -> None:
    distribution(tmp_path, "raise SystemExit('loaded')", "my_company:FAMILY")
    lazy = 'import companyos; companyos.make("vendor_onboarding", seed=1)'
    assert python(tmp_path, "-c", lazy).returncode == 0
    assert python(tmp_path, "-c", f"{lazy}; companyos.families()").stderr == "loaded\n"


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("FAMILY = 7", "plug-in my_company:FAMILY must name a Family, not 7"),
        (
            "from companyos.families.vendor_onboarding import FAMILY",
            "plug-in my_company:FAMILY has a family named vendor_onboarding, but this name is already taken",
        ),
    ],
)
def test_an_unusable_plug_in_is_reported_in_one_line(tmp_path: Path, module: str, complaint: str) -> None:
    distribution(tmp_path, module, "my_company:FAMILY")
    done = python(tmp_path, "-m", "companyos", "tasks", "--families", "gardening")
    assert (done.returncode, done.stderr) == (2, f"companyos: {complaint}\n")
