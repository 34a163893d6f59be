"""Random draws keyed by a path of names, so that no draw depends on how many draws came before it.

An extra call of the agent therefore never changes a later draw, and all rollouts of a task meet the same troubles.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from struct import Struct
from typing import TypeVar

T = TypeVar("T")

_to_16_words: Callable[[bytes], tuple[int, ...]] = Struct("<16I").unpack  # 64 bytes as 16 numbers of 32 bits
_word_at: Callable[[bytes, int], tuple[int]] = Struct("<Q").unpack_from  # the number of 64 bits at a position
_MAX_BLOCKS = 4096  # bounds the cache, because agents can query invented keys
_SEPARATOR = "\x1f"  # between the names of a path: the ASCII unit separator


class Draw:
    """The draws of one path. A keyed hash gives 16 words of 32 bits; when they are used up, a further hash gives more.

    `bits * n >> 32` scales a word to an integer from 0 to n - 1.
    """

    __slots__ = ("_hasher", "_rounds", "_words")

    def __init__(self, hasher: "blake2b") -> None:
        self._hasher = hasher
        self._words = iter(_to_16_words(hasher.digest()))
        self._rounds = 0

    def _bits(self) -> int:
        """Return the next 32-bit word."""
        for word in self._words:
            return word
        self._rounds += 1
        next_hasher = self._hasher.copy()
        next_hasher.update(b"\x00%d" % self._rounds)
        self._words = iter(_to_16_words(next_hasher.digest()))
        return next(self._words)

    def random(self) -> float:
        """Return a number in [0, 1)."""
        return self._bits() / 2.0**32

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._bits() < probability * 2.0**32

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + (self._bits() * (high - low + 1) >> 32)

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices, all equally likely."""
        return choices[self._bits() * len(choices) >> 32]

    def sample(self, choices: Sequence[T], count: int) -> list[T]:
        """Return `count` different members, in the order in which they were drawn."""
        return list(self.one_by_one(choices, count))

    def one_by_one(self, choices: Sequence[T], count: int) -> Iterator[T]:
        """Yield what `sample` returns. Each member is drawn when it is taken, so those that nobody takes cost nothing."""
        size, bits = len(choices), self._bits
        moved: dict[int, int] = {}  # a Fisher-Yates shuffle that stores only the positions it touched
        for i in range(count):
            j = i + (bits() * (size - i) >> 32)
            yield choices[moved.get(j, j)]
            moved[j] = moved.get(i, i)

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        return self.sample(choices, len(choices))


class Streams:
    """All random draws of one task, keyed by its name. `at("flaky", tool, record, attempt)` always gives the same draws."""

    __slots__ = ("_blocks", "_root", "key")

    def __init__(self, key: str) -> None:
        self.key = key
        self._root = blake2b(key.encode(), digest_size=64, person=b"companyos")
        self._blocks: dict[str, bytes] = {}

    def at(self, *path: str | int) -> Draw:
        """Return the draws of a path."""
        hasher = self._root.copy()
        hasher.update(_SEPARATOR.join(["", *map(str, path)]).encode())
        return Draw(hasher)

    def luck(self, path: str, number: int) -> float:
        """Return draw `number` of a path, in [0, 1). Faster than `at`, for the draws that are made at every call of a tool.

        One hash gives eight draws. It is cached, because all forks and resets of a task ask for the same ones.
        """
        if number > 7:
            path, number = f"{path}{_SEPARATOR}{number // 8}", number % 8
        block = self._blocks.get(path)
        if block is None:
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.clear()
            hasher = self._root.copy()
            hasher.update(path.encode())
            block = self._blocks[path] = hasher.digest()
        return float(_word_at(block, 8 * number)[0] / 2**64)

    def __reduce__(self) -> tuple[type["Streams"], tuple[str]]:
        return Streams, (self.key,)
