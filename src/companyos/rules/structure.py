"""What is missing or contradictory in a rulebook, whatever its words are."""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

from companyos.rules.book import Rulebook, key_of
from companyos.rules.conditions import Conditions, names_in
from companyos.rules.pieces import (
    NO_CHECK,
    Amends,
    Before,
    Check,
    DayMeant,
    Definition,
    Despite,
    Evidence,
    Instead,
    Ladder,
    Level,
    Limit,
    Order,
    Otherwise,
    Papers,
    Piece,
    Scale,
    Second,
    Signer,
    Strictest,
    Unless,
    VersionDay,
    WhichFigure,
)


class Flaw(Struct, frozen=True):
    """Something that is wrong with a rulebook, and the piece that it is about."""

    message: str
    piece: Piece | None = None


def conditions_of(piece: Piece) -> Conditions:
    """Return the conditions of a piece, and of the piece inside an amendment."""
    conditions: Conditions = getattr(piece, "when", ())
    return (*conditions, *conditions_of(piece.piece)) if isinstance(piece, Amends) else conditions


def structural_flaws(book: Rulebook) -> list[Flaw]:
    """Return what is missing, double or contradictory. Needs no words and no facts."""
    if not book.all(Order) or not book.all(Otherwise):
        missing = [name for kind, name in ((Order, "order of the checks"), (Otherwise, "rule for when no check applies"))
                   if not book.all(kind)]  # fmt: skip
        return [Flaw(f"the rulebook has no {name}") for name in missing]
    groups = (_doubles, _checks, _orders, _figures, _scales, _signatures, _amendments, _circles)
    return [flaw for group in groups for flaw in group(book)]


def _doubles(book: Rulebook) -> Iterator[Flaw]:
    counts = Counter(key for piece in book.pieces if (key := key_of(piece)) is not None)
    for piece in book.pieces:
        if counts[key_of(piece) or ()] > 1:
            yield Flaw("there are two rules for the same thing", piece)


def _checks(book: Rulebook) -> Iterator[Flaw]:
    order = book.get(Order)
    for name in order.checks:
        if book.find(Check, name) is None:
            yield Flaw(f"the check {name} stands in the order, but no rule says when it applies", order)
    for name in (*order.checks, NO_CHECK):
        if book.find(Evidence, name) is None:
            yield Flaw(f"no rule says what to cite for the check {name}", book.find(Check, name))
    for piece in book.pieces:
        named = {getattr(piece, "check", NO_CHECK), getattr(piece, "other", NO_CHECK)} - {NO_CHECK, *order.checks}
        for name in sorted(named):
            yield Flaw(f"the check {name} does not stand in the order", piece)
    for piece in book.all(Check):
        if not piece.when:
            yield Flaw(f"the check {piece.check} has no conditions", piece)
    exempt = {piece.check for piece in book.all(Unless)}
    for despite in book.all(Despite):
        if despite.check not in exempt:
            yield Flaw(f"no exemption from the check {despite.check} can be lost, because there is none", despite)


def _orders(book: Rulebook) -> Iterator[Flaw]:
    for strictest in book.all(Strictest):
        for before in book.all(Before):
            yield Flaw("the strictest resolution counts, so this change of the order contradicts it", before)
        checks = [*book.all(Check), *(one.piece for one in book.all(Amends) if isinstance(one.piece, Check))]
        for name in sorted({check.then.resolution for check in checks} - {*strictest.resolutions}):
            yield Flaw(f"the resolution {name} has no place among the strict and mild ones", strictest)
    moved = Counter(name for before in book.all(Before) for name in {before.check, before.other})
    for before in book.all(Before):
        if before.check == before.other or moved[before.check] > 1 or moved[before.other] > 1:
            yield Flaw("two changes of the order are about the same check, so their result is not clear", before)


