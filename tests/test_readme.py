"""What the README shows is so."""

import re
from pathlib import Path

import pytest

from companyos.cli import main
from companyos.env import make, work
from companyos.lines import write_line
from tests.golden.readme import WATCHED

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_five_lines_run_and_find_their_ticket() -> None:
    block = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(block, names)
    assert getattr(names["obs"], "code", None) == "ok"
    assert len([line for line in block.splitlines() if line]) == 5


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
