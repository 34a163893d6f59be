"""The front page and the start page are true: their commands exist, their output and their numbers are real."""

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest

import companyos
from companyos.cli.main import main
from companyos.env import make, run_expert
from companyos.env.line_syntax import write_line
from tools import terminal

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
RESULTS = (DOCS / "results.md").read_text()
EVERYDAY = {
    "play",
    "watch",
    "twins",
    "prove",
    "replay",
    "regrade",
    "demos",
    "tasks",
    "tools",
    "bench",
    "eval",
    "serve",
    "train",
}


def test_the_front_page_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_the_five_lines_run_and_find_their_ticket() -> None:
    block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(block, names)
    assert getattr(names["obs"], "code", None) == "ok"
    assert len([line for line in block.splitlines() if line]) == 5
    assert block == (ROOT / "examples" / "five_lines.py").read_text()


def test_the_version_is_the_same_wherever_it_stands() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert version == companyos.__version__
    assert f"\nversion: {version}\n" in (ROOT / "openenv.yaml").read_text()
    newest, *older = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest.endswith(f", benchmark version {companyos.BENCHMARK_VERSION}")
    released = older[0] if newest.startswith("Unreleased") else newest
    assert re.fullmatch(rf"{re.escape(version)}, \d{{4}}-\d\d-\d\d, benchmark version \d+", released)


@pytest.mark.parametrize("page", [README, (DOCS / "cheatsheet.md").read_text()], ids=["README", "cheatsheet"])
def test_every_command_of_the_tables_is_one(page: str) -> None:
    commands = set(re.findall(r"`companyos ([a-z]+)", page))
    assert commands >= (EVERYDAY if page != README else {"play", "eval", "train", "serve", "prove", "twins", "floor"})
    for command in commands:
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0, command


def test_every_family_that_takes_turns_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .*\?", README, re.MULTILINE)
    assert sorted([*rows, "quarter_close"]) == sorted(companyos.families())


# -- numbers -----------------------------------------------------------------------------------------------------------


def table(page: str, title: str) -> list[list[str]]:
    """Return the rows of the first table of a section, as lists of cells."""
    [section] = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    [first, *_] = re.findall(r"(?:^\|.*\n)+", str(section), re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in str(first).splitlines()[2:]]


def shares(text: str) -> list[str]:
    return re.findall(r"(\d+\.\d) %", text)


def test_every_share_of_the_front_page_stands_on_the_page_of_results() -> None:
    rows = table(README, "Results")
    found = [share for row in rows for share in shares(" ".join(row))]
    assert len(found) > 5
    assert not set(found) - set(shares(RESULTS))
    assert "71.7 %" in README.split("## Results")[0], "the front page says what knowing the rules is worth"


def test_every_success_of_the_results_stands_on_the_page_that_it_links_to() -> None:
    rows = table(RESULTS, "Agents")
    assert len(rows) > 5
    for agent, _, success, _, _, source in rows:
        [link] = re.findall(r"\]\(([^)#]+)", source)
        assert re.search(rf"(?<![\d.]){re.escape(shares(success)[0])}(?!\d)", (DOCS / link).read_text()), agent


# -- the episode -------------------------------------------------------------------------------------------------------


def test_the_start_page_shows_the_episode_as_it_is_printed() -> None:
    assert terminal.PAGE.read_text() == terminal.page(), "run `python -m tools.terminal`"


def test_the_animation_is_up_to_date() -> None:
    assert terminal.ANIMATION.read_text() == terminal.animation(), "run `python -m tools.terminal`"


def test_the_animation_is_a_small_picture_that_asks_for_nothing_and_says_what_it_shows() -> None:
    assert terminal.ANIMATION.stat().st_size < 100_000
    root = ElementTree.parse(terminal.ANIMATION).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root[0].tag.endswith("title")
    assert root[0].text
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    assert not [name for element in root.iter() for name in element.attrib if "href" in name]
    assert "docs/images/episode.svg" in README


def test_the_animation_has_every_call_of_the_episode_and_what_the_expert_compared() -> None:
    _, name, _, seed, _, chaos = terminal.EPISODE.split()
    env = make(name, int(seed), float(chaos))
    run_expert(env)
    lines = ["".join(element.itertext()) for element in ElementTree.parse(terminal.ANIMATION).iter() if element.get("class")]
    calls = [found[1] for line in lines if (found := re.match(r" *\d+  (\w.*)", line))]
    assert len(calls) == env.step_count
    for call, turn in zip(calls, env.turns, strict=True):
        assert write_line(turn.call).startswith(call.strip())  # a long call goes on in the next line
    assert [line for line in lines if line.startswith("     = ")]
