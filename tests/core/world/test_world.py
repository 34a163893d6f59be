"""Tests of the world: writes, journal, appointments, forks, searches and digests."""

import pickle
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from companyos.core.errors import Refused
from companyos.core.world import Change, Record, Streams, World, on
from tests.helpers import STEADY, recomputed


class Cup(Record, frozen=True):
    """The record that these tests write."""

    searched = ("colour",)

    colour: str
    sips: int = 0


class Plate(Record, frozen=True):
    """The same fields under another name."""

    colour: str
    sips: int = 0


class Diary(Record, frozen=True):
    """A hidden record."""

    hidden = True

    text: str = ""


@on("test.paint")
def paint(world: World, id: str) -> None:
    """Paint a cup, with the minute in its colour, and count it."""
    world.put(Cup(id, "painted", world.now))
    world.count_up("painted")


@on("test.chain")
def chain(world: World, id: str) -> None:
    """Paint a cup and schedule the next one ten minutes later."""
    world.put(Cup(id, "chained", world.now))
    if len(id) < 4:
        world.schedule(world.now + 10, "test.chain", id + "+")


def new_world(now: int = 0) -> World:
    return World(Streams("test"), now, (Cup, Plate, Diary))


# -- reading -----------------------------------------------------------------------------------------------------------


def test_a_record_is_found_by_kind_and_id() -> None:
    world = new_world()
    cup = world.put_at_start(Cup("a", "red"))
    assert world.get(Cup, "a") is world.find(Cup, "a") is world.peek(Cup, "a") is world.lookup("a") is cup
    assert list(world.all(Cup)) == [cup]
    assert (world.count(Cup), world.count(Plate)) == (1, 0)


def test_find_refuses_a_missing_record_and_get_raises_a_key_error() -> None:
    world = new_world()
    with pytest.raises(Refused) as refusal:
        world.find(Cup, "a")
    assert (refusal.value.code, refusal.value.message) == ("not_found", "there is no cup 'a'")
    with pytest.raises(KeyError):
        world.get(Cup, "a")
    assert world.peek(Cup, "a") is None


def test_hidden_records_cannot_be_looked_up() -> None:
    world = new_world()
    world.put_at_start(Diary("a", "dear diary"))
    assert world.lookup("a") is None


def test_a_search_wants_every_word_in_the_id_or_a_searched_field_in_any_case() -> None:
    world = new_world()
    red, blue = world.put_at_start(Cup("C-1", "Deep Red")), world.put_at_start(Cup("C-2", "Deep Blue"))
    world.put_at_start(Plate("C-3", "Deep Red"))
    assert list(world.search(Cup, "deep")) == list(world.search(Cup, "")) == [red, blue]
    assert list(world.search(Cup, "Red c-1")) == [red]
    assert list(world.search(Cup, "red blue")) == []
    assert list(world.search(Plate, "red")) == []  # its colour is not searched


def test_a_search_uses_the_current_records_of_its_own_fork() -> None:
    world = new_world()
    world.put_at_start(Cup("a", "red"))
    assert world.search(Cup, "red")
    twin = world.fork()
    blue = twin.put(Cup("a", "blue"))
    assert (list(world.search(Cup, "blue")), list(twin.search(Cup, "blue"))) == ([], [blue])
    assert (len(world.search(Cup, "red")), list(twin.search(Cup, "red"))) == (1, [])
    green = world.put_at_start(Cup("a", "green"))
    assert (list(world.search(Cup, "green")), list(twin.search(Cup, "green"))) == ([green], [])


# -- the write gate ----------------------------------------------------------------------------------------------------


def test_a_write_is_journaled_with_when_who_why_before_and_after() -> None:
    world = new_world(now=42)
    world.actor, world.why = "@a.b", "wash"
    first = world.put(Cup("a", "red"))
    second = world.put(Cup("a", "white"))
    assert world.journal == [Change(42, "@a.b", "wash", None, first), Change(42, "@a.b", "wash", first, second)]


def test_writing_an_equal_record_writes_nothing() -> None:
    world = new_world()
    world.put(Cup("a", "red", 3))
    before = (world.digest(), world.journal.copy())
    world.put(Cup("a", "red", 3))
    assert (world.digest(), world.journal) == before


def test_nothing_but_put_writes_to_the_journal() -> None:
    world = new_world()
    world.put_at_start(Cup("a", "red"))
    world.set_counter("n", 1)
    world.schedule(500, "test.paint", "a")
    world.advance(100)
    world.fork().put(Cup("a", "blue"))
    world.digest()
    assert world.journal == []
    world.put(Cup("a", "green"))
    assert len(world.journal) == 1


# -- time --------------------------------------------------------------------------------------------------------------


def test_appointments_fall_due_in_order_of_time_and_then_of_making() -> None:
    world = new_world()
    for minute, cup in [(30, "late"), (10, "first"), (20, "b"), (20, "a")]:
        world.schedule(minute, "test.paint", cup)
    world.advance(25)
    assert [(change.at, change.after.id) for change in world.journal] == [(10, "first"), (20, "b"), (20, "a")]
    world.advance(5)
    assert [(change.at, change.after.id) for change in world.journal][3:] == [(30, "late")]


