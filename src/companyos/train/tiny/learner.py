"""The small learner: a softmax policy over candidate calls, trained with A2C on two CPU cores in minutes, with numpy.

A curriculum starts episodes in the middle: at first a few steps before the end of an expert's episode, and earlier as the
learner gets better; after 60 % of the time all episodes start at the beginning. Each batch of steps is used twice, with
PPO's clipping. The policy is written to `policy.npz`, which `companyos eval --agent tiny:FILE` plays.
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
from companyos.train.tiny.gradient import Gradients
from companyos.train.tiny.rollout import RolloutWorker, RollResult, TinyRecipe, held_out
from companyos.train.tiny.starts import EndedEpisode

POLICY = "policy.npz"
EXAM = "exam.json"
CHECK_EVERY = 50  # batches between checkups
CHECKUP_TASKS = 100
EXAMINED = 200  # held-out tasks of the final exam
_SKIPPED_SEEDS = 200  # of the test split: this learner's settings were chosen on these tasks, so the exam skips them
_RECENT_EPISODES = 300  # their success rate moves the curriculum
_ALLOCATIONS = 50_000  # between garbage collections: episodes create almost no cycles
# The share of the expert's steps that is left to do at the start of an episode: at first, and at the end.
_FIRST_SHARE, _LAST_SHARE = 0.1, 2.0
_FEATURE_MEAN_WEIGHT = 0.01  # of a batch in the running mean of the features
_ADAM_EPSILON = 1e-5
_ADAM_BETA_1, _ADAM_BETA_2 = 0.9, 0.99

Budget = tuple[float, float]  # seconds and updates; the run ends when one of them is spent


# -- rollout workers ---------------------------------------------------------------------------------------------------


class WorkerPool:
    """Rollout workers, each in its own process unless there is only one.

    They share the weights; each has gradients of its own.
    """

    def __init__(self, recipe: TinyRecipe) -> None:
        context = get_context("spawn")
        shared = _shared(context, TinyWeights.none())
        gradients = [_shared(context, TinyWeights.none()[:4]) for _ in range(recipe.workers)]
        self.weights = TinyWeights(*_tables(shared))
        self.gradients = [Gradients(*_tables(gradient)) for gradient in gradients]
        first_weights(self.weights, recipe.seed)
        self._worker = RolloutWorker(recipe, 0, self.weights, self.gradients[0]) if recipe.workers == 1 else None
        self._connections: list[Connection] = []
        with _one_thread():
            for number, gradient in enumerate(gradients if self._worker is None else ()):
                connection, worker_end = context.Pipe()
                context.Process(target=_serve, args=(worker_end, recipe, number, shared, gradient), daemon=True).start()
                self._connections.append(connection)

    def call_all(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every worker with the same arguments."""
        return self.call(method, [arguments] * max(1, len(self._connections)))

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker, each with its own arguments."""
        if self._worker is not None:
            return [getattr(self._worker, method)(*arguments[0])]
        for connection, arguments_of_worker in zip(self._connections, arguments, strict=True):
            connection.send((method, arguments_of_worker))
        return [connection.recv() for connection in self._connections]

    def play(self, tasks: Sequence[str], ending: tuple[str, str] | None = None) -> list[EndedEpisode]:
        """Play tasks, divided among the workers."""
        workers = max(1, len(self._connections))
        parts = self.call("play", [(tasks[worker::workers], ending) for worker in range(workers)])
        return [ended for part in parts for ended in part]

    def close(self) -> None:
        for connection in self._connections:
            connection.send(None)


Shared = list[tuple[Any, str, tuple[int, ...]]]


def _shared(context: Any, tables: Sequence[Any]) -> Shared:
    """Allocate shared memory for arrays with the types and shapes of `tables`. Return memory, type and shape of each."""
    return [(context.RawArray("b", table.nbytes), table.dtype.str, table.shape) for table in tables]


def _tables(shared: Shared) -> list[Any]:
    """Return arrays in shared memory."""
    return [np.frombuffer(memory, dtype).reshape(shape) for memory, dtype, shape in shared]


def _serve(connection: Connection, recipe: TinyRecipe, number: int, shared: Shared, gradient: Shared) -> None:
    """Carry out method calls that come through a connection, until it sends None."""
    set_up_worker()
    gc.set_threshold(_ALLOCATIONS)
    worker = RolloutWorker(recipe, number, TinyWeights(*_tables(shared)), Gradients(*_tables(gradient)))
    while (request := connection.recv()) is not None:
        method, arguments = request
        connection.send(getattr(worker, method)(*arguments))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit numpy to one thread in processes that are started inside this context: every core has its own worker."""
    before = {name: os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    yield
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


# -- learning ----------------------------------------------------------------------------------------------------------


class TinyLearner:
    """The state of a run: everything that its next batch depends on."""

    def __init__(self, recipe: TinyRecipe) -> None:
        self.recipe = recipe
        self.pool = WorkerPool(recipe)
        learnt = self.pool.weights[:3]
        self.momentum = [np.zeros_like(table) for table in learnt]  # mean of the gradients (Adam)
        self.squares = [np.zeros_like(table) for table in learnt]  # mean of their squares (Adam)
        self.batches = self.updates = self.steps = 0
        # The share of the expert's steps that is left to do at the start of an episode.
        self.share_left = _FIRST_SHARE if recipe.curriculum else math.inf
        self.recent: deque[bool] = deque(maxlen=_RECENT_EPISODES)  # successes

    def batch(self, progress: float) -> Record:
        """Take some steps in all episodes and learn from them. `progress` is the share of the run that is over."""
        recipe = self.recipe
        self.share_left = self._next_share(progress)
        rolls: list[RollResult] = self.pool.call_all("roll", self.share_left)
        ended = [episode for roll in rolls for episode in roll.ended]
        self.recent.extend(episode.success for episode in ended)
        annealing = max(0.0, progress - recipe.annealed) / (1 - recipe.annealed)  # from 0 to 1
        entropy_weight = recipe.entropy + (recipe.last_entropy - recipe.entropy) * annealing
        rate = recipe.rate + (recipe.last_rate - recipe.rate) * annealing
        self._update_feature_means()
        for step in [*range(recipe.steps)] * recipe.epochs if self.batches else ():  # the first batch only counts features
            entropies = self.pool.call_all("write_gradients", step, entropy_weight)
            self._make_update(rate)
        self.pool.weights.meet(_union([roll.traits for roll in rolls]), _union([roll.features for roll in rolls]))
        self.batches += 1
        self.steps += recipe.episodes * recipe.steps
        record: Record = {"update": self.updates, "steps": self.steps, "left": round(min(self.share_left, 1.0), 3)}
        if self.batches > 1:
            record["entropy"] = round(sum(entropies) / len(entropies), 3)
        if ended:
            record["reward"] = round(_success(ended), 4)
        return record

    def _next_share(self, progress: float) -> float:
        """Return the share of the expert's steps that is left at the start of an episode. It grows with success and time."""
        recipe = self.recipe
        if progress >= recipe.annealed:
            return math.inf
        is_good = len(self.recent) == _RECENT_EPISODES and sum(self.recent) > recipe.good * _RECENT_EPISODES
        return max(self.share_left + recipe.pace * is_good, _LAST_SHARE * (progress / recipe.annealed) ** 2)

    def _make_update(self, rate: float) -> None:
        """Make one step of Adam."""
        self.updates += 1
        weights, gradients = self.pool.weights, self.pool.gradients
        rows, columns = weights.size
        lengths = (columns, rows, len(weights.value_weights))
        step_size = rate * (1 - _ADAM_BETA_2**self.updates) ** 0.5 / (1 - _ADAM_BETA_1**self.updates)
        for table, length in enumerate(lengths):
            gradient = sum(of_worker[table][:length] for of_worker in gradients) / np.float32(len(gradients))
            momentum, squares = self.momentum[table][:length], self.squares[table][:length]
            momentum += (1 - _ADAM_BETA_1) * (gradient - momentum)
            squares += (1 - _ADAM_BETA_2) * (gradient * gradient - squares)
            weights[table][:length] += np.float32(step_size) * momentum / (np.sqrt(squares) + np.float32(_ADAM_EPSILON))

    def _update_feature_means(self) -> None:
        """Update the running mean of how often each feature is on a board (what the policy sees)."""
        weight = max(_FEATURE_MEAN_WEIGHT, 1 / (self.batches + 1))
        weights, gradients = self.pool.weights, self.pool.gradients
        weights.feature_means[:] += weight * (
            sum(gradient.feature_means for gradient in gradients) / len(gradients) - weights.feature_means
        )
        weights.feature_means[weights.columns[ALWAYS]] = 0.0

    def close(self) -> None:
        self.pool.close()

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        numbers = {"counts": [self.batches, self.updates, self.steps], "left": self.share_left, "recent": list(self.recent)}
        adam = {f"momentum {number}": table for number, table in enumerate(self.momentum)}
        adam |= {f"steepness {number}": table for number, table in enumerate(self.squares)}
        return {**packed(self.pool.weights), **numbers, **adam, "hands": self.pool.call_all("state")}

    def resume(self, state: dict[str, Any]) -> None:
        unpack(state, self.pool.weights)
        for number, (momentum, squares) in enumerate(zip(self.momentum, self.squares, strict=True)):
            momentum[:], squares[:] = state[f"momentum {number}"], state[f"steepness {number}"]
        self.batches, self.updates, self.steps = (int(number) for number in state["counts"])
        self.share_left = float(state["left"])
        self.recent.extend(bool(success) for success in state["recent"])
        self.pool.call("resume", [(str(worker_state),) for worker_state in state["hands"]])


def _union(indices: Sequence[Any]) -> Any:
    return np.unique(np.concatenate(indices))


class ArrayJournal(Journal):
    """A journal whose checkpoints contain only arrays, so that it needs no torch."""

    checkpoint = "checkpoint.npz"

    def _write(self, checkpoint: Record, path: Path) -> None:
        with path.open("wb") as file:
            np.savez(file, logged=checkpoint["logged"], elapsed=checkpoint["elapsed"], **checkpoint["state"])

    def _read(self, path: Path) -> Record:
        with np.load(path, allow_pickle=False) as checkpoint:
            state = {name: checkpoint[name] for name in checkpoint.files if name not in ("logged", "elapsed")}
            return {"state": state, "logged": int(checkpoint["logged"]), "elapsed": float(checkpoint["elapsed"])}


# -- runs --------------------------------------------------------------------------------------------------------------


def train(learner: TinyLearner, journal: Journal, budget: Budget, show: Callable[[Record], None]) -> None:
    """Learn until the budget is spent. Earlier sessions of the run count."""
    seconds, updates = budget
    state = journal.resume()
    if state is not None:
        learner.resume(state)
    checkup_tasks = held_out(learner.recipe, "validation", CHECKUP_TASKS)
    while (progress := max(journal.elapsed / seconds, learner.updates / updates)) < 1:
        record = learner.batch(progress)
        if learner.batches % CHECK_EVERY == 0:
            record["checkup"] = {"success": _success(learner.pool.play(checkup_tasks))}
        journal.log(record)
        show(record)
        if journal.due():
            journal.save(learner.state())
            save(journal.folder / POLICY, learner.pool.weights)
    journal.save(learner.state())
    save(journal.folder / POLICY, learner.pool.weights)


class Exam(msgspec.Struct, frozen=True):
    """Success rates of a policy and of three baselines on held-out tasks."""

    policy: float
    families: dict[str, float]
    constant: float  # the same policy, but with one fixed ending for all tickets
    ending: tuple[str, str]  # that ending, the best of all
    untaught: float  # the policy before training
    anyhow: float  # random choice among the same candidates
    tasks: int
    minutes: float
    updates: int
    steps: int

    def lines(self) -> list[str]:
        """Return the exam as lines for the terminal."""
        families = [f"{success:6.1%}    on {name}" for name, success in self.families.items()] if self.families else []
        return [
            f"{self.policy:6.1%}  the trained policy, on {self.tasks} held-out tasks",
            *families,
            f"{self.constant:6.1%}  the same, but every ticket ends as {', '.join(self.ending)} (the best fixed ending)",
            f"{self.untaught:6.1%}  before training",
            f"{self.anyhow:6.1%}  random choice among the same candidates",
        ]


def exam_tasks(recipe: TinyRecipe) -> list[str]:
    """Return the tasks of the exam: of the families and at the dose of the training, with seeds that it did not have."""
    return held_out(recipe, "test", EXAMINED, _SKIPPED_SEEDS)


def examine(learner: TinyLearner, minutes: float) -> Exam:
    """Play the exam: with the policy, with each fixed ending, at random, and with the initial policy."""
    recipe, pool = learner.recipe, learner.pool
    tasks = exam_tasks(recipe)
    played = pool.play(tasks)
    names = recipe.families if len(recipe.families) > 1 else ()
    families = {
        name: _success([episode for episode in played if TaskId.parse(episode.task_id).family == name]) for name in names
    }
    endings = [setting(TaskId.parse(task_id)).ending for task_id in tasks]
    fixed_endings = dict.fromkeys((ending.resolution, ending.reason) for ending in endings)
    best, ending = max((_success(pool.play(tasks, ending)), ending) for ending in fixed_endings)
    pool.weights.output_weights[:] = 0.0  # all candidates have the same score
    anyhow = _success(pool.play(tasks))
    first_weights(pool.weights, recipe.seed)
    untaught = _success(pool.play(tasks))
    return Exam(
        policy=_success(played),
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


def _success(ended: Sequence[EndedEpisode]) -> float:
    """Return the share of successes."""
    return sum(episode.success for episode in ended) / len(ended)
