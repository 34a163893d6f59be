"""Streams: randomness asked for by path, so that no draw depends on how many came before it."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from struct import Struct
from typing import TypeVar

T = TypeVar("T")

_slice: Callable[[bytes], tuple[int, ...]] = Struct("<16I").unpack  # 64 bytes in 32-bit pieces
_MOST_KNOWN = 4096  # an agent may ask about whatever it makes up
_slice_in_eight: Callable[[bytes], tuple[int, ...]] = Struct("<8Q").unpack


class Draw:
    """The draws of one path: one keyed hash, sliced in 32-bit pieces, lengthened when they run out."""

    __slots__ = ("_hasher", "_pieces", "_round")

    def __init__(self, hasher: "blake2b") -> None:
        self._hasher = hasher
        self._pieces = iter(_slice(hasher.digest()))
        self._round = 0

    def _bits(self) -> int:
        for piece in self._pieces:
            return piece
        self._round += 1
        longer = self._hasher.copy()
        longer.update(b"\x00%d" % self._round)
        self._pieces = iter(_slice(longer.digest()))
        return next(self._pieces)

    def random(self) -> float:
        """A number in [0, 1)."""
        return self._bits() / 4294967296.0

    def chance(self, probability: float) -> bool:
        return self._bits() < probability * 4294967296.0

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + (self._bits() * (high - low + 1) >> 32)

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self._bits() * len(choices) >> 32]

    def sample(self, choices: Sequence[T], count: int) -> list[T]:
        """`count` different members, in drawn order."""
        size = len(choices)
        moved: dict[int, int] = {}  # a shuffle of which only the drawn places are ever written down
        drawn = []
        for i in range(count):
            j = i + (self._bits() * (size - i) >> 32)
            drawn.append(choices[moved.get(j, j)])
            moved[j] = moved.get(i, i)
        return drawn

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        return self.sample(choices, len(choices))


class Streams:
    """All randomness of one task, keyed by its name. `at("flaky", tool, record, attempt)` is always the same draw."""

    __slots__ = ("_known", "_root", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self._root = blake2b(key.encode(), digest_size=64, person=b"companyos")
        self._known: dict[str, tuple[float, ...]] = {}

    def at(self, *path: str | int) -> Draw:
        hasher = self._root.copy()
        hasher.update("\x1f".join(["", *map(str, path)]).encode())
        return Draw(hasher)

    def luck(self, path: str, number: int) -> float:
        """The `number`th of a path's draws in [0, 1), where a `Draw` would cost too much: on every call.

        Eight come from one hash, which is kept: all forks and resets of a task ask for the same ones.
        """
        if number > 7:
            path, number = f"{path}\x1f{number // 8}", number % 8
        block = self._known.get(path)
        if block is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            hasher = self._root.copy()
            hasher.update(path.encode())
            block = self._known[path] = tuple(piece / 2**64 for piece in _slice_in_eight(hasher.digest()))
        return block[number]

    def __reduce__(self) -> tuple[type["Streams"], tuple[str]]:
        return Streams, (self.key,)