def test_what_an_appointment_schedules_runs_too_if_it_falls_due_in_time() -> None:
    world = new_world()
    world.schedule(5, "test.chain", "a")
    world.advance(20)
    assert [(change.at, change.after.id) for change in world.journal] == [(5, "a"), (15, "a+")]
    assert world.now == 20


def test_an_overdue_appointment_runs_at_once_and_never_turns_the_clock_back() -> None:
    world = new_world(now=100)
    world.schedule(3, "test.paint", "a")
    world.advance(1)
    assert world.journal[0].at == 100
    assert world.now == 101


def test_an_appointment_is_journaled_without_an_actor_and_with_its_kind() -> None:
    world = new_world()
    world.actor, world.why = "@a.b", "wait"
    world.schedule(1, "test.paint", "a")
    world.advance(1)
    assert (world.journal[0].actor, world.journal[0].why) == ("", "test.paint")
    assert (world.actor, world.why) == ("@a.b", "wait")


def test_time_passes_up_to_the_awaited_event_and_no_further() -> None:
    world = new_world()
    for minute, cup in [(10, "a"), (20, "b"), (20, "c"), (30, "d")]:
        world.schedule(minute, "test.paint", cup)
    world.advance(100, stop_counter="painted", stop_above=1)
    assert world.now == 20
    assert world.count(Cup) == 2
    world.advance(10)
    assert world.count(Cup) == 4


def test_time_passes_in_full_when_what_is_awaited_does_not_come() -> None:
    world = new_world()
    world.schedule(10, "test.paint", "a")
    world.advance(50, stop_counter="painted", stop_above=1)
    assert world.now == 50
    assert world.count(Cup) == 1


@pytest.mark.parametrize("due", [5, 500])
def test_time_stands_still_when_what_is_awaited_already_holds(due: int) -> None:
    world = new_world()
    world.schedule(due, "test.paint", "a")
    world.set_counter("painted", 3)
    world.advance(50, stop_counter="painted", stop_above=2)
    assert world.now == 0
    assert world.count(Cup) == 0


def test_an_appointment_of_an_unknown_kind_is_a_bug() -> None:
    with pytest.raises(KeyError):
        new_world().schedule(1, "test.unheard_of", "a")


def test_a_kind_of_appointment_has_one_handler() -> None:
    with pytest.raises(RuntimeError, match=r"two handlers .*test\.paint"):
        on("test.paint")(paint)


# -- against a model ---------------------------------------------------------------------------------------------------


@dataclass
class Model:
    """A reference model of a world, without sharing and caches."""

    now: int = 0
    cups: dict[str, Cup] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    agenda: list[tuple[int, str]] = field(default_factory=list)
    writes: list[tuple[int, str]] = field(default_factory=list)

    def put(self, cup: Cup) -> None:
        if self.cups.get(cup.id) != cup:
            self.cups[cup.id] = cup
            self.writes.append((self.now, cup.id))

    def advance(self, minutes: int) -> None:
        end = self.now + minutes
        while due := [entry for entry in self.agenda if entry[0] <= end]:
            first = min(due, key=lambda entry: entry[0])
            self.agenda.remove(first)
            self.now = max(self.now, first[0])
            self.put(Cup(first[1], "painted", self.now))
        self.now = end

    def copy(self) -> "Model":
        return Model(self.now, self.cups.copy(), self.counters.copy(), self.agenda.copy(), self.writes.copy())


ids = st.sampled_from("abcd")
which = st.integers(0, 5)
acts = st.one_of(
    st.tuples(st.just("put"), which, ids, st.integers(0, 2)),
    st.tuples(st.just("tally"), which, ids, st.integers(0, 2)),
    st.tuples(st.just("schedule"), which, ids, st.integers(-5, 40)),
    st.tuples(st.just("advance"), which, ids, st.integers(0, 30)),
    st.tuples(st.just("fork"), which, ids, st.just(0)),
    st.tuples(st.just("pickle"), which, ids, st.just(0)),
    st.tuples(st.just("digest"), which, ids, st.just(0)),
)
Act = tuple[str, int, str, int]


def perform(pairs: list[tuple[World, Model]], act: Act) -> None:
    kind, index, key, number = act
    index %= len(pairs)
    world, model = pairs[index]
    match kind:
        case "put":
            world.put(Cup(key, "plain", number))
            model.put(Cup(key, "plain", number))
        case "tally":
            world.set_counter(key, number)
            model.counters[key] = number
        case "schedule":
            world.schedule(world.now + number, "test.paint", key)
            model.agenda.append((model.now + number, key))
        case "advance":
            world.advance(number)
            model.advance(number)
        case "fork":
            pairs.append((world.fork(), model.copy()))
        case "pickle":
            pairs[index] = (pickle.loads(pickle.dumps(world)), model)
        case "digest":
            world.digest()


