"""What it costs to find out if conditions hold."""

from collections.abc import Mapping

from companyos.rules.book import Rulebook
from companyos.rules.conditions import Condition, Conditions, names_in
from companyos.rules.pieces import (
    Check,
    Computed,
    DayMeant,
    Definition,
    Despite,
    Instead,
    Ladder,
    Level,
    Limit,
    Piece,
    RateTable,
    Scale,
    Signer,
    Unless,
)


class Costs:
    """The costs of conditions and names: the highest cost of a fact that they may ask for."""

    def __init__(self, book: Rulebook, facts: Mapping[str, int]) -> None:
        self._book = book
        self._facts = facts
        self._names: dict[str, int] = {}

    def of(self, condition: Condition) -> int:
        return self.of_all((condition,))

    def of_all(self, conditions: Conditions) -> int:
        return max((self._of_name(name) for name in names_in(conditions)), default=0) if self._facts else 0

    def of_exemptions(self, check: str) -> int:
        """Return the cost to find out if somebody is exempt from a check."""
        return max((self.of_all(piece.when) for piece in self._about(check, Unless, Despite)), default=0)

    def _about(self, check: str, *kinds: type[Unless] | type[Despite]) -> list[Unless | Despite]:
        return [piece for kind in kinds for piece in self._book.all(kind) if piece.check == check]

    def _of_name(self, name: str) -> int:
        if name not in self._names:
            self._names[name] = 0  # a circle of definitions, which the checker reports, ends here
            self._names[name] = self._compute(name)
        return self._names[name]

    def _compute(self, name: str) -> int:
        if name.startswith("check:"):
            check = name.removeprefix("check:")
            return max(self.of_all(self._book.get(Check, check).when), self.of_exemptions(check))
        piece = self._book.definition(name)
        return self._facts.get(name, 0) if piece is None else self._of_piece(piece)

    def _of_piece(self, piece: Piece) -> int:
        book = self._book
        if isinstance(piece, Definition):
            return self.of_all(piece.when)
        if isinstance(piece, Limit):
            special = (one for one in book.all(Instead) if one.limit == piece.limit)
            return max((self.of_all(one.when) for one in special), default=0)
        if isinstance(piece, Scale):
            levels = (one for one in book.all(Level) if one.scale == piece.scale)
            return max((self.of_all(one.when) for one in levels), default=0)
        if isinstance(piece, DayMeant):
            return self._of_name(piece.day)
        if isinstance(piece, RateTable):
            return self._of_name(piece.by)
        if isinstance(piece, Ladder | Signer):
            return self._facts.get("covers", 0)
        assert isinstance(piece, Computed)
        return self._facts.get(piece.fact, 0)
