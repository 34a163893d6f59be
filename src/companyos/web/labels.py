"""Turns names of the code into text for people: `get_ticket` becomes "Get ticket"."""

import re

from markupsafe import Markup, escape

from companyos.company import Tool
from companyos.families import Family


def capitalized(text: str) -> str:
    """Return the text with its first letter in upper case. The rest stays as it is."""
    return text[:1].upper() + text[1:]


def in_words(name: str) -> str:
    """Return a name as words: `get_ticket` becomes `Get ticket`."""
    return capitalized(name.replace("_", " ").strip())


def tool_title(tool: Tool) -> str:
    """Return a tool's title. A tool that only reads loses its verb: `list_tickets` becomes `Tickets`."""
    return in_words(tool.method if tool.writes else _READ_VERB.sub("", tool.method))


_READ_VERB = re.compile(r"^(list|get|read)_")


def title_and_question(family: Family) -> tuple[str, str]:
    """Return a family's title and the question that its tasks ask."""
    name, _, question = family.description.partition("\n")[0].partition(": ")
    return name, capitalized(question)


def with_code(text: str) -> Markup:
    """Return the text as HTML, with `<code>` elements for text between backquotes."""
    pieces = text.split("`")  # every second piece was between backquotes
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if number % 2 else escape(piece) for number, piece in enumerate(pieces)
    )
