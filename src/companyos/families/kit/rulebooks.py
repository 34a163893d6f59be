"""Drawn rules of a family: its rulebook as causes, the facts that a rule decides, and the ruling of the judge."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct

from companyos.core.world import Streams
from companyos.families.kit.case import Rule
from companyos.rules import Design, Language, Question, Rulebook, Ruling, answered, decide
from companyos.rules.conditions import Value
from companyos.rules.draw import RULEBOOK, WORDING, Slot, draw_variants

Answers = Callable[[Question], Value]


class Rules(Struct, frozen=True, eq=False):
    """The rules of a family.

    `answers` returns the facts of a case from its causes, as answers to the questions of `decide`. `targets` has the kinds
    of rules at which tasks are aimed, each with its slots.
    """

    design: Design
    language: Language
    owner: str  # the office that answers questions about the policies
    answers: Callable[[Any, Streams], Answers]
    costs: Mapping[str, int]  # of finding out a fact; a fact without an entry costs nothing
    targets: Mapping[str, tuple[str, ...]]

    def slots(self) -> tuple[Slot, ...]:
        return (*self.design.slots, RULEBOOK, WORDING)

    def variants(self, causes: Any) -> dict[str, str]:
        """Return the variant of each slot."""
        return {slot.name: getattr(causes, slot.name) for slot in self.slots()}

    def book(self, causes: Any, streams: Streams) -> Rulebook:
        """Return the rulebook of a case. `streams` are the random draws of the case."""
        return _book(self, streams.key, tuple(self.variants(causes).items()))

    def ruling(self, causes: Any, streams: Streams) -> Ruling:
        """Decide a case from its causes."""
        return answered(decide(self.book(causes, streams), self.costs), self.answers(causes, streams))

    def draw(self, streams: Streams, split: str) -> dict[str, str]:
        """Draw a variant for each slot."""
        return draw_variants(self.design, streams, split)

    def is_known(self, variants: Mapping[str, str]) -> bool:
        """Return whether a book of these variants has nothing that only test tasks have."""
        return self.design.stratum(variants) == "known"

    def aimed(self, draw: Callable[[int], Any], streams: Streams) -> Any:
        """Return the first drawn causes that a rule of a wanted kind decides. `draw` takes the number of the attempt.

        After some attempts that fail, another kind of rule is wanted.
        """
        attempt = 0
        for kind in streams.at("target").shuffled(tuple(self.targets)):
            others = self._changed_books(draw(0), streams, self.targets[kind])
            if not others:
                continue
            for _ in range(_DECISIONS // (len(others) + 1)):
                causes = draw(attempt)
                answers = self.answers(causes, streams)
                present = _orders(self.book(causes, streams), answers)
                if any(_orders(book, answers) != present for book in others):
                    return causes
                attempt += 1
        return draw(attempt)

    def _changed_books(self, causes: Any, streams: Streams, slots: tuple[str, ...]) -> list[Rulebook]:
        """Return the rulebooks that have another known variant in one of these slots, and other rules because of that."""
        variants, book = self.variants(causes), self.book(causes, streams)
        others = (
            _book(self, streams.key, tuple({**variants, slot: other}.items()))
            for slot in slots
            for other in self.design.slot(slot).known
            if other != variants[slot]
        )
        return [other for other in others if (other.rules, other.editions) != (book.rules, book.editions)]


_DECISIONS = 48  # that are made for one kind of rule, before another kind is wanted


def _orders(book: Rulebook, answers: Answers) -> tuple[object, ...]:
    """Return what a rulebook orders, whichever check decides."""
    return answered(decide(book), answers).ending[1:]


@lru_cache(maxsize=256)
def _book(rules: Rules, key: str, variants: tuple[tuple[str, str], ...]) -> Rulebook:
    return rules.design.book(dict(variants), Streams(key))


def with_rules(causes: type[Struct], design: Design, module: str) -> type[Struct]:
    """Return the causes of a family, with a further cause for each slot of its rulebook.

    Assign the result to `RuledCauses` in the module with this name, so that causes can be pickled.
    """
    slots = (*design.slots, RULEBOOK, WORDING)
    fields = [
        (slot.name, Annotated[Literal[tuple(slot.variants)], Rule(slot.held_out), f"the rule `{slot.name}`"])
        for slot in slots
    ]
    return msgspec.defstruct("RuledCauses", fields, bases=(causes,), frozen=True, module=module)
