"""A supply of things for a case, such as ids. Most tasks need few of them, so each is drawn when it is taken."""

from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import Generic, TypeVar

T = TypeVar("T")


class Supply(Generic[T]):
    """Works like a list from which things are taken with `pop(0)`. An IndexError says that nothing is left."""

    def __init__(self, things: Iterable[T] = ()) -> None:
        self._drawn: deque[T] = deque()
        self._rest = iter(things)

    def pop(self, index: int) -> T:
        """Take the first thing. `index` must be 0."""
        if self._drawn:
            return self._drawn.popleft()
        for thing in self._rest:
            return thing
        raise IndexError("nothing is left")

    def extend(self, things: Iterable[T]) -> None:
        """Add things at the end."""
        self._rest = chain(self._rest, things)

    def last(self) -> T:
        """Return the last thing without taking it. This draws all of them."""
        self._drawn.extend(self._rest)
        return self._drawn[-1]
