"""What an agent can know: the ids, facts and values in the brief and in all replies so far."""

import re
from collections.abc import Iterable, Iterator
from copy import copy
from functools import lru_cache
from typing import Any

from companyos.company import KINDS
from companyos.core.calls import Reply
from companyos.core.world import Record

_KINDS_WITH_ID_PATTERN = tuple(kind for kind in KINDS if kind.pattern)
_OTHER_KINDS = tuple(kind for kind in KINDS if not kind.pattern and not kind.hidden)  # such as metrics: `risk.acme`
_GROUPS = "|".join(f"(?P<{kind.__name__}>{kind.pattern})" for kind in _KINDS_WITH_ID_PATTERN)
_IDS = re.compile(r"(?<![\w@.-])(?:" + _GROUPS + r")(?![\w-])")  # the name of the matched group is the kind of record
_KIND_BY_NAME = {kind.__name__: kind for kind in _KINDS_WITH_ID_PATTERN}
_WORDS = re.compile(r"(?:[^\s,;:()\"']|(?<=\d)[,:](?=\d))+")  # `09:30` and `4,500` are one word each


def ids_in(text: str) -> Iterator[tuple[int, int, type[Record]]]:
    """Yield start, end and record type of each id in a text."""
    for match in _IDS.finditer(text):
        yield match.start(), match.end(), _KIND_BY_NAME[match.lastgroup or ""]


class Knowledge:
    """Ids by record type in the order of appearance, facts by (record, field), and all values that were shown."""

    def __init__(self, brief: str) -> None:
        self.ids: dict[type[Record], dict[str, None]] = {}
        self.facts: dict[tuple[str, str], Any] = {}
        self.values: dict[str, None] = {}
        self.forms: dict[str, list[str]] = {}  # the fields that each form requires
        self.attachments: dict[str, list[str]] = {}  # the optional fields of each form
        self._take_text(brief)

    def fork(self) -> "Knowledge":
        """Return an independent copy."""
        copied = copy(self)
        copied.ids = {kind: known.copy() for kind, known in self.ids.items()}
        copied.facts, copied.values = self.facts.copy(), self.values.copy()
        copied.forms, copied.attachments = self.forms.copy(), self.attachments.copy()
        return copied

    def hear(self, reply: Reply) -> None:
        """Add everything that a reply shows."""
        self._take_text(reply.message)
        self._take(reply.data)

    def known(self, kind: type[Record]) -> Iterable[str]:
        """Return the ids of a record type, in the order in which they appeared."""
        return self.ids.get(kind, {})

    def _take(self, data: Any) -> None:
        """Add everything in the data of a reply."""
        if isinstance(data, dict):
            record = data.get("id") or data.get("record")
            if isinstance(record, str):
                self._take_record(record, data)
            for key, value in data.items():
                self.values[key] = None
                self._take(value)
        elif isinstance(data, list | tuple):
            for item in data:
                self._take(item)
        elif isinstance(data, str):
            self._take_text(data)
        elif data is not None:
            self.values[str(data)] = None

    def _take_record(self, record: str, shown: dict[str, Any]) -> None:
        """Add a record by its id and the fields that a reply has shown of it."""
        if not _IDS.fullmatch(record):  # the id does not tell the kind, but the fields do
            fields = set(shown) - {"id"}
            for kind in _OTHER_KINDS:
                if fields <= set(kind.__struct_fields__):
                    self.ids.setdefault(kind, {})[record] = None
        if "required" in shown:
            self.forms[record] = list(shown["required"])
            self.attachments[record] = list(shown.get("optional", ()))
        if "id" in shown:
            for field, value in shown.items():
                if field != "id" and not isinstance(value, dict | list | tuple):
                    self.facts[record, field] = value

    def _take_text(self, text: str) -> None:
        ids, words = _read(text)
        for kind, record_id in ids:
            self.ids.setdefault(kind, {})[record_id] = None
        self.values.update(words)


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[list[tuple[type[Record], str]], dict[str, None]]:
    """Return the ids in a text and everything in it that can be a value: the text itself, its ids and its words."""
    ids: list[tuple[type[Record], str]] = [(_KIND_BY_NAME[match.lastgroup or ""], match[0]) for match in _IDS.finditer(text)]
    # A word at the end of a sentence counts with and without its full stop.
    words = [part for word in _WORDS.findall(text) for part in (word, word.rstrip(".!?"))]
    return ids, dict.fromkeys((text, *(record_id for _, record_id in ids), *words))
