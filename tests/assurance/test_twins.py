"""Twins are tasks that differ in exactly one cause."""

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.assurance.twins import (
    differences,
    do,
    relevance,
    same_ending,
    twin_tasks,
    twins,
    twins_with_other_ending,
    weathers,
)
from companyos.company import Entry, Ticket
from companyos.core.errors import BadTask
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import FAMILIES, SHORT_FAMILIES, family
from companyos.families.kit.case import Fact, Rule, Trouble
from companyos.families.kit.family import write_value
from tests.helpers import role, staged, task_id, ticket


@pytest.mark.parametrize("name", FAMILIES)
def test_setting_a_cause_to_its_own_value_gives_the_same_task(name: str) -> None:
    env = make(name, seed=3, chaos=0.5)
    for cause in family(name).specs():
        assert do(env.task_id, **{cause.name: getattr(env.setting.causes, cause.name)}) == env.task_id


@pytest.mark.parametrize("name", FAMILIES)
def test_siblings_are_every_other_value_of_every_cause_once(name: str) -> None:
    env = make(name, seed=3, chaos=0.5)
    found = [(cause.name, value) for cause, value, _ in twin_tasks(env.task_id)]
    natural = {cause.name: write_value(getattr(env.setting.causes, cause.name)) for cause in family(name).specs()}
    assert len(found) == len(set(found))
    choices = [cause for cause in family(name).specs() if family(name).alternatives(cause, env.setting.causes, "train")]
    assert {cause for cause, _ in found} == {cause.name for cause in choices}
    assert all(isinstance(cause.annotation, Rule) or cause in choices for cause in family(name).specs())
    assert all(natural[cause] != value for cause, value in found)
    assert env.task_id not in [other for _, _, other in twin_tasks(env.task_id)]
    facts, troubles, rules = (len(twin_tasks(env.task_id, mark)) for mark in (Fact, Trouble, Rule))
    assert facts + troubles + rules == len(found)
    assert min(facts, troubles) > 0
    assert (rules > 0) == (family(name).rules is not None)


@pytest.mark.parametrize("name", SHORT_FAMILIES)
def test_opposites_differ_in_a_fact_and_in_their_ending(name: str) -> None:
    env = make(name, seed=3, chaos=0.5)
    facts = {cause.name for cause in family(name).specs() if isinstance(cause.annotation, Fact)}
    assert twins_with_other_ending(env.task_id)
    for cause, other in twins_with_other_ending(env.task_id):
        assert cause in facts
        assert not same_ending(env, make(other))


def test_overrides_accumulate_and_the_last_one_of_a_cause_counts() -> None:
    once = do(task_id(), conflict="requester", insurance="expired")
    assert dict(TaskId.parse(once).do).keys() == {"conflict", "insurance"}
    assert do(do(task_id(), conflict="requester"), insurance="expired") == once
    assert do(do(task_id(), insurance="expired"), conflict="requester") == once
    back = {name: getattr(make(task_id()).setting.causes, name) for name in ("conflict", "insurance")}
    assert do(once, **back) == task_id()


def test_too_many_overrides_are_refused_in_one_line() -> None:
    task = task_id(123_456)
    causes = make(task).setting.causes
    vendors = family("vendor_onboarding")
    choices = {cause.name: vendors.alternatives(cause, causes, "train") for cause in _specs()}
    other = {name: values[0] for name, values in choices.items() if values}
    with pytest.raises(BadTask, match="is longer than 120 characters; override fewer causes"):
        do(task, **other)


def _specs() -> Any:
    return family("vendor_onboarding").specs()


def test_two_endings_are_equal_if_name_and_decider_are() -> None:
    def ended(name: str, decider: str) -> Any:
        return SimpleNamespace(setting=SimpleNamespace(ending=SimpleNamespace(name=name, decider=decider)))

    assert same_ending(ended("a", "x"), ended("a", "x"))
    assert not same_ending(ended("a", "x"), ended("a", "y"))
    assert not same_ending(ended("a", "x"), ended("b", "x"))


@pytest.mark.parametrize(
    ("there", "back", "expected"), [(True, True, "none"), (True, False, "way"), (False, True, "way"), (False, False, "way")]
)
def test_a_twin_is_irrelevant_only_if_the_calls_of_each_win_the_other(
    monkeypatch: pytest.MonkeyPatch, there: bool, back: bool, expected: str
) -> None:
    solved = staged(reward="sparse")
    run_expert(solved)
    other = do(solved.task_id, score_stale=True)
    assert same_ending(solved, make(other))

    def carries_over(source: CompanyEnv, target: CompanyEnv) -> bool:
        return there if source is solved else back

    monkeypatch.setattr(
        import_module("companyos.assurance.twins"), "_carries_over", carries_over
    )  # the name is a function's, too
    assert relevance(solved, other) == expected


def test_the_calls_of_one_task_carry_over_to_a_task_that_differs_in_nothing_they_touch() -> None:
    found = {(twin.cause, twin.value): twin.relevance for twin in twins(staged().task_id)}
    assert found["conflict", "requester"] == "ending"
    assert set(found.values()) == {"ending", "way", "none"}


def test_weathers_are_numbered_from_the_tasks_own_weather() -> None:
    first = weathers(task_id(chaos="50"), 4)
    assert first == [task_id(chaos="50"), *(f"{task_id(chaos='50')}-w{number}" for number in (1, 2, 3))]
    assert weathers(first[2], 3) == [f"{task_id(chaos='50')}-w{number}" for number in (2, 3, 4)]
    assert weathers(first[0], 1) == [first[0]]


def test_differences_of_worlds_cover_records_fields_and_clock_on_both_sides() -> None:
    env = staged()
    world, other = env.world, env.world.fork()
    assert differences(world, other) == set()
    other.put(replace(ticket(env), waiting_on="@a.b"))
    entry = world.get(Entry, role(env, "entry"))
    other.put(replace(entry, details=entry.details | {"brand_new": "1"}))
    other.put(replace(entry, id="E-90001"))
    expected = {("Ticket", ticket(env).id, "waiting_on"), ("Entry", entry.id, "brand_new")}
    for left, right in ((world, other), (other, world)):
        found = differences(left, right)
        assert expected <= found
        assert {key for _, key, _ in found - expected} == {"E-90001"}
    assert world.get(Ticket, ticket(env).id).waiting_on is None
    later = world.fork()
    later.advance(1)
    assert differences(world, later) == {("World", "", "clock, agenda or counters")}
    counted = world.fork()
    counted.count_up("anything")
    assert differences(world, counted) == {("World", "", "clock, agenda or counters")}
