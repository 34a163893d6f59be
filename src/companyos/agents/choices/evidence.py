"""Evidence: the facts that a text one has read asks to be cited, as far as one has read them, too.

It is the same for all work: a text says `reason: the entry's owner`, a record of that kind was shown with a field of that
name. Nothing here knows what any reason means.
"""

import re
from functools import lru_cache
from typing import Any, get_args

from companyos.company import KINDS, Policy
from companyos.company.apps.ticketdesk import Reason
from companyos.env.knowledge import Told

Citation = dict[str, Any]
MOST = 5  # citations: a decisive fact, and the four more that are always fine
REASONS: tuple[str, ...] = get_args(Reason)
_KINDS = {kind.__name__.lower(): kind for kind in KINDS if not kind.hidden}


def evidence(told: Told, ticket_id: str, reason: str) -> list[Citation]:
    """What the texts read ask to be cited for closing this ticket on this ground; nothing where none says."""
    words = _that_apply(told, ticket_id, [word for text in texts(told) for word in _clause(text, reason)])
    named = [_KINDS[word] for word in words if word in _KINDS] or list(_KINDS.values())
    cited: list[Citation] = []
    for kind in dict.fromkeys(named):
        for field in dict.fromkeys(words):
            shown = [record for record in told.known(kind) if (record, field) in told.facts]
            if shown:
                record = max(reversed(shown), key=lambda one: _nearness(told, ticket_id, one, words))
                cited.append({"record": record, "field": field, "value": told.facts[record, field]})
    return cited[:MOST]


def texts(told: Told) -> list[str]:
    """The policies one has read."""
    return [text for policy in told.known(Policy) if (text := told.facts.get((policy, "text")))]


@lru_cache(maxsize=1024)
def _clause(text: str, reason: str) -> tuple[str, ...]:
    """The words behind a reason and its colon, up to where the next one begins."""
    found = re.search(rf"\b{reason}\b(?:, \w+)*: ([^.]*?)(?:\.|; \w+(?:, \w+)*:|$)", text)
    return tuple(re.findall(r"\w+", found[1])) if found else ()


@lru_cache(maxsize=1024)
def asked_for(text: str) -> frozenset[str]:
    """The reasons for which a text says what to cite."""
    return frozenset(reason for reason in REASONS if _clause(text, reason))


def _that_apply(told: Told, ticket_id: str, words: list[str]) -> list[str]:
    """The words without the one that did not apply, where a text says `minimum or minimum_personal, whichever applied`.

    The longer one applies where its ending is something that the ticket's entry says of itself.
    """
    triples = zip(words, words[1:], words[2:], strict=False)
    choices = [(one, other) for one, joint, other in triples if joint == "or" and other.startswith(f"{one}_")]
    if not choices:
        return words
    entry = told.facts.get((ticket_id, "verified"))
    said = {value for (record, _), value in told.facts.items() if record == entry}
    dropped = {one if other.removeprefix(f"{one}_") in said else other for one, other in choices}
    return [word for word in words if word not in dropped]


def _nearness(told: Told, ticket_id: str, record: str, words: list[str]) -> int:
    """How much speaks for a record, of several that have the field: what the text says of it, and how it hangs together
    with the ticket."""
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
