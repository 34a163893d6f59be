"""What several tests of the rule language use."""

from types import ModuleType

from hypothesis import strategies as st

from companyos.core.world.streams import Streams
from companyos.rules import Design, Document, DrawnBook, Language, Plan, Rulebook, draw_book, lay_out
from companyos.rules.pieces import AnyPiece
from tests.rules import vendor_onboarding, visitor_badges

DESKS: tuple[ModuleType, ...] = (visitor_badges, vendor_onboarding)  # each has VOCABULARY, LANGUAGE, DESIGN, DOMAINS, COSTS
PLANS = tuple(
    Plan(grouping=grouping, exemptions=exemptions, terms=terms, owner=visitor_badges.OWNER)
    for grouping in ("kind", "check")
    for exemptions in ("policy", "memo")
    for terms in ("policy", "owner")
)
desks = st.sampled_from(DESKS)
seeds = st.integers(0, 10**6)
splits = st.sampled_from(("train", "validation", "test"))
plans = st.sampled_from(PLANS)


def streams_of(seed: int, split: str = "test") -> Streams:
    return Streams(f"rules/{split}/{seed}")


def drawn(desk: ModuleType, seed: int, split: str = "test") -> DrawnBook:
    """Return a drawn rulebook of one of the desks."""
    design: Design = desk.DESIGN
    return draw_book(design, streams_of(seed, split), split)


def written(desk: ModuleType, book: DrawnBook, seed: int, split: str, plan: Plan) -> tuple[Document, ...]:
    """Return the documents of a drawn rulebook."""
    language: Language = desk.LANGUAGE
    return lay_out(book.book, language, streams_of(seed, split), plan, book.new_words)


def read_back(desk: ModuleType, documents: tuple[Document, ...]) -> Rulebook:
    """Return the rulebook that documents say."""
    language: Language = desk.LANGUAGE
    older = max(document.edition for document in documents)
    texts = [[one.text for one in documents if one.edition == edition] for edition in range(older + 1)]
    return language.read(texts[0], texts[1:])


def pieces_of(desk: ModuleType, seeds: range) -> list[AnyPiece]:
    """Return all different pieces of some drawn books."""
    books = [drawn(desk, seed).book for seed in seeds]
    return list(dict.fromkeys(piece for book in books for piece in book.pieces))
