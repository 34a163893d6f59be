"""Aim: facts are drawn again until a rule of a kind decides."""

from companyos.core.world.streams import Streams
from companyos.rules import Question, aim, answered, decide, deciding_slots
from companyos.rules.conditions import Value
from companyos.rules.draw import Variants
from companyos.rules.reach import DrawnFacts
from tests.rules import visitor_badges
from tests.rules.helpers import drawn, streams_of

DESIGN = visitor_badges.DESIGN


def ending_of(facts: DrawnFacts, seed: int, variants: Variants) -> tuple[object, ...]:
    book = DESIGN.book(variants, streams_of(seed))

    def answer(question: Question) -> Value:
        return facts(question)

    return answered(decide(book), answer).ending


def test_an_aimed_draw_hits_more_often() -> None:
    slots = ("passport_unless", "passport_despite", "brief_means")

    def hits(seed: int, aimed: bool) -> bool:
        book = drawn(visitor_badges, seed)

        def decides(facts: DrawnFacts) -> bool:
            return bool(deciding_slots(DESIGN, book.variants, lambda variants: ending_of(facts, seed, variants), slots))

        def draw(attempt: int) -> DrawnFacts:
            return DrawnFacts(book.book, visitor_badges.DOMAINS, Streams(f"aim/{seed}"), attempt)

        return decides(aim(draw, decides) if aimed else draw(0))

    plain = sum(hits(seed, aimed=False) for seed in range(40))
    aimed = sum(hits(seed, aimed=True) for seed in range(40))
    assert plain < 20
    assert aimed >= 38


def test_aim_stops_at_the_first_hit_and_after_the_last_try() -> None:
    assert aim(lambda attempt: attempt, lambda drawn: drawn == 3) == 3
    assert aim(lambda attempt: attempt, lambda drawn: False, tries=5) == 4


def test_a_slot_decides_if_another_variant_has_another_ending() -> None:
    variants = drawn(visitor_badges, 1, "train").variants

    def ending(other: Variants) -> str:
        return other["second"] + other["papers"]

    assert set(deciding_slots(DESIGN, variants, ending)) == {"second", "papers"}
    assert deciding_slots(DESIGN, variants, ending, among=["papers", "order"]) == ["papers"]
