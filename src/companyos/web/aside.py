"""Aside: work that would keep everybody else waiting, done in a process of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar, TypeVarTuple

from companyos.core.parallel import crew
from companyos.serve.errors import Busy

Given = TypeVarTuple("Given")
R = TypeVar("R")
MOST_WAITING = 8  # for the one process


class TooManyReplays(Busy):
    code, retry_after = "too_many_replays", 5
    what_next = "send it again in a while"

    def __init__(self) -> None:
        super().__init__(f"{MOST_WAITING} replays or reports are being made already")


class Aside:
    """One process, started when it is first needed. What it is given and what it returns is pickled."""

    def __init__(self) -> None:
        self._crew: ProcessPoolExecutor | None = None
        self._waiting = 0

    async def run(self, function: Callable[[*Given], R], *given: *Given) -> R:
        """Call a function of a module over there; `TooManyReplays` where too many wait."""
        if self._waiting >= MOST_WAITING:
            raise TooManyReplays
        self._crew = self._crew or crew(1)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._crew, function, *given)
        except BrokenProcessPool:
            self._crew = None  # the next one gets another
            raise
        finally:
            self._waiting -= 1

    def close(self) -> None:
        if self._crew is not None:
            self._crew.shutdown(cancel_futures=True)
