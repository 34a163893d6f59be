"""Rollouts of the small learner: where episodes begin, how they go on, and what is to be learnt from their steps.

An episode may begin where the expert would be some steps before the end: a *start*. The learner is never shown what the
expert does next; it finds out for itself what leads from there to the end, and then what leads to there.
"""

import json
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from companyos.agents.baselines import Whim
from companyos.agents.board import SORTS, TRAITS, WIDTH, Board, Indices
from companyos.agents.tiny import SHARPNESS, Choices, Floats, Places, Seen, Weights, boards_of, chances, look, pick
from companyos.calls import Call
from companyos.env import CompanyEnv, task_named
from companyos.families import family
from companyos.task import TaskId
from companyos.world import Streams

REWARD = "seed"  # whose milestones are paid on the way
_SCALE = 0.1
_FAILURE = 5.0  # what the profile takes for an end without success: here that is worth nothing, as going on for ever is
_SPARE_STEPS = 10
_OFTEN = 0.01  # share of boards
_LEAST_SPREAD = 0.5  # of gains, by which they are measured: where nobody wins yet, one success must not mean everything
# To furnish a company takes longer than a few steps in it, so each start is tried several times, among many others.
_ATTEMPTS = 4
_POOL, _WHOLE_POOL = 256, 64  # episodes that can be begun


class Recipe(msgspec.Struct, frozen=True):
    """What a run of the small learner is."""

    families: tuple[str, ...]
    chaos: float = 0.25
    seed: int = 0
    curriculum: bool = True
    workers: int = 2
    episodes: int = 256  # at work at once
    steps: int = 4  # of each, between updates
    epochs: int = 2  # updates from the same steps
    starts: int = 8  # of one task
    curious: float = 0.02  # share of steps at which anything is tried, each tool as likely as the next …
    curious_first: float = 0.5  # … and of first steps where an expert was before: the others are known better
    again: float = 1.0  # steps out of memory, for each that was taken
    remembered: int = 2000  # episodes that were won
    discount: float = 0.99
    trace: float = 0.95
    clip: float = 0.2  # by how much likelier or less likely a batch may make what was done in it
    entropy: float = 0.02
    last_entropy: float = 0.003
    rate: float = 0.8  # length of a step, where the slope is the same every time
    value_rate: float = 0.05
    good: float = 0.5  # share of successes from which on episodes begin earlier
    pace: float = 0.01  # by which share of the way
    annealed: float = 0.6  # share of the time after which all begin at the beginning


class Ended(NamedTuple):
    """An episode that is over."""

    task_id: str
    success: bool
    steps: int


class Step(NamedTuple):
    """What lay before the learner, which candidate it took, and what that paid."""

    seen: Seen
    number: int
    paid: float


class Episode:
    """One episode at work."""

    def __init__(self, env: CompanyEnv, board: Board, limit: int = 0) -> None:
        self.env = env
        self.board = board
        self.limit = limit  # steps that the learner may take; 0: as many as the task allows
        self.steps: list[Step] = []  # those that it has taken

    def step(self, seen: Seen, number: int) -> tuple[float, bool]:
        """Makes a call; what it paid, and whether that was the last."""
        call = self.board.call(number)
        obs = self.env.step(call)
        self.board.hear(call, obs)
        paid = _SCALE * (obs.reward + (0.0 if not obs.done or self.env.success else _FAILURE))
        self.steps.append(Step(seen, number, paid))
        return paid, obs.done or len(self.steps) == self.limit

    def ended(self) -> Ended:
        return Ended(self.env.task_id, bool(self.env.success), len(self.steps))

    def fork(self) -> "Episode":
        look(self.board)  # so that not every copy has to find out what there is to see
        return Episode(self.env.fork(), self.board.fork(), self.limit)


def begin(task: TaskId) -> Episode:
    """An episode from its beginning."""
    env = CompanyEnv(task, REWARD)
    return Episode(env, Board(env.reset()))


def starts(task: TaskId, left: Sequence[float]) -> list[Episode]:
    """Episodes of one task from where these shares of the expert's way are still to go."""
    whole = begin(task)
    calls = _way_of_an_expert(whole.env)
    made: list[Episode] = []
    for steps_left in sorted((max(1, round(len(calls) * share)) for share in left), reverse=True):
        for call in calls[whole.env.step_count : len(calls) - steps_left]:
            whole.board.hear(call, whole.env.step(call))
        whole.limit = 2 * steps_left + _SPARE_STEPS
        made.append(whole.fork())
    return made


