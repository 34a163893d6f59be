"""Help: every command says its defaults, shows an example and prints its result as JSON."""

import shlex
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator

import pytest

from companyos.cli.main import parser
from companyos.cli.options import EXAMPLE
from tests.shell import run

# These print no result: a person plays, a server runs, or the output is itself a file.
WITHOUT_RESULT = {"play", "demo", "demos", "serve", "mcp", "completion"}


def commands(above: ArgumentParser, name: str = "") -> Iterator[tuple[str, ArgumentParser]]:
    """Every command that runs something, with its parser."""
    below = [action.choices for action in above._actions if isinstance(action, _SubParsersAction)]
    if not below:
        yield name, above
    for word, command in below[0].items() if below else ():
        yield from commands(command, f"{name} {word}".strip())


COMMANDS = dict(commands(parser()))


def test_the_walk_finds_commands_and_subcommands() -> None:
    assert {"eval", "compare", "train tiny", "doctor"} <= COMMANDS.keys()
    assert len(COMMANDS) > 20


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_takes_a_value_says_its_default_or_is_required(name: str) -> None:
    for action in COMMANDS[name]._actions:
        flags, takes_a_value = action.option_strings, action.nargs != 0
        if flags and takes_a_value and not action.required:
            shown = COMMANDS[name]._get_formatter()._get_help_string(action)
            assert shown is not None
            assert "default: " in shown, flags
            assert "default: None" not in shown, flags
        assert action.help, action.dest


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example_that_the_parser_accepts(name: str) -> None:
    lines = (COMMANDS[name].epilog or "").splitlines()
    assert lines
    for line in lines:
        assert line.startswith(f"{EXAMPLE}companyos {name}")
        words = shlex.split(line.removeprefix(EXAMPLE).partition(" > ")[0])
        assert parser().parse_args(words[1:]).run.__name__.strip("_").replace("_", "-") == name.split()[-1]
        assert line in " ".join(COMMANDS[name].format_help().split("\n"))


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_RESULT))
def test_every_command_that_prints_a_result_takes_json(name: str) -> None:
    assert "--json" in COMMANDS[name]._option_string_actions


@pytest.mark.parametrize("words", [[], ["train"]])
def test_without_a_command_the_help_is_printed_and_that_is_no_error(words: list[str]) -> None:
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert out.startswith(f"usage: {' '.join(['companyos', *words])}")
    assert EXAMPLE in out


def test_a_default_is_shown_as_a_user_would_write_it() -> None:
    shown = " ".join(COMMANDS["prove"].format_help().split())
    assert "(default: 0:100)" in shown
    assert "(default: 0,0.25,0.5,0.75,1)" in shown
    assert "(default: 0:0.9,0.5:0.1)" in " ".join(COMMANDS["train sft"].format_help().split())
    assert "(default: no limit)" in " ".join(COMMANDS["train sft"].format_help().split())
