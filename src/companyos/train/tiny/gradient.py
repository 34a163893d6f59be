"""Advantages and policy gradients of the small learner."""

from typing import NamedTuple

import numpy as np

from companyos.agents.tiny import UNITS, Choices, Floats, Places, TinyWeights, chances

_MIN_DEVIATION = 0.5  # smallest divisor of advantages: a single early success must not dominate a batch


class LearningStep(NamedTuple):
    """One step in each of many episodes, with advantages and returns."""

    choices: Choices
    taken: Places  # indices of the chosen candidates …
    before: Floats  # … and their probabilities when they were chosen
    advantages: Floats
    returns: Floats


class Gradients(NamedTuple):
    """Gradients, in arrays of the same shapes as the weights; and how frequent each feature was lately."""

    input_weights: Floats
    output_weights: Floats
    value_weights: Floats
    feature_means: Floats  # share of boards with each feature


def advantages_of(
    rewards: Floats, over: Floats, values: Floats, last_values: Floats, discount: float, trace: float
) -> Floats:
    """Return the advantage of each step by GAE (generalised advantage estimation): steps by row, episodes by column.

    `values` are the estimated values before each step, `last_values` those after the last step. `over` is 1 where a step
    ended an episode.
    """
    advantages = np.zeros_like(rewards)
    advantage, next_values = np.zeros_like(last_values), last_values
    for step in reversed(range(len(rewards))):
        discount_here = discount * (1.0 - over[step])
        advantage = rewards[step] + discount_here * next_values - values[step] + trace * discount_here * advantage
        advantages[step], next_values = advantage, values[step]
    return advantages


def normalised(advantages: Floats) -> Floats:
    """Normalise advantages to mean 0 and about unit size."""
    result: Floats = (advantages - advantages.mean()) / max(float(advantages.std()), _MIN_DEVIATION)
    return result


def write_gradients(weights: TinyWeights, step: LearningStep, entropy: float, clip: float, out: Gradients) -> float:
    """Write the gradients of PPO's clipped objective with an entropy bonus into `out`. They point uphill.

    `entropy` is the weight of the bonus, `clip` the clip range. Return the mean entropy of the policy in nats.
    """
    choices, taken, size = step.choices, step.taken, len(step.taken)
    units = weights.units(choices.boards)
    probabilities = chances(weights, choices, units)
    logprobs = np.log(probabilities + 1e-20)
    entropies = -np.add.reduceat(probabilities * logprobs, choices.begins)
    ratio = probabilities[taken] / step.before
    not_clipped = np.where(step.advantages > 0, ratio < 1 + clip, ratio > 1 - clip)
    gain = step.advantages * ratio * not_clipped
    score_gradients = -probabilities * (gain[choices.whose] + entropy * (logprobs + entropies[choices.whose]))
    score_gradients[taken] += gain
    # Backpropagate from candidates to their types, and from these to their traits and to the units.
    cells = choices.whose * len(choices.types) + choices.places
    by_type = np.bincount(cells, score_gradients / size, size * len(choices.types)).astype(np.float32).reshape(size, -1)
    out.output_weights[: weights.size[0]] = 0.0
    out.output_weights[choices.learnt] = np.add.reduceat((by_type.T @ units)[choices.having], choices.of_trait)
    value_errors = (step.returns - units @ weights.value_weights) / size
    out.value_weights[:] = value_errors @ units
    on_all_units = by_type @ choices.scores_by_type(weights) + np.outer(value_errors, weights.value_weights)
    on_units = on_all_units[:, :UNITS] * (units[:, :UNITS] > 0)
    columns = choices.boards.shape[1]
    out.input_weights[:columns] = choices.boards.T @ on_units - np.outer(weights.feature_means[:columns], on_units.sum(0))
    return float(entropies.mean())
