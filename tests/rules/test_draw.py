"""Drawing: every book is complete, only test tasks have anything new, and an override changes one slot."""

import re
from types import ModuleType

import pytest
from hypothesis import given, settings

from companyos.rules import Limit, Otherwise, Parts, Rulebook, Slot, Then, draw_book
from companyos.rules.draw import Design, Variants
from companyos.rules.structure import structural_flaws
from tests.rules import visitor_badges
from tests.rules.helpers import DESKS, desks, drawn, seeds, splits, streams_of

DESIGN = visitor_badges.DESIGN


@given(desks, seeds, splits)
@settings(max_examples=200, deadline=None)
def test_every_drawn_book_is_complete_and_says_nothing_twice(desk: ModuleType, seed: int, split: str) -> None:
    assert structural_flaws(drawn(desk, seed, split).book) == []


@given(desks, seeds)
@settings(max_examples=200, deadline=None)
def test_train_and_validation_tasks_have_nothing_new(desk: ModuleType, seed: int) -> None:
    for split in ("train", "validation"):
        assert drawn(desk, seed, split).stratum == "known"


@pytest.mark.parametrize("desk", DESKS, ids=lambda desk: desk.__name__)
def test_test_tasks_have_one_new_thing_at_most_and_every_stratum_occurs(desk: ModuleType) -> None:
    strata = [drawn(desk, seed).stratum for seed in range(400)]
    assert set(strata) == {"known", "combination", "clause", "wording"}
    assert all(60 < strata.count(stratum) < 140 for stratum in set(strata))


@pytest.mark.parametrize("desk", DESKS, ids=lambda desk: desk.__name__)
def test_every_variant_of_every_slot_is_drawn(desk: ModuleType) -> None:
    seen = {(slot, variant) for seed in range(800) for slot, variant in drawn(desk, seed).variants.items()}
    assert {(slot.name, variant) for slot in desk.DESIGN.slots for variant in slot.variants} <= seen


@given(desks, seeds, splits)
@settings(max_examples=50, deadline=None)
def test_an_override_changes_one_slot(desk: ModuleType, seed: int, split: str) -> None:
    before = drawn(desk, seed, split).variants
    for slot in desk.DESIGN.slots:
        for variant in slot.variants:
            after = draw_book(desk.DESIGN, streams_of(seed, split), split, {slot.name: variant}).variants
            assert after == before | {slot.name: variant}


@given(desks, seeds)
@settings(max_examples=20, deadline=None)
def test_the_house_rulebook_is_the_same_for_every_seed_but_for_its_numbers(desk: ModuleType, seed: int) -> None:
    def kinds(book: Rulebook) -> list[object]:
        return [type(piece) if isinstance(piece, Limit) or "number" in str(piece) else piece for piece in book.pieces]

    design: Design = desk.DESIGN
    house = {"rulebook": "house"}
    variants: Variants = {slot.name: slot.house for slot in design.slots} | {"rulebook": "drawn", "wording": "known"}
    book = draw_book(design, streams_of(seed), "train", house).book
    assert book == design.book(variants, streams_of(seed))
    assert kinds(book) == kinds(draw_book(design, streams_of(0), "test", house).book)


def test_slots_and_variants_fit_into_task_ids() -> None:
    for desk in DESKS:
        for slot in desk.DESIGN.slots:
            assert re.fullmatch(r"[a-z]+(_[a-z]+)*", slot.name)
            assert all(re.fullmatch(r"[a-z0-9_]+", variant) for variant in slot.variants)


def test_a_held_out_pair_gives_way_even_if_slots_share_pairs() -> None:
    slots = tuple(Slot(name, {"a": 1, "b": 2, "c": 3}) for name in ("x", "y", "z"))
    pairs = ((("x", "a"), ("y", "a")), (("y", "b"), ("z", "a")), (("x", "b"), ("y", "b")))

    def build(parts: Parts, streams: object) -> Rulebook:
        return Rulebook((Otherwise(Then("completed", str(parts("x")))),))

    design = Design(slots, build, pairs)
    strata = {draw_book(design, streams_of(seed), "test").stratum for seed in range(300)}
    assert strata == {"known", "combination", "wording"}
