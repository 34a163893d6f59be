"""Markup: HTML in which every text is escaped, whoever wrote it. What is not `Markup` already cannot become a tag."""

import re
from collections.abc import Iterable
from html import escape
from typing import Any

import msgspec

_VOID = frozenset({"br", "wbr"})


class Markup(str):
    """HTML that was made here, as opposed to a text that may hold anything."""

    __slots__ = ()


Content = str | Markup | None | Iterable["Content"]


def tag(name: str, *content: Content, **attributes: str | int | float | bool | None) -> Markup:
    """An element. Attributes drop a trailing underscore and write others as dashes; None and False leave one out."""
    said = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False)
    if name in _VOID:
        return Markup(f"<{name}{said}>")
    return Markup(f"<{name}{said}>{joined(content)}</{name}>")


def joined(content: Content) -> Markup:
    """Pieces one after another, each escaped unless it is markup."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(_printable(content)))
    return Markup("".join(map(joined, content)))


def data_block(id: str, content: Any) -> Markup:
    """Data for the page's program, as JSON that cannot end its own element."""
    text = msgspec.json.encode(content, order="deterministic").decode()
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(f'<script type="application/json" id="{escape(id)}">{text}</script>')


def _attribute(key: str, value: str | int | float | bool) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(_printable(str(value)))}"'


def _printable(text: str) -> str:
    """Without the signs that no HTML file may hold, and without half of a pair that no encoding can write."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]", "\ufffd", text)
