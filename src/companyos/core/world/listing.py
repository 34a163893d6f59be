"""Ordered results of a query: the shared records that match it, with what one world has written in their places."""

from collections.abc import Iterator, Mapping, Sequence
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


# A difference between a listing and the shared records that match: an index among the shared ids, whether the shared record
# there is left out (otherwise a record is put before it), the sort key of that record, and the record. Edits sort as tuples.
Edit = tuple[int, bool, Key, Any]


class Listing(Sequence[R]):
    """The records that match a query, in order. A page of it costs the same, however many records match.

    It is made of the ids of shared records, which are cached and never copied, and of a few edits: the places at which the
    world has added or hidden a record.
    """

    __slots__ = ("_edits", "_ids", "_length", "_rows")

    def __init__(self, shared_rows: Mapping[str, R], shared_ids: Sequence[str], edits: Sequence[Edit] = ()) -> None:
        self._rows = shared_rows
        self._ids = shared_ids  # of the shared records that match, in order
        self._edits = edits
        self._length = len(shared_ids) + sum([-1 if hides else 1 for _, hides, _, _ in edits])

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[R]:
        begin = 0
        for place, hides, _, record in self._edits:
            yield from map(self._rows.__getitem__, self._ids[begin:place])
            begin = place + hides
            if not hides:
                yield record
        yield from map(self._rows.__getitem__, self._ids[begin:])

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> list[R]: ...

    def __getitem__(self, index: int | slice) -> R | list[R]:
        """Return a record, or those of a slice without a step."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(self._length)
            return self._between(start, stop)
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError("there are fewer records")
        return self._between(index, index + 1)[0]

    def _between(self, start: int, stop: int) -> list[R]:
        """Return the records from index `start` to before index `stop`."""
        rows, ids, found = self._rows, self._ids, []
        index = begin = 0  # the next record's index in this listing, and among the shared ids
        for place, hides, _, record in self._edits:
            after = index + place - begin  # the index behind the shared records before this edit
            if after > start:
                found += [rows[key] for key in ids[begin + max(start - index, 0) : begin + min(stop, after) - index]]
            index, begin = after, place + hides
            if index >= stop:
                return found
            if not hides:
                if index >= start:
                    found.append(record)
                index += 1
        found += [rows[key] for key in ids[begin + max(start - index, 0) : begin + max(stop - index, 0)]]
        return found
