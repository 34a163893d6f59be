"""Project files: make, CI, citation, decision records and the site's navigation agree with the repository."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import companyos
from tests.blocks import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
RECORDS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
INDEX = (ROOT / "docs" / "adr" / "README.md").read_text()
STATUS = re.compile(
    r"^\*Status: (?P<status>[\w ]+)\. Date: (?P<date>[\d-]{10})\.(?: Changed: (?P<changed>[\d-]{10})\.)?\*$", re.MULTILINE
)


def phony_targets() -> set[str]:
    """The targets that the Makefile declares as phony."""
    declared = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    assert declared
    return set(declared[1].replace("\\\n", " ").split())


def workflow_targets() -> list[str]:
    """The make targets in the matrix of the workflow."""
    listed = re.search(r"^        target:\n((?:          - [a-z-]+\n)+)", WORKFLOW, re.MULTILINE)
    assert listed
    return re.findall(r"- ([a-z-]+)", listed[1])


# -- make --------------------------------------------------------------------------------------------------------------


def test_make_help_says_one_line_about_every_phony_target() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    described = re.findall(r"^  ([a-z-]+) +(\S.*)$", shown, re.MULTILINE)
    assert sorted(target for target, _ in described) == sorted(phony_targets())


def test_make_run_installs_the_server_and_no_tools_of_the_tests() -> None:
    [installed] = re.findall(r"^\$\(RUN\)/\.ready: .*\n(?:\t.*\n)*?\t@.*\.ci/venv \$\(RUN\) (.*)$", MAKEFILE, re.MULTILINE)
    assert installed == '-e ".[web]"'
    packages = {Requirement(line).name for line in PROJECT["optional-dependencies"]["web"]}
    for extra in ("dev", "serve", "serve-dev", "openenv"):
        others = {Requirement(line).name for line in PROJECT["optional-dependencies"][extra]}
        assert packages & others <= {"jinja2"}  # which tests of the reports need, too


def test_make_without_a_target_shows_the_help() -> None:
    assert re.search(r"^\.DEFAULT_GOAL := help$", MAKEFILE, re.MULTILINE)


def test_make_test_runs_lint_and_types() -> None:
    rule = re.search(r"^test: (.*?) ##", MAKEFILE, re.MULTILINE)
    assert rule
    assert {"lint", "types"} <= set(rule[1].split())


@pytest.mark.parametrize(
    ("target", "tools"), [("lint", ("ruff check", "ruff format --check", "lint-imports")), ("types", ("mypy",))]
)
def test_lint_and_types_run_their_tools(target: str, tools: tuple[str, ...]) -> None:
    recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert recipe
    assert [tool for tool in tools if tool not in recipe[1]] == []


# -- CI ----------------------------------------------------------------------------------------------------------------


def test_every_job_of_the_workflow_is_a_make_target() -> None:
    assert len(workflow_targets()) > 5
    assert set(workflow_targets()) <= phony_targets()
    assert re.search(r"^ +- run: make \$\{\{ matrix\.target \}\}$", WORKFLOW, re.MULTILINE)


def test_the_workflow_and_the_ci_script_run_the_same_targets_in_the_same_order() -> None:
    loop = re.search(r"^for target in (.*); do$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert loop
    assert workflow_targets() == loop[1].split()


def test_every_test_target_is_run_by_ci() -> None:
    assert {target for target in phony_targets() if target.startswith("test")} == set(workflow_targets())


def test_the_workflow_installs_every_supported_python() -> None:
    listed = {name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)}
    versions = re.search(r"^PYTHONS := (.*)$", MAKEFILE, re.MULTILINE)
    assert versions
    assert set(versions[1].split()) == set(re.findall(r"^ +(3\.\d+)$", WORKFLOW, re.MULTILINE)) == listed


def test_pre_commit_calls_make_targets() -> None:
    hooks = re.findall(r"^ +entry: make ([a-z-]+)$", (ROOT / ".pre-commit-config.yaml").read_text(), re.MULTILINE)
    assert hooks == ["lint", "types"]
    assert set(hooks) <= phony_targets()


# -- release -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["CITATION.cff", "openenv.yaml"])
def test_every_file_that_names_the_version_names_the_same_one(file: str) -> None:
    named = re.search(r"^version: (.+)$", (ROOT / file).read_text(), re.MULTILINE)
    assert named
    assert named[1] == PROJECT["version"] == companyos.__version__


def test_the_citation_has_the_release_date_of_the_changelog() -> None:
    cited = re.search(r'^date-released: "(.+)"$', (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    released = re.search(
        rf"^## {re.escape(PROJECT['version'])}, ([\d-]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert cited
    assert released
    assert cited[1] == released[1]


# -- decision records --------------------------------------------------------------------------------------------------


def test_decision_records_are_numbered_without_gaps() -> None:
    assert [int(record.name[:4]) for record in RECORDS] == list(range(1, len(RECORDS) + 1))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_the_index_has_the_title_status_and_dates_of_every_decision_record(record: Path) -> None:
    text = record.read_text()
    said = STATUS.search(text)
    assert said, "the record has no status line"
    title = text.splitlines()[0].removeprefix("# ")
    assert title.startswith(f"{int(record.name[:4])}. ")
    assert f"| [{title}]({record.name}) | {said['status']} | {said['date']} | {said['changed'] or ''} |\n" in INDEX


# -- the site's navigation ---------------------------------------------------------------------------------------------


def test_the_navigation_lists_every_page_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = re.findall(r"(?:^|[ -])(\S+\.md)$", navigation, re.MULTILINE)
    docs = ROOT / "docs"
    assert len(listed) == len(set(listed))
    assert {str(page.relative_to(docs)) for page in docs.rglob("*.md")} <= set(listed)
    assert [page for page in listed if not (docs / page).is_file() and not (ROOT / page).is_file()] == []
