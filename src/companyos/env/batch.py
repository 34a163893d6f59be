"""Batches: many episodes that advance in one call, on several processes.

A rollout of a language model steps hundreds of episodes at a time. A `Batch` spreads them over worker processes and returns
the observations of all of them. Every episode is the same, to the byte, as one that is stepped alone.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from companyos.core.episode import Transcript
from companyos.core.parallel import set_up_worker
from companyos.env.env import CompanyEnv, make
from companyos.env.observations import Observation, Scene

# What a worker sends for an observation: all fields but the scene, which the parent has since the episode began.
Sent = tuple[Any, ...]


class WorkerLost(RuntimeError):
    """A worker process of a batch ended, and its episodes with it."""


class Batch:
    """Episodes with numbers that the caller chooses. Use it as a context manager, so that the processes end.

    `workers` is the number of processes; 0 means that this process does the work.
    """

    def __init__(self, workers: int = 0, reward: str = "dense") -> None:
        self._scenes: dict[int, Scene] = {}
        spawn = get_context("spawn")  # forking is not safe with threads
        self._pipes: list[Connection] = []
        self._processes = []
        self._here = None if workers else _Episodes(reward)
        for _ in range(workers):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve, args=(theirs, reward), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def begin(self, tasks: Mapping[int, str]) -> dict[int, Observation]:
        """Begin an episode for each number, in place of an earlier one with this number. Return the first observations.

        Raises `ValueError` if a task does not exist; the other episodes have then begun.
        """
        replies = self._ask("begin", tasks)
        self._scenes |= {number: scene for number, (scene, _) in replies.items()}
        return {number: Observation(scene, *sent) for number, (scene, sent) in replies.items()}

    def step(self, actions: Mapping[int, Any]) -> dict[int, Observation]:
        """Make one step in each of these episodes and return their observations.

        An action is what `CompanyEnv.step` takes. An episode that is over stays as it is and says so, as a single one does.
        """
        return {number: Observation(self._scenes[number], *sent) for number, sent in self._ask("step", actions).items()}

    def endings(self, numbers: list[int]) -> dict[int, tuple[bool, bool]]:
        """Return for each of these episodes whether its ticket was resolved, and whether the task was solved."""
        return self._ask("ending", dict.fromkeys(numbers))

    def transcripts(self, numbers: list[int]) -> dict[int, Transcript]:
        """Return the transcripts of these episodes."""
        return self._ask("transcript", dict.fromkeys(numbers))

    def close(self) -> None:
        """End the worker processes. Their episodes are gone."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join()
        self._pipes, self._processes = [], []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _ask(self, request: str, arguments: Mapping[int, Any]) -> dict[int, Any]:
        """Let each worker answer the request for its episodes. Raise the first exception that one of them met."""
        if self._here is not None:
            answers, error = self._here.answer(request, dict(arguments))
            if error is not None:
                raise error
            return answers
        shares: defaultdict[int, dict[int, Any]] = defaultdict(dict)
        for number, argument in arguments.items():
            shares[number % len(self._pipes)][number] = argument
        for worker, share in shares.items():
            self._talk(worker, partial(self._pipes[worker].send, (request, share)))
        # Receive all answers before an error is raised, so that none is left in a pipe.
        results = [self._talk(worker, self._pipes[worker].recv) for worker in shares]
        for _, error in results:
            if error is not None:
                raise error
        merged = {number: answer for answers, _ in results for number, answer in answers.items()}
        return {number: merged[number] for number in arguments}

    def _talk(self, worker: int, send_or_receive: Callable[[], Any]) -> Any:
        try:
            return send_or_receive()
        except (EOFError, OSError):
            raise WorkerLost(f"worker process {worker} of the batch has ended; its episodes are lost") from None


class _Episodes:
    """The episodes of one process."""

    def __init__(self, reward: str) -> None:
        self._reward = reward
        self._envs: dict[int, CompanyEnv] = {}

    def answer(self, request: str, arguments: dict[int, Any]) -> tuple[dict[int, Any], ValueError | None]:
        """Return the answers by episode, and the first mistake of the caller as an exception. The others are carried out."""
        act: Callable[[int, Any], Any] = getattr(self, f"_{request}")
        answers: dict[int, Any] = {}
        first_error: ValueError | None = None
        for number, argument in arguments.items():
            try:
                answers[number] = act(number, argument)
            except ValueError as mistake:  # as text, because not every exception survives the way to another process
                first_error = first_error or ValueError(f"episode {number}: {mistake}")
        return answers, first_error

    def _begin(self, number: int, task_id: str) -> tuple[Scene, Sent]:
        env = self._envs[number] = make(task_id, reward=self._reward)
        return env.scene, _sent(env.look())

    def _step(self, number: int, action: Any) -> Sent:
        return _sent(self._env(number).step(action))

    def _ending(self, number: int, _: None) -> tuple[bool, bool]:
        env = self._env(number)
        return env.resolved, bool(env.success)

    def _transcript(self, number: int, _: None) -> Transcript:
        return self._env(number).transcript()

    def _env(self, number: int) -> CompanyEnv:
        if number not in self._envs:
            raise ValueError("it has not begun")
        return self._envs[number]


def _sent(obs: Observation) -> Sent:
    return obs.now, obs.step, obs.reply, obs.reward, obs.done, obs.progress


def _serve(pipe: Connection, reward: str) -> None:
    """Answer the requests of a batch until it is closed. This is the main function of a worker process."""
    set_up_worker()
    episodes = _Episodes(reward)
    while True:
        try:
            request, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(episodes.answer(request, arguments))
