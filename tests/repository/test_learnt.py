"""What trained models are measured by is what it was, and the page says what their outcomes say."""

import pytest

from companyos.evaluate.suites.suite import Suite
from tools.held_out import file_of, suites
from tools.learnt import PAGE, STAGES, outcomes, page


@pytest.fixture(scope="module")
def frozen() -> dict[str, Suite]:
    return {one.name: one for one in suites()}


def test_what_is_held_out_is_what_was_frozen(frozen: dict[str, Suite]) -> None:
    for one in frozen.values():
        assert file_of(one).read_text() == one.to_text()


def test_tasks_at_other_doses_are_held_out_ones_but_for_the_dose(frozen: dict[str, Suite]) -> None:
    at_half = {task_id.rsplit("-", 1)[0] for task_id in frozen["held_out"].tasks}
    others = frozen["doses"].tasks
    assert {task_id.rsplit("-", 1)[0] for task_id in others} < at_half
    assert not {*others} & {*frozen["held_out"].tasks}


def test_the_page_is_what_the_outcomes_say() -> None:
    assert PAGE.read_text() == page(), "run `python -m tools.learnt`"


def test_every_stage_has_played_all_of_it(frozen: dict[str, Suite]) -> None:
    for stage in STAGES:
        expected = frozen["base" if stage == "base" else "held_out"].tasks
        assert {one.task_id for one in outcomes(stage)} == {*expected}
    for stage in ("warm", "grpo"):
        assert {one.task_id for one in outcomes(stage, "doses")} == {*frozen["doses"].tasks}
