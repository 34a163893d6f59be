"""Evidence for closing a ticket: the facts that policy texts ask for, as far as replies have shown them.

The method is the same for all families. A text says `reason: the entry's owner`, and a reply has shown a record of that
kind with a field of that name. This module knows no meaning of any reason.
"""

import re
from functools import lru_cache
from typing import Any, get_args

from companyos.company import KINDS, Policy
from companyos.company.apps.ticketdesk import Reason
from companyos.env.knowledge import Knowledge

Citation = dict[str, Any]
MOST = 5  # citations: one decisive fact, and the four more that the judge always allows
REASONS: tuple[str, ...] = get_args(Reason)
_KINDS = {kind.__name__.lower(): kind for kind in KINDS if not kind.hidden}


def evidence(told: Knowledge, ticket_id: str, reason: str) -> list[Citation]:
    """Return the citations that the policies read so far ask for when a ticket is closed for this reason."""
    words = _that_apply(told, ticket_id, [word for text in texts(told) for word in _clause(text, reason)])
    named = [_KINDS[word] for word in words if word in _KINDS] or list(_KINDS.values())
    cited: list[Citation] = []
    for kind in dict.fromkeys(named):
        for field in dict.fromkeys(words):
            shown = [record for record in told.known(kind) if (record, field) in told.facts]
            if shown:
                record = max(reversed(shown), key=lambda known: _nearness(told, ticket_id, known, words))
                cited.append({"record": record, "field": field, "value": told.facts[record, field]})
    return cited[:MOST]


def texts(told: Knowledge) -> list[str]:
    """Return the texts of the policies read so far."""
    return [text for policy in told.known(Policy) if (text := told.facts.get((policy, "text")))]


@lru_cache(maxsize=1024)
def _clause(text: str, reason: str) -> tuple[str, ...]:
    """Return the words after a reason and its colon, up to the next reason."""
    found = re.search(rf"\b{reason}\b(?:, \w+)*: ([^.]*?)(?:\.|; \w+(?:, \w+)*:|$)", text)
    return tuple(re.findall(r"\w+", found[1])) if found else ()


@lru_cache(maxsize=1024)
def asked_for(text: str) -> frozenset[str]:
    """Return the reasons for which a text says what to cite."""
    return frozenset(reason for reason in REASONS if _clause(text, reason))


def _that_apply(told: Knowledge, ticket_id: str, words: list[str]) -> list[str]:
    """Drop the word that does not apply where a text says `minimum or minimum_personal, whichever applied`.

    The longer word applies if the ticket's entry has its suffix (`personal`) as a value.
    """
    triples = zip(words, words[1:], words[2:], strict=False)
    choices = [(one, other) for one, joint, other in triples if joint == "or" and other.startswith(f"{one}_")]
    if not choices:
        return words
    entry = told.facts.get((ticket_id, "verified"))
    values = {value for (record, _), value in told.facts.items() if record == entry}
    dropped = {one if other.removeprefix(f"{one}_") in values else other for one, other in choices}
    return [word for word in words if word not in dropped]


def _nearness(told: Knowledge, ticket_id: str, record: str, words: list[str]) -> int:
    """Return how well a record fits the text and the ticket, to choose among records with the same field."""
    facts = told.facts
    if record == ticket_id:
        return -1 if "other" in words else 1
    near = 4 * any(facts.get((record, field)) in words for field in ("role", "name", "kind"))
    near += 3 * any(facts.get((ticket_id, field)) == record for field in ("verified", "approval", "duplicate_of"))
    reference = facts.get((ticket_id, "reference"))
    near += 2 * (reference is not None and facts.get((record, "reference")) == reference)
    entry = facts.get((ticket_id, "verified"))
    near += 2 * any(of == entry and value == record for (of, _), value in facts.items())
    return near + (facts.get((record, "status")) == "in force")
