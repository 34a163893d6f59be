"""Ordered results of a query: the shared records that match it, merged with those that one world has written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Literal, TypeVar, overload

from companyos.core.world.record import Record

R = TypeVar("R", bound=Record)

# How records are ordered: in the order in which they were made, by id, or newest first. Types that are listed newest first
# name their `dated` field; records of the same minute keep the order in which they were made.
Order = Literal["made", "id", "newest"]
Key = Any  # what an order sorts by


def sort_key(order: Order, record: Record, position: int) -> Key:
    """Return what an order sorts a record by. `position` is its place in the order in which records were made."""
    if order == "made":
        return position
    if order == "id":
        return record.id
    return (-getattr(record, record.dated), position)


class Listing(Sequence[R]):
    """The records that match a query, in order. A page of it costs the same, however many records match.

    It is made of the ids of shared records, which are cached and never copied, without those that the world has written
    over, and of the world's own records. Both are merged only as far as somebody reads.
    """

    __slots__ = ("_hidden", "_key", "_own", "_shared_ids", "_shared_rows")

    def __init__(
        self,
        shared_rows: Mapping[str, R],
        shared_ids: Sequence[str],  # of the shared records that match, in order
        hidden: frozenset[str],  # those of `shared_ids` that the world has written over
        own: list[tuple[Key, R]],  # the world's own records that match, with their sort keys, in order
        key: Callable[[R], Key],  # returns the sort key of a shared record
    ) -> None:
        self._shared_rows = shared_rows
        self._shared_ids = shared_ids
        self._hidden = hidden
        self._own = own
        self._key = key

    def __len__(self) -> int:
        return len(self._shared_ids) - len(self._hidden) + len(self._own)

    def __iter__(self) -> Iterator[R]:
        if not self._shared_ids:
            return (record for _, record in self._own)
        shared: Iterator[R] = map(self._shared_rows.__getitem__, self._shared_ids)
        if self._hidden:
            shared = (record for record in shared if record.id not in self._hidden)
        if not self._own:
            return iter(shared)
        keyed = ((self._key(record), record) for record in shared)
        return (record for _, record in merge(keyed, self._own, key=lambda pair: pair[0]))

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> list[R]: ...

    def __getitem__(self, index: int | slice) -> R | list[R]:
        """Return a record, or those of a slice. A slice must count from the start, as pages do."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return list(islice(self, start, stop))
        if index < 0:
            index += len(self)
        for record in islice(self, index, index + 1):
            return record
        raise IndexError("there are fewer records")
