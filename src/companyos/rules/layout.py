"""Lay a rulebook out over documents: policies, amendments, memos, and answers of the policy's owner."""

from collections.abc import Iterable
from itertools import islice
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from companyos.core.world.streams import Streams
from companyos.rules.book import Rulebook
from companyos.rules.grammar import Register
from companyos.rules.language import Language
from companyos.rules.pieces import (
    Amends,
    AnyPiece,
    AskOwner,
    Before,
    Check,
    Complete,
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
    SeeAlso,
    Signer,
    Strictest,
    Unless,
    VersionDay,
    WhichFigure,
)
from companyos.rules.voices import Author

MAX_WORDS = 120
DocumentKind = Literal["policy", "amendment", "memo", "answer"]
_SECTIONS: dict[str, tuple[type[Piece], ...]] = {
    "order of checks": (Order, Before, Strictest, Otherwise),
    "checks": (Check,),
    "exemptions": (Unless, Despite),
    "figures": (Limit, Instead, RateTable),
    "terms": (Definition, DayMeant, Computed, Scale, Level),
    "signing": (Ladder, Signer, Second),
    "evidence": (Evidence,),
    "how to read these rules": (Complete, VersionDay, WhichFigure, Papers, SeeAlso, AskOwner),
    "amendment": (Amends,),
}
_SECTION_OF = {kind: section for section, kinds in _SECTIONS.items() for kind in kinds}


class Plan(Struct, frozen=True):
    """Where the sentences stand."""

    grouping: Literal["kind", "check"] = "kind"  # one section for all checks, or one for each check with all about it
    exemptions: Literal["policy", "memo"] = "policy"  # a memo has a title that does not name the topic
    terms: Literal["policy", "owner"] = "policy"  # the owner answers questions
    owner: str = ""  # the office that owns the policy


class Document(Struct, frozen=True):
    """A paper, or an answer to a question."""

    title: str
    kind: DocumentKind
    sentences: tuple[str, ...]
    edition: int = 0  # 0 for the present version, 1 for the one before it
    pieces: tuple[AnyPiece, ...] = ()  # what the sentences say, in the same order

    @property
    def text(self) -> str:
        return " ".join(self.sentences)

    @property
    def words(self) -> int:
        return len(self.text.split())


def lay_out(
    book: Rulebook, language: Language, streams: Streams, plan: Plan = Plan(), new_words: bool = False  # noqa: B008
) -> tuple[Document, ...]:  # fmt: skip
    """Write a rulebook down. Every piece is said once, in words that depend on nothing but the piece and the task."""
    editor = _Editor(language, streams, plan, new_words)
    documents = editor.write((*book.pieces, *signposts(book, plan, editor.memo_title)))
    for number, pieces in enumerate(book.editions, start=1):
        documents += editor.write(pieces, number)
    return tuple(documents)


def signposts(book: Rulebook, plan: Plan, memo_title: str) -> list[AnyPiece]:
    """Return the pieces that say where rules are: the index of each kind of piece, and pointers to other papers."""
    posts: list[AnyPiece] = [book.complete(kind) for kind in get_args(Counted)]
    if plan.exemptions == "memo" and any(isinstance(piece, _SECTIONS["exemptions"]) for piece in book.pieces):
        posts.append(SeeAlso(memo_title))
    if plan.terms == "owner" and any(isinstance(piece, _SECTIONS["terms"]) for piece in book.pieces):
        posts.append(AskOwner(plan.owner, "terms"))
    return posts


class _Editor:
    """Writes pieces into documents."""

    def __init__(self, language: Language, streams: Streams, plan: Plan, new_words: bool) -> None:
        self.language, self.streams, self.plan = language, streams, plan
        self.author = Author(streams, new_words)
        papers = language.vocabulary.papers
        self.memo_title = streams.at("layout", "memo").pick(papers) if papers else "Other rules"

    def write(self, pieces: Iterable[AnyPiece], edition: int = 0) -> list[Document]:
        """Return the documents that say these pieces."""
        places: dict[tuple[DocumentKind, str], list[tuple[float, AnyPiece, str]]] = {}
        for piece in dict.fromkeys(pieces):
            key = msgspec.json.encode(piece).decode()
            places.setdefault(self.place(piece), []).append((self.streams.at("layout", key).random(), piece, key))
        documents: list[Document] = []
        for (kind, title), found in sorted(places.items()):
            register = self.register(kind, title)
            in_order = sorted(found, key=lambda one: one[0])
            sentences = tuple(self.say(piece, key, register) for _, piece, key in in_order)
            pieces_said = tuple(piece for _, piece, _ in in_order)
            documents += split_by_words(Document(title, kind, sentences, edition, pieces_said))
        return documents

    def place(self, piece: AnyPiece) -> tuple[DocumentKind, str]:
        """Return the kind and the title of the document in which a piece stands."""
        section = _SECTION_OF[type(piece)]
        topic = self.language.vocabulary.topic
        if section == "amendment":
            return "amendment", f"{topic}: {section}"
        if section == "exemptions" and self.plan.exemptions == "memo":
            return "memo", self.memo_title
        if section == "terms" and self.plan.terms == "owner":
            return "answer", f"{topic}: {section}"
        if self.plan.grouping == "check" and isinstance(piece, Check | Unless | Despite | Evidence):
            section = self.check_title(piece.check)
        return "policy", f"{topic}: {section}"

    def check_title(self, check: str) -> str:
        names = self.language.vocabulary.checks
        return self.author.name("check", check, names[check]) if check in names else "evidence"

    def register(self, kind: DocumentKind, title: str) -> Register:
        if kind == "memo":
            memo_or_mail: tuple[Register, ...] = ("memo", "mail")
            return self.streams.at("layout", "register", title).pick(memo_or_mail)
        registers: dict[DocumentKind, Register] = {"policy": "handbook", "amendment": "memo", "answer": "mail"}
        return registers[kind]

    def say(self, piece: AnyPiece, key: str, register: Register) -> str:
        return self.language.render(piece, self.author.voice(key, register))


def split_by_words(document: Document) -> list[Document]:
    """Split a document into parts of at most `MAX_WORDS` words. Raises `ValueError` if a sentence is longer than that."""
    parts: list[list[str]] = [[]]
    room = MAX_WORDS
    for sentence in document.sentences:
        length = len(sentence.split())
        if length > MAX_WORDS:
            raise ValueError(f"a sentence has {length} words, more than a document may have: {sentence!r}")
        if length > room:
            parts.append([])
            room = MAX_WORDS
        parts[-1].append(sentence)
        room -= length
    numbered = [document.title, *(f"{document.title}, part {number}" for number in range(2, len(parts) + 1))]
    pieces = iter(document.pieces)
    return [
        msgspec.structs.replace(document, title=title, sentences=tuple(part), pieces=tuple(islice(pieces, len(part))))
        for title, part in zip(numbered, parts, strict=True)
    ]
