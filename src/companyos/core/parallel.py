"""Apply a function to many items, on several processes or threads."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import suppress
from itertools import islice
from multiprocessing import get_context, parent_process
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def pooled(function: Callable[[T], R], items: Sequence[T], workers: int, chunk: int = 1) -> Iterator[R]:
    """Like `map`, on `workers` processes, `chunk` consecutive items at a time. One worker means this process.

    An exception in `function` is raised here, and a killed worker raises `BrokenProcessPool`.
    """
    if workers == 1:
        yield from _in_this_process(function, items)
        return
    pool = process_pool(workers)
    try:
        yield from pool.map(function, items, chunksize=chunk)
    finally:
        pool.shutdown(cancel_futures=True)


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of processes. They are spawned: forking is not safe with threads, and not available everywhere."""
    return ProcessPoolExecutor(workers, get_context("spawn"), set_up_worker)


def as_they_come(
    function: Callable[[T], R], items: Sequence[T], workers: int, chunk: int = 1, threads: bool = False
) -> Iterator[R]:
    """Like `pooled`, but yield each result as soon as it is ready. `threads`: for functions that mostly wait for I/O."""
    if workers == 1:
        yield from _in_this_process(function, items)
        return
    if threads:
        yield from _on_threads(function, items, workers)
        return
    pool = process_pool(workers)
    try:
        starts = range(0, len(items), chunk)
        chunks = [pool.submit(_apply_to_all, function, items[start : start + chunk]) for start in starts]
        for finished_chunk in as_completed(chunks):
            yield from finished_chunk.result()
    finally:
        pool.shutdown(cancel_futures=True)


def ahead(function: Callable[[T], R], items: Iterator[T], workers: int, lead: int) -> Iterator[R]:
    """Like `map` over an endless iterator, on `workers` processes. 0 workers means this process.

    At most `lead` items for each process are computed before the caller asks for their results.
    """
    if workers == 0:
        yield from _in_this_process(function, items)
        return
    pool = process_pool(workers)
    try:
        waiting = deque(pool.submit(function, item) for item in islice(items, workers * lead))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(pool.submit(function, item) for item in islice(items, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def _in_this_process(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Like `map`, but a `StopIteration` raised by `function` is an error; `map` would end there silently."""
    for item in items:
        yield function(item)


def _on_threads(function: Callable[[T], R], items: Sequence[T], workers: int) -> Iterator[R]:
    """Yield results from daemon threads, so that a thread that still waits does not delay the exit after Ctrl-C."""
    todo, finished = SimpleQueue[T](), SimpleQueue[Future[R]]()
    for item in items:
        todo.put(item)

    def work() -> None:
        while True:
            try:
                item = todo.get_nowait()
            except Empty:
                return
            future: Future[R] = Future()
            try:
                future.set_result(function(item))
            except BaseException as error:
                future.set_exception(error)
            finished.put(future)

    for _ in range(min(workers, len(items))):
        Thread(target=work, daemon=True).start()
    try:
        for _ in items:
            yield finished.get().result()
    finally:
        with suppress(Empty):
            while True:  # empty the queue, so that no thread starts another item
                todo.get_nowait()


def _apply_to_all(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


def set_up_worker() -> None:
    """Set up a worker process: it ignores Ctrl-C, which the parent handles, and exits when the parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    """Wait until the parent process ends, and then end this process at once."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
