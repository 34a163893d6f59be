"""The small learner: a softmax over candidates that learns by A2C, on two cores, in minutes, with numpy alone.

Episodes begin near the end at first, where an expert would be some steps before it, and earlier as the learner gets better;
after 60 % of the time all begin at the beginning. Each batch of steps is used twice, held back as PPO does it. What is
learnt lies in `policy.npz`, which `companyos eval --agent tiny:FILE` plays.
"""

import gc
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from companyos.agents.tiny import ALWAYS, TinyWeights, first_weights, packed, save, unpack
from companyos.core.parallel import set_up_worker
from companyos.core.task import TaskId
from companyos.families import setting
from companyos.train.runs.journal import Journal, Record
from companyos.train.tiny.rollout import Hand, Met, Recipe, held_out
from companyos.train.tiny.slope import Slope
from companyos.train.tiny.starts import Ended

POLICY = "policy.npz"
EXAM = "exam.json"
CHECK_EVERY = 50  # batches
CHECKED = 100  # held-out tasks, while learning
EXAMINED = 200  # … and at the end
_LOOKED_AT = 200  # held-out tasks of each family, the first ones, by which this learner's settings were chosen
_RECENT = 300  # episodes, whose successes say how far from the end to begin
_ALLOCATIONS = 50_000  # between looks for cycles, of which episodes make next to none
_FIRST, _FURTHEST = 0.1, 2.0  # share of the way that is left at first; at last, where a whole way or more is all of it
_USED_TO = 0.01  # how much a batch counts for what is usual
_LEVEL = 1e-5  # what is hardly a slope
_STEADY, _WARY = 0.9, 0.99  # how slowly slopes are forgotten, and their squares

Budget = tuple[float, float]  # seconds, updates: whichever is spent first


# -- those who play ----------------------------------------------------------------------------------------------------


