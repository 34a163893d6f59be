"""A tiny policy in numpy, and the agent that plays it.

The policy is a network with one hidden layer. Its input are the binary features of the board (`choices/board.py`). The score
of a candidate call is the dot product of the hidden units with the sum of the weights of the candidate's traits. A softmax
over all candidates chooses. The policy reads no text except through the features.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from companyos.agents.choices.board import CLOSING, Board
from companyos.agents.choices.candidate_types import TRAITS, WIDTH, CandidateTypes, Indices, trait
from companyos.agents.choices.features import FEATURES, feature
from companyos.core.calls import Call
from companyos.core.errors import BadChoice
from companyos.core.files import write_atomic
from companyos.env.observations import Observation

Floats = NDArray[np.float32]
Places = NDArray[np.int64]  # indices into another array
ROWS, COLUMNS = 1 << 14, 1 << 12  # how many traits and features can have weights
UNITS = 64  # hidden units; one more is always 1
SHARPNESS = 1.5  # inverse temperature outside training
ALWAYS = feature("always")
_FIRST_DEVIATION = 0.2  # standard deviation of the first input weights
_FIRST_SCORE_IF_NAMED = 3.0  # first score of an ending that a policy text names


class TinyWeights(NamedTuple):
    """The weights of the policy and of its value estimate. Only traits and features that were met get a place.

    The mean of each feature is subtracted from it, so a feature that is always 1 has no effect.
    """

    input_weights: Floats  # by feature and unit
    output_weights: Floats  # by trait and unit
    value_weights: Floats  # by unit
    feature_means: Floats  # the share of boards on which each feature is 1
    rows: Indices  # row of each trait; row 0 is for traits without a row, and stays 0
    columns: Indices  # column of each feature; column 0 is for features without one

    @staticmethod
    def none() -> "TinyWeights":
        """Return weights that are all 0."""
        sizes = ((COLUMNS, UNITS), (ROWS, UNITS + 1), UNITS + 1, COLUMNS, TRAITS + 1, FEATURES)
        types = (np.float32, np.float32, np.float32, np.float32, np.int32, np.int32)
        return TinyWeights(*(np.zeros(size, kind) for size, kind in zip(sizes, types, strict=True)))

    @property
    def size(self) -> tuple[int, int]:
        """The count of rows and of columns in use."""
        return int(self.rows.max()) + 1, int(self.columns.max()) + 1

    def meet(self, traits: Indices, features: Indices) -> None:
        """Give a row or a column to new traits and features. Those that come after the tables are full are ignored."""
        for numbers, places, max_places in ((traits, self.rows, ROWS), (features, self.columns, COLUMNS)):
            first_free = int(places.max()) + 1
            new = numbers[places[numbers] == 0][: max_places - first_free]
            places[new] = np.arange(first_free, first_free + len(new))

    def units(self, boards: Floats) -> Floats:
        """Return the hidden units of each board."""
        size = boards.shape[1]
        units = np.ones((len(boards), UNITS + 1), np.float32)
        np.maximum(
            boards @ self.input_weights[:size] - self.feature_means[:size] @ self.input_weights[:size],
            0.0,
            out=units[:, :UNITS],
        )
        return units


def first_weights(weights: TinyWeights, seed: int) -> None:
    """Set the weights from which learning starts: random, but with a preference for endings that a policy text names."""
    named = np.array([trait(CLOSING, "named True")], np.int32)
    weights.meet(named, np.array([ALWAYS], np.int32))
    draws = np.random.default_rng(seed).standard_normal((COLUMNS - 1, UNITS), np.float32)
    weights.input_weights[1:] = _FIRST_DEVIATION * draws
    weights.output_weights[weights.rows[named[0]], UNITS] = _FIRST_SCORE_IF_NAMED


class ChoiceInputs(NamedTuple):
    """The inputs of one choice: features of the board, and type and prior of each candidate."""

    features: Indices
    types: Indices
    prior: Floats


def look(board: Board) -> ChoiceInputs:
    """Return the inputs of the next choice on a board."""
    return ChoiceInputs(board.features(), *board.candidates())


class Choices:
    """A batch of choices: the boards as rows of numbers, and the candidates of all boards in one array."""

    def __init__(self, inputs: Sequence[ChoiceInputs], weights: TinyWeights, table: CandidateTypes) -> None:
        sizes = np.array([len(choice.types) for choice in inputs])
        self.prior: Floats = np.concatenate([choice.prior for choice in inputs])
        self.begins: Places = np.cumsum(sizes) - sizes  # index of each board's first candidate
        self.whose: Places = np.repeat(np.arange(len(inputs)), sizes)  # the board that a candidate belongs to
        self.boards = boards_of([choice.features for choice in inputs], weights)
        types = np.concatenate([choice.types for choice in inputs])
        self.types, self.places = _distinct(types, len(table))  # distinct types, and the place of each candidate's type
        # `traits` are the rows of all traits that occur; `columns` has, for each type, the places of its traits among them.
        self.traits, columns = _distinct(weights.rows[table.rows[self.types]].ravel(), ROWS)
        self.columns = columns.reshape(len(self.types), WIDTH)
        # For the gradient: the types that have each trait, one trait after the other. Row 0 has no weights and is left out.
        left_out = int(self.traits[0] == 0)
        by_trait = np.argsort(columns, kind="stable")[np.count_nonzero(columns < left_out) :]
        self.learnt = self.traits[left_out:]  # rows of traits that have weights
        self.having = by_trait // WIDTH  # the types with the first of these traits, then those with the second, …
        # The index in `having` at which each of these traits starts.
        self.of_trait = np.searchsorted(columns[by_trait], np.arange(left_out, len(self.traits)))

    def scores_by_type(self, weights: TinyWeights) -> Floats:
        """Return the weight of each unit for each type: the sum over the type's traits."""
        weights_by_trait = weights.output_weights[self.traits]
        weights_by_type = weights_by_trait[self.columns[:, 0]]
        for column in range(1, WIDTH):
            weights_by_type += weights_by_trait[self.columns[:, column]]
        return weights_by_type


