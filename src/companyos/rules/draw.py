"""Draw a rulebook. Each choice is a slot: one named value, which can be overridden like any other cause of a task."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from companyos.core.world.streams import Streams
from companyos.rules.book import Rulebook

Stratum = Literal["known", "combination", "clause", "wording", "several"]
Variants = Mapping[str, str]  # the name of the drawn variant, by slot
Pair = tuple[tuple[str, str], tuple[str, str]]  # two slots with a variant each


class Slot(Struct, frozen=True):
    """A choice that a rulebook draws. `variants` has the part of each variant, such as a `Then`, by its name.

    The first variant belongs to the house rulebook: the fixed one, which beginners learn first. `held_out` are the names of
    the variants that only test tasks have.
    """

    name: str
    variants: Mapping[str, Any]
    held_out: tuple[str, ...] = ()

    @property
    def house(self) -> str:
        return next(iter(self.variants))

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(name for name in self.variants if name not in self.held_out)


# Every design has these two slots as well. A drawn book never says `house` here by itself; an override does.
RULEBOOK = Slot("rulebook", {"drawn": False, "house": True})
WORDING = Slot("wording", {"known": False, "new": True}, held_out=("new",))


class Parts:
    """The parts of the drawn variants: `parts("score_then")`."""

    def __init__(self, design: "Design", variants: Variants) -> None:
        self._design, self._variants = design, variants

    def __call__(self, slot: str) -> Any:
        declared = self._design.slot(slot)
        house = self._variants.get(RULEBOOK.name) == "house"
        return declared.variants[declared.house if house else self._variants[slot]]


class Design(Struct, frozen=True):
    """All rulebooks that a family can have: its slots, and the function that puts their parts together.

    `build` takes its numbers from `streams.at("number", name)`. `held_out_pairs` are pairs of known variants that occur
    together in test tasks only.
    """

    slots: tuple[Slot, ...]
    build: Callable[[Parts, Streams], Rulebook]
    held_out_pairs: tuple[Pair, ...] = ()

    def slot(self, name: str) -> Slot:
        return next(slot for slot in (*self.slots, RULEBOOK, WORDING) if slot.name == name)

    def book(self, variants: Variants, streams: Streams) -> Rulebook:
        """Return the rulebook of these variants."""
        return self.build(Parts(self, variants), streams)

    def stratum(self, variants: Variants) -> Stratum:
        """Return what is new in a drawn book, compared with all books of train tasks."""
        new: list[Stratum] = ["clause" for slot in self.slots if variants[slot.name] in slot.held_out]
        new += ["combination" for pair in self.held_out_pairs if _has(variants, pair)]
        new += ["wording"] if variants[WORDING.name] == "new" else []
        return "known" if not new else new[0] if len(new) == 1 else "several"

    def strata(self, split: str) -> tuple[Stratum, ...]:
        """Return the strata of a split. Only test tasks have anything new, and each of them has one new thing."""
        strata: list[Stratum] = ["known"]
        if split == "test":
            strata += ["combination"] if self.held_out_pairs else []
            strata += ["clause"] if any(slot.held_out for slot in self.slots) else []
            strata += ["wording"]
        return tuple(strata)


class DrawnBook(Struct, frozen=True):
    """A rulebook with the variants that it was built from."""

    variants: dict[str, str]
    book: Rulebook
    stratum: Stratum

    @property
    def new_words(self) -> bool:
        return self.variants[WORDING.name] == "new"


def draw_book(design: Design, streams: Streams, split: str, overrides: Variants | None = None) -> DrawnBook:
    """Draw a rulebook. Overrides replace variants after everything has been drawn, so they change no other slot."""
    variants = draw_variants(design, streams, split) | dict(overrides or {})
    return DrawnBook(variants, design.book(variants, streams), design.stratum(variants))


def draw_variants(design: Design, streams: Streams, split: str) -> dict[str, str]:
    """Draw a variant for each slot."""
    stratum = streams.at("rules", "stratum").pick(design.strata(split))
    variants = {slot.name: streams.at("rules", slot.name).pick(slot.known) for slot in design.slots}
    variants |= {RULEBOOK.name: "drawn", WORDING.name: "new" if stratum == "wording" else "known"}
    _avoid_pairs(design, variants)
    if stratum == "clause":
        slot = streams.at("rules", "new clause").pick([slot for slot in design.slots if slot.held_out])
        variants[slot.name] = streams.at("rules", "new clause", slot.name).pick(slot.held_out)
        _avoid_pairs(design, variants)
    elif stratum == "combination":
        pair = streams.at("rules", "new combination").pick(design.held_out_pairs)
        variants |= dict(pair)
        _avoid_pairs(design, variants, allowed=pair)
    return variants


def _avoid_pairs(design: Design, variants: dict[str, str], allowed: Pair | None = None) -> None:
    """Replace variants until no held-out pair is complete except the allowed one, whose slots keep their variants."""
    fixed = dict(allowed or ())
    for pair in design.held_out_pairs:
        if pair != allowed and _has(variants, pair):
            name = next(name for name, _ in reversed(pair) if name not in fixed)
            others = [other for other in design.held_out_pairs if other != allowed and name in dict(other)]
            fitting = (
                variant
                for variant in design.slot(name).known
                if not any(_has({**variants, name: variant}, other) for other in others)
            )
            variants[name] = next(fitting)


def _has(variants: Variants, pair: Pair) -> bool:
    return all(variants[slot] == variant for slot, variant in pair)
