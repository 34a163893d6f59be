"""Pool: one function over many things, on several processes, in order."""

import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def pooled(function: Callable[[T], R], things: Sequence[T], workers: int, chunk: int = 1) -> Iterator[R]:
    """Like `map`, on this many processes; with one of them, in this one."""
    if workers == 1:
        yield from map(function, things)
        return
    # Spawned, so that it works alike everywhere and beside the threads that draw a progress bar.
    with get_context("spawn").Pool(workers, _leave_interrupts) as pool:
        yield from pool.imap(function, things, chunksize=chunk)


def _leave_interrupts() -> None:
    # Ctrl-C is for whoever started the pool, who ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
