"""Pool: one function over many things, on several processes."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context, parent_process
from multiprocessing.pool import Pool, ThreadPool
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def pooled(function: Callable[[T], R], things: Sequence[T], workers: int, chunk: int = 1) -> Iterator[R]:
    """Like `map`, on this many processes; with one of them, in this one."""
    if workers == 1:
        yield from map(function, things)
        return
    with _crew(workers) as pool:
        yield from pool.imap(function, things, chunksize=chunk)


def as_they_come(
    function: Callable[[T], R], things: Sequence[T], workers: int, chunk: int = 1, threads: bool = False
) -> Iterator[R]:
    """The same, each as soon as it is there; on threads, for what only waits for somebody else."""
    if workers == 1:
        yield from map(function, things)
        return
    with ThreadPool(workers) if threads else _crew(workers) as pool:
        yield from pool.imap_unordered(function, things, chunksize=chunk)


def _crew(workers: int) -> Pool:
    # Spawned, so that it works alike everywhere and beside the threads that draw a progress bar.
    return get_context("spawn").Pool(workers, _obey)


def _obey() -> None:
    # Ctrl-C is for whoever started the pool, who ends it; and nobody goes on working for one who was killed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
