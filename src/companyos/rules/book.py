"""A rulebook: the pieces of the rules of one kind of work, and how to find them."""

from collections.abc import Iterable
from functools import cached_property
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from companyos.rules.pieces import (
    COUNTED,
    Amends,
    AnyPiece,
    Complete,
    Computed,
    Counted,
    DayMeant,
    Definition,
    Instead,
    Ladder,
    Limit,
    Piece,
    RateTable,
    Scale,
    Signer,
    Signpost,
)

P = TypeVar("P", bound=Piece)
Key = tuple[object, ...]
_NAMED: dict[type[Piece], str] = {  # pieces that give a name a value, and the field with the name
    Definition: "term", DayMeant: "name", Computed: "fact", Limit: "limit", RateTable: "table", Scale: "scale",
    Ladder: "form", Signer: "form",
}  # fmt: skip


def key_of(piece: Piece) -> Key | None:
    """Return what identifies a piece in its book, or None if there can be several of its sort."""
    if piece.key is None:
        return None
    return (type(piece), *(getattr(piece, field) for field in piece.key))


class Rulebook(Struct, frozen=True, dict=True):
    """All pieces of the rules of one kind of work.

    `editions` are older versions of limits and tables, the newest of them first. `VersionDay` says when they count.
    """

    pieces: tuple[AnyPiece, ...]
    editions: tuple[tuple[AnyPiece, ...], ...] = ()

    def all(self, kind: type[P]) -> list[P]:
        """Return all pieces of a type, without those inside amendments."""
        return cast("list[P]", self._by_type.get(kind, []))

    def find(self, kind: type[P], *key: object) -> P | None:
        """Return the piece of a type with this key, or None."""
        return cast("P | None", self._by_key.get((kind, *key)))

    def get(self, kind: type[P], *key: object) -> P:
        """Return the piece of a type with this key. Raises `KeyError` if there is none."""
        found = self.find(kind, *key)
        if found is None:
            raise KeyError(f"the rulebook has no {kind.__name__} {' '.join(map(str, key))}".rstrip())
        return found

    def amendment(self, piece: Piece) -> Amends | None:
        """Return the amendment that replaces a piece, or None."""
        return self._amendments.get(key_of(piece))

    def definition(self, name: str) -> Piece | None:
        """Return the piece that gives this name a value, or None if it is a plain fact."""
        return self._by_name.get(name)

    def complete(self, kind: Counted) -> Complete:
        """Return the index for a kind of pieces: how many there are in this book."""
        return Complete(kind, sum(len(self._by_type.get(one, ())) for one in COUNTED[kind]))

    @property
    def rules(self) -> frozenset[AnyPiece]:
        """The pieces without signposts. Two books with the same rules decide alike."""
        return frozenset(piece for piece in self.pieces if not isinstance(piece, Signpost))

    def without(self, *pieces: AnyPiece) -> "Rulebook":
        """Return the book without some pieces."""
        return Rulebook(tuple(piece for piece in self.pieces if piece not in pieces), self.editions)

    def with_pieces(self, pieces: Iterable[AnyPiece]) -> "Rulebook":
        """Return the book with further pieces."""
        return Rulebook((*self.pieces, *pieces), self.editions)

    def with_limit_moved(self, limit: str, by: int) -> "Rulebook":
        """Return the book with all figures of a limit higher by a number, so that a drifting limit keeps their order."""
        return Rulebook(tuple(_moved(piece, limit, by) for piece in self.pieces), self.editions)

    @cached_property
    def _by_type(self) -> dict[type[Piece], list[Piece]]:
        found: dict[type[Piece], list[Piece]] = {}
        for piece in self.pieces:
            found.setdefault(type(piece), []).append(piece)
        return found

    @cached_property
    def _by_key(self) -> dict[Key | None, Piece]:
        return {key: piece for piece in self.pieces if (key := key_of(piece)) is not None}

    @cached_property
    def _amendments(self) -> dict[Key | None, Amends]:
        return {key_of(amendment.piece): amendment for amendment in self.all(Amends)}

    @cached_property
    def _by_name(self) -> dict[str, Piece]:
        return {getattr(piece, _NAMED[type(piece)]): piece for piece in self.pieces if type(piece) in _NAMED}


def _moved(piece: AnyPiece, limit: str, by: int) -> AnyPiece:
    if isinstance(piece, Amends):
        return replace(piece, piece=_moved(piece.piece, limit, by))
    if isinstance(piece, Limit | Instead) and piece.limit == limit:
        return replace(piece, number=piece.number + by)
    return piece
