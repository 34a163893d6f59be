"""What the README shows is so."""

import re
import tomllib
from pathlib import Path

import pytest

import companyos
from companyos.cli.main import main
from companyos.env import make, work
from companyos.env.line_syntax import write_line
from tests.golden.readme import WATCHED

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


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


def test_every_command_of_the_table_is_one() -> None:
    commands = re.findall(r"`companyos ([a-z]+)", README)
    assert {"play", "watch", "twins", "prove", "replay", "regrade", "demos", "tasks", "tools", "bench"} <= set(commands)
    for command in set(commands):
        with pytest.raises(SystemExit) as end:
            main([command, "--help"])
        assert end.value.code == 0, command


def test_the_episode_that_is_shown_is_the_one_that_is_played() -> None:
    shown = re.findall(r"^ +\d+  (\w+ .*)$", README, re.MULTILINE)
    [watched] = WATCHED.finditer(README)
    env = make(watched["family"], int(watched["seed"]), float(watched["chaos"]))
    work(env)
    assert [write_line(turn.call) for turn in env.turns] == shown
