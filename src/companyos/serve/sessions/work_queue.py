"""The work queue: every endpoint reaches the sessions through it. Jobs run one at a time; waiting steps share one commit."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from companyos.serve.errors import LedgerDown, ServeError
from companyos.serve.sessions.sessions import Answer, ReplayBudget, Sessions
from companyos.serve.steps import StepRequest, StepResult

T = TypeVar("T")
WaitingStep = tuple[StepRequest, asyncio.Future[Answer]]
STEPS_PER_SLICE = 32  # that run on the event loop without a pause: a few milliseconds
STEPS_PER_THREAD_SLICE = 128  # the same in a worker thread, where each commit waits for a disk
MAX_REPLAYS = 64  # old turns that one request may ask for


class WorkQueue:
    """Runs jobs on the sessions: on the event loop if the ledger is quick, else in one worker thread."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._thread = None if sessions.ledger.quick else ThreadPoolExecutor(1, "sessions")
        self._waiting: list[WaitingStep] = []
        self._draining: asyncio.Task[None] | None = None

    async def step(self, step: StepRequest) -> StepResult:
        """Make one step, in one commit with all others that arrive in the same iteration of the event loop."""
        if not self.sessions.ledger.gathers:
            return self.sessions.step(step)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((step, future))
        if self._thread is None:
            if len(self._waiting) == 1:
                loop.call_soon(self._run_batch)
        elif self._draining is None:
            self._draining = loop.create_task(self._drain())
        answer = await future
        if isinstance(answer, ServeError):
            raise answer
        return answer

    async def step_all(self, steps: Sequence[StepRequest], make_reply: Callable[[Answer], T]) -> list[T]:
        """Make the steps of one request and return `make_reply(answer)` for each. Other requests run between slices.

        If the ledger fails after some steps were made, the remaining answers are that failure.
        """
        replays = ReplayBudget(MAX_REPLAYS)
        replies: list[T] = []
        size = STEPS_PER_SLICE if self._thread is None else STEPS_PER_THREAD_SLICE
        for start in range(0, len(steps), size):
            try:
                answers = await self._step_slice(steps[start : start + size], replays)
            except LedgerDown as down:
                if not replies:
                    raise
                return replies + [make_reply(down) for _ in steps[start:]]
            replies += [make_reply(answer) for answer in answers]
            await asyncio.sleep(0)
        return replies

    async def _step_slice(self, steps: Sequence[StepRequest], replays: ReplayBudget | None = None) -> list[Answer]:
        return await self.run(lambda sessions: sessions.step_all(steps, replays))

    async def run(self, job: Callable[[Sessions], T]) -> T:
        """Run any other job on the sessions."""
        if self._thread is None:
            return job(self.sessions)
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, self.sessions)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def _run_batch(self) -> None:
        """Make all waiting steps, on the event loop."""
        batch, self._waiting = self._waiting, []
        try:
            _set_results(batch, self.sessions.step_all([step for step, _ in batch]))
        except Exception as error:
            _set_exceptions(batch, error)

    async def _drain(self) -> None:
        """Run batches in the thread until no step waits. While one batch is written, the next one gathers."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                _set_results(batch, await self._step_slice([step for step, _ in batch]))
            except Exception as error:
                _set_exceptions(batch, error)
        self._draining = None


def _set_results(batch: Sequence[WaitingStep], answers: Sequence[Answer]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if not future.done():  # the client may have disconnected
            future.set_result(answer)


def _set_exceptions(batch: Sequence[WaitingStep], error: Exception) -> None:
    """Pass an error, even if it is a bug, to every request of the batch, which raises it."""
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
