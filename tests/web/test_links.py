"""Links to tasks: every server reads them, and nobody reads in them what is true."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.twins import twins
from companyos.core.errors import BadTask
from companyos.core.task import BENCHMARK_VERSION, MAX_SEED, SPLITS, TaskId
from companyos.families import FAMILIES
from companyos.web.links import link_code, task_of
from tests.helpers import STEADY, task_id

TASKS = st.builds(
    TaskId,
    st.sampled_from(list(FAMILIES)),
    st.sampled_from(SPLITS),
    st.integers(0, MAX_SEED),
    st.integers(0, 100).map(str),
)


@STEADY
@given(TASKS)
def test_a_link_leads_to_its_task(task: TaskId) -> None:
    assert task_of(link_code(task)) == task


def test_a_link_to_a_twin_names_neither_cause_nor_family() -> None:
    codes = set()
    for twin in twins(task_id(chaos="50")):
        code = link_code(TaskId.parse(twin.task_id))
        assert str(task_of(code)) == twin.task_id
        assert twin.cause not in code
        assert "vendor" not in code
        codes.add(code[:12])
    assert len(codes) > 3, "twins begin alike in their ids, and not in their links"


@STEADY
@given(st.text(string.ascii_letters + string.digits + "-_é", max_size=250))
def test_what_is_no_link_leads_to_no_task(code: str) -> None:
    with pytest.raises(BadTask):
        task_of(code)


def test_a_link_that_was_cut_or_of_another_version_leads_nowhere() -> None:
    code = link_code(TaskId.parse(task_id()))
    with pytest.raises(BadTask, match="cut short"):
        task_of(code[:-3])
    old = link_code(TaskId("vendor_onboarding", "train", 7, "50", version=BENCHMARK_VERSION - 1))
    with pytest.raises(BadTask, match="of benchmark version"):
        task_of(old)
