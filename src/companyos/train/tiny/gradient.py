"""Advantages and policy gradients of the small learner."""

from typing import NamedTuple

import numpy as np

from companyos.agents.tiny import UNITS, Choices, Floats, Places, TinyWeights, chances

_LEAST_SPREAD = 0.5  # smallest divisor of advantages: a single early success must not dominate a batch


class LearningStep(NamedTuple):
    """One step in each of many episodes, with advantages and returns."""

    choices: Choices
    taken: Places  # indices of the chosen candidates …
    before: Floats  # … and their probabilities at that time
    advantages: Floats
    returns: Floats


class Gradients(NamedTuple):
    """Gradients, in arrays of the same shapes as the weights; and how frequent each feature was lately."""

    input_weights: Floats
    output_weights: Floats
    value_weights: Floats
    feature_means: Floats  # share of boards with each feature


def advantages_of(paid: Floats, over: Floats, expected: Floats, after: Floats, discount: float, trace: float) -> Floats:
    """Return the advantage of each step by GAE (generalised advantage estimation): steps by row, episodes by column."""
    gains = np.zeros_like(paid)
    gain = np.zeros_like(after)
    for step in reversed(range(len(paid))):
        goes_on = discount * (1.0 - over[step])
        gain = paid[step] + goes_on * after - expected[step] + trace * goes_on * gain
        gains[step], after = gain, expected[step]
    return gains


def normalised(gains: Floats) -> Floats:
    """Normalise advantages to mean 0 and about unit size."""
    result: Floats = (gains - gains.mean()) / max(float(gains.std()), _LEAST_SPREAD)
    return result


def write_gradients(weights: TinyWeights, turn: LearningStep, entropy: float, clip: float, up: Gradients) -> float:
    """Write the gradients of PPO's clipped objective with an entropy bonus into `up`.

    Return the mean entropy of the policy in nats.
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
    # Backpropagate from candidates to their types, and from these to their traits and to the units.
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
