"""Wordings: each says one piece, and can be parsed back into it."""

import re
from collections.abc import Sequence
from types import ModuleType
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companyos.rules import AnyOf, Check, Holds, Limit, Plan, Then, TwoMeanings, Unless, Vocabulary
from companyos.rules.conditions import Applies, Condition, Conditions, Value
from companyos.rules.grammar import REGISTERS, Register, Template, Voice
from companyos.rules.language import WORDINGS, Language
from companyos.rules.pieces import (
    COUNTED,
    PIECES,
    Amendable,
    Amends,
    AskOwner,
    Before,
    Complete,
    Computed,
    DayMeant,
    Definition,
    Despite,
    Evidence,
    Instead,
    Ladder,
    Level,
    Order,
    Otherwise,
    Papers,
    Piece,
    RateTable,
    Row,
    Scale,
    Second,
    SeeAlso,
    Signer,
    Strictest,
    VersionDay,
    WhichFigure,
)
from companyos.rules.vocabulary import HeldOut
from companyos.rules.voices import Author
from tests.rules import visitor_badges
from tests.rules.helpers import DESKS, desks, drawn, pieces_of, plans, read_back, seeds, splits, streams_of, written

VOCABULARY = visitor_badges.VOCABULARY
LANGUAGE = visitor_badges.LANGUAGE


def some(kind: str) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(VOCABULARY.names(kind)))


