"""Which pieces of a rulebook can decide, tried on many drawn cases."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from companyos.core.world.streams import Streams
from companyos.rules.book import Rulebook
from companyos.rules.conditions import Value
from companyos.rules.decide import decide
from companyos.rules.inquiry import Question, answered
from companyos.rules.pieces import (
    NO_CHECK,
    Amends,
    AnyPiece,
    Before,
    Check,
    Despite,
    Instead,
    Papers,
    Piece,
    Second,
    Strictest,
    Unless,
)

REMOVABLE = (Unless, Despite, Instead, Second, Before, Strictest, Amends)  # a book without one of them is complete, too


class Reach(Struct):
    """What has been found in the drawn cases."""

    decided: set[str]  # the checks that decided
    idle: list[Piece]  # the pieces without which no result was another
    unclear: list[Piece]  # the pieces of the first result that depends on the order of the sentences


class DrawnFacts:
    """The facts of one case, each drawn from its domain when it is first asked for."""

    def __init__(self, book: Rulebook, domains: Mapping[str, Sequence[Value]], streams: Streams, case: int) -> None:
        self._domains = {"edition": range(len(book.editions) + 1), "covers": (False, True), **domains}
        self._streams = streams
        self._case = case

    def __call__(self, question: Question) -> Value:
        return self._streams.at(self._case, question.fact, *question.how).pick(self._domains[question.fact])


def explore(book: Rulebook, domains: Mapping[str, Sequence[Value]], samples: int) -> Reach:
    """Decide up to `samples` drawn cases. Stops when every check has decided and every other piece has mattered."""
    streams = Streams("reach")
    checks = {NO_CHECK, *(check.check for check in book.all(Check))}
    decided: set[str] = set()
    idle = {piece: _misread(book, piece) for piece in book.pieces if isinstance(piece, REMOVABLE)}
    backwards = Rulebook(book.pieces[::-1], book.editions)
    for case in range(samples):
        facts = DrawnFacts(book, domains, streams, case)
        ruling = answered(decide(book), facts)
        decided.add(ruling.check)
        other = answered(decide(backwards), facts)
        if other.ending != ruling.ending:
            return Reach(decided, list(idle), [piece for piece in ruling.used if piece not in other.used] or [*ruling.used])
        for piece in [used for used in ruling.used if used in idle]:
            if answered(decide(idle[piece]), facts).ending != ruling.ending:
                del idle[piece]
        if not idle and decided == checks:
            break
    return Reach(decided, list(idle), [])


def _misread(book: Rulebook, piece: AnyPiece) -> Rulebook:
    """Return the book of somebody who overlooks a piece, or who believes an amendment that does not count."""
    papers = book.find(Papers)
    if isinstance(piece, Amends) and papers is not None and papers.by == "older":
        return book.without(papers).with_pieces([Papers("later")])
    return book.without(piece)
