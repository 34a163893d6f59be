"""The grammar of conditions: clauses such as `the amount is above 3000 and the firm handles personal data`."""

from typing import Any

from companyos.rules.conditions import AnyOf, Applies, Comparison, Holds, Value, operand_name
from companyos.rules.grammar import Choice, Node, Number, Parses, Series, Template, Voice, Word, Wording
from companyos.rules.vocabulary import FactWords, HeldOut, Phrases, Vocabulary

NUMBER_COMPARISONS: dict[Comparison, Phrases] = {
    "is": ("is exactly", "equals", HeldOut("is equal to")),
    "is_not": ("is not equal to", "differs from", HeldOut("is different from")),
    "below": ("is below", "is less than", HeldOut("is lower than")),
    "at_most": ("is at most", "does not exceed", HeldOut("is not higher than")),
    "above": ("is above", "is more than", HeldOut("is higher than")),
    "at_least": ("is at least", "is not below", HeldOut("is not lower than")),
}
DAY_COMPARISONS: dict[Comparison, Phrases] = {
    "is": ("is the same day as", HeldOut("is identical with")),
    "is_not": ("is not the same day as", HeldOut("is another day than")),
    "below": ("is before", "is earlier than", HeldOut("comes before")),
    "at_most": ("is on or before", "is not after", HeldOut("is not later than")),
    "above": ("is after", "is later than", HeldOut("comes after")),
    "at_least": ("is on or after", "is not before", HeldOut("is not earlier than")),
}
_CLAUSE_COMPARISONS: tuple[Comparison, ...] = ("is", "is_not")  # of facts whose values have clauses of their own
APPLIES = (
    Wording("the {check} check applies as well", fixed={"holds": True}),
    Wording("the {check} check applies too", fixed={"holds": True}),
    Wording("the {check} check also applies", fixed={"holds": True}, held_out=True),
    Wording("the {check} check itself does not apply", fixed={"holds": False}),
    Wording("the {check} check does not apply either", fixed={"holds": False}, held_out=True),
)


class Comparing:
    """A comparison of one fact: by a clause of its own, or as noun, comparison and operand."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._facts = vocabulary.facts
        self._operands = {kind: vocabulary.names(kind) for kind in ("fact", "limit", "table", "agreed_day")}
        self._clauses = [
            (phrase, Holds(name, op, than))
            for name, words in vocabulary.facts.items()
            for op in _CLAUSE_COMPARISONS
            for than, phrases in self._clause_table(words, op).items()
            for phrase in phrases
        ]
        self._nouns = [
            (f"{noun} ", name, DAY_COMPARISONS if words.sort == "day" else NUMBER_COMPARISONS)
            for name, words in vocabulary.facts.items()
            if words.sort != "word"
            for noun in words.nouns
        ]
        self._ends = [
            (phrase if kind == "fact" else f"the {phrase}", name, self._sort(kind, name))
            for kind, names in self._operands.items()
            for name, phrases in names.items()
            for phrase in phrases
        ]
        self._number = Number()

    def fits(self, value: Any) -> bool:
        return isinstance(value, Holds)

    def can_say(self, value: Any) -> bool:
        if not isinstance(value, Holds) or value.fact not in self._facts:
            return False
        words = self._facts[value.fact]
        if words.sort == "word":
            return value.than in self._clause_table(words, value.op)
        other = operand_name(value.than)
        if other is not None:
            return any(name == other and sort == words.sort for _, name, sort in self._ends)
        return words.sort == "number" and self._number.can_say(value.than)

    def say(self, value: Any, voice: Voice) -> str:
        words = self._facts[value.fact]
        if words.sort == "word":
            return voice.phrase(self._clause_table(words, value.op)[value.than])
        comparisons = DAY_COMPARISONS if words.sort == "day" else NUMBER_COMPARISONS
        noun, comparison = voice.phrase(words.nouns), voice.phrase(comparisons[value.op])
        return f"{noun} {comparison} {self._operand(value.than, voice)}"

    def read(self, text: str, at: int) -> Parses:
        for phrase, test in self._clauses:
            if text.startswith(phrase, at):
                yield test, at + len(phrase)
        for noun, name, comparisons in self._nouns:
            if text.startswith(noun, at):
                yield from self._read_comparison(text, at + len(noun), name, comparisons)

    def _read_comparison(self, text: str, at: int, fact: str, comparisons: dict[Comparison, Phrases]) -> Parses:
        for op, phrases in comparisons.items():
            for phrase in phrases:
                if text.startswith(f"{phrase} ", at):
                    for than, end in self._read_operand(text, at + len(phrase) + 1, self._facts[fact].sort):
                        yield Holds(fact, op, than), end

    def _read_operand(self, text: str, at: int, sort: str) -> Parses:
        if sort == "number":
            yield from self._number.read(text, at)
        for phrase, name, its_sort in self._ends:
            if its_sort == sort and text.startswith(phrase, at):
                yield f"@{name}", at + len(phrase)

    def _operand(self, than: Value, voice: Voice) -> str:
        name = operand_name(than)
        if name is None:
            return str(than)
        kind = next(kind for kind, names in self._operands.items() if name in names)
        phrases = self._operands[kind][name]
        return voice.phrase(phrases) if kind == "fact" else f"the {voice.name(kind, name, phrases)}"

    def _sort(self, kind: str, name: str) -> str:
        return self._facts[name].sort if kind == "fact" else "day" if kind == "agreed_day" else "number"

    @staticmethod
    def _clause_table(words: FactWords, op: Comparison) -> dict[Value, Phrases]:
        return dict(words.being if op == "is" else words.not_being if op == "is_not" else {})


class Alternatives:
    """`AnyOf`, as in `either the amount is above 3000 or the firm handles personal data`."""

    def __init__(self, comparing: Comparing) -> None:
        self._tests = Series(comparing, " or ", " or ")

    def fits(self, value: Any) -> bool:
        return isinstance(value, AnyOf)

    def can_say(self, value: Any) -> bool:
        return isinstance(value, AnyOf) and len(value.tests) > 1 and self._tests.can_say(value.tests)

    def say(self, value: Any, voice: Voice) -> str:
        return f"either {self._tests.say(value.tests, voice)}"

    def read(self, text: str, at: int) -> Parses:
        if text.startswith("either ", at):
            for tests, end in self._tests.read(text, at + len("either ")):
                if len(tests) > 1:
                    yield AnyOf(tests), end


class AllOf(Series):
    """Several conditions, joined by `and`. Alternatives come last.

    Keeps what it has read of the present text, because many wordings begin alike: `if {when}`.
    """

    _text = ""

    def read(self, text: str, at: int) -> Parses:
        if text != self._text:
            self._text, self._parses = text, dict[int, list[tuple[Any, int]]]()
        if at not in self._parses:
            self._parses[at] = list(super().read(text, at))
        return iter(self._parses[at])

    def can_say(self, value: Any) -> bool:
        return super().can_say(value) and not any(isinstance(one, AnyOf) for one in value[:-1])


def conditions_node(vocabulary: Vocabulary) -> Node:
    """Return the grammar of all conditions of a vocabulary."""
    comparing = Comparing(vocabulary)
    check = Word("check", vocabulary.checks)
    applies = [Template(Applies, wording, lambda name, joiner: check) for wording in APPLIES]
    return AllOf(Choice([comparing, Alternatives(comparing), *applies]), " and ", " and ")
