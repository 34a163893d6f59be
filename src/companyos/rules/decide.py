"""Decide a case by a rulebook, asking for one fact at a time.

`decide` is a generator that yields questions and receives values. The judge of a family answers them from the causes, its
expert by making calls. Facts that cost more are asked later, and only if the decision depends on them.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

from companyos.rules.book import Rulebook
from companyos.rules.conditions import AnyOf, Applies, Condition, Conditions, Value, compare, operand_name
from companyos.rules.cost import Costs
from companyos.rules.inquiry import Inquiry, Question, Ruling
from companyos.rules.pieces import (
    NO_CHECK,
    NOBODY,
    Amends,
    Before,
    Check,
    Computed,
    Counted,
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
    RateTable,
    Scale,
    Second,
    Signer,
    Strictest,
    Then,
    Unless,
    VersionDay,
    WhichFigure,
)

P = TypeVar("P", bound=Piece)


def decide(book: Rulebook, costs: Mapping[str, int] | None = None) -> Inquiry[Ruling]:
    """Decide a case. `costs` are the costs of facts to find out; a fact without an entry costs nothing."""
    return (yield from _Decider(book, costs or {}).decide())


class _Decider:
    """The state of one decision: what has been answered, and which pieces have been used."""

    def __init__(self, book: Rulebook, costs: Mapping[str, int]) -> None:
        self.book = book
        self.costs = Costs(book, costs)
        self.answers: dict[Question, Value] = {}
        self.used: dict[Piece, None] = {}  # an ordered set

    def decide(self) -> Inquiry[Ruling]:
        for name in (yield from self.order()):
            if (yield from self.applies(name)):
                check = yield from self.in_force(self.book.get(Check, name))
                return (yield from self.ruling(name, check.then))
        otherwise = yield from self.in_force(self.book.get(Otherwise))
        return (yield from self.ruling(NO_CHECK, otherwise.then))

    def ruling(self, check: str, then: Then) -> Inquiry[Ruling]:
        evidence = yield from self.in_force(self.book.get(Evidence, check))
        signers = (yield from self.signers(then.form)) if then.form else ()
        asked = tuple(question.fact for question in self.answers)
        return Ruling(check, then, evidence.facts, signers, tuple(self.used), asked)

    # -- pieces --------------------------------------------------------------------------------------------------------

    def use(self, piece: Piece) -> None:
        self.used[piece] = None

    def rely_on_all(self, kind: Counted) -> None:
        """Note that the result depends on there being no further pieces of a kind."""
        self.use(self.book.complete(kind))

    def in_force(self, piece: P) -> Inquiry[P]:
        """Return the piece, or the one that replaces it."""
        amendment = self.book.amendment(piece)
        self.rely_on_all("amendment")
        if amendment is not None and (yield from self.amended(amendment)):
            return cast("P", amendment.piece)  # it has the same key, so it is of the same type
        self.use(piece)
        return piece

    def amended(self, amendment: Amends) -> Inquiry[bool]:
        papers = self.book.get(Papers)
        self.use(papers)
        self.use(amendment)
        return papers.by == "later" and (yield from self.all_hold(amendment.when))

    # -- checks --------------------------------------------------------------------------------------------------------

    def order(self) -> Inquiry[list[str]]:
        """Return the checks in the order in which they decide."""
        order = yield from self.in_force(self.book.get(Order))
        checks = list(order.checks)
        self.rely_on_all("change_of_order")
        strictest = self.book.find(Strictest)
        if strictest is not None:
            self.use(strictest)
            ranks = {}
            for name in checks:
                check = yield from self.in_force(self.book.get(Check, name))
                ranks[name] = strictest.resolutions.index(check.then.resolution)
            checks.sort(key=ranks.__getitem__)
        for change in self.book.all(Before):
            self.use(change)
            if checks.index(change.check) > checks.index(change.other) and (yield from self.all_hold(change.when)):
                checks.remove(change.check)
                checks.insert(checks.index(change.other), change.check)
        return checks

    def applies(self, name: str) -> Inquiry[bool]:
        """Return whether a check applies. Conditions that cost little to find out come first."""
        check = yield from self.in_force(self.book.get(Check, name))
        parts: list[Condition | None] = [*check.when, None]  # None stands for the exemptions
        exempt_cost = self.costs.of_exemptions(name)
        for part in sorted(parts, key=lambda part: self.costs.of(part) if part is not None else exempt_cost):
            if (yield from self.exempt(name)) if part is None else not (yield from self.holds(part)):
                return False
        return True

    def exempt(self, name: str) -> Inquiry[bool]:
        """Return whether an exemption from a check counts."""
        self.rely_on_all("exemption")
        exempt = yield from self.any_holds([piece for piece in self.book.all(Unless) if piece.check == name])
        if not exempt:
            return False
        self.rely_on_all("lost_exemption")
        return not (yield from self.any_holds([piece for piece in self.book.all(Despite) if piece.check == name]))

    def any_holds(self, pieces: Sequence[Unless | Despite]) -> Inquiry[bool]:
        for piece in sorted(pieces, key=lambda piece: self.costs.of_all(piece.when)):
            self.use(piece)
            if (yield from self.all_hold(piece.when)):
                return True
        return False

    # -- conditions ----------------------------------------------------------------------------------------------------

    def all_hold(self, conditions: Conditions) -> Inquiry[bool]:
        for condition in sorted(conditions, key=self.costs.of):
            if not (yield from self.holds(condition)):
                return False
        return True

    def holds(self, condition: Condition) -> Inquiry[bool]:
        if isinstance(condition, Applies):
            return (yield from self.applies(condition.check)) == condition.holds
        if isinstance(condition, AnyOf):
            for test in sorted(condition.tests, key=self.costs.of):
                if (yield from self.holds(test)):
                    return True
            return False
        other = operand_name(condition.than)
        than = condition.than if other is None else (yield from self.value(other))
        return compare((yield from self.value(condition.fact)), condition.op, than)

    # -- names ---------------------------------------------------------------------------------------------------------

    def ask(self, fact: str, *how: str) -> Inquiry[Value]:
        question = Question(fact, how)
        if question not in self.answers:
            self.answers[question] = yield question
        return self.answers[question]

    def value(self, name: str) -> Inquiry[Value]:
        """Return the value of a name: the book defines it, or it is a plain fact."""
        piece = self.book.definition(name)
        if piece is None:
            return (yield from self.ask(name))
        if isinstance(piece, Ladder | Signer):
            return (yield from self.signer(name))
        if isinstance(piece, Limit):
            return (yield from self.figure(name))
        piece = yield from self.in_force(piece)
        if isinstance(piece, Definition):
            return (yield from self.all_hold(piece.when))
        if isinstance(piece, DayMeant):
            return (yield from self.value(piece.day))
        if isinstance(piece, Computed):
            return (yield from self.ask(piece.fact, *piece.ways))
        if isinstance(piece, RateTable):
            level = yield from self.value(piece.by)
            return next(row.number for row in piece.rows if row.level == level)
        assert isinstance(piece, Scale)
        return (yield from self.level(piece))

    def level(self, scale: Scale) -> Inquiry[str]:
        for name in scale.levels:
            level = yield from self.in_force(self.book.get(Level, scale.scale, name))
            if (yield from self.all_hold(level.when)):
                return name
        raise ValueError(f"no level of {scale.scale} fits; its last level must have no conditions")

    def figure(self, limit: str) -> Inquiry[int]:
        """Return the number of a limit: of the right version, and the special figure that fits, if any."""
        edition = yield from self.edition(limit)
        book = Rulebook(self.book.editions[edition - 1]) if edition else self.book
        fitting = []
        for base in book.all(Instead):
            if base.limit == limit:
                special = yield from self.version(base, edition)
                if (yield from self.all_hold(special.when)):
                    fitting.append(special)
        if not fitting:
            return (yield from self.version(book.get(Limit, limit), edition)).number
        if len(fitting) == 1:
            return fitting[0].number
        which = self.book.get(WhichFigure, limit)
        self.use(which)
        return chosen(which, fitting)

    def edition(self, limit: str) -> Inquiry[int]:
        """Return which version of a limit counts: 0 for the present one, 1 for the one before it."""
        version = self.book.find(VersionDay, limit)
        edition = 0
        if version is not None:
            self.use(version)
            edition = int((yield from self.ask("edition", limit, version.day)))
        if edition == 0:
            self.rely_on_all("special_figure")
        return edition

    def version(self, piece: P, edition: int) -> Inquiry[P]:
        """Return the piece, or its amendment. No amendment replaces a piece of an older version."""
        if edition == 0:
            return (yield from self.in_force(piece))
        self.use(piece)
        return piece

    # -- signatures ----------------------------------------------------------------------------------------------------

    def signer(self, form: str) -> Inquiry[str]:
        """Return the office that signs a form first, or `NOBODY`."""
        ladder = self.book.find(Ladder, form)
        if ladder is not None:
            ladder = yield from self.in_force(ladder)
            for office in ladder.offices:
                if (yield from self.ask("covers", form, office)):
                    return office
            return NOBODY
        for signer in self.book.all(Signer):
            if signer.form == form:
                self.use(signer)
                if (yield from self.all_hold(signer.when)):
                    return signer.office
        return NOBODY

    def signers(self, form: str) -> Inquiry[tuple[str, ...]]:
        offices = [(yield from self.signer(form))]
        self.rely_on_all("second_signature")
        for second in self.book.all(Second):
            if second.form == form:
                self.use(second)
                if (yield from self.all_hold(second.when)):
                    offices.append(second.office)
        return tuple(offices)


def chosen(which: WhichFigure, fitting: list[Instead]) -> int:
    """Return the special figure that counts, of several that fit."""
    if which.by == "special":
        return max(fitting, key=lambda special: len(special.when)).number
    numbers = [special.number for special in fitting]
    return max(numbers) if which.by == "higher" else min(numbers)


def figure(book: Rulebook, limit: str) -> Inquiry[int]:
    """Return the number of a limit that applies to a case."""
    return (yield from _Decider(book, {}).figure(limit))
