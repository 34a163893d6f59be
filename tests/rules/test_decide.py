"""Decisions: by one question at a time, and equal to those of a second judge."""

from types import ModuleType

from hypothesis import given, settings

from companyos.core.world.streams import Streams
from companyos.rules import (
    Amends,
    AnyOf,
    Applies,
    Before,
    Check,
    Complete,
    Despite,
    Evidence,
    Holds,
    Instead,
    Limit,
    Order,
    Otherwise,
    Papers,
    Plan,
    Question,
    Rulebook,
    Strictest,
    Then,
    Unless,
    WhichFigure,
    answered,
    decide,
)
from companyos.rules.conditions import Value
from companyos.rules.eager import judge
from companyos.rules.pieces import AnyPiece
from companyos.rules.reach import DrawnFacts
from tests.rules import visitor_badges
from tests.rules.helpers import desks, drawn, plans, read_back, seeds, splits, streams_of, written

STOP, GO = Then("declined", "above_limit"), Then("completed", "all_checks_passed")
RED, BLUE = Check("red", (Holds("red"),), STOP), Check("blue", (Holds("blue", "above", "@most"),), GO)


def small_book(*more: AnyPiece) -> Rulebook:
    """Return a book with two checks, and further pieces."""
    checks = (Order(("red", "blue")), RED, BLUE, Limit("most", 5), Otherwise(GO))
    cites = (Evidence("red", ("r",)), Evidence("blue", ("b",)), Evidence("none", ("n",)))
    return Rulebook((*checks, *cites, *more))


def check_of(book: Rulebook, **facts: Value) -> str:
    """Return the check that decides."""
    ruling = answered(decide(book), lambda question: facts[question.fact])
    assert ruling.ending == judge(book, lambda question: facts[question.fact])
    return ruling.check


def facts_of(desk: ModuleType, book: Rulebook, seed: int, case: int) -> DrawnFacts:
    return DrawnFacts(book, desk.DOMAINS, Streams(f"facts/{seed}"), case)


# -- laws over drawn books ---------------------------------------------------------------------------------------------


@given(desks, seeds, splits)
@settings(max_examples=150, deadline=None)
def test_decide_and_the_eager_judge_agree(desk: ModuleType, seed: int, split: str) -> None:
    book = drawn(desk, seed, split).book
    for case in range(10):
        facts = facts_of(desk, book, seed, case)
        expected = judge(book, facts)
        assert answered(decide(book), facts).ending == expected
        assert answered(decide(book, desk.COSTS), facts).ending == expected


@given(desks, seeds, plans)
@settings(max_examples=40, deadline=None)
def test_a_book_that_was_read_decides_as_the_book_that_was_written(desk: ModuleType, seed: int, plan: Plan) -> None:
    book = drawn(desk, seed)
    read = read_back(desk, written(desk, book, seed, "test", plan))
    for case in range(10):
        facts = facts_of(desk, book.book, seed, case)
        assert answered(decide(read, desk.COSTS), facts).ending == answered(decide(book.book), facts).ending


@given(desks, seeds)
@settings(max_examples=40, deadline=None)
def test_the_order_of_the_sentences_does_not_matter(desk: ModuleType, seed: int) -> None:
    book = drawn(desk, seed).book
    mixed = Rulebook(tuple(streams_of(seed).at("mix").shuffled(book.pieces)), book.editions)
    for case in range(10):
        facts = facts_of(desk, book, seed, case)
        assert answered(decide(mixed), facts).ending == answered(decide(book), facts).ending


@given(desks, seeds)
@settings(max_examples=40, deadline=None)
def test_the_used_pieces_are_enough_to_decide(desk: ModuleType, seed: int) -> None:
    book = drawn(desk, seed).book
    for case in range(10):
        facts = facts_of(desk, book, seed, case)
        ruling = answered(decide(book), facts)
        needed = {"checks": set(book.get(Order).checks)}
        unused = [
            piece for piece in book.pieces if piece not in ruling.used and isinstance(piece, Unless | Despite | Instead)
        ]
        assert answered(decide(book.without(*unused)), facts).ending == ruling.ending, needed


