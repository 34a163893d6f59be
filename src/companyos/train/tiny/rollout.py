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

_OFTEN = 0.005  # share of boards on which a trait or feature must be, to be learnt
_AT_ONCE = 64  # tasks that are played at the same time
# Staging a company takes longer than a few steps in it, so each start is used several times.
_ATTEMPTS = 4
_POOL = 256  # starts to choose from


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
    trace: float = 0.95
    clip: float = 0.2  # PPO's clip range
    entropy: float = 0.01
    last_entropy: float = 0.003
    rate: float = 1e-3  # learning rate at the start …
    last_rate: float = 1e-4  # … and at the end
    good: float = 0.65  # success rate above which episodes start earlier
    pace: float = 0.02  # how much earlier, as a share of the way
    annealed: float = 0.6  # share of the time after which all episodes start at the beginning


class RollResult(NamedTuple):
    """The result of `roll`: finished episodes, and the traits and features that are frequent enough to learn from."""

    ended: list[EndedEpisode]
    traits: Indices
    features: Indices


class RolloutWorker:
    """Plays its share of the episodes and computes gradients."""

    def __init__(self, recipe: TinyRecipe, number: int, weights: TinyWeights, up: Gradients) -> None:
        self._recipe = recipe
        self._weights = weights
        self._up = up
        self._draws = np.random.default_rng([recipe.seed, number])
        self._types = CandidateTypes()
        self._number = number
        self._begun = 0  # tasks
        self._pool: list[TinyEpisode] = []
        self._due = 0  # episodes until a new task is staged
        self._at_work: list[TinyEpisode] = []
        self._turns: list[LearningStep] = []  # the steps of the last `roll`

    def roll(self, left: float) -> RollResult:
        """Take some steps in every episode. New episodes start with up to this share of the expert's way left."""
        recipe, weights = self._recipe, self._weights
        while len(self._at_work) < recipe.episodes // recipe.workers:
            self._at_work.append(self._next(left))
        ended: list[EndedEpisode] = []
        all_seen: list[ChoiceInputs] = []
        turns: list[LearningStep] = []
        paid = np.zeros((recipe.steps, len(self._at_work)), np.float32)
        over, expected = np.zeros_like(paid), np.zeros_like(paid)
        for turn in range(recipe.steps):
            seen = [look(episode.board) for episode in self._at_work]
            all_seen += seen
            choices = Choices(seen, weights, self._types)
            units = weights.units(choices.boards)
            likely = chances(weights, choices, units)
            numbers = pick(likely, choices.begins, self._draws.random(len(seen)))
            taken = choices.begins + numbers
            turns.append(LearningStep(choices, taken, likely[taken], paid[turn], paid[turn]))
            expected[turn] = units @ weights.value_weights
            for row, (episode, number) in enumerate(zip(self._at_work, numbers.tolist(), strict=True)):
                paid[turn, row], over[turn, row] = episode.step(number)
                if over[turn, row]:
                    ended.append(episode.ended())
                    self._at_work[row] = self._next(left)
        after = (
            weights.units(boards_of([episode.board.features() for episode in self._at_work], weights))
            @ weights.value_weights
        )
        gains = advantages_of(paid, over, expected, after, recipe.discount, recipe.trace)
        came = zip(turns, normalised(gains), gains + expected, strict=True)
        self._turns = [turn._replace(advantages=advantages, returns=returns) for turn, advantages, returns in came]
        self._up.feature_means[: weights.size[1]] = np.mean([turn.choices.boards.mean(0) for turn in turns], 0)
        return RollResult(ended, *_often(all_seen, self._types))

    def _next(self, left: float) -> TinyEpisode:
        """Return a copy of a random start from the pool, which gets new tasks from time to time."""
        recipe, whole = self._recipe, left == math.inf
        if whole and self._pool and self._pool[0].limit:
            self._pool = [episode for episode in self._pool if not episode.limit]
        if self._due <= 0 or not self._pool:
            name = recipe.families[self._begun % len(recipe.families)]
            # Two workers or two runs never share a task.
            seed = (recipe.seed * 10**6 + self._begun) * recipe.workers + self._number
            task = task_named(name, seed, recipe.chaos)
            fresh = [begin(task, self._types)] if whole else starts(task, self._shares(left), self._types)
            self._pool = (self._pool + fresh)[-_POOL:]
            self._begun += 1
            self._due = _ATTEMPTS * len(fresh)
        self._due -= 1
        return self._pool[int(self._draws.integers(len(self._pool)))].fork()

    def _shares(self, left: float) -> list[float]:
        """Draw, for each start of a task, the share of the expert's way that is left. Large shares are likelier."""
        shares: list[float] = (left * np.sqrt(self._draws.random(self._recipe.starts))).tolist()
        return shares

    def write_gradients(self, turn: int, entropy: float) -> float:
        """Compute the gradients for one step of the last `roll`. Return the policy's entropy."""
        return write_gradients(self._weights, self._turns[turn], entropy, self._recipe.clip, self._up)

    def play(self, tasks: Sequence[str], ending: tuple[str, str] | None = None) -> list[EndedEpisode]:
        """Play tasks from the beginning, as an agent would. If an ending is given, only that ending is allowed."""
        weights, draws = self._weights, np.random.default_rng(self._recipe.seed)
        waiting, ended = list(tasks), []
        playing: list[TinyEpisode] = []
        while waiting or playing:
            while waiting and len(playing) < _AT_ONCE:
                playing.append(begin(TaskId.parse(waiting.pop(0)), self._types))
                if ending is not None:
                    playing[-1].board.keep_to(*ending)
            choices = Choices([look(episode.board) for episode in playing], weights, self._types)
            likely = chances(weights, choices, weights.units(choices.boards), SHARPNESS)
            taken = pick(likely, choices.begins, draws.random(len(playing)))
            for episode, number in zip(playing, taken.tolist(), strict=True):
                episode.step(number)
            ended += [episode.ended() for episode in playing if episode.over]
            playing = [episode for episode in playing if not episode.over]
        return ended

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def keep(self) -> str:
        """Return the state for a checkpoint."""
        episodes = [[episode.keep() for episode in some] for some in (self._at_work, self._pool)]
        return json.dumps([self._draws.bit_generator.state, self._begun, self._due, self._types.known(), *episodes])

    def take_up(self, kept: str) -> None:
        self._draws.bit_generator.state, self._begun, self._due, types, *episodes = json.loads(kept)
        self._types.take_up(types)
        self._at_work, self._pool = ([TinyEpisode.take_up(one, self._types) for one in some] for some in episodes)


def _often(seen: Sequence[ChoiceInputs], table: CandidateTypes) -> tuple[Indices, Indices]:
    """Return the traits and the features that are on many boards."""
    features = np.bincount(np.concatenate([one.features for one in seen]))
    types = np.bincount(np.concatenate([one.types for one in seen]), minlength=len(table))
    (met,) = np.nonzero(types)
    traits = np.bincount(table.rows[met].ravel(), weights=np.repeat(types[met], WIDTH))[:TRAITS]
    least = _OFTEN * len(seen)
    return np.flatnonzero(traits >= least).astype(np.int32), np.flatnonzero(features >= least).astype(np.int32)


def held_out(recipe: TinyRecipe, split: str, size: int, first: int = 0) -> list[str]:
    """Return held-out tasks. Families take turns."""
    turns = [(recipe.families[number % len(recipe.families)], number // len(recipe.families)) for number in range(size)]
    return [str(task_named(name, first + seed, recipe.chaos, split)) for name, seed in turns]
