"""Law: working lines (the expert's reasoning) show each comparison before it matters, with known values only."""

from collections.abc import Iterator
from functools import cache

import pytest

from companyos.assurance.prove import untold_working
from companyos.assurance.twins import twins_with_other_ending
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, make, task_named
from companyos.env.teacher import Spoken, work_aloud
from companyos.families import STARTER_FAMILIES
from companyos.families.kit.working import MAX_LINE_LENGTH
from tests.laws import DOSES, NAMES, seeds

SPOKEN = STARTER_FAMILIES  # the families whose experts say every comparison that decides an ending


def worked(name: str) -> Iterator[tuple[CompanyEnv, list[Spoken]]]:
    for dose in DOSES:
        for seed in seeds(20, 200, name=name):
            env = make(name, seed=seed, chaos=dose, reward="sparse")
            yield env, list(work_aloud(env))


@pytest.mark.parametrize("name", NAMES)
def test_a_working_line_is_short_and_holds_only_what_was_told_or_computed_aloud(name: str) -> None:
    lines = 0
    for env, spoken in worked(name):
        assert env.success, env.task_id
        assert untold_working(env, [one.working for one in spoken]) is None, env.task_id
        for line in (line for one in spoken for line in one.working):
            assert line.isascii(), (env.task_id, line)
            assert line.isprintable(), (env.task_id, line)
            assert len(line) <= MAX_LINE_LENGTH, (env.task_id, line)
            assert ": " in line or " = " in line, (env.task_id, line)
            lines += 1
    assert lines


def test_a_line_with_a_number_that_nothing_told_is_found() -> None:
    env = make("vendor_onboarding", seed=3, reward="sparse")
    working = [one.working for one in work_aloud(env)]
    assert untold_working(env, working) is None
    for wrong, value in (
        ("score 98765 > minimum 65: enough", "98765"),
        ("100 + 100 = 300", "300"),
        ("@no.body: in", "@no.body"),
    ):
        assert untold_working(env, [(wrong,), *working[1:]]) == (wrong, value)
    days = "2026-02-03 to 2026-03-10 = 25 + 10 = 35"
    assert untold_working(env, [*working[:-1], (days,)]) == (days, "2026-02-03")


@cache
def spoken_of(task_id: str) -> list[Spoken]:
    return list(work_aloud(CompanyEnv(TaskId.parse(task_id), "sparse")))


def partings(name: str, dose: float, seeds: range) -> Iterator[tuple[str, str, bool, bool]]:
    """Yield, for each pair of twins with different endings, whether the working lines or the last reply differ.

    They are compared where the twins part, that is, at the first call of the expert that differs.
    """
    for seed in seeds:
        task_id = str(task_named(name, seed, dose))
        for _, other in twins_with_other_ending(task_id):
            ours, theirs = spoken_of(task_id), spoken_of(other)
            number = next(n for n, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one.call != two.call)
            heard = number > 0 and ours[number - 1].reply != theirs[number - 1].reply
            said = bool(ours[number].working and theirs[number].working) and ours[number].working != theirs[number].working
            yield task_id, other, said, heard


@pytest.mark.parametrize("name", SPOKEN)
def test_where_ending_twins_part_their_working_lines_differ_or_the_last_reply_does(name: str) -> None:
    pairs = [*partings(name, 0.0, range(30)), *partings(name, 0.5, range(15))]
    said = sum(said for _, _, said, _ in pairs)
    print(f"{name}: {said} of {len(pairs)} partings with other working lines on both sides")
    assert [(task_id, other) for task_id, other, said, heard in pairs if not said and not heard] == []
    assert said >= 0.99 * len(pairs)