def agree(world: World, model: Model) -> None:
    assert world.now == model.now
    assert {cup.id: cup for cup in world.all(Cup)} == model.cups
    assert [world.counter(key) for key in "abcd"] == [model.counters.get(key, 0) for key in "abcd"]
    assert [(change.at, change.after.id) for change in world.journal] == model.writes
    for word in ("plain", "painted", "a"):
        assert list(world.search(Cup, word)) == [cup for cup in model.cups.values() if word in f"{cup.id} {cup.colour}"]
    assert world.digest() == recomputed(world)


@settings(STEADY, max_examples=300)
@given(st.lists(acts, max_size=30))
def test_writes_on_one_side_of_a_fork_never_show_on_the_other(sequence: list[Act]) -> None:
    pairs = [(new_world(), Model())]
    for act in sequence:
        perform(pairs, act)
        for world, model in pairs:
            agree(world, model)


def test_a_fork_shares_the_tables_that_neither_side_has_written() -> None:
    world = new_world()
    world.put_at_start(Cup("a", "red"))
    world.put_at_start(Plate("a", "red"))
    twin = world.fork()
    twin.put(Cup("a", "blue"))
    assert twin._tables[Plate] is world._tables[Plate]
    assert twin._tables[Cup] is not world._tables[Cup]


def test_put_at_start_on_one_side_of_a_fork_does_not_change_the_other() -> None:
    world = new_world()
    before = world.digest()
    twin = world.fork()
    twin.put_at_start(Cup("a", "red"))
    assert world.count(Cup) == 0
    assert (world.digest(), twin.digest()) == (before, recomputed(twin))
    world.put_at_start(Cup("b", "red"))
    assert [cup.id for cup in twin.all(Cup)] == ["a"]


# -- digests -----------------------------------------------------------------------------------------------------------

contents = st.dictionaries(ids, st.integers(0, 3))


@STEADY
@given(contents, contents, st.data())
def test_equal_states_have_equal_digests_whichever_way_they_were_reached(
    cups: dict[str, int], counters: dict[str, int], data: st.DataObject
) -> None:
    writes: list[tuple[str, str, int]] = [("cup", *item) for item in cups.items()]
    writes += [("counter", *item) for item in counters.items()]

    def reach(order: list[tuple[str, str, int]], detours: list[int]) -> World:
        world = new_world()
        for value in detours:  # values that do not stay
            for name, key, _ in order:
                _write(world, name, key, value)
            world.digest()
        for name, key, value in order:
            _write(world, name, key, value)
        return world

    straight = reach(writes, [])
    winding = reach(data.draw(st.permutations(writes)), data.draw(st.lists(st.integers(4, 6), max_size=3)))
    assert straight.digest() == winding.digest() == recomputed(winding)


def _write(world: World, name: str, id: str, value: int) -> None:
    if name == "cup":
        world.put(Cup(id, "plain", value))
    else:
        world.set_counter(id, value)


def test_every_part_of_the_state_is_in_the_digest() -> None:
    def changed(**acts: Any) -> World:
        world = new_world(now=acts.get("now", 0))
        world.put_at_start(Cup("a", "red"))
        for act in acts.get("acts", ()):
            act(world)
        return world

    states = [
        changed(),
        changed(now=1),
        changed(acts=[lambda w: w.put(Cup("a", "blue"))]),
        changed(acts=[lambda w: w.put(Cup("b", "red"))]),
        changed(acts=[lambda w: w.put(Plate("a", "red"))]),
        changed(acts=[lambda w: w.set_counter("n", 1)]),
        changed(acts=[lambda w: w.set_counter("m", 1)]),
        changed(acts=[lambda w: w.schedule(9, "test.paint", "a")]),
        changed(acts=[lambda w: w.schedule(8, "test.paint", "a")]),
        changed(acts=[lambda w: w.schedule(9, "test.chain", "a")]),
        changed(acts=[lambda w: w.schedule(9, "test.paint", "b")]),
        changed(acts=[lambda w: w.schedule(10, "test.paint", "a"), lambda w: w.schedule(10, "test.paint", "a")]),
        changed(acts=[lambda w: w.schedule(5, "test.paint", "a"), lambda w: w.schedule(15, "test.paint", "a")]),
    ]
    assert len({world.digest() for world in states}) == len(states)


def test_a_digest_is_128_bits() -> None:
    world = new_world()
    for number in range(50):
        world.put(Cup(str(number), "red"))
        world.put(Cup(str(number), "blue"))
        assert re.fullmatch("[0-9a-f]{32}", world.digest())


def test_a_world_comes_through_a_pickle_whole() -> None:
    world = new_world(now=3)
    world.actor, world.why, world.seats = "@a.b", "wash", ("@a.b",)
    world.put(Cup("a", "red"))
    world.schedule(5, "test.chain", "b")
    world.set_counter("n", 7)
    again: World = pickle.loads(pickle.dumps(world))
    assert again.digest() == world.digest() == recomputed(again)
    assert (again.journal, again.seats) == (world.journal, world.seats)
    again.advance(40)
    assert world.count(Cup) == 1
    world.advance(40)
    assert again.digest() == world.digest()
    assert again.journal == world.journal
