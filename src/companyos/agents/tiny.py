"""Tiny: a policy of one table of weights over what the notice board says, and the agent that plays it.

What speaks for a candidate is the sum of the weights of its traits, each beside each notice of the board. A softmax over
all candidates chooses. That is all there is to it: no text is read that is not on the board.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from companyos.agents.board import NOTICES, SORTS, TRAITS, WIDTH, Board, Indices

Floats = NDArray[np.float32]


class Weights(NamedTuple):
    """Trait beside notice, for choosing; notice, for how well it will end. The last trait is nobody's, and stays 0."""

    choice: Floats
    value: Floats

    @staticmethod
    def none() -> "Weights":
        return Weights(np.zeros((TRAITS + 1, NOTICES), np.float32), np.zeros(NOTICES, np.float32))


class Seen(NamedTuple):
    """What stood before the learner: which notices, and the candidates by their sorts."""

    notices: Indices
    sorts: Indices
    prior: Floats


def look(board: Board) -> Seen:
    return Seen(board.notices(), *board.candidates())


class Policy:
    """Weights, ready for use: those of a sort of candidates are added up when it first turns up."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._of_sorts = np.zeros((0, NOTICES), np.float32)
        self._added_up = np.zeros(0, bool)

    def renew(self) -> None:
        """After the weights have changed."""
        self._added_up[:] = False

    def scores(self, boards: Floats, sorts: Indices, rows: Indices) -> Floats:
        """What speaks for each candidate: of this sort, on the board in this row."""
        used = np.flatnonzero(boards.any(0))
        kinds, places = np.unique(sorts, return_inverse=True)
        self._add_up(kinds)
        table = boards[:, used] @ self._of_sorts[np.ix_(kinds, used)].T
        scores: Floats = table[rows, places]
        return scores

    def _add_up(self, sorts: Indices) -> None:
        if len(self._added_up) < len(SORTS):
            room = 2 * len(SORTS) - len(self._added_up)
            self._of_sorts = np.concatenate([self._of_sorts, np.zeros((room, NOTICES), np.float32)])
            self._added_up = np.concatenate([self._added_up, np.zeros(room, bool)])
        fresh = sorts[~self._added_up[sorts]]
        if len(fresh):
            traits = SORTS.rows[fresh]
            total = self.weights.choice[traits[:, 0]]
            for column in range(1, WIDTH):
                total += self.weights.choice[traits[:, column]]
            self._of_sorts[fresh] = total
            self._added_up[fresh] = True


class Choices(NamedTuple):
    """Many choices at once: the boards, and the candidates of all of them in one row."""

    boards: Floats
    sorts: Indices
    prior: Floats
    begins: NDArray[np.int64]  # where each one's candidates begin
    rows: NDArray[np.int64]  # whose each candidate is

    @staticmethod
    def of(seen: list[Seen]) -> "Choices":
        sizes = np.array([len(one.sorts) for one in seen])
        return Choices(
            dense([one.notices for one in seen]),
            np.concatenate([one.sorts for one in seen]),
            np.concatenate([one.prior for one in seen]),
            np.concatenate([[0], np.cumsum(sizes)[:-1]]),
            np.repeat(np.arange(len(seen)), sizes),
        )


def dense(notices: list[Indices]) -> Floats:
    """Boards as rows of 0 and 1."""
    boards = np.zeros((len(notices), NOTICES), np.float32)
    rows = np.repeat(np.arange(len(notices)), [len(one) for one in notices])
    boards[rows, np.concatenate(notices)] = 1.0
    return boards


def softmax(scores: Floats, begins: NDArray[np.int64]) -> Floats:
    """By stretches."""
    sizes = np.diff(begins, append=len(scores))
    odds = np.exp(scores - np.repeat(np.maximum.reduceat(scores, begins), sizes))
    result: Floats = odds / np.repeat(np.add.reduceat(odds, begins), sizes)
    return result


def pick(chances: Floats, begins: NDArray[np.int64], draws: NDArray[np.float64]) -> NDArray[np.int64]:
    """One of each stretch, by its chances and a draw between 0 and 1: its place in the stretch."""
    heaped = np.cumsum(chances, dtype=np.float64)
    before = heaped[begins] - chances[begins]
    ends = np.append(begins[1:], len(chances)) - 1
    wanted = before + draws * (heaped[ends] - before)
    return np.minimum(np.searchsorted(heaped, wanted, side="right"), ends) - begins
