"""Sorts of candidates: those of which the same is to be said. Each has a number, and a row of traits."""

from collections.abc import Iterable
from functools import cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int32]
TRAITS = 1 << 18  # numbers that a candidate can have, hashed; one more is nobody's
WIDTH = 12  # of them at most so many are not 0


@cache
def trait(group: str, *words: object) -> int:
    return crc32(repr((group, *words)).encode()) % TRAITS


class Sorts:
    """Numbers sorts in the order in which they are met, and keeps the traits of each.

    Sums over candidates follow these numbers, so every learner and every agent has its own table. With a table for the
    whole process, what ran earlier would change the order of the sums, their last bits, and soon the policy.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, tuple[str, ...], str], int] = {}
        self.rows: Indices = np.full((1024, WIDTH), TRAITS, np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, group: str, words: tuple[str, ...], outcome: str) -> int:
        """The sort of a candidate: its tool, what is said of its arguments, and what became of it before."""
        key = group, words, outcome
        number = self._numbers.get(key)
        return self._add(key) if number is None else number

    def known(self) -> list[tuple[str, tuple[str, ...], str]]:
        return list(self._numbers)

    def take_up(self, keys: Iterable[tuple[str, Iterable[str], str]]) -> None:
        """Give numbers to these sorts in this order. The table must be empty."""
        for group, words, outcome in keys:
            self.number(group, tuple(words), outcome)

    def _add(self, key: tuple[str, tuple[str, ...], str]) -> int:
        group, words, outcome = key
        number = self._numbers[key] = len(self._numbers)
        if number == len(self.rows):
            self.rows = np.concatenate([self.rows, np.full_like(self.rows, TRAITS)])
        said = [(), ("", outcome), (words[:1], outcome), *((word,) for word in words)]
        traits = sorted({trait(group, *one) for one in said[:WIDTH]})
        self.rows[number, : len(traits)] = traits
        return number