def _way_of_an_expert(env: CompanyEnv) -> list[Call]:
    """The calls of an expert who works in any of the right ways, and reads every policy that a search has listed."""
    trial, streams = env.fork(), Streams(f"opening/{env.task_id}")
    program = family(TaskId.parse(env.task_id).family).expert(trial.memory(), Whim(streams))
    call = next(program)
    while not trial.step(call).done:
        reply = trial.turns[-1].reply
        if call.method == "search_policies" and reply.ok:
            listed = [str(row["id"]) for row in reply.data["rows"]]
            for policy_id in streams.at("reads", trial.step_count).shuffled(listed):
                trial.step(Call("datahub", "read_policy", {"policy_id": policy_id}))
        if trial.done:
            break
        call = program.send(reply)
    return [turn.call for turn in trial.turns]


class Memory:
    """Episodes that were won. What went better than it is by now expected to is gone over again (self-imitation)."""

    def __init__(self, room: int) -> None:
        self.won: deque[Episode] = deque(maxlen=room)

    def draw(self, draws: np.random.Generator, weights: Weights, discount: float, size: int) -> list[tuple[Step, float]]:
        """Some of their steps, and what those came to in the end; the more surprising, the likelier."""
        if not self.won:
            return []
        found: list[tuple[Step, float]] = []
        for episode in (self.won[place] for place in draws.integers(len(self.won), size=2 * size)):
            worth = 0.0
            for step in reversed(episode.steps[draws.integers(len(episode.steps)) :]):
                worth = step.paid + discount * worth
            found.append((step, worth))
        gaps = surprises(found, weights) + 1e-6
        chosen = draws.choice(len(found), size, p=gaps / gaps.sum())
        return [found[place] for place in chosen]


def surprises(found: Sequence[tuple[Step, float]], weights: Weights) -> Floats:
    """By how much more than half of what steps came to is more than was expected.

    Where success is likely anyhow it proves nothing, and whatever was done on the way would be taken for its cause.
    """
    expected = weights.expected(boards_of([step.seen.notices for step, _ in found], weights))
    return np.maximum(np.array([worth / 2 for _, worth in found], np.float32) - expected, 0.0)


class Batch(NamedTuple):
    """Steps that were taken, and how much better than expected they turned out."""

    seen: list[Seen]
    numbers: Places  # of the candidates that were taken
    advantages: Floats
    returns: Floats


class Slope(NamedTuple):
    """Which way is up, where the learner looks for it: a table as large as the weights."""

    choice: Floats
    value: Floats
    usual: Floats  # the share of boards that the notices stood on


class Met(NamedTuple):
    """What came of a roll: episodes that are over, and the traits and notices that are met often enough to learn from."""

    ended: list[Ended]
    traits: Indices
    notices: Indices


