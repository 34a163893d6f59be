"""The template environment of the report page. Every text from a run is escaped; only `Markup` becomes HTML as it is."""

import re
from functools import cache
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


@cache
def jinja_environment() -> Environment:
    """Return the Jinja environment that loads `templates/`, with its filters."""
    environment = Environment(
        loader=PackageLoader("companyos.evaluate.reports"),
        autoescape=True,
        finalize=_printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"script_json": script_json, "words": words}
    return environment


def printable(text: str) -> str:
    """Replace the characters that no HTML file may contain, and lone surrogates, which no encoding can write."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", "\ufffd", text)


def script_json(content: Any) -> Markup:
    """Data for the page's program, as JSON that cannot end its `<script>` element."""
    text = msgspec.json.encode(content, order="deterministic").decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def words(name: str) -> list[str]:
    """Split a name after every dot and underscore: `a.b_c` gives `a.`, `b_` and `c`."""
    return re.findall(r"[^._]*[._]?", name)


def _printable_value(value: Any) -> Any:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