def several(kind: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(some(kind), min_size=1, max_size=4, unique=True).map(tuple)


def comparisons() -> st.SearchStrategy[Holds]:
    """All comparisons that the vocabulary has words for."""
    found = []
    for name, words in VOCABULARY.facts.items():
        if words.sort == "word":
            found += [Holds(name, "is", value) for value in words.being]
            found += [Holds(name, "is_not", value) for value in words.not_being]
        else:
            numbers: tuple[Value, ...] = (0, 7, 12_000)
            operands = (*numbers, *(f"@{other}" for other in VOCABULARY.operands()))
            candidates = [Holds(name, op, than) for op in ("below", "at_most", "above", "at_least", "is", "is_not")
                          for than in operands]  # fmt: skip
            found += [test for test in candidates if LANGUAGE.can_say_condition(test)]
    return st.sampled_from(found)


def conditions(least: int = 1) -> st.SearchStrategy[Conditions]:
    """Up to three conditions, with alternatives at the end."""
    applies = st.builds(Applies, some("check"), st.booleans())
    plain: st.SearchStrategy[Condition] = comparisons() | applies
    either = st.lists(comparisons(), min_size=2, max_size=3).map(lambda tests: (AnyOf(tuple(tests)),))
    return st.lists(plain, min_size=least, max_size=2).map(tuple).flatmap(
        lambda first: st.just(first) | either.map(lambda last: (*first, *last))
    )  # fmt: skip


def pieces() -> st.SearchStrategy[Piece]:
    """Pieces of every kind, with any names and conditions of the vocabulary."""
    plain = st.builds(Then, some("resolution"), some("reason"), form=st.just("") | some("form"))
    recorded = st.builds(Then, some("resolution"), some("reason"), some("field"), some("whom"), st.just("") | some("form"))
    then, when, number, check = plain | recorded, conditions(), st.integers(0, 99_999), some("check")
    rows = st.lists(st.builds(Row, some("level"), number), min_size=1, max_size=3).map(tuple)
    fact = some("fact")
    amendable: st.SearchStrategy[Piece] = st.one_of(
        st.builds(Check, check, when, then), st.builds(Otherwise, then), st.builds(Order, several("check")),
        st.builds(Evidence, check | st.just("none"), several("citation")), st.builds(Definition, some("term"), when),
        st.builds(DayMeant, some("agreed_day"), some("day")), st.builds(Computed, fact, several("way")),
        st.builds(Limit, some("limit"), number), st.builds(Instead, some("limit"), number, when),
        st.builds(RateTable, some("table"), fact, rows),
        st.builds(Level, some("scale"), some("level"), st.just(()) | when),
        st.builds(Ladder, some("form"), several("office")),
    )  # fmt: skip
    return st.one_of(
        amendable, st.builds(Unless, check, when), st.builds(Despite, check, when),
        st.builds(Before, check, check, when), st.builds(Strictest, several("resolution")),
        st.builds(WhichFigure, some("limit"), st.sampled_from(("higher", "lower", "special"))),
        st.builds(VersionDay, some("limit"), some("day")), st.builds(Scale, some("scale"), several("level")),
        st.builds(Signer, some("form"), some("office"), st.just(()) | when),
        st.builds(Second, some("form"), some("office"), when), st.builds(Amends, amendable, st.just(()) | when),
        st.builds(Papers, st.sampled_from(("later", "older"))), st.builds(SeeAlso, some("paper")),
        st.builds(AskOwner, some("office"), some("topic")),
        st.builds(Complete, st.sampled_from(sorted(COUNTED)), st.integers(0, 12)),
    )  # fmt: skip


# -- one sentence, one piece -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("desk", DESKS, ids=lambda desk: desk.__name__)
def test_every_sentence_of_a_piece_means_that_piece_and_no_other(desk: ModuleType) -> None:
    language: Language = desk.LANGUAGE
    for piece in pieces_of(desk, range(30)):
        for sentence in language.sentences(piece):
            assert language.meanings(sentence) == [piece], sentence


@given(pieces(), seeds, st.sampled_from(REGISTERS), st.booleans())
@settings(max_examples=600, deadline=None)
def test_a_piece_of_any_kind_survives_rendering_and_parsing(
    piece: Piece, seed: int, register: Register, new_words: bool
) -> None:
    voice = Author(streams_of(seed), new_words).voice("a sentence", register)
    assert LANGUAGE.meanings(LANGUAGE.render(piece, voice)) == [piece]


@given(desks, seeds, splits, plans)
@settings(max_examples=60, deadline=None)
def test_a_drawn_book_survives_being_written_and_read(desk: ModuleType, seed: int, split: str, plan: Plan) -> None:
    book = drawn(desk, seed, split)
    assert read_back(desk, written(desk, book, seed, split, plan)).rules == book.book.rules


def test_the_examples_use_every_kind_of_piece() -> None:
    used = {type(piece) for desk in DESKS for piece in pieces_of(desk, range(60))}
    assert set(PIECES) - used == {Complete, SeeAlso, AskOwner}  # which the layout adds


def test_a_sentence_that_says_no_rule_says_no_piece() -> None:
    for sentence in ("", "Good morning.", "The Passport check.", "The Passport check does not apply if the sun shines."):
        assert LANGUAGE.parse(sentence) is None
    assert LANGUAGE.pieces_in("Hello. The least score is 40. Best regards") == [Limit("least_score", 40)]


def test_a_sentence_with_two_meanings_is_refused() -> None:
    ambiguous = Language(
        Vocabulary(
            topic="Visitors",
            facts=VOCABULARY.facts,
            checks={"passport": ("Papers",), "stay": ("Papers",)},
            offices={},
            citations={},
            resolutions=(),
            reasons=(),
        )
    )
    with pytest.raises(TwoMeanings, match="can mean"):
        ambiguous.parse("A ticket is exempt from the Papers check if the visitor is under age.")


def test_a_missing_word_is_named() -> None:
    voice = Author(streams_of(1)).voice("a sentence", "handbook")
    with pytest.raises(ValueError, match="shoe_size"):
        LANGUAGE.render(Unless("passport", (Holds("shoe_size", "above", 40),)), voice)
    with pytest.raises(ValueError, match="no words"):
        LANGUAGE.render(Unless("shoes", (Holds("minor"),)), voice)


# -- wordings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PIECES, ids=lambda kind: kind.__name__)
def test_every_kind_of_piece_has_a_wording_in_each_register_and_a_held_out_one(kind: type[Piece]) -> None:
    wordings = WORDINGS[kind]
    assert {wording.register for wording in wordings if not wording.held_out} == set(REGISTERS)
    assert [wording.register for wording in wordings if wording.held_out]
    assert len({wording.text for wording in wordings}) == len(wordings)


def test_no_wording_has_a_capital_or_a_full_stop_of_its_own() -> None:
    for wordings in WORDINGS.values():
        for wording in wordings:
            assert wording.text[0] == "{" or wording.text[0].isdigit() or wording.text[0].islower(), wording.text
            assert ". " not in wording.text
            assert not wording.text.endswith(".")


@given(pieces(), seeds, st.sampled_from(REGISTERS), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_word_stands_twice_in_a_row(piece: Piece, seed: int, register: Register, new_words: bool) -> None:
    voice = Author(streams_of(seed), new_words).voice("a sentence", register)
    sentence = LANGUAGE.render(piece, voice)
    assert not re.search(r"\b(\w+) \1\b|  | ,|{|}", sentence), sentence


class Spy:
    """A voice that notes for each choice whether it took a held-out option, and whether there was one."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice
        self.notes: list[tuple[bool, bool]] = []

    def name(self, kind: str, name: str, phrases: Sequence[str]) -> str:
        return self._note(self.voice.name(kind, name, phrases), phrases)

    def phrase(self, phrases: Sequence[str]) -> str:
        return self._note(self.voice.phrase(phrases), phrases)

    def template(self, templates: Sequence[Template]) -> Template:
        taken = self.voice.template(templates)
        self.notes.append((taken.wording.held_out, any(one.wording.held_out for one in templates)))
        return taken

    def _note(self, taken: str, phrases: Sequence[str]) -> str:
        self.notes.append((isinstance(taken, HeldOut), any(isinstance(one, HeldOut) for one in phrases)))
        return taken


@pytest.mark.parametrize("new_words", [False, True])
def test_held_out_words_are_taken_wherever_there_are_any_or_nowhere(new_words: bool) -> None:
    for desk in DESKS:
        author = Author(streams_of(1), new_words)
        for piece in pieces_of(desk, range(20)):
            for register in REGISTERS:
                spy = Spy(author.voice(repr(piece), register))
                desk.LANGUAGE.render(piece, spy)
                assert spy.notes
                assert all(taken == (new_words and possible) for taken, possible in spy.notes)


def test_the_amendable_pieces_have_keys() -> None:
    assert [kind.__name__ for kind in get_args(Amendable) if kind.key is None] == []
