"""Slope of the small learner: how much better than expected steps turned out, and which way is up from there."""

from typing import NamedTuple

import numpy as np

from companyos.agents.tiny import UNITS, Choices, Floats, Places, TinyWeights, chances

_LEAST_SPREAD = 0.5  # of gains, by which they are measured: where nobody wins yet, one success must not mean everything


class Turn(NamedTuple):
    """One step in each of many episodes, and what came of it."""

    choices: Choices
    taken: Places  # where the candidates that were taken stand among all …
    before: Floats  # … and how likely they were
    advantages: Floats
    returns: Floats


class Slope(NamedTuple):
    """Which way is up: tables as large as those of the weights; and what there was to see lately."""

    input_weights: Floats
    output_weights: Floats
    value_weights: Floats
    feature_means: Floats  # the share of boards that the features stood on


def gains_of(paid: Floats, over: Floats, expected: Floats, after: Floats, discount: float, trace: float) -> Floats:
    """By how much each step turned out better than expected (GAE); steps by row, episodes by column."""
    gains = np.zeros_like(paid)
    gain = np.zeros_like(after)
    for step in reversed(range(len(paid))):
        goes_on = discount * (1.0 - over[step])
        gain = paid[step] + goes_on * after - expected[step] + trace * goes_on * gain
        gains[step], after = gain, expected[step]
    return gains


def evened(gains: Floats) -> Floats:
    """Gains about nothing, and of about one size."""
    result: Floats = (gains - gains.mean()) / max(float(gains.std()), _LEAST_SPREAD)
    return result


def slope(weights: TinyWeights, turn: Turn, entropy: float, clip: float, up: Slope) -> float:
    """Which way is up: likelier what turned out better than expected, but not much likelier than it was, and undecided.

    Gives how undecided the policy is, in nats.
    """
    choices, taken, size = turn.choices, turn.taken, len(turn.taken)
    units = weights.units(choices.boards)
    likely = chances(weights, choices, units)
    surprise = np.log(likely + 1e-20)
    undecided = -np.add.reduceat(likely * surprise, choices.begins)
    moved = likely[taken] / turn.before
    pull = turn.advantages * moved * np.where(turn.advantages > 0, moved < 1 + clip, moved > 1 - clip)
    pulls = -likely * (pull[choices.whose] + entropy * (surprise + undecided[choices.whose]))
    pulls[taken] += pull
    # From candidates to their types; from these to their traits, and to the units.
    cells = choices.whose * len(choices.types) + choices.places
    by_type = np.bincount(cells, pulls / size, size * len(choices.types)).astype(np.float32).reshape(size, -1)
    up.output_weights[: weights.size[0]] = 0.0
    up.output_weights[choices.learnt] = np.add.reduceat((by_type.T @ units)[choices.having], choices.of_trait)
    missed = (turn.returns - units @ weights.value_weights) / size
    up.value_weights[:] = missed @ units
    on_units = (by_type @ choices.scores_by_type(weights) + np.outer(missed, weights.value_weights))[:, :UNITS] * (
        units[:, :UNITS] > 0
    )
    columns = choices.boards.shape[1]
    up.input_weights[:columns] = choices.boards.T @ on_units - np.outer(weights.feature_means[:columns], on_units.sum(0))
    return float(undecided.mean())
