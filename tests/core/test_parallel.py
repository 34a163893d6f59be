"""Tests of the process pools: every item once, in order or as it is ready, and a dead worker is noticed."""

import os
import signal
from concurrent.futures.process import BrokenProcessPool
from itertools import count, islice

import pytest

from companyos.core.parallel import ahead, as_they_come, pooled


def square(number: int) -> int:
    return number * number


def fall(number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def give_out(number: int) -> int:
    """A bug: `next` without a default raises `StopIteration`, which `map` takes for the end."""
    return next(other for other in range(5) if other == number)


@pytest.mark.parametrize(("workers", "threads"), [(1, False), (2, False), (3, True)])
def test_each_item_is_processed_once(workers: int, threads: bool) -> None:
    squares = [number * number for number in range(23)]
    assert sorted(as_they_come(square, range(23), workers, 4, threads)) == squares
    assert list(pooled(square, range(23), workers, 4)) == squares


def test_a_killed_worker_raises_an_error() -> None:
    with pytest.raises(BrokenProcessPool):
        list(as_they_come(fall, range(10), 2))
    with pytest.raises(BrokenProcessPool):
        list(pooled(fall, range(10), 2))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stop_iteration_in_the_work_is_an_error_and_not_the_end_of_it(workers: int) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(pooled(give_out, range(10), workers, 4))
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(as_they_come(give_out, range(10), workers, 4))
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(ahead(give_out, iter(range(10)), workers - 1, 2))


def test_a_stop_iteration_on_a_thread_is_an_error_too() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(as_they_come(give_out, range(10), 2, 1, threads=True))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_ordered_pool_can_be_stopped_early(workers: int) -> None:
    things = pooled(square, range(1000), workers)
    assert [next(things), next(things)] == [0, 1]
    things.close()  # type: ignore[attr-defined]


def test_a_pool_that_is_stopped_early_does_not_wait_for_the_rest() -> None:
    things = as_they_come(square, range(1000), 2, 1, threads=True)
    assert next(things) < 1_000_000
    things.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("workers", [0, 2])
def test_an_endless_iterator_is_processed_in_order_and_only_a_bounded_number_ahead(workers: int) -> None:
    things = count()
    done = ahead(square, things, workers, 3)
    assert list(islice(done, 10)) == [number * number for number in range(10)]
    assert next(things) <= 10 + 3 * workers
    done.close()  # type: ignore[attr-defined]


def test_a_finite_iterator_is_processed_completely() -> None:
    assert list(ahead(square, iter(range(7)), 2, 2)) == [number * number for number in range(7)]
