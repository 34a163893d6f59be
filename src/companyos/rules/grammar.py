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
    def read(self, text: str, at: int) -> Parses: ...

    def fits(self, value: Any) -> bool:
        """Return whether this rule is the right one for a value. It does not look inside the value."""

    def can_say(self, value: Any) -> bool:
        """Return whether there are words for all of a value."""


class Word:
    """A name of one kind, by one of its phrases."""

    def __init__(self, kind: str, names: Names) -> None:
        self.kind = kind
        self.names = names
        self._known = [(phrase, name) for name, phrases in names.items() for phrase in phrases]

    def fits(self, value: Any) -> bool:
        return value in self.names

    can_say = fits

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

    def fits(self, value: Any) -> bool:
        return type(value) is int and value >= self.least

    can_say = fits

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

    def fits(self, value: Any) -> bool:
        return len(value) > 0

    def can_say(self, value: Any) -> bool:
        return self.fits(value) and all(self.item.can_say(one) for one in value)

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
        said = {*self._nodes, *wording.fixed}
        unsaid = [(info.name, info.default) for info in msgspec.structs.fields(kind) if info.name not in said]
        self._expected = [*wording.fixed.items(), *unsaid]  # the values of all fields without a slot
        self.signature = (kind, frozenset(self._nodes), tuple(wording.fixed.items()))

    @property
    def beginning(self) -> str:
        """The text before the first slot."""
        name, text = self.parts[0]
        return "" if name else text

    def fits(self, value: Any) -> bool:
        if type(value) is not self.kind:
            return False
        for name, expected in self._expected:
            if getattr(value, name) != expected:
                return False
        return all(node.fits(getattr(value, name)) for name, node in self._nodes.items())

    def can_say(self, value: Any) -> bool:
        return self.fits(value) and all(node.can_say(getattr(value, name)) for name, node in self._nodes.items())

    def say(self, value: Any, voice: Voice) -> str:
        parts = (self._nodes[name].say(getattr(value, name), voice) if name else text for name, text in self.parts)
        return "".join(parts)

    def read(self, text: str, at: int) -> Parses:
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
        # Templates with the same slots fit the same values, so one of them is asked for all.
        groups: dict[Any, list[Node]] = {}
        for node in nodes:
            groups.setdefault(node.signature if isinstance(node, Template) else id(node), []).append(node)
        self._groups = tuple(groups.values())
        # Most wordings begin with a literal. A look at it rules out nearly all of them when parsing.
        beginnings = [(node.beginning if isinstance(node, Template) else "", node) for node in nodes]
        self._long: dict[str, list[Node]] = {}
        for beginning, node in beginnings:
            if len(beginning) >= _LETTERS:
                self._long.setdefault(beginning[:_LETTERS], []).append(node)
        self._short = [(beginning, node) for beginning, node in beginnings if len(beginning) < _LETTERS]

    def fits(self, value: Any) -> bool:
        return True  # `say` raises if none of its rules fits

    def can_say(self, value: Any) -> bool:
        return any(node.can_say(value) for node in self.nodes)

    def say(self, value: Any, voice: Voice) -> str:
        fitting = [node for group in self._groups if group[0].fits(value) for node in group]
        if not fitting:
            raise ValueError(f"there are no words for {value!r}")
        templates = [node for node in fitting if isinstance(node, Template)]
        return (voice.template(templates) if templates else fitting[0]).say(value, voice)

    def read(self, text: str, at: int) -> Parses:
        for node in self._long.get(text[at : at + _LETTERS], ()):
            yield from node.read(text, at)
        for beginning, node in self._short:
            if text.startswith(beginning, at):
                yield from node.read(text, at)


_LETTERS = 8


def split_slots(text: str) -> list[tuple[str, str]]:
    """Split a wording into literals `("", text)` and slots `(field, joiner)`, such as `{checks|, then }`."""
    parts: list[tuple[str, str]] = []
    for i, part in enumerate(re.split(r"[{}]", text)):
        name, _, joiner = part.partition("|")
        parts.append((name, joiner) if i % 2 else ("", part))
    return [part for part in parts if part != ("", "")]
