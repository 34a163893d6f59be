"""Every server can decode a task link, and a reader of the link does not see the task's causes."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.assurance.twins import twins
from companyos.core.errors import BadTask
from companyos.core.task import BENCHMARK_VERSION, MAX_SEED, SPLITS, TaskId
from companyos.families import FAMILIES
from companyos.web.links import decode_task_link, encode_task_link
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
    assert decode_task_link(encode_task_link(task)) == task


def test_a_link_to_a_twin_names_neither_cause_nor_family() -> None:
    codes = set()
    for twin in twins(task_id(chaos="50")):
        code = encode_task_link(TaskId.parse(twin.task_id))
        assert str(decode_task_link(code)) == twin.task_id
        assert twin.cause not in code
        assert "vendor" not in code
        codes.add(code[:12])
    assert len(codes) > 3, "twins begin alike in their ids, and not in their links"


@STEADY
@given(st.text(string.ascii_letters + string.digits + "-_é", max_size=250))
def test_random_text_is_not_a_task_link(code: str) -> None:
    with pytest.raises(BadTask):
        decode_task_link(code)


def test_a_truncated_link_or_one_of_another_version_is_refused() -> None:
    code = encode_task_link(TaskId.parse(task_id()))
    with pytest.raises(BadTask, match="cut short"):
        decode_task_link(code[:-3])
    old = encode_task_link(TaskId("vendor_onboarding", "train", 7, "50", version=BENCHMARK_VERSION - 1))
    with pytest.raises(BadTask, match="of benchmark version"):
        decode_task_link(old)
