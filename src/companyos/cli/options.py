"""Options: what the commands of the command line have in common."""

import argparse
from typing import Any

Argument = tuple[tuple[str, ...], dict[str, Any]]  # flags, and how argparse is to take them


def option(*flags: str, **settings: Any) -> Argument:
    return flags, settings


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return int(text)
