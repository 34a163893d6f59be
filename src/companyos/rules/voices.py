"""Voices: how a writer chooses among wordings and phrases."""

from collections.abc import Sequence

from companyos.core.world.streams import Draw, Streams
from companyos.rules.grammar import Register, Template
from companyos.rules.vocabulary import HeldOut


class Author:
    """Writes all sentences of an episode. The phrase for a name is the same in all of them.

    With `new_words`, it takes a held-out wording or phrase where there is one. Otherwise, it never takes one.
    """

    def __init__(self, streams: Streams, new_words: bool = False) -> None:
        self.streams, self.new_words = streams, new_words
        self._names: dict[tuple[str, str], str] = {}

    def voice(self, sentence: str, register: Register) -> "Writer":
        """Return the voice for one sentence. `sentence` is the key of its draws."""
        return Writer(self, self.streams.at("wording", register, sentence), register)

    def name(self, kind: str, name: str, phrases: Sequence[str]) -> str:
        phrase = self._names.get((kind, name))
        if phrase is None:
            phrase = self.streams.at("name", kind, name).pick(self.allowed(phrases))
            self._names[kind, name] = phrase
        return phrase

    def allowed(self, phrases: Sequence[str]) -> list[str]:
        """Return the phrases that this author may take."""
        held_out: list[str] = [one for one in phrases if type(one) is HeldOut]
        if not held_out:
            return list(phrases)
        return held_out if self.new_words else [one for one in phrases if type(one) is not HeldOut]


class Writer:
    """Draws the words of one sentence, in one register."""

    def __init__(self, author: Author, draw: Draw, register: Register) -> None:
        self._author, self._draw, self._register = author, draw, register

    def name(self, kind: str, name: str, phrases: Sequence[str]) -> str:
        return self._author.name(kind, name, phrases)

    def phrase(self, phrases: Sequence[str]) -> str:
        return self._draw.pick(self._author.allowed(phrases))

    def template(self, templates: Sequence[Template]) -> Template:
        fitting = [one for one in templates if one.wording.register in (None, self._register)]
        held_out = [one for one in fitting if one.wording.held_out]
        known = [one for one in fitting if not one.wording.held_out]
        return self._draw.pick(held_out if self._author.new_words and held_out else known)


class Steady:
    """Takes the option at a fixed position. Tests use it to see every wording and phrase."""

    def __init__(self, position: int) -> None:
        self._position = position

    def name(self, kind: str, name: str, phrases: Sequence[str]) -> str:
        return self.phrase(phrases)

    def phrase(self, phrases: Sequence[str]) -> str:
        return phrases[self._position % len(phrases)]

    def template(self, templates: Sequence[Template]) -> Template:
        return templates[self._position % len(templates)]
