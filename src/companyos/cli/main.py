"""The command line `companyos`: collects the commands of all groups and runs one of them."""

import argparse
import os
import sys

from companyos import __version__
from companyos.cli import assurance, data, evaluate, info, play, serve, train
from companyos.cli.options import Commands, Parser
from companyos.core.errors import BadChoice, BadDose, BadPlugin, BadTask, Misuse

COMMANDS: Commands = {
    **play.COMMANDS,
    **evaluate.COMMANDS,
    **assurance.COMMANDS,
    **data.COMMANDS,
    **serve.COMMANDS,
    **info.COMMANDS,
}
_TRAIN_HELP = "Train a model on the tasks, evaluate it and plot how training went."


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code. A user's mistake is one line and exit code 2; a bug raises."""
    try:
        args = parser().parse_args(argv)
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except (Misuse, BadTask, BadDose, BadChoice, BadPlugin) as mistake:
        print(f"companyos: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader has gone. Buffered output must not fail a second time when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def parser() -> Parser:
    """Build the parser of the whole command line."""
    top_parser = Parser(prog="companyos", description="A simulated company for agents to work in.", allow_abbrev=False)
    top_parser.add_argument("--version", action="version", version=f"companyos {__version__}")
    commands = _add_commands(top_parser, COMMANDS)
    training = commands.add_parser("train", help=_TRAIN_HELP, description=_TRAIN_HELP, allow_abbrev=False)
    _add_commands(training, train.COMMANDS)
    return top_parser


def _add_commands(parent: argparse.ArgumentParser, table: Commands) -> "argparse._SubParsersAction[Parser]":
    """Add a subparser for each command. Its name and its help text are those of the function that runs it."""
    commands = parent.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for run, arguments in table.items():
        name = run.__name__.removeprefix("_").replace("_", "-")
        command = commands.add_parser(name, help=run.__doc__, description=run.__doc__, allow_abbrev=False)
        command.set_defaults(run=run, commands=parent)
        for flags, settings in arguments:
            command.add_argument(*flags, **settings)
    return commands
