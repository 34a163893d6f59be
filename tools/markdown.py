"""Markdown: how the pages that we generate write what they have in common."""

from collections.abc import Iterable, Sequence


def sentence(doc: str | None) -> str:
    """The first paragraph of a docstring, as one that begins a line."""
    first = (doc or "").strip().split("\n\n")[0]
    return first[:1].upper() + first[1:]


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows))


WRITTEN = "*Written by `make reference`, from the code itself; please do not edit.*"


def page(title: str, about: str, *parts: str) -> str:
    """A page that is written from the code."""
    return "\n\n".join([f"# {title}", about, *parts, WRITTEN]) + "\n"


def code(text: object) -> str:
    """As code in a table, whose bars would end the cell."""
    return f"`{text}`".replace("|", "\\|")


def one_line(text: str) -> str:
    """As words in a table."""
    return " ".join(text.split()).replace("|", "\\|")


def said(value: object) -> str:
    """A default as one would write it."""
    if isinstance(value, range):
        return f"{value.start}:{value.stop}"
    if isinstance(value, dict):
        return ",".join(f"{key}={share:g}" for key, share in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(said, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
