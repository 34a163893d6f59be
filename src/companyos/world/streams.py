"""Streams: randomness asked for by path, so that no draw depends on how many came before it."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """The draws of one path: one keyed hash, sliced in 32-bit pieces, lengthened when they run out."""

    __slots__ = ("_bytes", "_hasher", "_position", "_round")

    def __init__(self, hasher: "blake2b") -> None:
        self._hasher = hasher
        self._bytes = hasher.digest()
        self._position = 0
        self._round = 0

    def _bits(self) -> int:
        start = self._position
        if start == 64:
            self._round += 1
            longer = self._hasher.copy()
            longer.update(b"\x00%d" % self._round)
            self._bytes = longer.digest()
            start = 0
        self._position = start + 4
        return int.from_bytes(self._bytes[start : start + 4], "little")

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
        pool = list(choices)
        for i in range(count):
            j = i + (self._bits() * (len(pool) - i) >> 32)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:count]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        return self.sample(choices, len(choices))


class Streams:
    """All randomness of one task, keyed by its name. `at("flaky", tool, record, attempt)` is always the same draw."""

    __slots__ = ("_root", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self._root = blake2b(key.encode(), digest_size=64, person=b"companyos")

    def at(self, *path: str | int) -> Draw:
        hasher = self._root.copy()
        hasher.update("\x1f".join(["", *map(str, path)]).encode())
        return Draw(hasher)

    def __reduce__(self) -> tuple[type["Streams"], tuple[str]]:
        return Streams, (self.key,)
