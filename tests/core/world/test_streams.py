"""Tests of the keyed random draws: uniform, reproducible and independent of one another."""

import pickle
from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from companyos.core.world import Streams
from tests.helpers import STEADY

paths = st.lists(st.one_of(st.text(max_size=12), st.integers()), max_size=4)


def draws(streams: Streams, *path: str | int, count: int = 40) -> list[float]:
    draw = streams.at(*path)
    return [draw.random() for _ in range(count)]


def looks_even(seen: Sequence[object], faces: int) -> bool:
    """Whether each face came up as often as the others, within five standard deviations."""
    expected = len(seen) / faces
    spread = 5 * (expected * (1 - 1 / faces)) ** 0.5
    counts = Counter(seen)
    return len(counts) == faces and all(abs(count - expected) < spread for count in counts.values())


@STEADY
@given(st.text(max_size=20), paths)
def test_the_same_path_is_always_the_same_draw(key: str, path: list[str | int]) -> None:
    assert draws(Streams(key), *path) == draws(Streams(key), *path)


@STEADY
@given(paths, st.lists(paths, max_size=5))
def test_draws_elsewhere_shift_nothing(path: list[str | int], elsewhere: list[list[str | int]]) -> None:
    undisturbed = draws(Streams("k"), *path)
    streams = Streams("k")
    for other in elsewhere:
        draws(streams, *other, count=20)
    assert draws(streams, *path) == undisturbed


def test_two_draws_of_one_path_do_not_share_their_place_in_it() -> None:
    streams = Streams("k")
    one, other = streams.at("a"), streams.at("a")
    first = one.random()
    one.random()
    assert other.random() == first


def test_other_keys_and_other_paths_are_other_draws() -> None:
    streams = Streams("k")
    found = [draws(streams, *path) for path in [(), ("a",), ("b",), ("a", "b"), ("ab",), ("a", 0), ("a", 1), ("", "a")]]
    found.append(draws(Streams("l"), "a"))
    assert len({tuple(numbers) for numbers in found}) == len(found)


def test_a_draw_goes_on_past_its_first_hash_without_repeating() -> None:
    numbers = draws(Streams("k"), "long", count=1000)
    assert len(set(numbers)) == 1000


def test_draws_are_the_same_numbers_on_every_machine_for_ever() -> None:
    draw = Streams("companyos").at("flaky", "T-1", 3)
    assert [draw.between(0, 999) for _ in range(10)] == [448, 289, 443, 9, 299, 598, 161, 650, 639, 940]
    assert [draw.between(0, 999) for _ in range(10)] == [242, 876, 159, 863, 842, 672, 985, 725, 985, 822]


@STEADY
@given(st.text(max_size=12), st.integers(0, 100))
def test_luck_is_the_same_for_the_same_path_and_number_whatever_was_asked_before(path: str, number: int) -> None:
    asked_before = Streams("k")
    for other in range(0, 100, 7):
        asked_before.luck(path, other)
    assert asked_before.luck(path, number) == Streams("k").luck(path, number)
    assert 0 <= Streams("k").luck(path, number) < 1


def test_luck_is_spread_evenly_over_paths_and_over_numbers() -> None:
    streams = Streams("k")
    assert looks_even([int(streams.luck(f"flaky/{i}", 0) * 8) for i in range(8000)], 8)
    assert looks_even([int(streams.luck("flaky", number) * 8) for number in range(8000)], 8)
    assert len({streams.luck("flaky", number) for number in range(1000)}) == 1000


def test_streams_come_through_a_pickle() -> None:
    streams = Streams("k")
    assert pickle.loads(pickle.dumps(streams)).luck("a", 3) == streams.luck("a", 3)
    assert draws(pickle.loads(pickle.dumps(streams)), "a", 1) == draws(streams, "a", 1)


@STEADY
@given(st.integers(-1000, 1000), st.integers(0, 1000), st.integers(0, 10**6))
def test_between_stays_between_both_ends_included(low: int, width: int, path: int) -> None:
    assert low <= Streams("k").at(path).between(low, low + width) <= low + width


def test_between_reaches_both_ends_and_all_that_lies_between_equally_often() -> None:
    streams = Streams("dice")
    assert looks_even([streams.at(i).between(1, 6) for i in range(12_000)], 6)


def test_the_numbers_of_one_draw_are_as_even_as_those_of_many() -> None:
    draw = Streams("dice").at("one")
    assert looks_even([draw.between(1, 6) for _ in range(12_000)], 6)


def test_random_is_spread_evenly_from_0_to_1() -> None:
    numbers = [Streams("k").at(i).random() for i in range(10_000)]
    assert all(0 <= number < 1 for number in numbers)
    assert looks_even([int(number * 10) for number in numbers], 10)


def test_pick_takes_every_member_equally_often() -> None:
    streams = Streams("k")
    assert looks_even([streams.at(i).pick("abcde") for i in range(10_000)], 5)


def test_chance_0_never_happens_and_chance_1_always() -> None:
    streams = Streams("k")
    assert not any(streams.at(i).chance(0.0) for i in range(2000))
    assert all(streams.at(i).chance(1.0) for i in range(2000))


def test_chance_happens_as_often_as_it_says() -> None:
    streams = Streams("k")
    assert abs(sum(streams.at(i).chance(0.3) for i in range(10_000)) - 3000) < 5 * (10_000 * 0.3 * 0.7) ** 0.5


@STEADY
@given(st.lists(st.integers(), unique=True, max_size=30), st.integers(0, 10**6), st.data())
def test_a_sample_has_different_members_and_as_many_as_asked(pool: list[int], path: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, len(pool)))
    before = pool.copy()
    found = Streams("k").at(path).sample(pool, count)
    assert len(found) == len(set(found)) == count
    assert set(found) <= set(pool)
    assert pool == before


@STEADY
@given(st.lists(st.integers(), max_size=30), st.integers(0, 10**6))
def test_shuffling_keeps_every_member(pool: list[int], path: int) -> None:
    assert sorted(Streams("k").at(path).shuffled(pool)) == sorted(pool)


def test_every_order_of_a_sample_is_equally_likely() -> None:
    streams = Streams("k")
    assert looks_even([tuple(streams.at(i).sample("abcd", 2)) for i in range(12_000)], 12)
