"""Rollouts of the small learner: a worker plays its share of the episodes and computes gradients."""

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from companyos.agents.choices.candidate_types import TRAITS, WIDTH, CandidateTypes, Indices
from companyos.agents.tiny import SHARPNESS, ChoiceInputs, Choices, TinyWeights, boards_of, chances, look, pick
from companyos.core.task import TaskId
from companyos.env import task_named
from companyos.train.tiny.gradient import Gradients, LearningStep, advantages_of, normalised, write_gradients
from companyos.train.tiny.starts import EndedEpisode, TinyEpisode, begin, starts

_MIN_SHARE = 0.005  # share of boards on which a trait or feature must be, to be learnt
_TASKS_AT_ONCE = 64  # that `play` plays at the same time
# Staging a company takes longer than a few steps in it, so each start is used several times.
_ATTEMPTS_PER_START = 4
_POOL_SIZE = 256  # starts to choose from


class TinyRecipe(msgspec.Struct, frozen=True):
    """Settings of the small learner."""

    families: tuple[str, ...]
    chaos: float = 0.25
    seed: int = 0
    curriculum: bool = True
    workers: int = 2
    episodes: int = 256  # that are played at the same time
    steps: int = 8  # in each episode, between updates
    epochs: int = 2  # how often the same steps are used
    starts: int = 16  # per task
    discount: float = 0.99
    trace: float = 0.95  # GAE's lambda
    clip: float = 0.2  # PPO's clip range
    entropy: float = 0.01
    last_entropy: float = 0.003
    rate: float = 1e-3  # learning rate at the start …
    last_rate: float = 1e-4  # … and at the end
    good: float = 0.65  # success rate above which episodes start earlier
    pace: float = 0.02  # how much earlier, as a share of the expert's steps
    annealed: float = 0.6  # share of the time after which all episodes start at the beginning


class RollResult(NamedTuple):
    """The result of `roll`: finished episodes, and the traits and features that are frequent enough to learn from."""

    ended: list[EndedEpisode]
    traits: Indices
    features: Indices