def _distinct(numbers: Indices, limit: int) -> tuple[Places, Places]:
    """Return the distinct numbers (all below `limit`) in order, and for each number its index among them."""
    present = np.zeros(limit, bool)
    present[numbers] = True
    index = np.cumsum(present) - 1
    return np.flatnonzero(present), index[numbers]


def boards_of(features: Sequence[Indices], weights: TinyWeights) -> Floats:
    """Return a row of 0 and 1 for each board, from the numbers of its features."""
    boards = np.zeros((len(features), weights.size[1]), np.float32)
    rows = np.repeat(np.arange(len(features)), [len(numbers) for numbers in features])
    boards[rows, weights.columns[np.concatenate(features)]] = 1.0
    boards[:, 0] = 0.0  # the column of features that have none
    return boards


def chances(weights: TinyWeights, choices: Choices, units: Floats, sharpness: float = 1.0) -> Floats:
    """Return the probability of each candidate: a softmax over the candidates of its board."""
    scores_by_board_and_type = units @ choices.scores_by_type(weights).T
    scores = sharpness * (scores_by_board_and_type[choices.whose, choices.places] + choices.prior)
    odds = np.exp(scores - np.maximum.reduceat(scores, choices.begins)[choices.whose])  # minus the maximum: no overflow
    result: Floats = odds / np.add.reduceat(odds, choices.begins)[choices.whose]
    return result


def pick(chances: Floats, begins: Places, draws: NDArray[np.float64]) -> Places:
    """Choose a candidate for each board by a uniform draw. Return its index among the board's candidates."""
    cumulated = np.cumsum(chances, dtype=np.float64)  # over the candidates of all boards
    lasts = np.append(begins[1:], len(chances)) - 1  # index of each board's last candidate
    before = cumulated[begins] - chances[begins]  # the sum of all boards before this one
    chosen = np.searchsorted(cumulated, before + draws * (cumulated[lasts] - before), side="right")
    indices: Places = np.clip(chosen, begins, lasts) - begins
    return indices


# -- the agent ---------------------------------------------------------------------------------------------------------


class Tiny:
    """The agent that plays a tiny policy."""

    def __init__(self, weights: TinyWeights, seed: int) -> None:
        self._weights = weights
        self._draws = np.random.default_rng(seed)
        self._types = CandidateTypes()
        self._board: Board | None = None
        self._call: Call | None = None

    def act(self, obs: Observation) -> Call:
        if self._board is None or self._call is None:
            self._board = Board(obs, self._types)
        else:
            self._board.hear(self._call, obs)
        choices = Choices([look(self._board)], self._weights, self._types)
        probabilities = chances(self._weights, choices, self._weights.units(choices.boards), SHARPNESS)
        (number,) = pick(probabilities, choices.begins, self._draws.random(1))
        self._call = self._board.call(int(number))
        return self._call


def save(path: Path, weights: TinyWeights) -> None:
    """Write a policy to a file that is either complete or absent."""
    file = BytesIO()
    np.savez_compressed(file, allow_pickle=False, **packed(weights))
    write_atomic(path, file.getvalue())


def packed(weights: TinyWeights) -> dict[str, Any]:
    """Return the used part of the weights, by the names that the file format has."""
    rows, columns = weights.size
    tables = {
        "heard": weights.input_weights[:columns],
        "speaks": weights.output_weights[:rows],
        "value": weights.value_weights,
    }
    numbers = {"traits": _by_place(weights.rows, rows), "notices": _by_place(weights.columns, columns)}
    return {**tables, "usual": weights.feature_means[:columns], **numbers}


def unpack(arrays: Mapping[str, Any], weights: TinyWeights) -> None:
    """Overwrite weights with packed ones."""
    rows, columns = len(arrays["speaks"]), len(arrays["heard"])
    weights.rows[:] = weights.columns[:] = 0
    weights.rows[arrays["traits"]] = np.arange(1, rows)
    weights.columns[arrays["notices"]] = np.arange(1, columns)
    weights.input_weights[:columns], weights.output_weights[:rows] = arrays["heard"], arrays["speaks"]
    weights.value_weights[:], weights.feature_means[:columns] = arrays["value"], arrays["usual"]


def _by_place(places: Indices, size: int) -> Indices:
    """Return the number at each place from 1 on: the inverse of `places`, in which 0 means no place."""
    numbers = np.zeros(size, np.int32)
    with_place = np.flatnonzero(places)
    numbers[places[with_place]] = with_place
    return numbers[1:]


@cache
def load(path: str) -> TinyWeights:
    """Read a policy. Raise `BadChoice` if the file is not one."""
    weights = TinyWeights.none()
    try:
        with np.load(path, allow_pickle=False) as arrays:
            unpack(arrays, weights)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise BadChoice("policy", path, [f"a file that `companyos train tiny` wrote ({error})"]) from None
    return weights
