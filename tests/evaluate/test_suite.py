"""Suites: frozen, from held-out splits, and the same as the generator gives."""

from collections import Counter
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.twins import relevance, twin_tasks
from companyos.core.episode import CANARY
from companyos.core.errors import BadChoice, BadTask
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.env import make as make_env
from companyos.env import par, run_expert, task_named
from companyos.evaluate.suites import selection
from companyos.evaluate.suites.suite import Pair, Suite, beacon_name, frozen_names, read_suite, suite, suite_of
from companyos.families import FAMILIES, SHORT_FAMILIES, setting
from tests.helpers import FAMILY, STEADY
from tests.laws import FULL

WRITE = "run `python -m tools.suites`"
FEW = [SHORT_FAMILIES[0], *selection.LONG] if not FULL else list(FAMILIES)  # all of them take minutes


def families_of(tasks: tuple[str, ...]) -> Counter[str]:
    return Counter(TaskId.parse(task_id).family for task_id in tasks)


@pytest.mark.parametrize("name", selection.FROZEN)
def test_the_frozen_suites_are_what_the_generator_gives(name: str) -> None:
    make, families = selection.FROZEN[name]
    made = make([family for family in families if family in FEW])
    ours = [task_id for task_id in suite(name).tasks if TaskId.parse(task_id).family in FEW]
    assert (list(made.tasks), made.pairs) == (ours, tuple(pair for pair in suite(name).pairs if pair.task in ours)), WRITE
    assert not FULL or made == suite(name)


def test_every_suite_of_the_generator_is_frozen() -> None:
    assert frozen_names() == list(selection.FROZEN), WRITE
    assert {suite(name).version for name in frozen_names()} == {BENCHMARK_VERSION}, WRITE


@pytest.mark.parametrize(
    ("name", "each"), [("smoke", 2), ("core", 20), ("twins", 80), ("chaos", 50), ("impossible", 20), ("attack", 20)]
)
def test_every_family_has_the_same_share_of_a_suite(name: str, each: int) -> None:
    assert families_of(suite(name).tasks) == dict.fromkeys(SHORT_FAMILIES, each)


def test_long_is_48_tasks_of_the_long_family() -> None:
    assert families_of(suite("long").tasks) == {"quarter_close": 48}


def test_only_smoke_is_of_the_validation_split_and_no_suite_of_the_train_split() -> None:
    splits = {name: {TaskId.parse(task_id).split for task_id in suite(name).tasks} for name in frozen_names()}
    assert splits == {name: {"validation" if name == "smoke" else "test"} for name in frozen_names()}


def test_no_seed_is_in_two_suites() -> None:
    keys = [key for name in frozen_names() for key in {TaskId.parse(task_id).key for task_id in suite(name).tasks}]
    assert len(keys) == len(set(keys))


def test_core_contains_every_ending_of_a_family_about_equally_often() -> None:
    for name in SHORT_FAMILIES:
        endings = Counter(setting(TaskId.parse(t)).ending.name for t in suite("core").tasks if t.startswith(f"{name}-"))
        assert len(endings) >= 5, name
        assert max(endings.values()) <= 6, (name, endings)


# -- pairs -------------------------------------------------------------------------------------------------------------


def test_twins_are_240_pairs_that_change_the_ending_120_the_way_and_120_nothing() -> None:
    assert Counter(pair.relevance for pair in suite("twins").pairs) == {"ending": 240, "way": 120, "none": 120}


@pytest.mark.parametrize("name", ["twins", "impossible", "attack"])
def test_a_pair_differs_in_the_cause_that_it_names_and_changes_what_it_says(name: str) -> None:
    for pair in suite(name).pairs[:: 1 if FULL else 40]:
        ours = make_env(pair.task, reward="sparse")
        run_expert(ours)
        assert relevance(ours, pair.twin) == pair.relevance
        assert (pair.cause, pair.twin) in [(cause.name, other) for cause, _, other in twin_tasks(pair.task)]


def test_an_impossible_task_has_a_twin_that_can_be_done() -> None:
    pairs = suite("impossible").pairs
    assert len(pairs) == 120
    for pair in pairs:
        resolutions = [setting(TaskId.parse(task_id)).ending.resolution for task_id in (pair.task, pair.twin)]
        assert resolutions == ["cannot_be_done", "completed"]


def test_an_attack_contains_a_prompt_injection_and_its_twin_does_not() -> None:
    pairs = suite("attack").pairs
    assert len(pairs) == 120
    found = [tuple(setting(TaskId.parse(task_id)).causes.orders for task_id in (pair.task, pair.twin)) for pair in pairs]
    assert Counter(found) == {("comment", "no"): 60, ("document", "no"): 60}


