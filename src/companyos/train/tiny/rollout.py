"""Rollouts of the small learner: a hand plays its share of the episodes, and says which way is up."""

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
from companyos.train.tiny.slope import Slope, Turn, evened, gains_of, slope
from companyos.train.tiny.starts import Ended, Episode, begin, starts

_OFTEN = 0.005  # share of boards
_AT_ONCE = 64  # tasks that are played
# To furnish a company takes longer than a few steps in it, so each start is tried several times, among many others.
_ATTEMPTS = 4
_POOL = 256  # episodes that can be begun


class Recipe(msgspec.Struct, frozen=True):
    """What a run of the small learner is."""

    families: tuple[str, ...]
    chaos: float = 0.25
    seed: int = 0
    curriculum: bool = True
    workers: int = 2
    episodes: int = 256  # at work at once
    steps: int = 8  # of each, between updates
    epochs: int = 2  # updates from the same steps
    starts: int = 16  # of one task
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2  # by which share likelier or less likely a batch may make what was done in it
    entropy: float = 0.01
    last_entropy: float = 0.003
    rate: float = 1e-3  # by which each weight moves, where the slope is the same every time …
    last_rate: float = 1e-4  # … and at the end
    good: float = 0.65  # share of successes from which on episodes begin earlier
    pace: float = 0.02  # by which share of the way
    annealed: float = 0.6  # share of the time after which all begin at the beginning


class Met(NamedTuple):
    """What came of a roll: episodes that are over, and the traits and features that are met often enough to learn from."""

    ended: list[Ended]
    traits: Indices
    features: Indices


class Hand:
    """Plays its share of the episodes, and says which way is up."""

    def __init__(self, recipe: Recipe, number: int, weights: TinyWeights, up: Slope) -> None:
        self._recipe = recipe
        self._weights = weights
        self._up = up
        self._draws = np.random.default_rng([recipe.seed, number])
        self._types = CandidateTypes()
        self._number = number
        self._begun = 0  # tasks
        self._pool: list[Episode] = []
        self._due = 0  # episodes until a task is made anew
        self._at_work: list[Episode] = []
        self._turns: list[Turn] = []  # of the last roll

    def roll(self, left: float) -> Met:
        """Takes some steps in every episode; those that begin meanwhile have up to this share of the way left to go."""
        recipe, weights = self._recipe, self._weights
        while len(self._at_work) < recipe.episodes // recipe.workers:
            self._at_work.append(self._next(left))
        ended: list[Ended] = []
        all_seen: list[ChoiceInputs] = []
        turns: list[Turn] = []
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
            turns.append(Turn(choices, taken, likely[taken], paid[turn], paid[turn]))
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
        gains = gains_of(paid, over, expected, after, recipe.discount, recipe.trace)
        came = zip(turns, evened(gains), gains + expected, strict=True)
        self._turns = [turn._replace(advantages=advantages, returns=returns) for turn, advantages, returns in came]
        self._up.feature_means[: weights.size[1]] = np.mean([turn.choices.boards.mean(0) for turn in turns], 0)
        return Met(ended, *_often(all_seen, self._types))

    def _next(self, left: float) -> Episode:
        """An episode to begin: out of many, of many tasks, some of which are made anew all the time."""
        recipe, whole = self._recipe, left == math.inf
        if whole and self._pool and self._pool[0].limit:
            self._pool = [episode for episode in self._pool if not episode.limit]
        if self._due <= 0 or not self._pool:
            name = recipe.families[self._begun % len(recipe.families)]
            # No two hands and no two runs have a task in common.
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

    def slope(self, turn: int, entropy: float) -> float:
        """Finds which way is up, by one turn of the last roll. Gives how undecided the policy is."""
        return slope(self._weights, self._turns[turn], entropy, self._recipe.clip, self._up)

    def play(self, tasks: Sequence[str], ending: tuple[str, str] | None = None) -> list[Ended]:
        """Plays tasks from their beginning, as an agent would; only this ending is open to it, if one is given."""
        weights, draws = self._weights, np.random.default_rng(self._recipe.seed)
        waiting, ended = list(tasks), []
        playing: list[Episode] = []
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

    # -- to go on from -------------------------------------------------------------------------------------------------

    def keep(self) -> str:
        """All that its next steps hang on."""
        episodes = [[episode.keep() for episode in some] for some in (self._at_work, self._pool)]
        return json.dumps([self._draws.bit_generator.state, self._begun, self._due, self._types.known(), *episodes])

    def take_up(self, kept: str) -> None:
        self._draws.bit_generator.state, self._begun, self._due, types, *episodes = json.loads(kept)
        self._types.take_up(types)
        self._at_work, self._pool = ([Episode.take_up(one, self._types) for one in some] for some in episodes)


def _often(seen: Sequence[ChoiceInputs], table: CandidateTypes) -> tuple[Indices, Indices]:
    """The traits and the features that many boards have in common."""
    features = np.bincount(np.concatenate([one.features for one in seen]))
    types = np.bincount(np.concatenate([one.types for one in seen]), minlength=len(table))
    (met,) = np.nonzero(types)
    traits = np.bincount(table.rows[met].ravel(), weights=np.repeat(types[met], WIDTH))[:TRAITS]
    least = _OFTEN * len(seen)
    return np.flatnonzero(traits >= least).astype(np.int32), np.flatnonzero(features >= least).astype(np.int32)


def held_out(recipe: Recipe, split: str, size: int, first: int = 0) -> list[str]:
    """So many tasks that nobody learns from, of all families in turn."""
    turns = [(recipe.families[number % len(recipe.families)], number // len(recipe.families)) for number in range(size)]
    return [str(task_named(name, first + seed, recipe.chaos, split)) for name, seed in turns]
