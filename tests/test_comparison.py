"""The page that compares: systems have years, rows are whole, and our own numbers are those of the pages they link to."""

import re
from pathlib import Path

import companyos

PAGE = Path(__file__).parent.parent / "docs" / "comparison.md"
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