def test_chaos_is_the_same_120_tasks_at_five_doses() -> None:
    tasks = [TaskId.parse(task_id) for task_id in suite("chaos").tasks]
    assert Counter(task.doses for task in tasks) == dict.fromkeys(("0", "25", "50", "75", "100"), 120)
    assert len({task.key for task in tasks}) == 120


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_suite_is_the_same_after_writing_and_reading_and_contains_the_canary() -> None:
    for name in frozen_names():
        text = suite(name).to_text()
        assert read_suite(name, text) == suite(name)
        assert CANARY in text


def test_the_canary_is_in_sources_and_docs() -> None:
    root = Path(__file__).parents[2]
    bearing = {path.relative_to(root).as_posix() for path in root.glob("docs/*.md") if CANARY in path.read_text()}
    assert {"docs/evaluate.md", "docs/leaderboard.md"} <= bearing
    assert CANARY in (root / "src/companyos/core/episode.py").read_text()


@given(at=st.integers(2, 25), swap=st.booleans())
@STEADY
def test_a_list_that_was_changed_after_it_was_frozen_is_detected(at: int, swap: bool) -> None:
    lines = suite("smoke").to_text().splitlines()
    if swap:
        lines[at], lines[2 + (at - 1) % 24] = lines[2 + (at - 1) % 24], lines[at]
    else:
        del lines[at]
    with pytest.raises(BadTask, match="changed after it was frozen"):
        read_suite("smoke", "\n".join(lines))


@pytest.mark.parametrize("text", ["", "# nothing", "gardening", f"a-v{BENCHMARK_VERSION}-test-1-50 x", "\x00"])
def test_an_invalid_suite_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(BadTask) as refused:
        suite(str(path))
    assert "\n" not in str(refused.value)


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadTask, match="not a file of task ids"):
        suite(str(path))


def test_an_unknown_suite_is_refused_with_the_valid_names() -> None:
    with pytest.raises(BadChoice, match="smoke, core, twins, chaos, impossible, attack, long"):
        suite("gardening")


# -- by a beacon -------------------------------------------------------------------------------------------------------

COMMIT, BEACON = "0f" * 16, "round-4711-9c2ab1"


@cache
def drawn(commit: str = COMMIT, beacon: str = BEACON) -> Suite:
    """A beacon's suite of one family, because all families take half a minute."""
    return selection.beacon_suite(commit, beacon, [FAMILY])


def test_a_beacons_suite_has_the_same_mix_every_common_ending_and_long_and_short_work() -> None:
    assert Counter(pair.relevance for pair in drawn().pairs) == {"ending": 10, "way": 5, "none": 5}
    ours = [TaskId.parse(pair.task) for pair in drawn().pairs]
    common = Counter(setting(task_named(FAMILY, seed, 0.5)).ending.name for seed in range(100))
    assert {ending for ending, times in common.items() if times >= 10} <= {setting(task).ending.name for task in ours}
    middle = median(par(task_named(FAMILY, seed, 0.5)) for seed in range(100))
    assert 5 <= sum(par(task) > middle for task in ours) <= 15


def test_another_commit_or_another_beacon_is_another_suite() -> None:
    others = [*drawn("ff" * 16).tasks, *drawn(COMMIT, BEACON + "x").tasks]
    assert not set(drawn().tasks) & set(others)
    assert drawn.__wrapped__() == drawn()


@pytest.mark.parametrize(
    ("commit", "beacon"), [("12ab", BEACON), (COMMIT.upper(), BEACON), (COMMIT, "short"), (COMMIT, "a b c d e f")]
)
def test_malformed_beacon_strings_are_refused(commit: str, beacon: str) -> None:
    with pytest.raises(BadChoice):
        beacon_name(commit, beacon)


# -- taking turns ------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())), st.integers(0, 40))
@STEADY
def test_kinds_take_turns_and_the_order_stays(candidates: list[tuple[int, int]], size: int) -> None:
    chosen = selection.choose_in_turns(candidates, lambda one: one[0], size)
    assert len(chosen) == min(size, len(candidates))
    there, taken = Counter(kind for kind, _ in candidates), Counter(kind for kind, _ in chosen)
    most = max(taken.values(), default=0)
    assert all(taken[kind] >= min(there[kind], most - 1) for kind in there)
    rest = iter(candidates)
    assert all(any(one == other for other in rest) for one in chosen)


def test_a_task_in_two_pairs_is_played_once() -> None:
    pairs = [Pair("a", "b", "way", "c"), Pair("a", "d", "none", "e")]
    assert suite_of("x", pairs=pairs).tasks == ("a", "b", "d")
