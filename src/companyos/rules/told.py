"""What the texts that somebody has read do not tell about a decision."""

from collections.abc import Iterable

from companyos.rules.inquiry import Ruling
from companyos.rules.language import Language
from companyos.rules.pieces import COUNTED, Complete, Piece


def untold(ruling: Ruling, texts: Iterable[str], language: Language) -> list[Piece]:
    """Return the pieces that a decision depends on and that no text says.

    A decision can also depend on there being no further exemption, amendment and so on. An index sentence tells this, if as
    many pieces of the kind have been read as it says. Otherwise, the index is among the pieces that are returned.
    """
    told: set[Piece] = {piece for text in texts for piece in language.pieces_in(text)}
    return [piece for piece in ruling.used if piece not in told or not _all_read(piece, told)]


def _all_read(index: Piece, told: set[Piece]) -> bool:
    """Return whether as many pieces have been read as an index says. True for pieces that are no index."""
    return not isinstance(index, Complete) or sum(isinstance(piece, COUNTED[index.kind]) for piece in told) >= index.count
