"""Options that several commands share: how they are declared, parsed and turned into task ids and files."""

import argparse
import math
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec

from companyos.chaos import DIALS, PRESETS
from companyos.core.episode import Transcript
from companyos.core.errors import Misuse
from companyos.core.task import SIZES, SPLITS
from companyos.env import task_named
from companyos.env.rewards import PROFILES, RENAMED, current_profile_name, old_name_notice
from companyos.families import SHORT_FAMILIES, family

Argument = tuple[tuple[str, ...], dict[str, Any]]  # the flags of an option, and the keyword arguments for argparse
Commands = dict[Callable[[Namespace], int], tuple[Argument, ...]]  # each command function with its options

EXAMPLE = "Example: "  # the help of a command ends with lines that begin so
_ONE_DIAL_PRESETS = tuple(f"only_{dial}" for dial in DIALS)


def option(*flags: str, **settings: Any) -> Argument:
    return flags, settings


# -- types of values ---------------------------------------------------------------------------------------------------


def count(text: str) -> int:
    """Parse an integer from 1 up."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 1 up")
    return int(text)


def seed_range(text: str) -> range:
    """Parse `7` or `0:100`; the end is left out."""
    first, colon, last = text.partition(":")
    if not (first.isdecimal() and (last.isdecimal() or not colon)):
        raise ArgumentTypeError(f"{text!r} is not a range of seeds; write 0:100, or 7")
    seeds = range(int(first), int(last) if colon else int(first) + 1)
    if not seeds:
        raise ArgumentTypeError(f"{text!r} is an empty range of seeds; the end is left out, as in 0:100")
    return seeds


def dose(text: str) -> float | str:
    """Parse a dose of chaos, or the name of a preset."""
    try:
        return text if text in PRESETS else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a dose from 0 to 1, nor one of {', '.join(PRESETS)}") from None


def dose_list(text: str) -> list[float | str]:
    """Parse doses separated by commas. `each` stands for every dial alone."""
    return [value for part in text.split(",") for value in (_ONE_DIAL_PRESETS if part == "each" else (dose(part),))]


def reward_profile(name: str) -> str:
    """Parse the name of a reward profile. An old name is accepted with a notice of one line."""
    if name in RENAMED:
        print(f"companyos: {old_name_notice(name)}", file=sys.stderr)
    return current_profile_name(name)


# -- options -----------------------------------------------------------------------------------------------------------

TASK = option("task", metavar="TASK", help="a task id, or a family (then its first seed)")
FAMILIES = option(
    "--families",
    "--family",
    default="all",
    help="names separated by commas; all: the twelve benchmark families, without the long quarter_close",
)
DOSES_HELP = "doses or presets, separated by commas; each: every dial alone, at 1"
SPLIT = option("--split", default="train", choices=SPLITS, help="the split of the tasks")
SIZE = option("--size", default=SIZES[0], choices=SIZES, help="the size of the company: 10,000, 110 or 16,000 records")
JSON = option("--json", action="store_true", help="print one JSON object instead of text")
WORKERS = option("--workers", type=count, default=2, help="number of processes")
EPISODE = (
    TASK,
    option("--seed", type=int, help="with a family: which of its tasks (default: 0)"),
    option(
        "--chaos",
        type=dose,
        help="with a family: the dose of trouble, 0 to 1, or a preset like monday, only_stale (default: 0)",
    ),
    option("--split", choices=SPLITS, help="with a family: the split of the task (default: train)"),
    option("--size", choices=SIZES, help="with a family: the size of the company (default: office)"),
    option("--reward", type=reward_profile, choices=list(PROFILES), help="the reward profile (default: dense)"),
)


# -- tasks and files that options name ---------------------------------------------------------------------------------


def family_names(args: Namespace) -> list[str]:
    """Return the families that `--families` names; an unknown one is an error."""
    names = list(SHORT_FAMILIES) if args.families == "all" else args.families.split(",")
    for name in names:
        family(name)
    return names


def task_ids(args: Namespace) -> Iterator[str]:
    """Yield the ids of all tasks that `--families`, `--seeds`, `--chaos`, `--split` and `--size` describe."""
    names = family_names(args)
    for name in names:
        for seed in args.seeds:
            for value in args.chaos:
                yield str(task_named(name, seed, value, args.split, args.size))


def read_transcript(path: Path) -> Transcript:
    """Read a transcript file; a file that is not a transcript is an error of one line."""
    try:
        return Transcript.from_jsonl(path.read_bytes())
    except OSError as error:
        raise Misuse(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise Misuse(f"{path}: {error}") from None


@contextmanager
def output(path: Path | None) -> Iterator[TextIO]:
    """Open a file for writing, or use stdout when there is no path."""
    if path is None:
        yield sys.stdout
        return
    try:
        file = path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise Misuse(f"cannot write {path}: {error.strerror}") from None
    with file:
        yield file


def print_json(content: object) -> None:
    """Print the result of a command as one indented JSON object."""
    print(msgspec.json.format(msgspec.json.encode(content)).decode())


# -- help --------------------------------------------------------------------------------------------------------------


def default_text(value: object) -> str:
    """Return a default value as a user would write it on the command line."""
    if isinstance(value, range):
        return f"{value.start}:{value.stop}"
    if isinstance(value, dict):
        return ",".join(f"{key}={share:g}" for key, share in value.items())
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):  # doses with their shares
        return ",".join(":".join(map(default_text, pair)) for pair in value)
    if isinstance(value, list | tuple):
        return ",".join(map(default_text, value))
    if isinstance(value, float):
        return "no limit" if value == math.inf else f"{value:g}"
    return str(value)


class HelpFormatter(argparse.HelpFormatter):
    """Adds the default to the help of every option that takes a value, and keeps the lines of examples."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text = action.help or ""
        unsaid = action.option_strings and action.nargs != 0 and not action.required and "default" not in text
        return f"{text} (default: {default_text(action.default) or 'none'})".strip() if unsaid else text

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(EXAMPLE) else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all other errors of the command line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message} (see {self.prog} --help)")
