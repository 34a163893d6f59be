"""Tiny: a policy that is three tables of numbers over the notice board, and the agent that plays it.

The notices on the board add up to a row of units, one hidden layer; the traits of a candidate add up to what each of these
units has to say for it; a softmax over all candidates chooses. No text is read but what the board makes of it.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from companyos.agents.choices.board import CLOSING, NOTICES, Board, notice
from companyos.agents.choices.sorts import TRAITS, WIDTH, Indices, Sorts, trait
from companyos.core.calls import Call
from companyos.core.errors import BadChoice
from companyos.env.observations import Observation

Floats = NDArray[np.float32]
Places = NDArray[np.int64]
ROWS, COLUMNS = 1 << 14, 1 << 12  # traits and notices that can be learnt about
UNITS = 64  # hidden; one more is always 1
SHARPNESS = 1.5  # how much more than in training the likeliest is preferred, when it counts
ALWAYS = notice("always")
_SPREAD = 0.2  # of what notices mean at first, which is anything
_NAMED = 3.0  # how much speaks at first for an ending that some text names in one breath


class Weights(NamedTuple):
    """What notices mean, and what that says for candidates and for how well it will end. Only what was met has a row.

    A notice counts by how much more it says than usual: what stands on every board says nothing.
    """

    heard: Floats  # by notice and unit
    speaks: Floats  # by trait and unit
    value: Floats  # by unit
    usual: Floats  # the share of boards that each notice stands on
    rows: Indices  # by trait; row 0 is for those that were never met, and stays 0
    columns: Indices  # by notice; so does column 0

    @staticmethod
    def none() -> "Weights":
        sizes = ((COLUMNS, UNITS), (ROWS, UNITS + 1), UNITS + 1, COLUMNS, TRAITS + 1, NOTICES)
        types = (np.float32, np.float32, np.float32, np.float32, np.int32, np.int32)
        return Weights(*(np.zeros(size, kind) for size, kind in zip(sizes, types, strict=True)))

    @property
    def size(self) -> tuple[int, int]:
        """How many rows and columns are in use."""
        return int(self.rows.max()) + 1, int(self.columns.max()) + 1

    def meet(self, traits: Indices, notices: Indices) -> None:
        """Gives a row or a column to those that have none; where there is no room left, they go unheard."""
        for numbers, places, room in ((traits, self.rows, ROWS), (notices, self.columns, COLUMNS)):
            fresh = numbers[places[numbers] == 0]
            first = int(places.max()) + 1
            fresh = fresh[: room - first]
            places[fresh] = np.arange(first, first + len(fresh))

    def units(self, boards: Floats) -> Floats:
        """What boards make of the hidden units."""
        size = boards.shape[1]
        units = np.ones((len(boards), UNITS + 1), np.float32)
        np.maximum(boards @ self.heard[:size] - self.usual[:size] @ self.heard[:size], 0.0, out=units[:, :UNITS])
        return units


def first_weights(weights: Weights, seed: int) -> None:
    """What a learner knows beforehand: an ending is likelier that some text names in one breath. All else means anything."""
    named = np.array([trait(CLOSING, "named True")], np.int32)
    weights.meet(named, np.array([ALWAYS], np.int32))
    weights.heard[1:] = _SPREAD * np.random.default_rng(seed).standard_normal((COLUMNS - 1, UNITS), np.float32)
    weights.speaks[weights.rows[named[0]], UNITS] = _NAMED


class Seen(NamedTuple):
    """What lies before somebody who chooses: notices, and candidates by their sorts."""

    notices: Indices
    sorts: Indices
    prior: Floats


def look(board: Board) -> Seen:
    return Seen(board.notices(), *board.candidates())


class Choices:
    """Many choices at once: the boards as rows of numbers, and the candidates of all of them in one line."""

    def __init__(self, seen: Sequence[Seen], weights: Weights, table: Sorts) -> None:
        sizes = np.array([len(one.sorts) for one in seen])
        self.prior: Floats = np.concatenate([one.prior for one in seen])
        self.begins: Places = np.cumsum(sizes) - sizes  # where each one's candidates begin
        self.whose: Places = np.repeat(np.arange(len(seen)), sizes)  # the board that a candidate belongs to
        self.boards = boards_of([one.notices for one in seen], weights)
        sorts = np.concatenate([one.sorts for one in seen])
        self.sorts, self.places = _distinct(sorts, len(table))
        self.traits, columns = _distinct(weights.rows[table.rows[self.sorts]].ravel(), ROWS)  # rows of those that any has
        self.columns = columns.reshape(len(self.sorts), WIDTH)
        nobody = int(self.traits[0] == 0)
        by_trait = np.argsort(columns, kind="stable")[np.count_nonzero(columns < nobody) :]
        self.learnt = self.traits[nobody:]  # rows of those that can be learnt about
        self.having = by_trait // WIDTH  # the sorts that have the first of them, then those that have the second …
        self.of_trait = np.searchsorted(columns[by_trait], np.arange(nobody, len(self.traits)))  # … and where each begins

    def spoken_for(self, weights: Weights) -> Floats:
        """What each unit says for each sort."""
        of_traits = weights.speaks[self.traits]
        of_sorts = of_traits[self.columns[:, 0]]
        for column in range(1, WIDTH):
            of_sorts += of_traits[self.columns[:, column]]
        return of_sorts


def _distinct(numbers: Indices, most: int) -> tuple[Places, Places]:
    """The different ones among small numbers, and where in that list each of them is."""
    there = np.zeros(most, bool)
    there[numbers] = True
    place = np.cumsum(there) - 1
    return np.flatnonzero(there), place[numbers]


def boards_of(notices: Sequence[Indices], weights: Weights) -> Floats:
    boards = np.zeros((len(notices), weights.size[1]), np.float32)
    boards[np.repeat(np.arange(len(notices)), [len(one) for one in notices]), weights.columns[np.concatenate(notices)]] = 1.0
    boards[:, 0] = 0.0
    return boards


def chances(weights: Weights, choices: Choices, units: Floats, sharpness: float = 1.0) -> Floats:
    """How likely each candidate is."""
    table = units @ choices.spoken_for(weights).T
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
        self._sorts = Sorts()
        self._board: Board | None = None
        self._call: Call | None = None

    def act(self, obs: Observation) -> Call:
        if self._board is None or self._call is None:
            self._board = Board(obs, self._sorts)
        else:
            self._board.hear(self._call, obs)
        choices = Choices([look(self._board)], self._weights, self._sorts)
        likely = chances(self._weights, choices, self._weights.units(choices.boards), SHARPNESS)
        (place,) = pick(likely, choices.begins, self._draws.random(1))
        self._call = self._board.call(int(place))
        return self._call


def save(path: Path, weights: Weights) -> None:
    """Writes a policy, whole or not at all."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, allow_pickle=False, **packed(weights))
    part.replace(path)


