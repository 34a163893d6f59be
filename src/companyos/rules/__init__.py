"""Rules as data: drawn from a seed, written into documents, read back from their sentences, and decided by.

`docs/rules.md` introduces the package. It knows no family: a family adds a `Vocabulary`, a `Design` and the values of facts.
"""

from companyos.rules.aim import aim, deciding_slots
from companyos.rules.book import Rulebook
from companyos.rules.check import check_book, lines_of
from companyos.rules.conditions import AnyOf, Applies, Condition, Conditions, Holds
from companyos.rules.decide import decide, figure
from companyos.rules.draw import Design, DrawnBook, Parts, Slot, draw_book
from companyos.rules.inquiry import Inquiry, Question, Ruling, answered
from companyos.rules.language import Language, TwoMeanings
from companyos.rules.layout import Document, Plan, lay_out
from companyos.rules.pieces import (
    NO_CHECK,
    NOBODY,
    Amends,
    AnyPiece,
    AskOwner,
    Before,
    Check,
    Complete,
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
    Piece,
    RateTable,
    Row,
    Scale,
    Second,
    SeeAlso,
    Signer,
    Strictest,
    Then,
    Unless,
    VersionDay,
    WhichFigure,
)
from companyos.rules.structure import Flaw
from companyos.rules.told import untold
from companyos.rules.vocabulary import HeldOut, Vocabulary, day, number, word, yes_no
from companyos.rules.yaml_form import BadRulebook, from_yaml, to_yaml

__all__ = [
    "aim", "Amends", "answered", "AnyOf", "AnyPiece", "Applies", "AskOwner", "BadRulebook", "Before", "Check",
    "check_book", "Complete", "Computed", "Condition", "Conditions", "day", "DayMeant", "decide", "deciding_slots",
    "Definition", "Design", "Despite", "Document", "draw_book", "DrawnBook", "Evidence", "figure", "Flaw", "from_yaml",
    "HeldOut",
    "Holds", "Inquiry", "Instead", "Ladder", "Language", "lay_out", "Level", "Limit", "lines_of", "NO_CHECK", "NOBODY",
    "number", "Order", "Otherwise", "Papers", "Parts", "Piece", "Plan", "Question", "RateTable", "Row", "Rulebook",
    "Ruling", "Scale", "Second", "SeeAlso", "Signer", "Slot", "Strictest", "Then", "to_yaml", "TwoMeanings", "Unless",
    "untold", "VersionDay", "Vocabulary", "WhichFigure", "word", "yes_no",
]  # fmt: skip
