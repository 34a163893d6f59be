"""Tests of task ids: one id per task, and clear errors for everything else."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from companyos.assurance.twins import do
from companyos.chaos import DIALS, write_doses
from companyos.core.errors import BadTask
from companyos.core.task import BENCHMARK_VERSION, MAX_LENGTH, SPLITS, TaskId
from companyos.env import make, task_named
from companyos.families import FAMILIES, setting
from companyos.families.kit.case import Rule
from companyos.families.kit.family import write_value
from tests.helpers import FAMILY, STEADY, task_id

CAUSES = {cause.name: cause for cause in FAMILIES[FAMILY].specs()}
doses = st.fixed_dictionaries({dial: st.integers(0, 100) for dial in DIALS}).map(write_doses)
causes = st.lists(st.sampled_from(sorted(CAUSES)), max_size=2, unique=True)


@STEADY
@given(st.sampled_from(SPLITS), st.integers(0, 10**12 - 1), doses, causes, st.data())
def test_a_task_id_parses_back_to_itself(split: str, seed: int, dose: str, names: list[str], data: st.DataObject) -> None:
    values = {name: write_value(data.draw(st.sampled_from(CAUSES[name].alternatives))) for name in names}
    task = TaskId(FAMILY, split, seed, dose, tuple(sorted(values.items())), weather=data.draw(st.integers(0, 999)))
    if len(str(task)) <= MAX_LENGTH:
        assert TaskId.parse(str(task)) == task
        assert str(TaskId.parse(str(task))) == str(task)


@STEADY
@given(st.from_regex(rf"{FAMILY}-v\d{{1,2}}-(train|test)-\d{{1,3}}-\w{{1,4}}(-[a-z]+\.[a-z]+)?", fullmatch=True))
@example(f"{FAMILY}-v0{BENCHMARK_VERSION}-train-7-50")
@example(f"{FAMILY}-v{BENCHMARK_VERSION}-train-1\N{ARABIC-INDIC DIGIT THREE}-50")
@example(f"{FAMILY}-v{BENCHMARK_VERSION}-train-13-5\N{ARABIC-INDIC DIGIT THREE}")
@example(f"{FAMILY}-v{BENCHMARK_VERSION}-train-013-50")
@example(f"{FAMILY}-v{BENCHMARK_VERSION}-train-13-50-w3")
@example(f"{FAMILY}-v{BENCHMARK_VERSION}-train-13-50-w0")
@example(f"{FAMILY}-v{BENCHMARK_VERSION}-train-13-50-w03")
def test_a_task_has_one_id_and_no_other_text_names_it(text: str) -> None:
    try:
        task = TaskId.parse(text)
    except ValueError:
        return
    assert str(task) == text
    assert text.isascii()


def test_a_task_id_with_every_dial_its_own_way_fits_in_120_safe_characters() -> None:
    chaos = {dial: (100 - number) / 100 for number, dial in enumerate(DIALS)}
    text = str(task_named(FAMILY, 10**12 - 1, chaos, "validation"))
    assert len(text) <= 120
    assert re.fullmatch(r"[a-z0-9_.-]+", text)
    assert make(text).task_id == text


@pytest.mark.parametrize("cause", CAUSES)
def test_a_task_id_with_an_override_is_safe_in_file_names_and_addresses(cause: str) -> None:
    for value in CAUSES[cause].values("train"):
        text = do(task_id(chaos="50"), **{cause: value})
        assert re.fullmatch(r"[a-z0-9_.-]+", text)
        assert make(text).task_id == text
        assert getattr(make(text).setting.causes, cause) == value


def test_overrides_that_do_not_fit_in_a_task_id_are_refused() -> None:
    natural = setting(TaskId.parse(task_id())).causes
    flipped = {
        name: next(value for value in cause.alternatives if value != getattr(natural, name))
        for name, cause in CAUSES.items()
        if not isinstance(cause.annotation, Rule)
    }
    with pytest.raises(ValueError, match="120"):
        do(task_id(), **flipped)


def test_an_override_that_changes_nothing_leaves_the_task_its_own_id() -> None:
    natural = setting(TaskId.parse(task_id())).causes
    for name in CAUSES:
        assert do(task_id(), **{name: getattr(natural, name)}) == task_id()


@pytest.mark.parametrize("name", FAMILIES)
def test_an_override_that_the_seed_has_anyway_is_accepted_and_left_out_of_the_id(name: str) -> None:
    plain = str(task_named(name, 5, 0.5))
    causes = make(plain).setting.causes
    for cause in FAMILIES[name].specs():
        for value in cause.values("train"):
            named = f"{plain}-{cause.name}.{write_value(value)}"
            env = make(named)
            assert getattr(env.setting.causes, cause.name) == value
            assert env.task_id == (plain if value == getattr(causes, cause.name) else named)
            assert env.transcript().header.task_id == env.task_id


def test_of_several_overrides_only_those_that_change_something_stay_in_the_id() -> None:
    causes = make(task_id()).setting.causes
    given = {"cfo_away": causes.cfo_away, "framework": not causes.framework}
    text = "".join(f"-{name}.{write_value(value)}" for name, value in given.items())
    assert make(task_id() + text).task_id == do(task_id(), framework=not causes.framework)


def test_overriding_back_and_forth_ends_where_it_began() -> None:
    natural = setting(TaskId.parse(task_id())).causes.framework
    there = do(task_id(), framework=not natural)
    assert there != task_id()
    assert do(there, framework=natural) == task_id()


def test_the_key_of_randomness_holds_neither_doses_nor_overrides_but_the_split() -> None:
    base = TaskId.parse(task_id(chaos="0"))
    assert TaskId.parse(task_id(chaos="s50")).key == base.key
    assert TaskId.parse(do(task_id(), framework=not setting(base).causes.framework)).key == base.key
    assert len({TaskId.parse(task_id(split=split)).key for split in SPLITS}) == len(SPLITS)
    assert TaskId.parse(task_id(seed=8)).key != base.key


def test_splits_are_different_companies_for_the_same_seed() -> None:
    briefs = {make(FAMILY, seed=3, split=split).reset().task for split in SPLITS}
    assert len(briefs) == len(SPLITS)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vendor_onboarding",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train-7",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train--7-50",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train-7-50\n",
        f" {FAMILY}-v{BENCHMARK_VERSION}-train-7-50",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train-007-50",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train-7-50-duplicate",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train-7-50-duplicate.TRUE",
        f"{FAMILY}-v{BENCHMARK_VERSION}-train-7-50" + "-duplicate.true" * 9,
        "../../etc/passwd",
    ],
)
def test_text_that_is_not_a_task_id_is_refused_with_a_valid_example(text: str) -> None:
    with pytest.raises(BadTask, match=rf"{FAMILY}-v{BENCHMARK_VERSION}-train-7-50"):
        TaskId.parse(text)


def test_a_task_of_another_version_is_refused() -> None:
    with pytest.raises(BadTask, match=rf"this is version {BENCHMARK_VERSION}"):
        TaskId.parse(f"{FAMILY}-v{BENCHMARK_VERSION + 1}-train-7-50")


def test_an_unknown_split_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadTask, match="train, validation, test"):
        TaskId.parse(f"{FAMILY}-v{BENCHMARK_VERSION}-holdout-7-50")


@pytest.mark.parametrize(
    "overrides", ["duplicate.true-conflict.true", "conflict.true-conflict.true", "conflict.false-conflict.true"]
)
def test_overrides_stand_once_each_in_alphabetical_order(overrides: str) -> None:
    with pytest.raises(BadTask, match="alphabetical"):
        TaskId.parse(f"{task_id()}-{overrides}")
