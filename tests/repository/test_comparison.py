"""The page that compares: systems have years, rows are whole, and our own numbers are those of the pages they link to."""

import re
from pathlib import Path

import msgspec

import companyos
from companyos.bench.peers import race

PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"
TEXT = PAGE.read_text()
SYSTEMS = (
    *("WebArena", "WorkArena", "AgentBench", "ToolBench", "ALFWorld"),  # whom the original project named
    *("AutomationBench", "EnterpriseOps-Gym", "tau-bench", "Gaia2", "AppWorld", "ERP-Bench", "World of Workflows"),
    *("ReliabilityBench", "ToolSandbox", "TheAgentCompany", "TextWorld", "reasoning-gym", "verifiers"),
)


def section(title: str) -> str:
    [found] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    return str(found)


def test_every_system_of_the_features_has_a_year_and_every_cell_an_answer() -> None:
    [table, *_] = re.findall(r"(?:^\|.*\n)+", section("Features"), re.MULTILINE)
    heading, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    systems = [row for row in rows if not re.fullmatch(r"\*[^*]+\*", row[0])]
    assert all(len(row) == len(heading) for row in rows)
    for name, *cells in systems:
        assert re.search(r"\((?:19|20)\d\d\)$", name), name
        assert all(cells), name
    names = " ".join(row[0] for row in systems)
    assert [system for system in SYSTEMS if system not in names] == []


def test_each_system_is_said_to_do_something_better_than_us() -> None:
    better = section("What they do better than us")
    shorter = {"Gaia2": "Meta ARE", "AgentBench": "", "ToolBench": ""}  # of the last two we know nothing
    assert [system for system in SYSTEMS if shorter.get(system, system) not in better] == []


def test_our_own_numbers_stand_on_the_pages_that_they_link_to() -> None:
    links = re.findall(r"\[([^\]]*\d[^\]]*)\]\(([^)#]+)(?:#[^)]*)?\)", TEXT)
    assert len(links) > 5
    for number, target in links:
        there = (PAGE.parent / target).read_text()
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?!\.?\d)", there), (number, target)


def test_we_have_as_many_tools_as_it_says() -> None:
    assert f"lists {len(companyos.tools())}" in TEXT


def test_the_speeds_are_those_of_the_run_that_is_kept() -> None:
    class Report(msgspec.Struct):
        releases: list[str]
        found: list[race.RaceResult]

    report = msgspec.json.decode((PAGE.parent.parent / "results" / "peers.json").read_bytes(), type=Report)
    text = section("Speed")
    sides = {finding.side for finding in report.found}
    assert all(side.removesuffix(" as text").partition(",")[0] in text for side in sides)
    assert all(release in text for release in report.releases if not release.startswith("companyos"))
    for finding in report.found:
        value = race.shown(finding.value, finding.unit).partition(" (")[0]
        assert value.removesuffix(" /s") in text, finding
        if finding.ours_is is not None and finding.unit != "kB":
            assert race.shown(finding.ours_is) in text, finding
