"""Tests of shared tables: a world that shares records answers and hashes like one that owns them all."""

import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companyos.core.world import Record, SharedTable, Streams, World
from tests.helpers import STEADY, recomputed


class Memo(Record, frozen=True):
    """A record that can be searched, grouped and listed by date."""

    searched = ("text",)
    dated = "written"

    text: str
    topic: str
    written: int


texts = st.lists(st.sampled_from(("alder", "Aldermaston", "al", "cloud", "x")), max_size=3).map(" ".join)
memos = st.builds(Memo, st.sampled_from([f"M-{n}" for n in range(12)]), texts, st.sampled_from("ab"), st.integers(0, 3))
different_memos = st.lists(memos, max_size=8, unique_by=lambda memo: memo.id)


def is_old(memo: Memo) -> bool:
    return memo.written < 2


def topic_of(memo: Memo) -> str:
    return memo.topic


def shared_world(records: list[Memo]) -> World:
    return World(Streams("test"), 0, (Memo,), {Memo: SharedTable(records)})


def flat_world(records: list[Memo]) -> World:
    """The same state, with every record in the world itself."""
    world = World(Streams("test"), 0, (Memo,))
    for record in records:
        world.put_at_start(record)
    return world


def answers(world: World) -> list[Any]:
    """What a world answers to queries of every kind, page by page."""
    listings = [
        *(world.select(Memo, order, **equal) for order in ("made", "id", "newest") for equal in ({}, {"topic": "a"})),
        *(world.select(Memo, "newest", topic="b", written=1) for _ in range(2)),  # the second one comes from the cache
        *(world.search(Memo, query, "newest") for query in ("", "alder", "AL", "cloud alder", "m-1", "nothing", "x")),
        *(world.search(Memo, "ald") for _ in range(2)),
        *(world.search(Memo, query, "newest", is_old) for query in ("", "al")),
        *(world.filter(Memo, order, is_old) for order in ("made", "newest")),
        *(world.with_prefix(Memo, prefix) for prefix in ("", "M-1", "N")),
    ]
    for listing in listings:
        assert [listing[place] for place in range(len(listing))] == list(listing)
    pages = [(len(listing), list(listing), listing[0:2], listing[2:5]) for listing in listings]
    return [*pages, list(world.count_by(Memo, topic_of).items())]


@settings(STEADY, max_examples=200)
@given(different_memos, st.lists(st.tuples(memos, st.booleans()), max_size=6))
def test_a_world_that_shares_records_answers_like_one_that_owns_them(
    records: list[Memo], writes: list[tuple[Memo, bool]]
) -> None:
    world, flat = shared_world(records), flat_world(records)
    for memo, fork in writes:
        assert answers(world) == answers(flat)
        if fork:
            left_behind, state = world, answers(world)
            world, flat = world.fork(), flat.fork()
            world.put(memo)
            assert answers(left_behind) == state
        world.put(memo)
        flat.put(memo)
        assert world.digest() == flat.digest() == recomputed(world)
    assert answers(world) == answers(flat)
    assert (world.count(Memo), list(world.all(Memo))) == (flat.count(Memo), list(flat.all(Memo)))
    assert [world.peek(Memo, f"M-{n}") for n in range(12)] == [flat.peek(Memo, f"M-{n}") for n in range(12)]


def test_no_write_of_a_world_reaches_the_shared_records() -> None:
    table = SharedTable([Memo("M-1", "alder", "a", 0)])
    world, neighbour = (World(Streams("test"), 0, (Memo,), {Memo: table}) for _ in range(2))
    before = neighbour.digest()
    world.put(Memo("M-1", "changed", "b", 1))
    world.put(Memo("M-2", "new", "b", 1))
    assert dict(table.rows) == {"M-1": Memo("M-1", "alder", "a", 0)}
    assert (neighbour.digest(), list(neighbour.search(Memo, "alder"))) == (before, list(table.rows.values()))
    with pytest.raises(TypeError, match="does not support item assignment"):
        table.rows["M-3"] = Memo("M-3", "", "a", 0)  # type: ignore[index]


_COMPANIES: dict[str, dict[type[Record], SharedTable]] = {}


def company(name: str) -> Mapping[type[Record], SharedTable]:
    """The tables of a company, built once in a process."""
    if name not in _COMPANIES:
        records = [Memo(f"M-{number}", name, "a", number) for number in range(1000)]
        _COMPANIES[name] = {Memo: SharedTable(records, (company, (name,), Memo))}
    return _COMPANIES[name]


def test_a_pickled_world_takes_no_shared_records_along() -> None:
    world = World(Streams("test"), 0, (Memo,), company("alder"))
    world.put(Memo("M-1", "changed", "b", 1))
    pickled = pickle.dumps(world)
    again = pickle.loads(pickled)
    assert len(pickled) < 2000
    assert (again.digest(), answers(again)) == (world.digest(), answers(world))
    assert again._tables[Memo].shared is company("alder")[Memo]


def test_a_value_that_no_record_has_any_more_is_not_counted() -> None:
    records = [Memo("M-1", "", "a", 0), Memo("M-2", "", "a", 0), Memo("M-3", "", "b", 0)]
    world = shared_world(records)
    for memo_id in ("M-1", "M-2"):
        world.put(Memo(memo_id, "", "c", 0))
    assert world.count_by(Memo, topic_of) == {"c": 2, "b": 1}