class RolloutWorker:
    """Plays its share of the episodes and computes gradients."""

    def __init__(self, recipe: TinyRecipe, number: int, weights: TinyWeights, gradients: Gradients) -> None:
        self._recipe = recipe
        self._weights = weights
        self._gradients = gradients
        self._random = np.random.default_rng([recipe.seed, number])
        self._types = CandidateTypes()
        self._number = number
        self._tasks_begun = 0
        self._pool: list[TinyEpisode] = []  # starts to choose from
        self._due = 0  # episodes until a new task is staged
        self._running: list[TinyEpisode] = []
        self._steps: list[LearningStep] = []  # of the last `roll`

    def roll(self, share_left: float) -> RollResult:
        """Take some steps in every episode. New episodes start with up to this share of the expert's calls left to do."""
        recipe, weights = self._recipe, self._weights
        while len(self._running) < recipe.episodes // recipe.workers:
            self._running.append(self._next(share_left))
        ended: list[EndedEpisode] = []
        all_inputs: list[ChoiceInputs] = []
        steps: list[LearningStep] = []
        rewards = np.zeros((recipe.steps, len(self._running)), np.float32)
        over, values = np.zeros_like(rewards), np.zeros_like(rewards)
        for step in range(recipe.steps):
            inputs = [look(episode.board) for episode in self._running]
            all_inputs += inputs
            choices = Choices(inputs, weights, self._types)
            units = weights.units(choices.boards)
            probabilities = chances(weights, choices, units)
            candidates = pick(probabilities, choices.begins, self._random.random(len(inputs)))
            taken = choices.begins + candidates
            # Advantages and returns are filled in below.
            steps.append(LearningStep(choices, taken, probabilities[taken], rewards[step], rewards[step]))
            values[step] = units @ weights.value_weights
            for row, (episode, candidate) in enumerate(zip(self._running, candidates.tolist(), strict=True)):
                rewards[step, row], over[step, row] = episode.step(candidate)
                if over[step, row]:
                    ended.append(episode.result())
                    self._running[row] = self._next(share_left)
        last_boards = boards_of([episode.board.features() for episode in self._running], weights)
        last_values = weights.units(last_boards) @ weights.value_weights
        advantages = advantages_of(rewards, over, values, last_values, recipe.discount, recipe.trace)
        by_step = zip(steps, normalised(advantages), advantages + values, strict=True)
        self._steps = [step._replace(advantages=gains, returns=returns) for step, gains, returns in by_step]
        self._gradients.feature_means[: weights.size[1]] = np.mean([step.choices.boards.mean(0) for step in steps], 0)
        return RollResult(ended, *_frequent(all_inputs, self._types))

    def _next(self, share_left: float) -> TinyEpisode:
        """Return a copy of a random start from the pool, which gets new tasks from time to time."""
        recipe, from_beginning = self._recipe, share_left == math.inf
        if from_beginning and self._pool and self._pool[0].limit:
            self._pool = [episode for episode in self._pool if not episode.limit]
        if self._due <= 0 or not self._pool:
            name = recipe.families[self._tasks_begun % len(recipe.families)]
            # Two workers or two runs never share a task.
            seed = (recipe.seed * 10**6 + self._tasks_begun) * recipe.workers + self._number
            task = task_named(name, seed, recipe.chaos)
            new = [begin(task, self._types)] if from_beginning else starts(task, self._shares(share_left), self._types)
            self._pool = (self._pool + new)[-_POOL_SIZE:]
            self._tasks_begun += 1
            self._due = _ATTEMPTS_PER_START * len(new)
        self._due -= 1
        return self._pool[int(self._random.integers(len(self._pool)))].fork()

    def _shares(self, highest: float) -> list[float]:
        """Draw, for each start of a task, the share of the expert's calls that is left to do. Large shares are likelier."""
        shares: list[float] = (highest * np.sqrt(self._random.random(self._recipe.starts))).tolist()
        return shares

    def write_gradients(self, step: int, entropy: float) -> float:
        """Compute the gradients for one step of the last `roll`. Return the policy's entropy."""
        return write_gradients(self._weights, self._steps[step], entropy, self._recipe.clip, self._gradients)

    def play(self, tasks: Sequence[str], ending: tuple[str, str] | None = None) -> list[EndedEpisode]:
        """Play tasks from the beginning, as an agent would. If an ending is given, only that ending is allowed."""
        weights, rng = self._weights, np.random.default_rng(self._recipe.seed)
        waiting, ended = list(tasks), []
        playing: list[TinyEpisode] = []
        while waiting or playing:
            while waiting and len(playing) < _TASKS_AT_ONCE:
                playing.append(begin(TaskId.parse(waiting.pop(0)), self._types))
                if ending is not None:
                    playing[-1].board.keep_to(*ending)
            choices = Choices([look(episode.board) for episode in playing], weights, self._types)
            probabilities = chances(weights, choices, weights.units(choices.boards), SHARPNESS)
            candidates = pick(probabilities, choices.begins, rng.random(len(playing)))
            for episode, candidate in zip(playing, candidates.tolist(), strict=True):
                episode.step(candidate)
            ended += [episode.result() for episode in playing if episode.over]
            playing = [episode for episode in playing if not episode.over]
        return ended

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def state(self) -> str:
        """Return the state for a checkpoint."""
        running, pool = ([episode.state() for episode in episodes] for episodes in (self._running, self._pool))
        generator = self._random.bit_generator.state
        return json.dumps([generator, self._tasks_begun, self._due, self._types.known(), running, pool])

    def resume(self, state: str) -> None:
        """Continue from the state of a checkpoint."""
        generator, self._tasks_begun, self._due, types, running, pool = json.loads(state)
        self._random.bit_generator.state = generator
        self._types.take_up(types)
        self._running, self._pool = (
            [TinyEpisode.resumed(episode, self._types) for episode in episodes] for episodes in (running, pool)
        )


def _frequent(inputs: Sequence[ChoiceInputs], table: CandidateTypes) -> tuple[Indices, Indices]:
    """Return the traits and the features that are on many boards."""
    features = np.bincount(np.concatenate([choice.features for choice in inputs]))
    types = np.bincount(np.concatenate([choice.types for choice in inputs]), minlength=len(table))
    (occurring,) = np.nonzero(types)
    traits = np.bincount(table.rows[occurring].ravel(), weights=np.repeat(types[occurring], WIDTH))[:TRAITS]
    min_count = _MIN_SHARE * len(inputs)
    return np.flatnonzero(traits >= min_count).astype(np.int32), np.flatnonzero(features >= min_count).astype(np.int32)


def held_out(recipe: TinyRecipe, split: str, size: int, first_seed: int = 0) -> list[str]:
    """Return held-out tasks, with seeds from `first_seed` on. Families take turns."""
    count = len(recipe.families)
    families_and_seeds = [(recipe.families[n % count], first_seed + n // count) for n in range(size)]
    return [str(task_named(name, seed, recipe.chaos, split)) for name, seed in families_and_seeds]
