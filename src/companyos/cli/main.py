"""The command line `companyos`: collects the commands of all groups and runs one of them."""

import argparse
import inspect
import os
import shlex
import sys

from companyos import __version__
from companyos.cli import assurance, data, evaluate, info, play, serve, train
from companyos.cli.options import EXAMPLE, Commands, Parser
from companyos.core.errors import BadChoice, BadDose, BadPlugin, BadTask, Misuse

COMMANDS: Commands = {
    **play.COMMANDS,
    **evaluate.COMMANDS,
    **assurance.COMMANDS,
    **data.COMMANDS,
    **serve.COMMANDS,
    **info.COMMANDS,
}
_FIRST_STEPS = f"{EXAMPLE}companyos demo\n{EXAMPLE}companyos eval --agent naive --suite smoke --out runs/naive"
_FIRST_TRAINING = f"{EXAMPLE}companyos train tiny --family vendor_onboarding --minutes 5"
RESUMABLE = {*evaluate.RESUMABLE, *train.RESUMABLE}
_TRAIN_HELP = "Train a model on the tasks, evaluate it and plot how training went."


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit code. A user's mistake is one line and exit code 2; a bug raises."""
    argv = sys.argv[1:] if argv is None else argv
    resumable = False
    try:
        args = parser().parse_args(argv)
        resumable = args.resumable
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
        advice = f"; to go on, give the same command again: companyos {shlex.join(argv)}" if resumable else ""
        print(f"companyos: interrupted{advice}", file=sys.stderr)
        return 130


def parser() -> Parser:
    """Build the parser of the whole command line."""
    top_parser = Parser(prog="companyos", description="A simulated company for agents to work in.", epilog=_FIRST_STEPS)
    top_parser.add_argument("--version", action="version", version=f"companyos {__version__}")
    commands = _add_commands(top_parser, COMMANDS)
    training = commands.add_parser("train", help=_TRAIN_HELP, description=_TRAIN_HELP, epilog=_FIRST_TRAINING)
    _add_commands(training, train.COMMANDS)
    return top_parser


def _add_commands(parent: argparse.ArgumentParser, table: Commands) -> "argparse._SubParsersAction[Parser]":
    """Add a subparser for each command. Without a command, the parent prints its help.

    The name, the description and the examples are those of the function that runs the command.
    """

    def show_help(args: argparse.Namespace) -> int:
        parent.print_help()
        return 0

    parent.set_defaults(run=show_help, resumable=False)
    commands = parent.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for run, arguments in table.items():
        name = run.__name__.removeprefix("_").replace("_", "-")
        description, _, examples = inspect.cleandoc(run.__doc__ or "").partition("\n\n")
        command = commands.add_parser(name, help=description, description=description, epilog=examples)
        command.set_defaults(run=run, commands=parent, resumable=run in RESUMABLE)
        for flags, settings in arguments:
            command.add_argument(*flags, **settings)
    return commands