class Hand:
    """Plays its share of the episodes, and says which way is up."""

    def __init__(self, recipe: Recipe, number: int, weights: Weights, slope: Slope) -> None:
        self._recipe = recipe
        self._weights = weights
        self._slope = slope
        self._draws = np.random.default_rng([recipe.seed, number])
        self._number = number
        self._begun = 0  # tasks
        self._memory = Memory(recipe.remembered // recipe.workers)
        self._pool: list[Episode] = []
        self._due = 0  # episodes until a task is made anew
        self._at_work: list[Episode] = []
        self._batch: Batch | None = None
        self._choices: Choices | None = None
        self._before: Floats | None = None  # how likely each candidate was when it was chosen

    def roll(self, left: float) -> Met:
        """Takes some steps in every episode; those that begin meanwhile have up to this share of the way left to go."""
        recipe, weights = self._recipe, self._weights
        while len(self._at_work) < recipe.episodes // recipe.workers:
            self._at_work.append(self._next(left))
        ended: list[Ended] = []
        all_seen: list[Seen] = []
        places, values = [], []
        paid = np.zeros((recipe.steps, len(self._at_work)), np.float32)
        over = np.zeros(paid.shape, np.float32)
        for turn in range(recipe.steps):
            seen = [look(episode.board) for episode in self._at_work]
            choices = Choices(seen, weights)
            first = np.array([not one.steps and one.limit > 0 for one in self._at_work])
            curious = self._draws.random(len(seen)) < np.where(first, recipe.curious_first, recipe.curious)
            tried = np.where(curious[choices.whose], np.exp(choices.prior), chances(weights, choices))
            places.append(pick(tried, choices.begins, self._draws.random(len(seen))))
            values.append(weights.expected(choices.boards))
            all_seen += seen
            for row, episode in enumerate(self._at_work):
                paid[turn, row], over[turn, row] = episode.step(seen[row], int(places[-1][row]))
                if over[turn, row]:
                    ended.append(episode.ended())
                    if episode.env.success:
                        self._memory.won.append(episode)
                    self._at_work[row] = self._next(left)
        after = weights.expected(boards_of([episode.board.notices() for episode in self._at_work], weights))
        expected = np.stack(values)
        gains = _gains(recipe, paid, over, expected, after)
        spread = max(float(gains.std()), _LEAST_SPREAD)
        advantages = (gains - gains.mean()) / spread
        self._batch = self._and_again(
            Batch(all_seen, np.concatenate(places), advantages.ravel(), (gains + expected).ravel()), spread
        )
        self._choices = None
        return Met(ended, *_often(self._batch.seen))

    def _and_again(self, batch: Batch, spread: float) -> Batch:
        """A batch, with steps out of memory as far as they went better than expected."""
        size = int(self._recipe.again * len(batch.seen))
        drawn = self._memory.draw(self._draws, self._weights, self._recipe.discount, size)
        if not drawn:
            return batch
        seen = [step.seen for step, _ in drawn]
        return Batch(
            batch.seen + seen,
            np.append(batch.numbers, [step.number for step, _ in drawn]),
            np.append(batch.advantages, surprises(drawn, self._weights) / spread),
            np.append(batch.returns, self._weights.expected(boards_of([one.notices for one in seen], self._weights))),
        )

    def _next(self, left: float) -> Episode:
        """An episode to begin: out of many, of many tasks, some of which are made anew all the time."""
        whole, recipe = left >= 1, self._recipe
        if self._due <= 0 or not self._pool:
            name = recipe.families[self._begun % len(recipe.families)]
            # No two hands and no two runs have a task in common.
            seed = (recipe.seed * 10**6 + self._begun) * recipe.workers + self._number
            task = task_named(name, seed, recipe.chaos)
            shares = left * np.sqrt(self._draws.random(recipe.starts))
            self._pool += [begin(task)] if whole else starts(task, shares)
            self._pool = self._pool[-(_WHOLE_POOL if whole else _POOL) :]
            self._begun += 1
            self._due = _ATTEMPTS if whole else _ATTEMPTS * len(shares)
        self._due -= 1
        return self._pool[int(self._draws.integers(len(self._pool)))].fork()

    def slope(self, entropy: float) -> float:
        """Finds which way is up, by the steps that were taken last: A2C's, held back where PPO would. Gives the entropy."""
        assert self._batch is not None
        if self._choices is None:
            self._choices = Choices(self._batch.seen, self._weights)
            self._before = None
        likely = chances(self._weights, self._choices)
        if self._before is None:
            self._before = likely
        odds = self._before, likely
        return slope(self._weights, self._batch, self._choices, odds, entropy, self._recipe.clip, self._slope)

    def play(self, tasks: Sequence[str], ending: tuple[str, str] | None = None) -> list[Ended]:
        """Plays tasks from their beginning, as an agent would; only this ending is open to it, if one is given."""
        draws = np.random.default_rng(self._recipe.seed)
        waiting, ended = list(tasks), []
        playing: list[Episode] = []
        while waiting or playing:
            while waiting and len(playing) < 64:
                playing.append(begin(TaskId.parse(waiting.pop(0))))
                if ending is not None:
                    playing[-1].board.keep_to(*ending)
            seen = [look(episode.board) for episode in playing]
            choices = Choices(seen, self._weights)
            places = pick(chances(self._weights, choices, SHARPNESS), choices.begins, draws.random(len(playing)))
            over = [one.step(lay, int(place))[1] for one, lay, place in zip(playing, seen, places, strict=True)]
            ended += [episode.ended() for episode, last in zip(playing, over, strict=True) if last]
            playing = [episode for episode, last in zip(playing, over, strict=True) if not last]
        return ended

    # -- to go on from -------------------------------------------------------------------------------------------------

    def keep(self) -> str:
        """All that its next steps hang on: an episode is its task and its calls."""
        episodes = [[_kept(episode) for episode in some] for some in (self._at_work, self._pool, self._memory.won)]
        return json.dumps([self._draws.bit_generator.state, self._begun, self._due, SORTS.known(), *episodes])

    def take_up(self, kept: str) -> None:
        self._draws.bit_generator.state, self._begun, self._due, sorts, *episodes = json.loads(kept)
        SORTS.take_up(sorts)
        self._at_work, self._pool, won = ([_taken_up(one) for one in some] for some in episodes)
        self._memory.won.extend(won)


def _kept(episode: Episode) -> list[Any]:
    calls = [msgspec.to_builtins(turn.call) for turn in episode.env.turns]
    return [
        episode.env.task_id,
        calls[: len(calls) - len(episode.steps)],
        [step.number for step in episode.steps],
        episode.limit,
    ]


def _taken_up(kept: list[Any]) -> Episode:
    task_id, opening, numbers, limit = kept
    episode = begin(TaskId.parse(task_id))
    for call in msgspec.convert(opening, list[Call]):
        episode.board.hear(call, episode.env.step(call))
    episode.limit = limit
    for number in numbers:
        episode.step(look(episode.board), number)
    return episode


def _often(seen: Sequence[Seen]) -> tuple[Indices, Indices]:
    """The traits and the notices that many boards have in common."""
    notices = np.bincount(np.concatenate([one.notices for one in seen]))
    sorts = np.bincount(np.concatenate([one.sorts for one in seen]), minlength=len(SORTS))
    (met,) = np.nonzero(sorts)
    traits = np.bincount(SORTS.rows[met].ravel(), weights=np.repeat(sorts[met], WIDTH))[:TRAITS]
    least = _OFTEN * len(seen)
    return np.flatnonzero(traits >= least).astype(np.int32), np.flatnonzero(notices >= least).astype(np.int32)


def _gains(recipe: Recipe, paid: Floats, over: Floats, values: Floats, after: Floats) -> Floats:
    """By how much each step turned out better than expected (GAE)."""
    gains = np.zeros_like(paid)
    gain = np.zeros_like(after)
    for step in reversed(range(len(paid))):
        goes_on = recipe.discount * (1.0 - over[step])
        gain = paid[step] + goes_on * after - values[step] + recipe.trace * goes_on * gain
        gains[step], after = gain, values[step]
    return gains


def slope(
    weights: Weights,
    batch: Batch,
    choices: Choices,
    odds: tuple[Floats, Floats],
    entropy: float,
    clip: float,
    found: Slope,
) -> float:
    """Which way is up: likelier what turned out better than expected, but not much likelier than it was, and undecided."""
    (before, likely), size = odds, len(batch.seen)
    chosen = choices.begins + batch.numbers
    surprise = np.log(likely + 1e-20)
    undecided = -np.add.reduceat(likely * surprise, choices.begins)
    moved = likely[chosen] - before[chosen]
    free = np.where(batch.advantages > 0, moved < clip, moved > -clip)
    pull = (batch.advantages * free).astype(np.float32)
    pulls = -likely * (pull[choices.whose] + entropy * (surprise + undecided[choices.whose]))
    pulls[chosen] += pull
    # From candidates to their sorts, and from sorts to their traits.
    sorts, (rows, columns) = len(choices.sorts), weights.size
    by_sort = np.bincount(choices.whose * sorts + choices.places, weights=pulls, minlength=size * sorts)
    boards = choices.boards - weights.usual[:columns]
    steep = by_sort.reshape(size, sorts).astype(np.float32).T @ boards / size
    found.choice[:rows, :columns] = 0.0
    found.choice[choices.learnt, :columns] = np.add.reduceat(steep[choices.having], choices.of_trait)
    found.value[:columns] = boards.T @ (batch.returns - weights.expected(choices.boards)) / size
    found.usual[:columns] = choices.boards.mean(0)
    return float(undecided.mean())


def held_out(recipe: Recipe, split: str, size: int) -> list[str]:
    """So many tasks that nobody learns from, of all families in turn."""
    turns = [(recipe.families[number % len(recipe.families)], number // len(recipe.families)) for number in range(size)]
    return [str(task_named(name, seed, recipe.chaos, split)) for name, seed in turns]
