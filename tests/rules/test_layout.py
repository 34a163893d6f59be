"""Layout: every piece is said once, in short documents, in words that other pieces do not change."""

from collections import Counter
from types import ModuleType

import pytest
from hypothesis import given, settings

from companyos.rules import AskOwner, Complete, Despite, Document, Plan, SeeAlso, Unless, lay_out
from companyos.rules.layout import MAX_WORDS, signposts, split_by_words
from tests.rules import visitor_badges
from tests.rules.helpers import PLANS, desks, drawn, plans, seeds, splits, streams_of, written


@given(desks, seeds, splits, plans)
@settings(max_examples=80, deadline=None)
def test_every_piece_is_said_once(desk: ModuleType, seed: int, split: str, plan: Plan) -> None:
    book = drawn(desk, seed, split)
    documents = written(desk, book, seed, split, plan)
    for edition, pieces in enumerate((book.book.pieces, *book.book.editions)):
        said = Counter(desk.LANGUAGE.parse(one) for document in documents if document.edition == edition
                       for one in document.sentences)  # fmt: skip
        posts = [piece for piece in said if isinstance(piece, SeeAlso | AskOwner | Complete)]
        assert said == Counter((*pieces, *posts))
        assert len([post for post in posts if isinstance(post, Complete)]) == (6 if edition == 0 else 0)


@given(desks, seeds, plans)
@settings(max_examples=80, deadline=None)
def test_documents_are_short_and_have_different_titles(desk: ModuleType, seed: int, plan: Plan) -> None:
    documents = written(desk, drawn(desk, seed), seed, "test", plan)
    assert all(0 < document.words <= MAX_WORDS for document in documents)
    titles = [(document.title, document.edition) for document in documents]
    assert len(titles) == len(set(titles))


@given(desks, seeds)
@settings(max_examples=40, deadline=None)
def test_the_index_counts_what_the_documents_say(desk: ModuleType, seed: int) -> None:
    book = drawn(desk, seed).book
    for post in signposts(book, PLANS[0], ""):
        assert isinstance(post, Complete)
        assert post == book.complete(post.kind)
    assert book.complete("exemption").count == len(book.all(Unless))


def test_a_sentence_depends_on_its_piece_and_the_task_alone() -> None:
    plan = Plan(grouping="check")
    for seed in range(20):
        book = drawn(visitor_badges, seed).book
        exempt = Unless("host", (visitor_badges.BRIEF,))

        def sentences(more: tuple[Unless, ...], book=book, seed=seed) -> set[str]:  # type: ignore[no-untyped-def]
            documents = lay_out(book.with_pieces(more), visitor_badges.LANGUAGE, streams_of(seed), plan)
            return {sentence for document in documents for sentence in document.sentences}

        changed = {*map(visitor_badges.LANGUAGE.parse, sentences(()) ^ sentences((exempt,)))}
        assert changed == {exempt, book.complete("exemption"), book.with_pieces((exempt,)).complete("exemption")}


def test_exemptions_can_stand_in_a_memo_whose_title_does_not_name_the_topic() -> None:
    book = drawn(visitor_badges, 1)
    documents = lay_out(book.book.with_pieces([Unless("host", (visitor_badges.LAB,))]), visitor_badges.LANGUAGE,
                        streams_of(1), Plan(exemptions="memo"))  # fmt: skip
    [memo] = [document for document in documents if document.kind == "memo"]
    others = " ".join(document.text for document in documents if document.kind != "memo")
    assert "Visitor" not in memo.title
    assert memo.title in others  # another paper names it
    assert all(isinstance(visitor_badges.LANGUAGE.parse(sentence), Unless | Despite) for sentence in memo.sentences)


def test_the_owner_can_tell_what_the_terms_mean() -> None:
    book = drawn(visitor_badges, 1)
    documents = lay_out(book.book, visitor_badges.LANGUAGE, streams_of(1), Plan(terms="owner", owner="Site Manager"))
    answers = [document for document in documents if document.kind == "answer"]
    assert answers
    policies = [sentence for document in documents if document.kind == "policy" for sentence in document.sentences]
    assert AskOwner("Site Manager", "terms") in map(visitor_badges.LANGUAGE.parse, policies)


def test_a_sentence_that_is_too_long_is_an_error() -> None:
    with pytest.raises(ValueError, match="121 words"):
        split_by_words(Document("Long", "policy", (" ".join(["word"] * 121),)))
