"""Adversaries that know the house rulebook of a family, which beginners learn first, and go by it in every task.

They measure what is won without reading the rules. They work as the expert does otherwise, and so are an upper bound for
agents that know the rules of some tasks by heart. They give up in families whose policies
are fixed texts; there, `memoriser` and `numbers_only` measure the same.
"""

from collections.abc import Callable

from msgspec.structs import replace

from companyos.agents.agent import Agent
from companyos.agents.routine import Routine
from companyos.company.programs import stop_when_stuck
from companyos.core.calls import Program
from companyos.core.world import Streams
from companyos.env.observations import Observation
from companyos.families import EpisodeSoFar, ExpertStyle, family_of
from companyos.families.kit.rulebooks import Rules
from companyos.rules import AnyPiece, Instead, Limit, Rulebook
from companyos.rules.book import key_of


class _GoesBy(ExpertStyle):
    """An expert that goes by another rulebook than the one that it has read."""

    def __init__(self, changed: Callable[[Rulebook], Rulebook]) -> None:
        self._changed = changed

    def goes_by(self, book: Rulebook) -> Rulebook:
        return self._changed(book)


def house_book(rules: Rules) -> Rulebook:
    """Return the house rulebook with the numbers of some company."""
    variants = {slot.name: slot.house for slot in rules.slots()}
    return rules.design.book(variants | {"rulebook": "house"}, Streams("another company"))


def with_figures_of(house: Rulebook, read: Rulebook) -> Rulebook:
    """Return the house rulebook with the limits and special figures of the rulebook that was read."""

    def figures(pieces: tuple[AnyPiece, ...], known: Rulebook) -> tuple[AnyPiece, ...]:
        numbers = {key_of(piece): piece.number for piece in known.pieces if isinstance(piece, Limit | Instead)}
        return tuple(
            replace(piece, number=numbers.get(key_of(piece), piece.number)) if isinstance(piece, Limit | Instead) else piece
            for piece in pieces
        )

    editions = tuple(
        figures(older, Rulebook(known)) for older, known in zip(house.editions, read.editions, strict=False)
    )
    return Rulebook(figures(house.pieces, read), editions)


def house_rules(seed: int) -> Agent:
    """Goes by the house rulebook with the numbers of another company, whatever the papers say."""
    return Routine(lambda obs: _going_by(obs, lambda rules, read: house_book(rules)))


def house_numbers(seed: int) -> Agent:
    """Goes by the house rulebook, with the figures that the papers of this company have."""
    return Routine(lambda obs: _going_by(obs, lambda rules, read: with_figures_of(house_book(rules), read)))


def _going_by(obs: Observation, belief: Callable[[Rules, Rulebook], Rulebook]) -> Program:
    """Work as the expert does, but go by another rulebook. In a family with fixed rules, give up at once."""
    family = family_of(obs.task)
    rules = family.rules
    if rules is None:
        return _nothing()
    style = _GoesBy(lambda read: belief(rules, read))
    return stop_when_stuck(family.expert(EpisodeSoFar(obs.task, obs.now), style))


def _nothing() -> Program:
    """Make no call."""
    yield from ()
