"""The pieces of a rulebook. One sentence says one piece.

`key` names the fields by which a piece is unique in its book. A piece with a key can be amended by a later paper.
A piece without one, such as an exemption, only adds to the others.
"""

from typing import Annotated, ClassVar, Literal, get_args

from msgspec import Struct

from companyos.rules.conditions import Conditions
from companyos.rules.names import (
    AgreedDay,
    CheckName,
    CitedFact,
    DayName,
    FactName,
    FieldName,
    Form,
    LevelName,
    LimitName,
    Office,
    Reason,
    Recipient,
    Resolution,
    ScaleName,
    TableName,
    Term,
    Title,
    Topic,
    Way,
    snake_case,
)

NO_CHECK = "none"  # stands for a check in `Evidence` and in a ruling if no check applies
NOBODY = "nobody"  # the signer, if no office may sign


class Piece(Struct, frozen=True, tag_field="rule", tag=snake_case, omit_defaults=True):
    """One rule, or one signpost to rules."""

    key: ClassVar[tuple[str, ...] | None] = None


class Then(Struct, frozen=True, omit_defaults=True):
    """What has to be done: have a form signed, set a field of the ticket, and close the ticket."""

    resolution: Resolution
    reason: Reason
    field: FieldName = ""
    whom: Recipient = ""
    form: Form = ""


# -- checks ------------------------------------------------------------------------------------------------------------


class Check(Piece, frozen=True):
    """If all conditions hold and no exemption does, the check applies. The first check that applies decides."""

    key: ClassVar[tuple[str, ...] | None] = ("check",)
    check: CheckName
    when: Conditions
    then: Then


class Otherwise(Piece, frozen=True):
    """What has to be done if no check applies."""

    key: ClassVar[tuple[str, ...] | None] = ()
    then: Then


class Unless(Piece, frozen=True):
    """An exemption from a check."""

    check: CheckName
    when: Conditions


class Despite(Piece, frozen=True):
    """An exception to the exemptions of a check: where it holds, none of them counts."""

    check: CheckName
    when: Conditions


class Evidence(Piece, frozen=True):
    """The facts that have to be cited if a check decided."""

    key: ClassVar[tuple[str, ...] | None] = ("check",)
    check: CheckName
    facts: tuple[CitedFact, ...]


class Order(Piece, frozen=True):
    """The order of the checks."""

    key: ClassVar[tuple[str, ...] | None] = ()
    checks: tuple[CheckName, ...]


class Before(Piece, frozen=True):
    """A change of the order: where it holds, `check` moves to the place directly before `other`."""

    check: CheckName
    other: CheckName
    when: Conditions


class Strictest(Piece, frozen=True):
    """A rule on rules: of several checks that apply, the strictest resolution counts, then the order of the checks."""

    key: ClassVar[tuple[str, ...] | None] = ()
    resolutions: tuple[Resolution, ...]  # from strict to mild


# -- names that a book defines -----------------------------------------------------------------------------------------


class Definition(Piece, frozen=True):
    """A named condition, which is a fact for other pieces."""

    key: ClassVar[tuple[str, ...] | None] = ("term",)
    term: Term
    when: Conditions


class DayMeant(Piece, frozen=True):
    """Which day an agreed name of a day stands for."""

    key: ClassVar[tuple[str, ...] | None] = ("name",)
    name: AgreedDay
    day: DayName


class Computed(Piece, frozen=True):
    """How a fact is worked out. The family computes it, in the ways that the piece names."""

    key: ClassVar[tuple[str, ...] | None] = ("fact",)
    fact: FactName
    ways: tuple[Way, ...]


class Limit(Piece, frozen=True):
    """A number that checks compare facts with."""

    key: ClassVar[tuple[str, ...] | None] = ("limit",)
    limit: LimitName
    number: int


class Instead(Piece, frozen=True):
    """A special figure: another number for a limit, where all conditions hold."""

    key: ClassVar[tuple[str, ...] | None] = ("limit", "when")
    limit: LimitName
    number: int
    when: Conditions