def test_no_question_is_asked_twice() -> None:
    for seed in range(50):
        book = drawn(visitor_badges, seed).book
        asked: list[Question] = []

        def answer(question: Question, book: Rulebook = book, seed: int = seed, asked: list[Question] = asked) -> Value:
            asked.append(question)
            return facts_of(visitor_badges, book, seed, 0)(question)

        answered(decide(book), answer)
        assert len(asked) == len(set(asked))


def test_an_expensive_fact_is_asked_for_last() -> None:
    asked = []

    def answer(question: Question) -> Value:
        asked.append(question.fact)
        return {"dear": 1, "cheap": False}[question.fact]

    check = Check("red", (Holds("dear", "above", 3), Holds("cheap")), STOP)
    book = Rulebook(
        (
            Order(("red",)),
            check,
            Otherwise(GO),
            Evidence("red", ("r",)),
            Evidence("none", ("n",)),
            Unless("red", (Holds("cheap"),)),
        )
    )
    answered(decide(book, {"dear": 5}), answer)
    assert asked == ["cheap"]


# -- what each kind of piece does --------------------------------------------------------------------------------------


def test_the_first_check_that_applies_decides() -> None:
    assert check_of(small_book(), red=True, blue=9) == "red"
    assert check_of(small_book(), red=False, blue=9) == "blue"
    assert check_of(small_book(), red=False, blue=5) == "none"


def test_an_exemption_counts_unless_it_is_lost() -> None:
    book = small_book(Unless("red", (Holds("small"),)), Despite("red", (Holds("night"),)))
    assert check_of(book, red=True, blue=0, small=True, night=False) == "none"
    assert check_of(book, red=True, blue=0, small=True, night=True) == "red"
    assert check_of(book, red=True, blue=0, small=False, night=True) == "red"


def test_a_change_of_the_order_moves_a_check() -> None:
    book = small_book(Before("blue", "red", (Holds("night"),)))
    assert check_of(book, red=True, blue=9, night=True) == "blue"
    assert check_of(book, red=True, blue=9, night=False) == "red"


def test_the_strictest_resolution_counts() -> None:
    book = small_book(Strictest(("completed", "declined")))
    assert check_of(book, red=True, blue=9) == "blue"


def test_a_check_can_depend_on_another_one() -> None:
    book = small_book(Unless("red", (Applies("blue"),)))
    assert check_of(book, red=True, blue=9) == "blue"
    assert check_of(book, red=True, blue=0) == "red"


def test_a_rule_on_rules_picks_one_of_two_special_figures() -> None:
    special = (Instead("most", 20, (Holds("night"),)), Instead("most", 10, (Holds("night"), Holds("small"))))
    for by, most in (("higher", 20), ("lower", 10), ("special", 10)):
        book = small_book(*special, WhichFigure("most", by))  # type: ignore[arg-type]
        assert check_of(book, red=False, blue=most + 1, night=True, small=True) == "blue"
        assert check_of(book, red=False, blue=most, night=True, small=True) == "none"


def test_an_amendment_counts_if_later_papers_do() -> None:
    amendment = Amends(Limit("most", 100), (Holds("late"),))
    assert check_of(small_book(amendment, Papers("later")), red=False, blue=9, late=True) == "none"
    assert check_of(small_book(amendment, Papers("later")), red=False, blue=9, late=False) == "blue"
    assert check_of(small_book(amendment, Papers("older")), red=False, blue=9, late=True) == "blue"


def test_one_of_several_alternatives_is_enough() -> None:
    book = small_book(Unless("red", (AnyOf((Holds("small"), Holds("night"))),)))
    assert check_of(book, red=True, blue=0, small=False, night=True) == "none"
    assert check_of(book, red=True, blue=0, small=False, night=False) == "red"


def test_a_ruling_names_what_it_relies_on() -> None:
    ruling = answered(decide(small_book()), lambda question: True if question.fact == "red" else 0)
    assert {Order(("red", "blue")), RED, Evidence("red", ("r",)), Complete("exemption", 0)} <= set(ruling.used)
    assert BLUE not in ruling.used
