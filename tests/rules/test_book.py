"""Rulebooks: how pieces are found, and how the figures of a limit drift together."""

import pytest

from companyos.rules import Amends, Complete, Holds, Instead, Limit, Order, Papers, Rulebook, SeeAlso, Unless
from companyos.rules.book import key_of

NIGHT = (Holds("night"),)
FIGURES = (Limit("most", 5), Instead("most", 9, NIGHT), Limit("least", 1))
BOOK = Rulebook((*FIGURES, Amends(Limit("most", 7)), Papers("later"), Unless("red", NIGHT)))


def test_a_piece_is_found_by_its_key() -> None:
    assert BOOK.get(Limit, "most") == Limit("most", 5)
    assert BOOK.find(Limit, "other") is None
    assert BOOK.amendment(Limit("most", 5)) == Amends(Limit("most", 7))
    assert BOOK.definition("least") == Limit("least", 1)
    with pytest.raises(KeyError, match="no Order"):
        BOOK.get(Order)


def test_exemptions_have_no_key_because_a_check_can_have_several() -> None:
    assert key_of(Unless("red", NIGHT)) is None


def test_the_index_counts_the_pieces_of_a_kind() -> None:
    assert BOOK.complete("exemption") == Complete("exemption", 1)
    assert BOOK.complete("second_signature") == Complete("second_signature", 0)


def test_signposts_are_no_rules() -> None:
    assert BOOK.with_pieces([SeeAlso("Notes"), Complete("exemption", 1)]).rules == BOOK.rules


def test_all_figures_of_a_limit_move_together() -> None:
    moved = BOOK.with_limit_moved("most", -3)
    assert moved.rules - BOOK.rules == {Limit("most", 2), Instead("most", 6, NIGHT), Amends(Limit("most", 4))}
    assert moved.get(Limit, "least") == Limit("least", 1)
