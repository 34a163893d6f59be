"""Voices: how a writer chooses among wordings and phrases."""

from collections.abc import Sequence

from companyos.core.world.streams import Draw, Streams
from companyos.rules.grammar import Register, Template
from companyos.rules.vocabulary import HeldOut


class Writer:
    """Draws the words of one sentence, in one register. The phrase for a name is the same in the whole episode.

    With `new_words`, it takes a held-out wording or phrase where there is one. Otherwise, it never takes one.
    """

    def __init__(self, streams: Streams, sentence: str, register: Register, new_words: bool) -> None:
        self._streams = streams
        self._draw: Draw = streams.at("wording", register, sentence)
        self._register = register
        self._new_words = new_words

    def name(self, kind: str, name: str, phrases: Sequence[str]) -> str:
        return self._streams.at("name", kind, name).pick(self._allowed(phrases)) if len(phrases) > 1 else phrases[0]

    def phrase(self, phrases: Sequence[str]) -> str:
        return self._draw.pick(self._allowed(phrases))

    def template(self, templates: Sequence[Template]) -> Template:
        fitting = [one for one in templates if one.wording.register in (None, self._register)]
        held_out = [one for one in fitting if one.wording.held_out]
        known = [one for one in fitting if not one.wording.held_out]
        return self._draw.pick(held_out if self._new_words and held_out else known)

    def _allowed(self, phrases: Sequence[str]) -> list[str]:
        held_out = [one for one in phrases if isinstance(one, HeldOut)]
        known = [one for one in phrases if not isinstance(one, HeldOut)]
        return held_out if self._new_words and held_out else known


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
