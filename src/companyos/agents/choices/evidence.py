"""Evidence for closing a ticket: the facts that policy texts ask for, as far as replies have shown them.

The method is the same for all families. If a text says `<reason>: the entry's owner`, then an entry that replies have shown,
with its field `owner`, is cited. This module does not know what the reasons mean.
"""

import re
from functools import lru_cache
from typing import Any, get_args

from companyos.company import KINDS, Policy
from companyos.company.apps.ticketdesk import Reason
from companyos.env.knowledge import Knowledge

Citation = dict[str, Any]
MAX_CITATIONS = 5  # one decisive fact, and four others, which the judge always allows
REASONS: tuple[str, ...] = get_args(Reason)
_KINDS = {kind.__name__.lower(): kind for kind in KINDS if not kind.hidden}


def evidence(knowledge: Knowledge, ticket_id: str, reason: str) -> list[Citation]:
    """Return the citations that the policies read so far ask for when a ticket is closed for this reason."""
    words = _applicable(knowledge, ticket_id, [word for text in texts(knowledge) for word in _clause(text, reason)])
    kinds = [_KINDS[word] for word in words if word in _KINDS] or list(_KINDS.values())
    cited: list[Citation] = []
    for kind in dict.fromkeys(kinds):
        # Every word may be the name of a field. Most are not, and then no record shows such a field.
        for field in dict.fromkeys(words):
            records = [record for record in knowledge.known(kind) if (record, field) in knowledge.facts]
            if records:
                # `max` returns the first of equals, so `reversed` prefers the record that was shown last.
                best = max(reversed(records), key=lambda record: _nearness(knowledge, ticket_id, record, words))
                cited.append({"record": best, "field": field, "value": knowledge.facts[best, field]})
    return cited[:MAX_CITATIONS]


def texts(knowledge: Knowledge) -> list[str]:
    """Return the texts of the policies read so far."""
    return [text for policy in knowledge.known(Policy) if (text := knowledge.facts.get((policy, "text")))]


@lru_cache(maxsize=1024)
def _clause(text: str, reason: str) -> tuple[str, ...]:
    """Return the words after a reason and its colon, up to the next reason or the end of the sentence.

    In `late, expired: the contract's end; other: …`, the clause of `late` and of `expired` is `the contract s end`.
    """
    further_reasons = r"(?:, \w+)*"  # several reasons can share one clause
    next_reasons = rf"; \w+{further_reasons}:"
    match = re.search(rf"\b{reason}\b{further_reasons}: ([^.]*?)(?:\.|{next_reasons}|$)", text)
    return tuple(re.findall(r"\w+", match[1])) if match else ()


@lru_cache(maxsize=1024)
def reasons_with_clause(text: str) -> frozenset[str]:
    """Return the reasons for which a text says what to cite."""
    return frozenset(reason for reason in REASONS if _clause(text, reason))


def _applicable(knowledge: Knowledge, ticket_id: str, words: list[str]) -> list[str]:
    """Drop the word that does not apply where a text says `minimum or minimum_personal, whichever applied`.

    `minimum_personal` applies if any field of the ticket's verified entry has the value `personal`; else `minimum` does.
    """
    triples = zip(words, words[1:], words[2:], strict=False)
    choices = [(short, long) for short, joint, long in triples if joint == "or" and long.startswith(f"{short}_")]
    if not choices:
        return words
    entry = knowledge.facts.get((ticket_id, "verified"))
    values = {value for (record, _), value in knowledge.facts.items() if record == entry}
    dropped = {short if long.removeprefix(f"{short}_") in values else long for short, long in choices}
    return [word for word in words if word not in dropped]


def _nearness(knowledge: Knowledge, ticket_id: str, record: str, words: list[str]) -> int:
    """Return how well a record fits the text and the ticket, to choose among records with the same field."""
    facts = knowledge.facts
    if record == ticket_id:
        return -1 if "other" in words else 1  # "the other ticket" is not this one
    score = 4 * any(facts.get((record, field)) in words for field in ("role", "name", "kind"))
    score += 3 * any(facts.get((ticket_id, field)) == record for field in ("verified", "approval", "duplicate_of"))
    reference = facts.get((ticket_id, "reference"))
    score += 2 * (reference is not None and facts.get((record, "reference")) == reference)
    entry = facts.get((ticket_id, "verified"))  # the id of the register entry that was verified for the ticket
    score += 2 * any(source == entry and value == record for (source, _), value in facts.items())  # the entry names it
    return score + (facts.get((record, "status")) == "in force")
