"""Runs slow work, such as replays and reports, in a second process so that other requests do not wait."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar, TypeVarTuple

from companyos.core.parallel import process_pool
from companyos.serve.errors import Busy

Args = TypeVarTuple("Args")
T = TypeVar("T")
MAX_WAITING = 8  # jobs, including the one that runs; the process does one at a time


class TooManyReplays(Busy):
    code, retry_after = "too_many_replays", 5
    what_next = "send the request again later"

    def __init__(self) -> None:
        super().__init__(f"{MAX_WAITING} replays or reports are already running or waiting")


class BackgroundProcess:
    """A process that starts with the first job. Arguments and results are pickled."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None
        self._waiting = 0

    async def run(self, function: Callable[[*Args], T], *args: *Args) -> T:
        """Call a module-level function in the process. Raise `TooManyReplays` when too many jobs wait."""
        if self._waiting >= MAX_WAITING:
            raise TooManyReplays
        self._pool = self._pool or process_pool(1)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *args)
        except BrokenProcessPool:
            self._pool = None  # the next job starts a new process
            raise
        finally:
            self._waiting -= 1

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
