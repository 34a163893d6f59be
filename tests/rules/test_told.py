"""What has been told: a decision needs every piece that it uses, and the index of those that do not exist."""

from types import ModuleType

from hypothesis import given, settings

from companyos.core.world.streams import Streams
from companyos.rules import Complete, Order, Plan, Unless, answered, decide, untold
from companyos.rules.reach import DrawnFacts
from tests.rules import visitor_badges
from tests.rules.helpers import desks, drawn, plans, seeds, written

LANGUAGE = visitor_badges.LANGUAGE


@given(desks, seeds, plans)
@settings(max_examples=60, deadline=None)
def test_all_documents_together_tell_everything(desk: ModuleType, seed: int, plan: Plan) -> None:
    book = drawn(desk, seed)
    texts = [document.text for document in written(desk, book, seed, "test", plan)]
    for case in range(5):
        ruling = answered(decide(book.book), DrawnFacts(book.book, desk.DOMAINS, Streams(f"told/{seed}"), case))
        assert untold(ruling, texts, desk.LANGUAGE) == []


@given(desks, seeds, plans)
@settings(max_examples=60, deadline=None)
def test_without_a_document_its_used_pieces_are_untold(desk: ModuleType, seed: int, plan: Plan) -> None:
    book = drawn(desk, seed)
    documents = written(desk, book, seed, "test", plan)
    ruling = answered(decide(book.book), DrawnFacts(book.book, desk.DOMAINS, Streams(f"told/{seed}"), 0))
    for left_out in documents:
        missing = {desk.LANGUAGE.parse(sentence) for sentence in left_out.sentences} & set(ruling.used)
        others = [document.text for document in documents if document is not left_out]
        assert missing <= set(untold(ruling, others, desk.LANGUAGE))


def test_absence_is_told_by_the_index_and_by_as_many_pieces_as_it_counts() -> None:
    index, exemption = Complete("exemption", 1), Unless("stay", (visitor_badges.AUDITOR,))
    book = drawn(visitor_badges, 3).book
    ruling = answered(decide(book), lambda question: visitor_badges.DOMAINS.get(question.fact, (0,))[0])
    bare = type(ruling)(ruling.check, ruling.then, ruling.cites, ruling.signers, (Order(("stay",)), index))
    order, counted, exempt = (next(iter(LANGUAGE.sentences(piece))) for piece in (Order(("stay",)), index, exemption))
    assert untold(bare, [counted, exempt], LANGUAGE) == [Order(("stay",))]
    assert untold(bare, [order, counted], LANGUAGE) == [index]
    assert untold(bare, [order, exempt], LANGUAGE) == [index]
    assert untold(bare, [f"{order} {counted}", exempt], LANGUAGE) == []
