"""Words: names of the code as people read them."""

import re

from markupsafe import Markup, escape

from companyos.company import Tool
from companyos.families import Family


def sentence(text: str) -> str:
    """A text that begins a line."""
    return text[:1].upper() + text[1:]


def in_words(name: str) -> str:
    """`get_ticket` as `Get ticket`."""
    return sentence(name.replace("_", " ").strip())


def tool_title(tool: Tool) -> str:
    """A tool as people call it: what only shows something is named for that."""
    return in_words(tool.method if tool.writes else _SHOWS.sub("", tool.method))


_SHOWS = re.compile(r"^(list|get|read)_")


def asked(family: Family) -> tuple[str, str]:
    """A kind of work by its name, and the question that it asks."""
    name, _, question = family.description.partition("\n")[0].partition(": ")
    return name, sentence(question)


def goal_in_words(name: str) -> str:
    """`CitesNothingFalse` as `Cites nothing false`, `TicketIs:verified` as `Ticket is: verified`."""
    head, colon, rest = name.partition(":")
    words = re.sub(r"(?<!^)([A-Z])", lambda found: f" {found[1].lower()}", head)
    return f"{words}{colon} {rest}".strip().replace("_", " ")


def with_code(text: str) -> Markup:
    """A text in which what stands between backquotes is code."""
    pieces = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(one) if n % 2 else escape(one) for n, one in enumerate(pieces))
