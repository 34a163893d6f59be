"""The checker: it accepts every drawn book, and names what is wrong with a broken one."""

from types import ModuleType

import msgspec
import pytest
from hypothesis import given, settings

from companyos.rules import (
    Amends,
    AnyPiece,
    Applies,
    Before,
    Check,
    Definition,
    Despite,
    Evidence,
    Holds,
    Instead,
    Ladder,
    Language,
    Level,
    Limit,
    Order,
    Otherwise,
    Papers,
    RateTable,
    Row,
    Rulebook,
    Scale,
    Second,
    Signer,
    Strictest,
    Then,
    Unless,
    VersionDay,
    WhichFigure,
    check_book,
    draw_book,
    lines_of,
)
from tests.rules import visitor_badges
from tests.rules.helpers import desks, drawn, seeds, splits, streams_of
from tests.rules.visitor_badges import AUDITOR, BRIEF, CONTRACTOR, DESIGN, DOMAINS, LAB, LANGUAGE

HOUSE = draw_book(DESIGN, streams_of(1), "train", {"rulebook": "house"}).book
STOP = Then("declined", "above_limit")


@given(desks, seeds, splits)
@settings(max_examples=40, deadline=None)
def test_every_piece_of_every_drawn_book_is_reachable_and_matters(desk: ModuleType, seed: int, split: str) -> None:
    flaws = check_book(drawn(desk, seed, split).book, desk.LANGUAGE, desk.DOMAINS, samples=20_000)
    assert lines_of(flaws, desk.LANGUAGE) == []


def with_(*pieces: AnyPiece) -> Rulebook:
    """Return the house rulebook with these pieces; those with a key replace the ones that it has."""
    keys = [piece.key and tuple(getattr(piece, field) for field in piece.key) for piece in pieces]
    replaced = [
        HOUSE.find(type(piece), *key) for piece, key in zip(pieces, keys, strict=True) if key is not None
    ]  # fmt: skip
    return HOUSE.without(*(piece for piece in replaced if piece is not None)).with_pieces(pieces)


ORDER = HOUSE.get(Order).checks
BROKEN: dict[str, Rulebook] = {
    "the rulebook has no order of the checks": HOUSE.without(HOUSE.get(Order)),
    "the rulebook has no rule for when no check applies": HOUSE.without(HOUSE.get(Otherwise)),
    "there are two rules for the same thing": HOUSE.with_pieces([Limit("most_badges", 4)]),
    "the check stay stands in the order, but no rule says when it applies": HOUSE.without(HOUSE.get(Check, "stay")),
    "no rule says what to cite for the check stay": HOUSE.without(HOUSE.get(Evidence, "stay")),
    "no rule says what to cite for the check none": HOUSE.without(HOUSE.get(Evidence, "none")),
    "the check shoes does not stand in the order": with_(Unless("shoes", (LAB,))),
    "the check stay has no conditions": with_(Check("stay", (), STOP)),
    "no exemption from the check host can be lost": with_(Despite("host", (LAB,))),
    "this change of the order contradicts it": with_(
        Strictest(("escalated", "cannot_be_done", "declined", "duplicate", "on_hold")), Before("score", "host", (LAB,))
    ),
    "the resolution on_hold has no place": with_(Strictest(("escalated", "cannot_be_done", "declined", "duplicate"))),
    "two changes of the order are about the same check": with_(
        Before("score", "host", (LAB,)), Before("score", "stay", (BRIEF,))
    ),
    "no rule sets the limit most_chairs": with_(Instead("most_chairs", 4, (LAB,))),
    "no rule says which one counts": with_(Instead("least_score", 10, (CONTRACTOR,))),
    "have the same number of conditions": with_(
        Instead("least_score", 10, (CONTRACTOR,)), WhichFigure("least_score", "special")
    ),
    "an older version does not set the limit most_badges": with_(VersionDay("most_badges", "opened")),
    "the limit least_score has two versions": HOUSE.without(HOUSE.get(VersionDay, "least_score")),
    "no rule says when the risk_class is class_2": HOUSE.without(HOUSE.get(Level, "risk_class", "class_2")),
    "the last level of a scale, and no other one": with_(Level("risk_class", "class_3", (LAB,))),
    "the risk_class has no level lab": with_(Level("risk_class", "lab", (LAB,))),
    "no rule says who signs badge_form": HOUSE.without(HOUSE.get(Ladder, "badge_form")),
    "no rule says who signs key_form first": with_(Second("key_form", "HR Lead", (LAB,))),
    "this amendment replaces nothing": with_(Amends(Limit("most_chairs", 4)), Papers("later")),
    "two amendments replace the same rule": with_(
        Amends(Limit("most_badges", 4)), Amends(Limit("most_badges", 5)), Papers("later")
    ),
    "an amendment may depend on facts only": with_(Amends(Limit("most_badges", 4), (BRIEF,)), Papers("later")),
    "no rule says which of two papers counts": with_(Amends(Limit("most_badges", 4))),
    "brief_visit depends on itself": with_(Definition("brief_visit", (BRIEF,))),
    "stay depends on itself": with_(Unless("stay", (Applies("stay"),))),
    "unknown fact shoe_size": with_(Unless("stay", (Holds("shoe_size", "above", 40),))),
    "the longest_stay has no row for lab": with_(RateTable("longest_stay", "zone", (Row("lobby", 1), Row("office", 4)))),
    "unknown office King": with_(Second("badge_form", "King", (LAB,))),
    "unknown reason boredom": with_(Check("stay", (LAB,), Then("declined", "boredom"))),
    "unknown condition": with_(Unless("stay", (Holds("visitor", "is", "robot"),))),
    "the check host can never decide": with_(Check("host", (Holds("open_badges", "above", 99),), STOP)),
    "this rule never changes a result": with_(Unless("stay", (Holds("days", "at_most", 0),))),
    "some check always applies": with_(Check("host", (Holds("open_badges", "above", 0),), STOP)),
    "contradict each other": HOUSE.without(HOUSE.get(Ladder, "badge_form")).with_pieces(
        [Signer("badge_form", "Desk Lead", (AUDITOR,)), Signer("badge_form", "Site Manager")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_book_is_reported_in_one_line(message: str) -> None:
    flaws = check_book(BROKEN[message], LANGUAGE, DOMAINS)
    lines = lines_of(flaws, LANGUAGE)
    assert any(message in line for line in lines), lines
    assert all("\n" not in line for line in lines)


def test_the_house_rulebook_of_the_example_is_sound() -> None:
    assert check_book(HOUSE, LANGUAGE, DOMAINS) == []


def test_a_sentence_with_two_meanings_is_reported() -> None:
    names = {**visitor_badges.VOCABULARY.checks, "host": ("Length",)}
    ambiguous = Language(msgspec.structs.replace(visitor_badges.VOCABULARY, checks=names))
    lines = lines_of(check_book(HOUSE, ambiguous, DOMAINS), ambiguous)
    assert any("can also mean" in line for line in lines)


def test_scales_are_declared() -> None:
    lines = lines_of(check_book(HOUSE.without(HOUSE.get(Scale, "risk_class")), LANGUAGE, DOMAINS), LANGUAGE)
    assert any("the risk_class has no level class_1" in line for line in lines)
