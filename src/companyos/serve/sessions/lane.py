"""Lane: the one way from all doors to the sessions. One at a time; steps that wait together go together, in one commit."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from companyos.serve.errors import LedgerDown, ServeError
from companyos.serve.sessions.sessions import Answer, Replays, Sessions
from companyos.serve.steps import Outcome, Step

T = TypeVar("T")
SLICE = 32  # steps of one request that are made at a time where that keeps everybody else waiting: some milliseconds
THREAD_SLICE = 128  # the same where a thread makes them, and where each commit waits for a disk
MOST_REPLAYS = 64  # old turns that one request may ask for


class Lane:
    """Runs what doors ask for: at once where the ledger is quick, else in a thread of its own, so that nobody waits idly."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self._thread = None if sessions.ledger.quick else ThreadPoolExecutor(1, "lane")
        self._waiting: list[tuple[Step, asyncio.Future[Answer]]] = []
        self._going: asyncio.Task[None] | None = None

    async def step(self, step: Step) -> Outcome:
        """One step, in one commit with all others that arrive in the same turn of the event loop."""
        if not self.sessions.ledger.gathers:
            return self.sessions.step(step)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append((step, future))
        if self._thread is None:
            if len(self._waiting) == 1:
                loop.call_soon(self._go)
        elif self._going is None:
            self._going = loop.create_task(self._go_on())
        answer = await future
        if isinstance(answer, ServeError):
            raise answer
        return answer

    async def step_all(self, steps: Sequence[Step], show: Callable[[Answer], T]) -> list[T]:
        """The steps of one request, each answer as it is to be shown. They go in slices, between which others get in.

        If the ledger fails after some have been carried out, the rest of the answers say so.
        """
        replays = Replays(MOST_REPLAYS)
        shown: list[T] = []
        size = SLICE if self._thread is None else THREAD_SLICE
        for begin in range(0, len(steps), size):
            try:
                answers = await self._step_part(steps[begin : begin + size], replays)
            except LedgerDown as down:
                if not shown:
                    raise
                return shown + [show(down) for _ in steps[begin:]]
            shown += [show(answer) for answer in answers]
            await asyncio.sleep(0)
        return shown

    async def _step_part(self, steps: Sequence[Step], replays: Replays | None = None) -> list[Answer]:
        return await self.run(lambda sessions: sessions.step_all(steps, replays))

    async def run(self, job: Callable[[Sessions], T]) -> T:
        """Anything else that sessions do."""
        if self._thread is None:
            return job(self.sessions)
        return await asyncio.get_running_loop().run_in_executor(self._thread, job, self.sessions)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()

    def _go(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            _tell(batch, self.sessions.step_all([step for step, _ in batch]))
        except Exception as error:
            _tell_all(batch, error)

    async def _go_on(self) -> None:
        """While one batch is being written the next one gathers."""
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                _tell(batch, await self._step_part([step for step, _ in batch]))
            except Exception as error:
                _tell_all(batch, error)
        self._going = None


def _tell(batch: Sequence[tuple[Step, asyncio.Future[Answer]]], answers: Sequence[Answer]) -> None:
    for (_, future), answer in zip(batch, answers, strict=True):
        if not future.done():  # whoever asked may have left
            future.set_result(answer)


def _tell_all(batch: Sequence[tuple[Step, asyncio.Future[Answer]]], error: Exception) -> None:
    """Whatever went wrong, a bug included, goes to those who wait for it, and up from there."""
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
