"""Check a rulebook: say in one line each what is wrong with it.

`domains` are the values that each plain fact can have. With them, the checker also finds checks that can never decide and
exceptions that never matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from msgspec import Struct

from companyos.rules.book import Rulebook
from companyos.rules.conditions import Applies, Holds, Value, comparison_text, names_in
from companyos.rules.language import Language
from companyos.rules.pieces import NO_CHECK, Check, Evidence, Piece, RateTable
from companyos.rules.reach import explore
from companyos.rules.structure import Flaw, conditions_of, structural_flaws


def check_book(
    book: Rulebook, language: Language, domains: Mapping[str, Sequence[Value]], samples: int = 5000
) -> list[Flaw]:  # fmt: skip
    """Return what is wrong with a rulebook. Later groups of checks need a book that passes the earlier ones."""
    flaws = [*structural_flaws(book), *unknown_facts(book, domains), *unknown_words(book, language)]
    return flaws or [*two_meanings(book, language), *idle_pieces(book, domains, samples)]


def unknown_facts(book: Rulebook, domains: Mapping[str, Sequence[Value]]) -> Iterator[Flaw]:
    """Find facts without values, and rows that are missing in a table."""
    for piece in (*book.pieces, *(one for pieces in book.editions for one in pieces)):
        for name in names_in(conditions_of(piece)):
            if not name.startswith("check:") and book.definition(name) is None and name not in domains:
                yield Flaw(f"unknown fact {name}: neither a fact of the family nor defined by the rulebook", piece)
        if isinstance(piece, RateTable):
            levels = {row.level for row in piece.rows}
            for value in domains.get(piece.by, ()):
                if value not in levels:
                    yield Flaw(f"the {piece.table} has no row for {value}", piece)


def unknown_words(book: Rulebook, language: Language) -> Iterator[Flaw]:
    """Find names that the vocabulary has no words for."""
    for piece in (*book.pieces, *(one for pieces in book.editions for one in pieces)):
        missing = sorted(set(_missing(piece, language)))
        for kind, name in missing:
            yield Flaw(f"unknown {kind.replace('_', ' ')} {name}", piece)
        if not missing and not language.can_say(piece):
            yield Flaw("no wording can say this piece", piece)


def _missing(struct: Struct, language: Language) -> Iterator[tuple[str, str]]:
    """Yield the names in a struct that have no words: their kinds and the names."""
    for field, hint in get_type_hints(type(struct), include_extras=True).items():
        if field not in type(struct).__struct_fields__:
            continue
        value: Any = getattr(struct, field)
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, Struct):
                yield from _missing(one, language)
        item = get_args(hint)[0] if get_origin(hint) is tuple else hint
        if get_origin(item) is not Annotated or get_args(item)[1] in ("by", "counted"):
            continue
        kind = get_args(item)[1]
        known = language.vocabulary.facts if kind == "fact" else language.vocabulary.names(kind)
        for name in value if isinstance(value, tuple) else (value,):
            if name not in known and name != "" and not (isinstance(struct, Evidence) and name == NO_CHECK):
                yield kind, name
    if isinstance(struct, Holds | Applies) and not language.can_say_condition(struct):
        yield "condition", comparison_text(struct) if isinstance(struct, Holds) else f"on the check {struct.check}"


def two_meanings(book: Rulebook, language: Language) -> Iterator[Flaw]:
    """Find sentences that can mean something else than the piece that they say."""
    for piece in book.pieces:
        for sentence in language.sentences(piece):
            meanings = language.meanings(sentence)
            if meanings != [piece]:
                others = " or ".join(repr(one) for one in meanings if one != piece)
                problem = f"can also mean {others}" if others else "cannot be parsed"
                yield Flaw(f"the sentence {sentence!r} {problem}", piece)
                break


def idle_pieces(book: Rulebook, domains: Mapping[str, Sequence[Value]], samples: int) -> Iterator[Flaw]:
    """Find checks that never decide, and exceptions that never change a result."""
    reach = explore(book, domains, samples)
    if reach.unclear:
        yield Flaw("this rule and another one contradict each other, and no rule says which one counts", reach.unclear[0])
        return
    for check in book.all(Check):
        if check.check not in reach.decided:
            yield Flaw(f"the check {check.check} can never decide", check)
    if NO_CHECK not in reach.decided:
        yield Flaw("some check always applies, so that no ticket passes", None)
    for piece in reach.idle:
        yield Flaw("this rule never changes a result", piece)


def lines_of(flaws: Sequence[Flaw], language: Language, where: Mapping[Piece, int] | None = None) -> list[str]:
    """Return one line for each flaw: the line of the file if it is known, what is wrong, and the sentence or the piece."""
    return [_line(flaw, language, (where or {}).get(flaw.piece) if flaw.piece else None) for flaw in flaws]


def _line(flaw: Flaw, language: Language, number: int | None) -> str:
    place = f"line {number}: " if number else ""
    if flaw.piece is None:
        return f"{place}{flaw.message}"
    said = next(iter(language.sentences(flaw.piece)), None) if language.can_say(flaw.piece) else None
    return f"{place}{flaw.message} ({said or flaw.piece!r})"
