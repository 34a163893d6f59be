"""How an expert learns drawn rules: it searches for the papers, reads all of them, and asks the owner of the policies.

The expert decides by the same program as the judge (`companyos.rules.decide`), but its rulebook is what it has parsed from
the texts that it has read in this episode. It answers the questions of the program by making calls.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from msgspec import Struct

from companyos.core.errors import Stuck
from companyos.families.kit import moves, working
from companyos.families.kit.family import ExpertStyle
from companyos.families.kit.moves import Move, Shown
from companyos.families.kit.rulebooks import Rules
from companyos.rules import Amends, AskOwner, Limit, Question, Rulebook, SeeAlso
from companyos.rules.conditions import Value

T = TypeVar("T")


class Papers(Struct, frozen=True):
    """What an expert has read: the rulebook, and the papers by title, the newest version that counts first."""

    book: Rulebook
    versions: dict[str, list[Shown]]
    rules: Rules

    def versions_with(self, kind: type[Limit] | type[Amends], limit: str = "") -> list[Shown]:
        """Return the versions of the paper that sets a limit, or of the one with the amendment."""
        for papers in self.versions.values():
            for piece in self.rules.language.pieces_in(papers[0]["text"]):
                if isinstance(piece, kind) and (not limit or getattr(piece, "limit", "") == limit):
                    return papers
        raise Stuck(f"no paper has a {kind.__name__} {limit}")

    def edition(self, limit: str, day: str) -> int:
        """Return which version of a limit was in force on a day: 0 for the newest one that counts."""
        papers = self.versions_with(Limit, limit)
        return next((number for number, paper in enumerate(papers) if moves.day(paper["since"]) <= day), len(papers) - 1)


def study(ticket: Shown, rules: Rules, style: ExpertStyle) -> Move[Papers]:
    """Read all papers of the family that count for a ticket, and those to which they point."""
    topic = rules.language.vocabulary.topic
    versions: dict[str, list[Shown]] = {}
    yield from _read_papers(topic.lower(), f"{topic}:", ticket["opened"], versions, style)
    answers: list[str] = []
    while True:
        book = _parsed(rules, versions, answers)
        unread = [pointer.paper for pointer in book.all(SeeAlso) if pointer.paper not in versions]
        if unread:
            yield from _read_papers(unread[0], unread[0], ticket["opened"], versions, style)
            if unread[0] not in versions:
                raise Stuck(f"there is no paper {unread[0]!r}")
        elif book.all(AskOwner) and not answers:
            owner = yield from moves.read("datahub.get_approver", role=book.all(AskOwner)[0].office)
            question = "Could you explain the terms in these rules to me, please?"
            answers.append((yield from moves.ask_for_text(ticket["id"], owner["id"], question)))
        else:
            return Papers(style.goes_by(book), versions, rules)


def _parsed(rules: Rules, versions: dict[str, list[Shown]], answers: list[str]) -> Rulebook:
    oldest = max(map(len, versions.values()), default=1)
    texts = [[papers[n]["text"] for papers in versions.values() if n < len(papers)] for n in range(oldest)]
    return rules.language.read([*(texts[0] if texts else []), *answers], texts[1:])


def _read_papers(
    query: str, beginning: str, opened: str, versions: dict[str, list[Shown]], style: ExpertStyle
) -> Move[None]:
    """Search for papers and read those whose titles begin so, in every version that counted when the ticket was opened."""
    listed = sorted((yield from moves.rows("datahub.search_policies", query=query)), key=lambda row: str(row["since"]))
    found: dict[str, list[Shown]] = {}
    for row in listed:
        if row["title"].startswith(beginning):
            found.setdefault(row["title"], []).append(row)
    for title, rows in style.order("papers", list(found.items())):
        counted = [row for row in rows if row["since"] <= opened]
        if not counted or (len(counted) == len(rows) and counted[-1]["status"] != "in force"):
            continue  # newer than the ticket, or withdrawn before it
        if len(rows) > 1:
            newest, day = moves.day(rows[-1]["since"]), moves.day(opened)
            yield from working.weigh(("newest", newest), ("opened", day), f"{counted[-1]['id']} counts")
        for row in reversed(counted):
            paper = yield from moves.read("datahub.read_policy", policy_id=row["id"])
            versions.setdefault(title, []).append(paper)


def found_out(inquiry: Generator[Question, Value, T], find_out: Callable[[Question], Move[Value]]) -> Move[T]:
    """Run an inquiry to its end, and find out the answer to each of its questions by making calls.

    Raises `Stuck` if the rulebook lacks a piece, because the expert has not read all of it.
    """
    answer: Any = None
    while True:
        try:
            question = inquiry.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        except (KeyError, IndexError) as missing:
            raise Stuck(f"the texts that were read lack a rule: {missing}") from missing
        answer = yield from find_out(question)
