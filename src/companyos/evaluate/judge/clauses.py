"""Quotes the policies of a company: the sentence that says when a ticket is closed for a reason."""

import re
from collections.abc import Sequence
from typing import get_args

import msgspec

from companyos.company import Policy
from companyos.company.apps.ticketdesk import Resolution
from companyos.core.world import World
from companyos.families import installed

_SENTENCES = re.compile(r"(?<=\.)\s+")
_IN_FORCE = "in force"
_ORDER = "order of checks"  # the policy of this title says which ending is right; others only mention endings


class Clause(msgspec.Struct, frozen=True):
    """A sentence of a policy, and where it is."""

    text: str
    title: str
    policy_id: str


def clause_for(world: World, families: Sequence[str], resolution: str, reason: str) -> Clause | None:
    """Return the sentence that requires this ending, from the policies of the first family that has one.

    A ticket in a queue is the work of two families: of its own, and of the family whose task the queue is.
    """
    for family in families:
        about_reason = [clause for clause in _clauses(world, family) if _mentions(clause, reason)]
        if any(_mentions(clause, resolution) for clause in about_reason):
            fitting = [clause for clause in about_reason if _fits(clause, resolution)]
            own = family == families[0]  # the order of checks of the queue is not about the tickets in it
            return max(fitting, key=lambda clause: ((_ORDER in clause.title) == own, _mentions(clause, resolution)))
    return None


def _fits(clause: Clause, resolution: str) -> bool:
    """Return whether a sentence mentions this resolution, or none at all."""
    return _mentions(clause, resolution) or not any(_mentions(clause, other) for other in get_args(Resolution))


def _clauses(world: World, family: str) -> list[Clause]:
    """Return all sentences of a family's policies. The titles of these policies begin with the family's title."""
    if family not in installed():
        return []
    title = installed()[family].description.partition(":")[0]
    return [
        Clause(sentence, policy.title, policy.id)
        for policy in world.all(Policy)
        if policy.status == _IN_FORCE and policy.title.startswith(f"{title}:")
        for sentence in _SENTENCES.split(policy.text)
    ]


def _mentions(clause: Clause, word: str) -> bool:
    return word in re.findall(r"\w+", clause.text)
