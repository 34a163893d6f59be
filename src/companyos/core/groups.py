"""Groups things by a key."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def grouped(things: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Map each key to the things that have it. Keys are in the order in which they first occur."""
    groups: dict[K, list[T]] = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return dict(groups)