def packed(weights: Weights) -> dict[str, Any]:
    """Weights without the room that is not in use."""
    rows, columns = weights.size
    tables = {"heard": weights.heard[:columns], "speaks": weights.speaks[:rows], "value": weights.value}
    met = {"traits": _by_place(weights.rows, rows), "notices": _by_place(weights.columns, columns)}
    return {**tables, "usual": weights.usual[:columns], **met}


def unpack(kept: Mapping[str, Any], weights: Weights) -> None:
    """Puts weights that were packed in place of those there are."""
    rows, columns = len(kept["speaks"]), len(kept["heard"])
    weights.rows[:] = weights.columns[:] = 0
    weights.rows[kept["traits"]] = np.arange(1, rows)
    weights.columns[kept["notices"]] = np.arange(1, columns)
    weights.heard[:columns], weights.speaks[:rows] = kept["heard"], kept["speaks"]
    weights.value[:], weights.usual[:columns] = kept["value"], kept["usual"]


def _by_place(places: Indices, size: int) -> Indices:
    """The numbers that have the places from 1 on, in their order."""
    numbers = np.zeros(size, np.int32)
    met = np.flatnonzero(places)
    numbers[places[met]] = met
    return numbers[1:]


@cache
def load(path: str) -> Weights:
    """A policy that was written; `BadChoice` says what is wrong with the file."""
    weights = Weights.none()
    try:
        with np.load(path, allow_pickle=False) as kept:
            unpack(kept, weights)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise BadChoice("policy", path, [f"a file that `companyos train tiny` wrote ({error})"]) from None
    return weights
