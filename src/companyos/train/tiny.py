"""The small learner: a softmax over candidates that learns by A2C, on two cores, in minutes, with numpy alone.

Episodes begin near the end at first, where an expert would be some steps before it, and earlier as the learner gets better;
after 60 % of the time all begin at the beginning. Each batch of steps is used twice, held back as PPO does it. What is
learnt lies in `policy.npz`, which `companyos eval --agent tiny:FILE` plays.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from companyos.agents.tiny import ALWAYS, Weights, first_weights, packed, save, unpack
from companyos.env import setting
from companyos.pool import obey
from companyos.task import TaskId
from companyos.train.journal import Journal, Record
from companyos.train.tiny_rollout import Ended, Hand, Met, Recipe, Slope, held_out

POLICY = "policy.npz"
CHECK_EVERY = 50  # batches
CHECKED = 100  # held-out tasks, while learning
EXAMINED = 200  # … and at the end
_RECENT = 300  # episodes, whose successes say how far from the end to begin
_FIRST = 0.1  # share of the way that is left at first
_USED_TO = 0.01  # how much a batch counts for what is usual
_STEADY, _WARY = 0.9, 0.9  # how slowly gradients are forgotten, and their squares

Budget = tuple[float, float]  # seconds, updates: whichever is spent first


# -- those who play ----------------------------------------------------------------------------------------------------


class Crew:
    """The hands, each in a process of its own unless there is but one. All see the weights; each has a slope of its own."""

    def __init__(self, recipe: Recipe) -> None:
        context = get_context("spawn")
        shared = _shared(context, Weights.none())
        slopes = [_shared(context, Weights.none()[:3]) for _ in range(recipe.workers)]
        self.weights = Weights(*_tables(shared))
        self.slopes = [Slope(*_tables(slope)) for slope in slopes]
        first_weights(self.weights)
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
    obey()
    hand = Hand(recipe, number, Weights(*_tables(shared)), Slope(*_tables(slope)))
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
        self.momentum = np.zeros_like(self.crew.weights.choice)  # of the gradient, smoothed
        self.steepness = 0.0  # the mean square of its length
        self.batches = self.updates = self.steps = 0
        self.left = _FIRST if recipe.curriculum else 1.0  # share of the expert's way that lies before an episode at most
        self.recent: deque[bool] = deque(maxlen=_RECENT)

    def batch(self, progress: float) -> Record:
        """Takes some steps in all episodes and learns from them; `progress` is the share of the run that is over."""
        recipe = self.recipe
        if progress >= recipe.annealed:
            self.left = 1.0
        elif self.left < 1:
            better = len(self.recent) == _RECENT and sum(self.recent) > recipe.good * _RECENT
            self.left = max(self.left + recipe.pace * better, (progress / recipe.annealed) ** 2)
        rolls: list[Met] = self.crew.each("roll", self.left)
        ended = [one for roll in rolls for one in roll.ended]
        self.recent.extend(one.success for one in ended)
        self.crew.weights.meet(_union([roll.traits for roll in rolls]), _union([roll.notices for roll in rolls]))
        late = max(0.0, progress - recipe.annealed) / (1 - recipe.annealed)
        entropy = recipe.entropy + (recipe.last_entropy - recipe.entropy) * late
        for epoch in range(recipe.epochs):
            undecided = self.crew.each("slope", entropy)
            if not epoch:
                self._get_used_to()
            if self.batches:  # the first one only says what is usual
                self._climb()
        self.batches += 1
        self.steps += recipe.episodes * recipe.steps
        record: Record = {"update": self.updates, "steps": self.steps, "left": round(min(self.left, 1.0), 3)}
        record["entropy"] = round(sum(undecided) / len(undecided), 3)
        if ended:
            record["reward"] = round(sum(one.success for one in ended) / len(ended), 4)
        return record

    def _climb(self) -> None:
        """One step uphill. How long it is hangs on how steep it has been of late."""
        (choice, value, *_), slopes, recipe = self.crew.weights, self.crew.slopes, self.recipe
        rows, columns = self.crew.weights.size
        met = slice(0, rows), slice(0, columns)
        steep = sum(slope.choice[met] for slope in slopes) / np.float32(len(slopes))
        self.updates += 1
        forgotten = max(1 - _WARY, 1 / self.updates)
        self.steepness += forgotten * (float(np.vdot(steep, steep)) - self.steepness)
        momentum = self.momentum[met]
        momentum *= _STEADY
        momentum += (1 - _STEADY) * steep
        choice[met] += np.float32(recipe.rate / (self.steepness**0.5 + 1e-9)) * momentum
        value[:columns] += recipe.value_rate / len(slopes) * sum(slope.value[:columns] for slope in slopes)

    def _get_used_to(self) -> None:
        """Takes in how many boards each notice stood on: of all batches at first, of the last hundred or so later."""
        share = max(_USED_TO, 1 / (self.batches + 1))
        weights, slopes = self.crew.weights, self.crew.slopes
        weights.usual[:] += share * (sum(slope.usual for slope in slopes) / len(slopes) - weights.usual)
        weights.usual[weights.columns[ALWAYS]] = 0.0

    def close(self) -> None:
        self.crew.close()

    # -- to go on from -------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        rows, columns = self.crew.weights.size
        numbers = {"counts": [self.batches, self.updates, self.steps], "left": self.left, "steepness": self.steepness}
        learnt = {**packed(self.crew.weights), "momentum": self.momentum[:rows, :columns]}
        return {**learnt, **numbers, "recent": list(self.recent), "hands": self.crew.each("keep")}

    def resume(self, state: dict[str, Any]) -> None:
        self.crew.weights.rows[:] = self.crew.weights.columns[:] = 0
        unpack(state, self.crew.weights)
        rows, columns = self.crew.weights.size
        self.momentum[:rows, :columns], self.steepness = state["momentum"], float(state["steepness"])
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


def examine(learner: Learner) -> Iterator[tuple[str, float]]:
    """What the policy is worth on tasks that nobody has seen, beside what takes no learning: lines of who and how often."""
    recipe, crew = learner.recipe, learner.crew
    tasks = held_out(recipe, "test", EXAMINED)
    learnt = crew.play(tasks)
    yield "the policy", _success(learnt)
    for name in recipe.families if len(recipe.families) > 1 else ():
        yield f"  on {name}", _success([one for one in learnt if TaskId.parse(one.task_id).family == name])
    endings = [setting(TaskId.parse(task_id)).ending for task_id in tasks]
    constants = dict.fromkeys((ending.resolution, ending.reason) for ending in endings)
    best, ending = max((_success(crew.play(tasks, ending)), ending) for ending in constants)
    yield f"the same, but every ticket ends as {ending[0]}, {ending[1]} (the best of {len(constants)})", best
    learnt, crew.weights.choice[:] = crew.weights.choice.copy(), 0.0
    yield "anyhow, among the same candidates", _success(crew.play(tasks))
    crew.weights.choice[:] = learnt


def _success(ended: Sequence[Ended]) -> float:
    return sum(one.success for one in ended) / len(ended)
