"""The words of a family: phrases for its facts, checks, offices and everything else that rules name.

Every table has several phrases for a name, written by hand. A phrase for a condition is a whole clause, such as `the firm
handles personal data`; a phrase for a thing is a noun, such as `the amount`.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from companyos.rules.conditions import Value


class HeldOut(str):
    """A phrase that only tasks with new wording use."""

    __slots__ = ()


Phrases = tuple[str, ...]
Names = Mapping[str, Phrases]


class FactWords(Struct, frozen=True):
    """How sentences speak about a fact."""

    sort: Literal["number", "day", "word"]
    nouns: Phrases = ()
    being: Mapping[Value, Phrases] = {}  # clauses for `is`, by value
    not_being: Mapping[Value, Phrases] = {}  # clauses for `is_not`, by value


def number(*nouns: str) -> FactWords:
    """Return the words for a number, such as `the amount`."""
    return FactWords("number", nouns)


def day(*nouns: str) -> FactWords:
    """Return the words for a day, such as `the day on which the ticket was opened`."""
    return FactWords("day", nouns)


def yes_no(yes: Phrases, no: Phrases = ()) -> FactWords:
    """Return the words for a fact that is true or false."""
    being: dict[Value, Phrases] = {True: yes}
    return FactWords("word", being=being | ({False: no} if no else {}))


def word(noun: str = "", /, but: Names | None = None, **being: Phrases) -> FactWords:
    """Return the words for a fact that is one of several words. `but` has the clauses for `is_not`."""
    clauses, negated = dict[Value, Phrases](), dict[Value, Phrases]()
    clauses.update(being)
    negated.update(but or {})
    return FactWords("word", (noun,) if noun else (), clauses, negated)


class Vocabulary(Struct, frozen=True, kw_only=True, dict=True):
    """All words of a family. A name is the same in the rules, in the causes and in these tables.

    Within an episode, a name has one phrase. The clauses for conditions vary from sentence to sentence.
    """

    topic: str  # with which the titles of the family's papers begin
    facts: Mapping[str, FactWords]
    checks: Names  # as in `the Insurance check`
    offices: Names  # as in `the CFO`
    citations: Names  # as in `the entry's owner`
    resolutions: Phrases
    reasons: Phrases
    recipients: Names = {}  # roles of the case besides offices, as in `the requester`
    fields: Phrases = ("duplicate_of", "escalated_to", "waiting_on")
    forms: Names = {}  # as in `the onboarding form`
    limits: Names = {}  # without an article, fitting `the … is 60`, as in `minimum score`
    terms: Names = {}  # what a definition defines, as in `small order`
    agreed_days: Names = {}  # without an article, as in `qualifying day`
    tables: Names = {}  # without an article, as in `daily rate`
    scales: Names = {}  # without an article, as in `severity`
    levels: Names = {}  # of scales and tables, as in `level 1`
    ways: Names = {}  # clauses that say how a fact is worked out, as in `withdrawn transfers do not count`
    topics: Names = field(
        default_factory=lambda: {"terms": ("the terms in these rules", "the words defined in these rules")}
    )
    papers: Phrases = ()  # titles of papers that do not name the topic

    def names(self, kind: str) -> Names:
        """Return the phrases of all names of a kind: the second part of the annotations in `pieces`."""
        if kind == "whom":
            return {**self.offices, **self.recipients}
        if kind == "fact":
            return {name: fact.nouns for name, fact in self.facts.items() if fact.nouns}
        if kind == "day":
            days = {name: fact.nouns for name, fact in self.facts.items() if fact.sort == "day"}
            return days | {name: tuple(f"the {one}" for one in phrases) for name, phrases in self.agreed_days.items()}
        found: Names | Phrases = getattr(self, _TABLES[kind])
        return {one: (one,) for one in found} if isinstance(found, tuple) else found

    def operands(self) -> dict[str, Phrases]:
        """Return the nouns of everything that a fact can be compared with: other facts, limits, tables and agreed days."""
        nouns = {name: fact.nouns for name, fact in self.facts.items() if fact.nouns}
        for names in (self.limits, self.tables, self.agreed_days):
            nouns |= {name: tuple(f"the {phrase}" for phrase in phrases) for name, phrases in names.items()}
        return nouns


_TABLES = {
    "check": "checks", "office": "offices", "citation": "citations", "resolution": "resolutions", "reason": "reasons",
    "field": "fields", "form": "forms", "limit": "limits", "term": "terms", "agreed_day": "agreed_days", "table": "tables",
    "scale": "scales", "level": "levels", "way": "ways", "topic": "topics", "paper": "papers",
}  # fmt: skip
