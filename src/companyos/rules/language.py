"""A language: the wordings of all pieces with the words of one family. It renders pieces and parses sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct

from companyos.rules.book import Rulebook
from companyos.rules.conditions import Condition, Conditions
from companyos.rules.conditions_grammar import conditions_node
from companyos.rules.grammar import Choice, Node, Number, Series, Template, Voice, Word, Wording
from companyos.rules.pieces import PIECES, Amendable, AnyPiece, Complete, Piece, Row, Then
from companyos.rules.vocabulary import Vocabulary
from companyos.rules.voices import Steady
from companyos.rules.wordings import BY, CHECKS, PAPERS
from companyos.rules.wordings_numbers import NUMBERS

WORDINGS: dict[type[Struct], list[Wording]] = {**CHECKS, **NUMBERS, **PAPERS}
_MAX_SENTENCES = 65_536  # bounds the memory of parsed sentences


class TwoMeanings(ValueError):
    """A sentence that can mean two different pieces."""


class Language:
    """Renders pieces as sentences and parses sentences as pieces. Build one for each vocabulary and keep it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._conditions = conditions_node(vocabulary)
        self._structs: dict[type[Struct], Choice] = {}
        parts_first: list[type[Struct]] = [Then, Row, *get_args(Amendable), *PIECES]  # an amendment contains another piece
        for kind in dict.fromkeys(parts_first):
            self._structs[kind] = Choice([self._template(kind, wording) for wording in WORDINGS[kind]])
        self._pieces = Choice([template for kind in PIECES for template in self._structs[kind].nodes])
        self._read: dict[str, AnyPiece | None] = {}

    def render(self, piece: Piece, voice: Voice) -> str:
        """Return a sentence that says a piece. Raises `ValueError` if a word is missing."""
        try:
            text = self._structs[type(piece)].say(piece, voice)
        except KeyError as missing:
            raise ValueError(f"there is no word for {missing} in {piece!r}") from None
        return f"{text[0].upper()}{text[1:]}."

    def can_say(self, piece: Piece) -> bool:
        """Return whether there are words for all of a piece."""
        return self._structs[type(piece)].can_say(piece)

    def can_say_condition(self, condition: Condition) -> bool:
        return self._conditions.can_say((condition,))

    def meanings(self, sentence: str) -> list[AnyPiece]:
        """Return all pieces that a sentence can mean. A good sentence of a rulebook has one."""
        text = sentence.removesuffix(".")
        found: dict[AnyPiece, None] = {}
        for form in {text, text[:1].lower() + text[1:]}:
            found |= {piece: None for piece, end in self._pieces.read(form, 0) if end == len(form)}
        return list(found)

    def parse(self, sentence: str) -> AnyPiece | None:
        """Return the piece that a sentence says, or None if it says none. Raises `TwoMeanings`."""
        if sentence not in self._read:
            found = self.meanings(sentence)
            if len(found) > 1:
                raise TwoMeanings(f"{sentence!r} can mean {' or '.join(map(repr, found))}")
            if len(self._read) >= _MAX_SENTENCES:
                self._read.clear()
            self._read[sentence] = found[0] if found else None
        return self._read[sentence]

    def pieces_in(self, text: str) -> list[AnyPiece]:
        """Return the pieces that a text says. Sentences that say none, such as a greeting, are left out."""
        return [piece for sentence in sentences_of(text) if (piece := self.parse(sentence)) is not None]

    def read(self, texts: Iterable[str], editions: Sequence[Iterable[str]] = ()) -> Rulebook:
        """Return the rulebook that texts say. `editions` are the texts of older versions, the newest of them first."""
        present, *older = [
            tuple(dict.fromkeys(piece for text in group for piece in self.pieces_in(text))) for group in (texts, *editions)
        ]
        return Rulebook(present, tuple(older))

    def sentences(self, piece: Piece) -> Iterator[str]:
        """Yield the piece in every wording, and with every phrase for each of its names and conditions."""
        for template in self._structs[type(piece)].nodes:
            if template.can_say(piece):
                for turn in range(_TURNS):
                    text = template.say(piece, Steady(turn))
                    yield f"{text[0].upper()}{text[1:]}."

    def _template(self, kind: type[Struct], wording: Wording) -> Template:
        hints = _hints(kind)
        return Template(kind, wording, lambda name, joiner: self._node(kind, name, hints[name], joiner))

    def _node(self, kind: type[Struct], field: str, hint: Any, joiner: str) -> Node:
        """Return the rule for a field of a struct, by its type."""
        if hint == Conditions:
            return self._conditions
        if hint is int:
            return Number(least=2 if kind is Complete else 0)  # an index has wordings of its own for none and one
        if hint is Then:
            return self._structs[Then]
        if field == "piece":
            return Choice([template for one in get_args(Amendable) for template in self._structs[one].nodes])
        if get_origin(hint) is tuple:
            item = get_args(hint)[0]
            node = self._structs[Row] if item is Row else self._word(item)
            return Series(node, joiner or ", ", joiner or " and ")
        return self._word(hint)

    def _word(self, hint: Any) -> Node:
        assert get_origin(hint) is Annotated, hint
        kind = get_args(hint)[1]
        return Word(kind, BY if kind == "by" else self.vocabulary.names(kind))


_TURNS = 8  # at least as many as a name has phrases


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def sentences_of(text: str) -> list[str]:
    """Split a text into sentences."""
    return re.split(r"(?<=\.)\s+", text.strip()) if text.strip() else []
