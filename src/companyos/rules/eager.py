"""A second judge, which evaluates everything at once. It shares no code with `decide`, so each of them tests the other."""

from collections.abc import Callable
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from companyos.rules.book import Rulebook
from companyos.rules.inquiry import Question
from companyos.rules.pieces import (
    Amends,
    Before,
    Check,
    Computed,
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
    RateTable,
    Scale,
    Second,
    Signer,
    Strictest,
    Unless,
    VersionDay,
    WhichFigure,
)

_OPS = {"is": eq, "is_not": ne, "below": lt, "at_most": le, "above": gt, "at_least": ge}


def judge(book: Rulebook, answer: Callable[[Question], Any]) -> tuple[Any, ...]:
    """Return the ending of a case: the check, what has to be done, the facts to cite, and who signs."""
    pieces: list[Any] = list(book.pieces)

    def every(kind: type, **having: Any) -> list[Any]:
        return [p for p in pieces if type(p) is kind and all(getattr(p, name) == value for name, value in having.items())]

    def test(one: Any) -> bool:
        if hasattr(one, "tests"):
            return any(test(inner) for inner in one.tests)
        if hasattr(one, "check"):
            return applies(one.check) is one.holds
        than = value(one.than[1:]) if isinstance(one.than, str) and one.than[:1] == "@" else one.than
        return bool(_OPS[one.op](value(one.fact), than))

    def every_test(piece: Any) -> bool:
        return all(test(one) for one in piece.when)

    def applies(check: str) -> bool:
        exempt = any(every_test(p) for p in every(Unless, check=check))
        barred = any(every_test(p) for p in every(Despite, check=check))
        return every_test(every(Check, check=check)[0]) and (barred or not exempt)

    def value(name: str) -> Any:
        for p in every(Definition, term=name):
            return every_test(p)
        for p in every(DayMeant, name=name):
            return value(p.day)
        for p in every(Computed, fact=name):
            return answer(Question(name, p.ways))
        for p in every(RateTable, table=name):
            return {row.level: row.number for row in p.rows}[value(p.by)]
        for p in every(Scale, scale=name):
            return next(level for level in p.levels if every_test(every(Level, scale=name, level=level)[0]))
        if every(Limit, limit=name):
            return number(name)
        return signer(name) if every(Ladder, form=name) or every(Signer, form=name) else answer(Question(name))

    def number(limit: str) -> int:
        days = [p.day for p in every(VersionDay, limit=limit)]
        edition = answer(Question("edition", (limit, days[0]))) if days else 0
        source = book.editions[edition - 1] if edition else pieces
        special = [p for p in source if type(p) is Instead and p.limit == limit and every_test(p)]
        if len(special) > 1:
            by = every(WhichFigure, limit=limit)[0].by
            special.sort(key=lambda p: {"higher": -p.number, "lower": p.number, "special": -len(p.when)}[by])
        base: list[Any] = [p for p in source if type(p) is Limit and p.limit == limit]
        return int([*special, *base][0].number)

    def signer(form: str) -> str:
        able = [o for p in every(Ladder, form=form) for o in p.offices if answer(Question("covers", (form, o)))]
        return str([*able, *(p.office for p in every(Signer, form=form) if every_test(p)), "nobody"][0])

    amendments = every(Amends) if every(Papers, by="later") else []
    for amended in [p for p in amendments if every_test(p)]:
        keys = amended.piece.key
        same = [p for p in every(type(amended.piece)) if all(getattr(p, k) == getattr(amended.piece, k) for k in keys)]
        pieces[pieces.index(same[0])] = amended.piece

    checks = list(every(Order)[0].checks)
    for p in every(Strictest):
        rank = {check: p.resolutions.index(every(Check, check=check)[0].then.resolution) for check in checks}
        checks = sorted(checks, key=lambda check: (rank[check], checks.index(check)))
    for p in every(Before):
        if every_test(p) and checks.index(p.check) > checks.index(p.other):
            checks.remove(p.check)
            checks.insert(checks.index(p.other), p.check)
    deciding = [check for check in checks if applies(check)]
    then = every(Check, check=deciding[0])[0].then if deciding else every(Otherwise)[0].then
    check = [*deciding, "none"][0]
    seconds = tuple(p.office for p in every(Second, form=then.form) if every_test(p))
    signers = (signer(then.form), *seconds) if then.form else ()
    return check, then, every(Evidence, check=check)[0].facts, signers
