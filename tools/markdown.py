"""Helpers for generated Markdown pages."""

from collections.abc import Iterable, Sequence


def sentence(doc: str | None) -> str:
    """Return the first paragraph of a docstring, with a capital letter."""
    first = (doc or "").strip().split("\n\n")[0]
    return first[:1].upper() + first[1:]


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows))


WRITTEN = "*Generated from the code by `make reference`; do not edit.*"


def page(title: str, about: str, *parts: str) -> str:
    """Return a page with a title, an introduction, its parts, and a note that it is generated."""
    return "\n\n".join([f"# {title}", about, *parts, WRITTEN]) + "\n"


def code(text: object) -> str:
    """Return a text as code for a table cell, with bars escaped."""
    return f"`{text}`".replace("|", "\\|")


def one_line(text: str) -> str:
    """Return a text in one line for a table cell, with bars escaped."""
    return " ".join(text.split()).replace("|", "\\|")
