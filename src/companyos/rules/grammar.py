"""A grammar that renders and parses: each rule of it turns a value into text, and text into all values that it can mean."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from companyos.rules.vocabulary import Names

Register = Literal["handbook", "memo", "mail"]
REGISTERS: tuple[Register, ...] = ("handbook", "memo", "mail")
Parses = Iterator[tuple[Any, int]]  # a value, and where its text ends


class Voice(Protocol):
    """Makes the choices of a writer. `names` are for a whole episode, the other choices for one sentence."""

    def name(self, kind: str, name: str, phrases: Sequence[str]) -> str: ...
    def phrase(self, phrases: Sequence[str]) -> str: ...
    def template(self, templates: "Sequence[Template]") -> "Template": ...


class Node(Protocol):
    """A rule of the grammar."""

    def say(self, value: Any, voice: Voice) -> str: ...
    def can_say(self, value: Any) -> bool: ...
    def read(self, text: str, at: int) -> Parses: ...


class Word:
    """A name of one kind, by one of its phrases."""

    def __init__(self, kind: str, names: Names) -> None:
        self.kind = kind
        self.names = names
        self._known = [(phrase, name) for name, phrases in names.items() for phrase in phrases]

    def can_say(self, value: Any) -> bool:
        return value in self.names

    def say(self, value: Any, voice: Voice) -> str:
        return voice.name(self.kind, value, self.names[value])

    def read(self, text: str, at: int) -> Parses:
        for phrase, name in self._known:
            if text.startswith(phrase, at):
                yield name, at + len(phrase)


class Number:
    """A whole number in digits."""

    def __init__(self, least: int = 0) -> None:
        self.least = least

    def can_say(self, value: Any) -> bool:
        return type(value) is int and value >= self.least

    def say(self, value: Any, voice: Voice) -> str:
        return str(value)

    def read(self, text: str, at: int) -> Parses:
        end = at
        while end < len(text) and "0" <= text[end] <= "9":
            end += 1
        if end > at and (text[at] != "0" or end == at + 1) and int(text[at:end]) >= self.least:
            yield int(text[at:end]), end


class Series:
    """Several values of a sort, such as `a, b and c`. `last` stands before the last one."""

    def __init__(self, item: Node, between: str, last: str) -> None:
        self.item, self.between, self.last = item, between, last

    def can_say(self, value: Any) -> bool:
        return len(value) > 0 and all(self.item.can_say(one) for one in value)

    def say(self, value: Any, voice: Voice) -> str:
        *first, final = [self.item.say(one, voice) for one in value]
        return self.between.join(first) + self.last + final if first else final

    def read(self, text: str, at: int) -> Parses:
        for value, end in self.item.read(text, at):
            yield (value,), end
            yield from self._more(text, end, (value,))

    def _more(self, text: str, at: int, values: tuple[Any, ...]) -> Parses:
        if text.startswith(self.last, at):
            for value, end in self.item.read(text, at + len(self.last)):
                yield (*values, value), end
        if text.startswith(self.between, at):
            for value, end in self.item.read(text, at + len(self.between)):
                yield from self._more(text, end, (*values, value))


class Wording(NamedTuple):
    """A way to say a value: `{name}` stands for a field. `fixed` are fields that it says without a slot."""

    text: str
    register: Register | None = None  # None: of every register
    held_out: bool = False
    fixed: Mapping[str, Any] = {}


class Template:
    """A wording of a struct, with a rule for each of its slots."""

    def __init__(self, kind: type[Struct], wording: Wording, node_of: Callable[[str, str], Node]) -> None:
        self.kind, self.wording = kind, wording
        self.parts = split_slots(wording.text)
        self._nodes = {name: node_of(name, joiner) for name, joiner in self.parts if name}
        self._literals = [text for name, text in self.parts if not name]
        said = {*self._nodes, *wording.fixed}
        infos = msgspec.structs.fields(kind)
        self._unsaid = {info.name: info.default for info in infos if info.name not in said}

    def can_say(self, value: Any) -> bool:
        if type(value) is not self.kind:
            return False
        return (
            all(getattr(value, name) == fixed for name, fixed in self.wording.fixed.items())
            and all(getattr(value, name) == default for name, default in self._unsaid.items())
            and all(node.can_say(getattr(value, name)) for name, node in self._nodes.items())
        )

    def say(self, value: Any, voice: Voice) -> str:
        parts = (self._nodes[name].say(getattr(value, name), voice) if name else text for name, text in self.parts)
        return "".join(parts)

    def read(self, text: str, at: int) -> Parses:
        if all(literal in text for literal in self._literals):  # a quick test that rejects most templates
            for fields, end in self._read_from(text, at, 0):
                yield self.kind(**self.wording.fixed, **fields), end

    def _read_from(self, text: str, at: int, position: int) -> Iterator[tuple[dict[str, Any], int]]:
        if position == len(self.parts):
            yield {}, at
            return
        name, literal = self.parts[position]
        if not name:
            if text.startswith(literal, at):
                yield from self._read_from(text, at + len(literal), position + 1)
            return
        for value, end in self._nodes[name].read(text, at):
            for fields, final in self._read_from(text, end, position + 1):
                yield {name: value} | fields, final


class Choice:
    """One of several rules."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def can_say(self, value: Any) -> bool:
        return any(node.can_say(value) for node in self.nodes)

    def say(self, value: Any, voice: Voice) -> str:
        able = [node for node in self.nodes if node.can_say(value)]
        if not able:
            raise ValueError(f"there are no words for {value!r}")
        templates = [node for node in able if isinstance(node, Template)]
        return (voice.template(templates) if templates else able[0]).say(value, voice)

    def read(self, text: str, at: int) -> Parses:
        for node in self.nodes:
            yield from node.read(text, at)


def split_slots(text: str) -> list[tuple[str, str]]:
    """Split a wording into literals `("", text)` and slots `(field, joiner)`. `{checks|, then }` has the joiner `, then `."""
    parts: list[tuple[str, str]] = []
    for i, part in enumerate(re.split(r"[{}]", text)):
        name, _, joiner = part.partition("|")
        parts.append((name, joiner) if i % 2 else ("", part))
    return [part for part in parts if part != ("", "")]