class Crew:
    """The hands, each in a process of its own unless there is but one. All see the weights; each has a slope of its own."""

    def __init__(self, recipe: Recipe) -> None:
        context = get_context("spawn")
        shared = _shared(context, TinyWeights.none())
        slopes = [_shared(context, TinyWeights.none()[:4]) for _ in range(recipe.workers)]
        self.weights = TinyWeights(*_tables(shared))
        self.slopes = [Slope(*_tables(slope)) for slope in slopes]
        first_weights(self.weights, recipe.seed)
        self._hand = Hand(recipe, 0, self.weights, self.slopes[0]) if recipe.workers == 1 else None
        self._lines: list[Connection] = []
        with _one_thread():
            for number, slope in enumerate(slopes if self._hand is None else ()):
                ours, theirs = context.Pipe()
                context.Process(target=_serve, args=(theirs, recipe, number, shared, slope), daemon=True).start()
                self._lines.append(ours)

    def each(self, method: str, *arguments: Any) -> list[Any]:
        """Has every hand do the same."""
        return self.apart(method, [arguments] * max(1, len(self._lines)))

    def apart(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Has every hand do something of its own."""
        if self._hand is not None:
            return [getattr(self._hand, method)(*arguments[0])]
        for line, own in zip(self._lines, arguments, strict=True):
            line.send((method, own))
        return [line.recv() for line in self._lines]

    def play(self, tasks: Sequence[str], ending: tuple[str, str] | None = None) -> list[Ended]:
        """Plays tasks, shared out among all hands."""
        hands = max(1, len(self._lines))
        parts = self.apart("play", [(tasks[hand::hands], ending) for hand in range(hands)])
        return [ended for part in parts for ended in part]

    def close(self) -> None:
        for line in self._lines:
            line.send(None)


Shared = list[tuple[Any, str, tuple[int, ...]]]


def _shared(context: Any, tables: Sequence[Any]) -> Shared:
    """Room for tables like these that all processes see: memory, type and shape."""
    return [(context.RawArray("b", table.nbytes), table.dtype.str, table.shape) for table in tables]


def _tables(shared: Shared) -> list[Any]:
    return [np.frombuffer(memory, dtype).reshape(shape) for memory, dtype, shape in shared]


def _serve(line: Connection, recipe: Recipe, number: int, shared: Shared, slope: Shared) -> None:
    set_up_worker()
    gc.set_threshold(_ALLOCATIONS)
    hand = Hand(recipe, number, TinyWeights(*_tables(shared)), Slope(*_tables(slope)))
    while (asked := line.recv()) is not None:
        method, arguments = asked
        line.send(getattr(hand, method)(*arguments))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Whoever is started meanwhile does its sums on one core: the other has a hand of its own."""
    before = {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


# -- those who learn ---------------------------------------------------------------------------------------------------


class Learner:
    """A run in the making: everything that its next batch hangs on."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.crew = Crew(recipe)
        learnt = self.crew.weights[:3]
        self.momentum = [np.zeros_like(table) for table in learnt]  # of each slope, smoothed
        self.steepness = [np.zeros_like(table) for table in learnt]  # … and of its square (Adam)
        self.batches = self.updates = self.steps = 0
        self.left = _FIRST if recipe.curriculum else math.inf  # share of the expert's way that lies before an episode
        self.recent: deque[bool] = deque(maxlen=_RECENT)

    def batch(self, progress: float) -> Record:
        """Takes some steps in all episodes and learns from them; `progress` is the share of the run that is over."""
        recipe = self.recipe
        self.left = self._how_far(progress)
        rolls: list[Met] = self.crew.each("roll", self.left)
        ended = [one for roll in rolls for one in roll.ended]
        self.recent.extend(one.success for one in ended)
        late = max(0.0, progress - recipe.annealed) / (1 - recipe.annealed)
        self._get_used_to()
        for turn in [*range(recipe.steps)] * recipe.epochs if self.batches else ():  # the first only says what is usual
            undecided = self.crew.each("slope", turn, recipe.entropy + (recipe.last_entropy - recipe.entropy) * late)
            self._climb(recipe.rate + (recipe.last_rate - recipe.rate) * late)
        self.crew.weights.meet(_union([roll.traits for roll in rolls]), _union([roll.features for roll in rolls]))
        self.batches += 1
        self.steps += recipe.episodes * recipe.steps
        record: Record = {"update": self.updates, "steps": self.steps, "left": round(min(self.left, 1.0), 3)}
        if self.batches > 1:
            record["entropy"] = round(sum(undecided) / len(undecided), 3)
        if ended:
            record["reward"] = round(sum(one.success for one in ended) / len(ended), 4)
        return record

    def _how_far(self, progress: float) -> float:
        """How far before the end episodes begin: further when that goes well, and in any case in time."""
        recipe = self.recipe
        if progress >= recipe.annealed:
            return math.inf
        better = len(self.recent) == _RECENT and sum(self.recent) > recipe.good * _RECENT
        return max(self.left + recipe.pace * better, _FURTHEST * (progress / recipe.annealed) ** 2)

    def _climb(self, rate: float) -> None:
        """One step uphill, as long in every direction (Adam)."""
        self.updates += 1
        weights, slopes = self.crew.weights, self.crew.slopes
        rows, columns = weights.size
        lengths = (columns, rows, len(weights.value_weights))
        pace = rate * (1 - _WARY**self.updates) ** 0.5 / (1 - _STEADY**self.updates)
        for number, length in enumerate(lengths):
            up = sum(slope[number][:length] for slope in slopes) / np.float32(len(slopes))
            momentum, steepness = self.momentum[number][:length], self.steepness[number][:length]
            momentum += (1 - _STEADY) * (up - momentum)
            steepness += (1 - _WARY) * (up * up - steepness)
            weights[number][:length] += np.float32(pace) * momentum / (np.sqrt(steepness) + np.float32(_LEVEL))

    def _get_used_to(self) -> None:
        """Takes in how many boards each feature was on: of all batches at first, of the last hundred or so later."""
        share = max(_USED_TO, 1 / (self.batches + 1))
        weights, slopes = self.crew.weights, self.crew.slopes
        weights.feature_means[:] += share * (
            sum(slope.feature_means for slope in slopes) / len(slopes) - weights.feature_means
        )
        weights.feature_means[weights.columns[ALWAYS]] = 0.0

    def close(self) -> None:
        self.crew.close()

    # -- to go on from -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        numbers = {"counts": [self.batches, self.updates, self.steps], "left": self.left, "recent": list(self.recent)}
        adam = {f"momentum {number}": table for number, table in enumerate(self.momentum)}
        adam |= {f"steepness {number}": table for number, table in enumerate(self.steepness)}
        return {**packed(self.crew.weights), **numbers, **adam, "hands": self.crew.each("keep")}

    def resume(self, state: dict[str, Any]) -> None:
        unpack(state, self.crew.weights)
        for number, (momentum, steepness) in enumerate(zip(self.momentum, self.steepness, strict=True)):
            momentum[:], steepness[:] = state[f"momentum {number}"], state[f"steepness {number}"]
        self.batches, self.updates, self.steps = (int(number) for number in state["counts"])
        self.left = float(state["left"])
        self.recent.extend(bool(one) for one in state["recent"])
        self.crew.apart("take_up", [(str(kept),) for kept in state["hands"]])


def _union(parts: Sequence[Any]) -> Any:
    return np.unique(np.concatenate(parts))


class ArrayJournal(Journal):
    """A journal whose checkpoints are arrays and nothing else, so that it needs no torch."""

    checkpoint = "checkpoint.npz"

    def _write(self, kept: Record, path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, logged=kept["logged"], elapsed=kept["elapsed"], **kept["state"])

    def _read(self, path: Path) -> Record:
        with np.load(path, allow_pickle=False) as kept:
            state = {name: kept[name] for name in kept.files if name not in ("logged", "elapsed")}
            return {"state": state, "logged": int(kept["logged"]), "elapsed": float(kept["elapsed"])}


# -- a run -------------------------------------------------------------------------------------------------------------


def train(learner: Learner, journal: Journal, budget: Budget, show: Callable[[Record], None]) -> None:
    """Learns until the time, or the number of updates, is spent; what was spent before counts."""
    seconds, updates = budget
    state = journal.resume()
    if state is not None:
        learner.resume(state)
    checked = held_out(learner.recipe, "validation", CHECKED)
    while (progress := max(journal.elapsed / seconds, learner.updates / updates)) < 1:
        record = learner.batch(progress)
        if learner.batches % CHECK_EVERY == 0:
            record["checkup"] = {"success": _success(learner.crew.play(checked))}
        journal.log(record)
        show(record)
        if journal.due():
            journal.save(learner.state())
            save(journal.folder / POLICY, learner.crew.weights)
    journal.save(learner.state())
    save(journal.folder / POLICY, learner.crew.weights)


class Exam(msgspec.Struct, frozen=True):
    """What a policy is worth on tasks that nobody has seen, beside what takes no learning: shares of successes."""

    policy: float
    families: dict[str, float]
    constant: float  # the same policy, but every ticket ends as …
    ending: tuple[str, str]  # … this, which of all endings does best
    untaught: float  # what it knows before it learns
    anyhow: float  # at random, among the same candidates
    tasks: int
    minutes: float
    updates: int
    steps: int

    def lines(self) -> list[str]:
        families = [f"{success:6.1%}    on {name}" for name, success in self.families.items()] if self.families else []
        return [
            f"{self.policy:6.1%}  what was learnt, on {self.tasks} held-out tasks",
            *families,
            f"{self.constant:6.1%}  the same, but every ticket ends as {', '.join(self.ending)} (the best that always is)",
            f"{self.untaught:6.1%}  before it learnt anything",
            f"{self.anyhow:6.1%}  at random, among the same candidates",
        ]


def examine(learner: Learner, minutes: float) -> Exam:
    """Plays the test: as the policy, with each ending alone, anyhow, and as the policy was at first."""
    recipe, crew = learner.recipe, learner.crew
    tasks = held_out(recipe, "test", EXAMINED, _LOOKED_AT)
    learnt = crew.play(tasks)
    names = recipe.families if len(recipe.families) > 1 else ()
    families = {name: _success([one for one in learnt if TaskId.parse(one.task_id).family == name]) for name in names}
    endings = [setting(TaskId.parse(task_id)).ending for task_id in tasks]
    constants = dict.fromkeys((ending.resolution, ending.reason) for ending in endings)
    best, ending = max((_success(crew.play(tasks, ending)), ending) for ending in constants)
    crew.weights.output_weights[:] = 0.0
    anyhow = _success(crew.play(tasks))
    first_weights(crew.weights, recipe.seed)
    untaught = _success(crew.play(tasks))
    return Exam(
        policy=_success(learnt),
        families=families,
        constant=best,
        ending=ending,
        untaught=untaught,
        anyhow=anyhow,
        tasks=len(tasks),
        minutes=minutes,
        updates=learner.updates,
        steps=learner.steps,
    )


def _success(ended: Sequence[Ended]) -> float:
    return sum(one.success for one in ended) / len(ended)
