"""Pool: one function over many things, on several processes or threads."""

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


def pooled(function: Callable[[T], R], things: Sequence[T], workers: int, chunk: int = 1) -> Iterator[R]:
    """Like `map`, on `workers` processes, `chunk` things at a time; with one worker, in this process.

    A bug in `function` and a killed worker (`BrokenProcessPool`) end it loudly.
    """
    if workers == 1:
        yield from _in_this_process(function, things)
        return
    hands = crew(workers)
    try:
        yield from hands.map(function, things, chunksize=chunk)
    finally:
        hands.shutdown(cancel_futures=True)


def crew(workers: int) -> ProcessPoolExecutor:
    """Processes that wait for work: spawned, so that it works alike everywhere and beside threads."""
    return ProcessPoolExecutor(workers, get_context("spawn"), obey)


def as_they_come(
    function: Callable[[T], R], things: Sequence[T], workers: int, chunk: int = 1, threads: bool = False
) -> Iterator[R]:
    """The same, each as soon as it is there; on threads, for what only waits for somebody else.

    A worker that is killed breaks it off loudly: `BrokenProcessPool`.
    """
    if workers == 1:
        yield from _in_this_process(function, things)
        return
    if threads:
        yield from _on_threads(function, things, workers)
        return
    hands = crew(workers)
    try:
        chunks = [hands.submit(_each, function, things[n : n + chunk]) for n in range(0, len(things), chunk)]
        for done in as_completed(chunks):
            yield from done.result()
    finally:
        hands.shutdown(cancel_futures=True)


def ahead(function: Callable[[T], R], things: Iterator[T], workers: int, most: int) -> Iterator[R]:
    """Like `map` over things that may never end, on this many processes, each up to `most` ahead; with none, in this one."""
    if workers == 0:
        yield from _in_this_process(function, things)
        return
    hands = crew(workers)
    try:
        waiting = deque(hands.submit(function, thing) for thing in islice(things, workers * most))
        while waiting:
            yield waiting.popleft().result()
            waiting.extend(hands.submit(function, thing) for thing in islice(things, 1))
    finally:
        hands.shutdown(cancel_futures=True)


def _in_this_process(function: Callable[[T], R], things: Iterable[T]) -> Iterator[R]:
    """Like `map`, except that a `StopIteration` out of `function` is an error; `map` would stop there."""
    for thing in things:
        yield function(thing)


def _on_threads(function: Callable[[T], R], things: Sequence[T], workers: int) -> Iterator[R]:
    """The same on daemons: one that still waits for somebody when all is broken off, as by Ctrl-C, holds nobody up."""
    todo, came = SimpleQueue[T](), SimpleQueue[Future[R]]()
    for thing in things:
        todo.put(thing)

    def work() -> None:
        while True:
            try:
                thing = todo.get_nowait()
            except Empty:
                return
            done: Future[R] = Future()
            try:
                done.set_result(function(thing))
            except BaseException as error:
                done.set_exception(error)
            came.put(done)

    for _ in range(min(workers, len(things))):
        Thread(target=work, daemon=True).start()
    try:
        for _ in things:
            yield came.get().result()
    finally:
        with suppress(Empty):
            while True:  # nobody begins anything any more
                todo.get_nowait()


def _each(function: Callable[[T], R], things: Sequence[T]) -> list[R]:
    return [function(thing) for thing in things]


def obey() -> None:
    """What a process does first that works for another one."""
    # Ctrl-C is for whoever started the pool, who ends it; and nobody goes on working for one who was killed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
