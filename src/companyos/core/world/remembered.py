"""Remembered: a function whose results are kept, where even a cache of the standard library would cost too much."""

from collections.abc import Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_MOST = 65536


class _Results(dict[K, V]):
    """What was worked out so far. Forgets all when there is too much: whoever asks may make up what they ask about."""

    def __init__(self, function: Callable[[K], V]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, asked: K) -> V:
        if len(self) >= _MOST:
            self.clear()
        self[asked] = found = self._function(asked)
        return found


def remembered(function: Callable[[K], V]) -> Callable[[K], V]:
    """The same function of one argument; to ask it again is one look into a dict, half of what `lru_cache` takes."""
    return _Results(function).__getitem__
