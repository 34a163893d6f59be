"""Options that several commands share: how they are declared, parsed and turned into task ids and files."""

import argparse
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from companyos.chaos import DIALS, PRESETS
from companyos.core.episode import Transcript
from companyos.core.errors import Misuse
from companyos.core.task import SPLITS
from companyos.env import task_named
from companyos.env.rewards import PROFILES, RENAMED, current_profile_name, old_name_notice
from companyos.families import SHORT_FAMILIES, family

Argument = tuple[tuple[str, ...], dict[str, Any]]  # the flags of an option, and the keyword arguments for argparse
Commands = dict[Callable[[Namespace], int], tuple[Argument, ...]]  # each command function with its options

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
SPLIT = option("--split", default="train", choices=SPLITS)
JSON = option("--json", action="store_true", help="print JSON")
WORKERS = option("--workers", type=count, default=2, help="number of processes")
EPISODE = (
    TASK,
    option("--seed", type=int, help="with a family: which of its tasks"),
    option("--chaos", type=dose, help="with a family: the dose of trouble, 0 to 1, or a preset like monday, only_stale"),
    option("--split", choices=SPLITS, help="with a family"),
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
    """Yield the ids of all tasks that `--families`, `--seeds`, `--chaos` and `--split` describe."""
    names = family_names(args)
    for name in names:
        for seed in args.seeds:
            for value in args.chaos:
                yield str(task_named(name, seed, value, args.split))


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


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like all other errors of the command line."""

    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message} (see {self.prog} --help)")
