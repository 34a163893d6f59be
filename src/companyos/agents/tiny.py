"""Tiny: a policy that is one table of weights over the notice board, and the agent that plays it.

What speaks for a candidate is the sum of the weights of its traits, each beside each notice that stands on the board; a
softmax over all candidates chooses. No text is read but what the board makes of it.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from companyos.agents.board import NOTICES, SORTS, TRAITS, WIDTH, Board, Indices, notice, trait
from companyos.calls import Call
from companyos.errors import BadChoice
from companyos.observe import Observation

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
SHARPNESS = 1.5  # how much more than in training the likeliest is preferred, when it counts
ALWAYS = notice("always")
_LOUD = 1.7  # what stands for it in a row: what holds of all boards is learnt sooner than what tells them apart
_NAMED = 3.0  # how much speaks at first for an ending that some text names in one breath


class Weights(NamedTuple):
    """Trait beside notice, for choosing; notice, for how well it will end. The last trait is nobody's, and stays 0.

    A notice counts by how much more it says than usual: what stands on every board says nothing.
    """

    choice: Floats
    value: Floats
    usual: Floats  # the share of boards that each notice stands on

    @staticmethod
    def none() -> "Weights":
        sizes = ((TRAITS + 1, NOTICES), (NOTICES,), (NOTICES,))
        return Weights(*(np.zeros(size, np.float32) for size in sizes))

    @staticmethod
    def at_first() -> "Weights":
        weights = Weights.none()
        weights.choice[trait("resolve_ticket", "named True"), ALWAYS] = _NAMED / _LOUD
        return weights

    def expected(self, boards: Floats) -> Floats:
        """How well it will end."""
        values: Floats = boards @ self.value - self.usual @ self.value
        return values


class Seen(NamedTuple):
    """What lies before somebody who chooses: notices, and candidates by their sorts."""

    notices: Indices
    sorts: Indices
    prior: Floats


def look(board: Board) -> Seen:
    return Seen(board.notices(), *board.candidates())


class Choices:
    """Many choices at once: the boards as rows of 0 and 1, and the candidates of all of them in one line."""

    def __init__(self, boards: Floats, sorts: Indices, prior: Floats, sizes: Places) -> None:
        self.boards = boards
        self.prior = prior
        self.sizes = sizes
        self.begins: Places = np.cumsum(sizes) - sizes  # where each one's candidates begin
        self.whose: Places = np.repeat(np.arange(len(sizes)), sizes)  # the board that a candidate belongs to
        self.notices = np.flatnonzero(boards.any(0))  # that stand on any
        self.all_sorts = sorts
        self.sorts, self.places = np.unique(sorts, return_inverse=True)
        self.traits, columns = np.unique(SORTS.rows[self.sorts], return_inverse=True)  # that any of the sorts has
        self.columns = columns.reshape(len(self.sorts), WIDTH)

    @staticmethod
    def of(seen: Sequence[Seen]) -> "Choices":
        return Choices(
            boards_of([one.notices for one in seen]),
            np.concatenate([one.sorts for one in seen]),
            np.concatenate([one.prior for one in seen]),
            np.array([len(one.sorts) for one in seen]),
        )

    @staticmethod
    def joined(parts: Sequence["Choices"]) -> "Choices":
        return Choices(
            np.concatenate([part.boards for part in parts]),
            np.concatenate([part.all_sorts for part in parts]),
            np.concatenate([part.prior for part in parts]),
            np.concatenate([part.sizes for part in parts]),
        )


def boards_of(notices: Sequence[Indices]) -> Floats:
    boards = np.zeros((len(notices), NOTICES), np.float32)
    boards[np.repeat(np.arange(len(notices)), [len(one) for one in notices]), np.concatenate(notices)] = 1.0
    boards[:, ALWAYS] = _LOUD
    return boards


def chances(weights: Weights, choices: Choices, sharpness: float = 1.0) -> Floats:
    """How likely each candidate is."""
    of_traits = weights.choice[np.ix_(choices.traits, choices.notices)]
    of_sorts = of_traits[choices.columns[:, 0]]
    for column in range(1, WIDTH):
        of_sorts += of_traits[choices.columns[:, column]]
    table = (choices.boards[:, choices.notices] - weights.usual[choices.notices]) @ of_sorts.T
    scores = sharpness * (table[choices.whose, choices.places] + choices.prior)
    odds = np.exp(scores - np.maximum.reduceat(scores, choices.begins)[choices.whose])
    result: Floats = odds / np.add.reduceat(odds, choices.begins)[choices.whose]
    return result


def pick(chances: Floats, begins: Places, draws: NDArray[np.float64]) -> Places:
    """One candidate for each board, by the chances and a draw between 0 and 1: its place among its own."""
    heaped = np.cumsum(chances, dtype=np.float64)
    ends = np.append(begins[1:], len(chances)) - 1
    before = heaped[begins] - chances[begins]
    found = np.searchsorted(heaped, before + draws * (heaped[ends] - before), side="right")
    places: Places = np.clip(found, begins, ends) - begins
    return places


# -- the agent ---------------------------------------------------------------------------------------------------------


class Tiny:
    """Plays a policy."""

    def __init__(self, weights: Weights, seed: int) -> None:
        self._weights = weights
        self._draws = np.random.default_rng(seed)
        self._board: Board | None = None
        self._call: Call | None = None

    def act(self, obs: Observation) -> Call:
        if self._board is None or self._call is None:
            self._board = Board(obs)
        else:
            self._board.hear(self._call, obs)
        choices = Choices.of([look(self._board)])
        (place,) = pick(chances(self._weights, choices, SHARPNESS), choices.begins, self._draws.random(1))
        self._call = self._board.call(int(place))
        return self._call


def save(path: Path, weights: Weights) -> None:
    """Writes a policy, whole or not at all; only what is not 0 takes room."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, **weights._asdict())
    part.replace(path)


@cache
def load(path: str) -> Weights:
    """A policy that was written; `BadChoice` says what is wrong with the file."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            weights = Weights(*(kept[name] for name in Weights._fields))
    except (OSError, ValueError, KeyError) as error:
        raise BadChoice("policy", path, [f"a file that `companyos train tiny` wrote ({error})"]) from None
    if [part.shape for part in weights] != [part.shape for part in Weights.none()]:
        raise BadChoice("policy", path, ["a file that this version of `companyos train tiny` wrote"])
    return weights
