"""Types of candidate calls. Two candidates have the same type if the board describes them in the same words.

Each type has a number and a row of traits: hashed features of its description. A learner has weights for the traits.
"""

from collections.abc import Iterable
from functools import cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int32]
TRAITS = 1 << 18  # possible hashes of a trait; the number TRAITS itself fills unused places of a row
WIDTH = 12  # the largest number of traits of a type


@cache
def trait(group: str, *words: object) -> int:
    """Return the hash of a trait of the candidates of a group."""
    return crc32(repr((group, *words)).encode()) % TRAITS


class CandidateTypes:
    """A table that numbers types in the order in which they are met, and holds the traits of each.

    Sums over candidates follow these numbers, so every learner and every agent has its own table. With one table for
    the whole process, earlier runs would change the order of the sums, then their last bits, and soon the policy.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[str, ...], str], int] = {}
        self.rows: Indices = np.full((1024, WIDTH), TRAITS, np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, group: str, words: tuple[str, ...], outcome: str) -> int:
        """Return the number of a type: its group, the words for its arguments, and how earlier tries of it ended."""
        key = group, words, outcome
        number = self._numbers.get(key)
        return self._add(key) if number is None else number

    def known(self) -> list[tuple[str, tuple[str, ...], str]]:
        """Return all types in the order of their numbers."""
        return list(self._numbers)

    def take_up(self, keys: Iterable[tuple[str, Iterable[str], str]]) -> None:
        """Give numbers to these types in this order. The table must be empty."""
        for group, words, outcome in keys:
            self.number(group, tuple(words), outcome)

    def _add(self, key: tuple[str, tuple[str, ...], str]) -> int:
        group, words, outcome = key
        number = self._numbers[key] = len(self._numbers)
        if number == len(self.rows):
            self.rows = np.concatenate([self.rows, np.full_like(self.rows, TRAITS)])
        # A trait for the group, for the outcome alone and with the first word, and for each word.
        parts = [(), ("", outcome), (words[:1], outcome), *((word,) for word in words)]
        traits = sorted({trait(group, *part) for part in parts[:WIDTH]})
        self.rows[number, : len(traits)] = traits
        return number
