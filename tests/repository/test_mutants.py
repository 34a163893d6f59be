"""Mutants: planted bugs tell tests that notice something from tests that do not."""

import ast
import shlex
from pathlib import Path

import pytest

from tools.mutants import ROOT, Mutant, listed, main, planted

SOURCE = "def larger(one, other):\n    return one if one >= other else other\n"
TESTS = """
from companyos.small import larger

def test_the_larger_one():
    assert larger(1, 2) == 2

def test_nothing():
    larger(1, 2)
"""
NOTICED, UNNOTICED = "tests/test_small.py::test_the_larger_one", "tests/test_small.py::test_nothing"


def project(root: Path, *mutants: tuple[str, str, str]) -> list[str]:
    """A checkout of one function, and a list of mutants (old, new, tests) of it, as arguments of the command."""
    (root / "src" / "companyos").mkdir(parents=True)
    (root / "src" / "companyos" / "__init__.py").touch()
    (root / "src" / "companyos" / "small.py").write_text(SOURCE)
    (root / "tests").mkdir()
    (root / "tests" / "test_small.py").write_text(TESTS)
    lines = [
        f"[[mutant]]\nfile='small.py'\nold='{old}'\nnew='{new}'\nbreaks='it'\ntests='{tests}'" for old, new, tests in mutants
    ]
    (root / "list.toml").write_text("\n".join(lines))
    return ["--root", str(root), "--list", str(root / "list.toml")]


def test_each_mutant_is_killed_or_survives_or_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bug = ("one >= other", "one < other")
    mutants = (
        (*bug, NOTICED),
        (*bug, UNNOTICED),
        ("no such text", "", NOTICED),
        ("other", "one", NOTICED),  # which of the three?
        ("def larger", "def smaller", "tests/test_small.py"),  # pytest cannot even import the tests
    )
    assert main(project(tmp_path, *mutants)) == 1
    *fates, counts = capsys.readouterr().out.splitlines()
    assert [line[:10].strip() for line in fates] == ["killed", "survived", "stale", "stale", "cannot run"]
    assert counts == "1 of 5 killed (20%); 1 killed, 1 survived, 2 stale, 1 cannot run"
    assert (tmp_path / "src" / "companyos" / "small.py").read_text() == SOURCE


def test_tests_that_fail_without_any_mutant_are_reported(tmp_path: Path) -> None:
    arguments = project(tmp_path, ("one >= other", "one < other", NOTICED))
    (tmp_path / "src" / "companyos" / "small.py").write_text(SOURCE.replace("else other", "else one"))
    with pytest.raises(RuntimeError, match="without any mutant"):
        main(arguments)


def test_mutants_can_be_chosen_by_file_and_are_a_success_where_all_are_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = project(tmp_path, ("one >= other", "one < other", NOTICED))
    assert main([*arguments, "small.py"]) == 0
    assert main([*arguments, "another.py"]) == 1
    assert capsys.readouterr().out.endswith("0 of 0 killed (0%); \n")


def applies(mutant: Mutant) -> bool:
    """Whether a mutant of our list can be planted, is Python, differs from the source, and names tests that exist."""
    source = (ROOT / mutant.path).read_text()
    mutated = planted(mutant, source)
    tests = [word for word in shlex.split(mutant.tests) if word.startswith("tests/")]
    if mutated is None or not tests or not all((ROOT / name).exists() for name in tests):
        return False
    return ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(source))


def test_every_mutant_of_our_list_can_be_planted() -> None:
    mutants = listed()
    assert len(mutants) >= 60
    assert [f"{mutant.file}: {mutant.breaks}" for mutant in mutants if not applies(mutant)] == []
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in mutants}) == len(mutants)