def _figures(book: Rulebook) -> Iterator[Flaw]:
    about_limits: list[Instead | WhichFigure | VersionDay] = [
        *book.all(Instead),
        *book.all(WhichFigure),
        *book.all(VersionDay),
    ]
    for piece in about_limits:
        if book.find(Limit, piece.limit) is None:
            yield Flaw(f"no rule sets the limit {piece.limit}", piece)
    for limit in book.all(Limit):
        special = [piece for piece in book.all(Instead) if piece.limit == limit.limit]
        which = book.find(WhichFigure, limit.limit)
        if len(special) > 1 and which is None:
            yield Flaw(f"two special figures for {limit.limit} can fit, and no rule says which one counts", limit)
        if which is not None and which.by == "special" and len({len(piece.when) for piece in special}) < len(special):
            yield Flaw(f"two special figures for {limit.limit} have the same number of conditions", which)
        version = book.find(VersionDay, limit.limit)
        for edition in book.editions:
            old = Rulebook(edition)
            if version is not None and old.find(Limit, limit.limit) is None:
                yield Flaw(f"an older version does not set the limit {limit.limit}", version)
            if version is None and old.find(Limit, limit.limit) is not None:
                yield Flaw(f"the limit {limit.limit} has two versions, and no rule says which one counts", limit)


def _scales(book: Rulebook) -> Iterator[Flaw]:
    for scale in book.all(Scale):
        for name in scale.levels:
            level = book.find(Level, scale.scale, name)
            if level is None:
                yield Flaw(f"no rule says when the {scale.scale} is {name}", scale)
            elif (name == scale.levels[-1]) != (level.when == ()):
                yield Flaw("the last level of a scale, and no other one, is for all other cases", level)
    for level in book.all(Level):
        declared = book.find(Scale, level.scale)
        if declared is None or level.level not in declared.levels:
            yield Flaw(f"the {level.scale} has no level {level.level}", level)


def _signatures(book: Rulebook) -> Iterator[Flaw]:
    signed = {*(ladder.form for ladder in book.all(Ladder)), *(signer.form for signer in book.all(Signer))}
    closing: list[Check | Otherwise] = [*book.all(Check), *book.all(Otherwise)]
    for piece in closing:
        if piece.then.form and piece.then.form not in signed:
            yield Flaw(f"no rule says who signs {piece.then.form}", piece)
    for second in book.all(Second):
        if second.form not in signed:
            yield Flaw(f"no rule says who signs {second.form} first", second)


def _amendments(book: Rulebook) -> Iterator[Flaw]:
    counts = Counter(key_of(amendment.piece) for amendment in book.all(Amends))
    for amendment in book.all(Amends):
        if book.find(type(amendment.piece), *(key_of(amendment.piece) or ())[1:]) is None:
            yield Flaw("this amendment replaces nothing", amendment)
        if counts[key_of(amendment.piece)] > 1:
            yield Flaw("two amendments replace the same rule", amendment)
        for name in names_in(amendment.when):
            if not isinstance(book.definition(name), DayMeant | None):
                yield Flaw(f"an amendment may depend on facts only, not on {name}, which may be amended itself", amendment)
    if book.all(Amends) and book.find(Papers) is None:
        yield Flaw("there is an amendment, and no rule says which of two papers counts")


def _circles(book: Rulebook) -> Iterator[Flaw]:
    """Find definitions and checks that depend on themselves."""
    needs: dict[str, set[str]] = {}
    for piece in book.pieces:
        target = piece.piece if isinstance(piece, Amends) else piece
        decided = _decided_name(target)
        if decided:
            needs.setdefault(decided, set()).update(names_in(conditions_of(target)))
            needs[decided] |= {target.day} if isinstance(target, DayMeant) else set()
    for start in needs:
        if start in _reachable(start, needs):
            name = start.removeprefix("check:")
            yield Flaw(f"{name} depends on itself", book.definition(start) or book.find(Check, name))


def _decided_name(piece: Piece) -> str:
    """Return the name whose value depends on the conditions of a piece, or an empty text."""
    if isinstance(piece, Check | Unless | Despite):
        return f"check:{piece.check}"
    fields = {Definition: "term", Instead: "limit", Level: "scale", DayMeant: "name"}
    return str(getattr(piece, fields[type(piece)])) if type(piece) in fields else ""


def _reachable(start: str, needs: dict[str, set[str]]) -> set[str]:
    """Return all names that a name depends on."""
    found: set[str] = set()
    todo = [*needs[start]]
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += needs.get(name, ())
    return found
