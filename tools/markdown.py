"""Markdown: how the pages that we generate write what they have in common."""

from collections.abc import Iterable, Sequence


def sentence(doc: str | None) -> str:
    """The first paragraph of a docstring, as one that begins a line."""
    first = (doc or "").strip().split("\n\n")[0]
    return first[:1].upper() + first[1:]


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (heading, ["---"] * len(heading), *rows))