class WhichFigure(Piece, frozen=True):
    """A rule on rules: which of several special figures counts. `special` is the one with the most conditions."""

    key: ClassVar[tuple[str, ...] | None] = ("limit",)
    limit: LimitName
    by: Annotated[Literal["higher", "lower", "special"], "by"]


class VersionDay(Piece, frozen=True):
    """The day whose version of a limit counts."""

    key: ClassVar[tuple[str, ...] | None] = ("limit",)
    limit: LimitName
    day: DayName


class Row(Struct, frozen=True):
    """A row of a table."""

    level: LevelName
    number: int


class RateTable(Piece, frozen=True):
    """A number for each level of a fact, such as a rate for each category."""

    key: ClassVar[tuple[str, ...] | None] = ("table",)
    table: TableName
    by: FactName
    rows: tuple[Row, ...]


class Scale(Piece, frozen=True):
    """The levels of a scale. The first level whose conditions hold counts."""

    key: ClassVar[tuple[str, ...] | None] = ("scale",)
    scale: ScaleName
    levels: tuple[LevelName, ...]


class Level(Piece, frozen=True):
    """The conditions of a level. Without conditions, it is the level of all other cases."""

    key: ClassVar[tuple[str, ...] | None] = ("scale", "level")
    scale: ScaleName
    level: LevelName
    when: Conditions = ()


# -- signatures --------------------------------------------------------------------------------------------------------


class Ladder(Piece, frozen=True):
    """The first office whose limit covers the amount signs a form; if there is none, nobody does."""

    key: ClassVar[tuple[str, ...] | None] = ("form",)
    form: Form
    offices: tuple[Office, ...]


class Signer(Piece, frozen=True):
    """The office that signs a form, where all conditions hold."""

    form: Form
    office: Office
    when: Conditions = ()


class Second(Piece, frozen=True):
    """An office that signs after the first one, where all conditions hold."""

    form: Form
    office: Office
    when: Conditions


# -- papers ------------------------------------------------------------------------------------------------------------

# fmt: off
Amendable = (
    Check | Otherwise | Evidence | Order | Definition | DayMeant | Computed | Limit | Instead | RateTable | Level | Ladder
)
# fmt: on


class Amends(Piece, frozen=True):
    """A later paper replaces a piece by another one with the same key, where all conditions hold."""

    piece: Amendable
    when: Conditions = ()


class Papers(Piece, frozen=True):
    """A rule on rules: whether an amendment (`later`) or the older paper counts. If `older`, no amendment does."""

    key: ClassVar[tuple[str, ...] | None] = ()
    by: Annotated[Literal["later", "older"], "by"]


Counted = Literal["exemption", "lost_exemption", "special_figure", "second_signature", "change_of_order", "amendment"]


class Complete(Piece, frozen=True):
    """An index: how many pieces of a kind there are in all papers. It tells a reader that there are no others."""

    key: ClassVar[tuple[str, ...] | None] = ("kind",)
    kind: Annotated[Counted, "counted"]
    count: int


class SeeAlso(Piece, frozen=True):
    """A pointer to another paper."""

    paper: Title


class AskOwner(Piece, frozen=True):
    """A pointer to an office that answers questions about a topic."""

    office: Office
    topic: Topic


Signpost = Complete | SeeAlso | AskOwner  # they say where rules are, and are no rules themselves
COUNTED: dict[Counted, tuple[type[Piece], ...]] = {
    "exemption": (Unless,),
    "lost_exemption": (Despite,),
    "special_figure": (Instead,),
    "second_signature": (Second,),
    "change_of_order": (Before, Strictest),
    "amendment": (Amends,),
}
# fmt: off
AnyPiece = (
    Check | Otherwise | Unless | Despite | Evidence | Order | Before | Strictest | Definition | DayMeant | Computed
    | Limit | Instead | WhichFigure | VersionDay | RateTable | Scale | Level | Ladder | Signer | Second
    | Amends | Papers | Signpost
)
# fmt: on
PIECES: tuple[type[Piece], ...] = get_args(AnyPiece)
