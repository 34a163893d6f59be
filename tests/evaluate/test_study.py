"""A study keeps a run folder that is complete after every episode and that it can open again."""

import json
from pathlib import Path

import pytest

from companyos.evaluate.reports.report import read_run
from companyos.evaluate.runs.run import BadRun
from companyos.evaluate.runs.study import StudyRun
from companyos.evaluate.runs.submission import check
from companyos.evaluate.suites.suite import suite_of
from tests.evaluate.helpers import transcript

TASKS = ("expense_report-v4-train-3-0", "vendor_onboarding-v4-train-7-0")
SUITE = suite_of("list", TASKS)
ALICE, BOB = 17, 23


def text(task_id: str, agent: str) -> str:
    return transcript(task_id, agent).to_jsonl()


def test_each_person_who_finishes_a_task_makes_one_trial_of_it(tmp_path: Path) -> None:
    study = StudyRun(tmp_path, SUITE)
    assert study.done_by(ALICE) == {}
    study.record_end(ALICE, TASKS[0], text(TASKS[0], "expert"), 61.25)
    study.record_end(BOB, TASKS[0], text(TASKS[0], "null"), 5.0)
    study.record_end(ALICE, TASKS[0], text(TASKS[0], "null"), 9.0)  # a second episode of the same visitor is left out
    assert study.done_by(ALICE) == {TASKS[0]: True}
    assert study.done_by(BOB) == {TASKS[0]: False}
    run = read_run(tmp_path)
    assert [(one.task_id, one.trial, one.success, one.seconds) for one in run.outcomes] == [
        (TASKS[0], 0, True, 61.2),
        (TASKS[0], 1, False, 5.0),
    ]
    assert run.results.overall.numbers["seconds"].value == pytest.approx(33.1)
    assert (run.plan.agent, run.plan.trials) == ("person", 2)


def test_a_study_that_is_opened_again_knows_its_visitors(tmp_path: Path) -> None:
    study = StudyRun(tmp_path, SUITE)
    study.record_start(ALICE, TASKS[0])
    for visitor in (ALICE, BOB):
        study.record_end(visitor, TASKS[0], text(TASKS[0], "expert"), 60.0)
    before = (tmp_path / "results.json").read_bytes()
    again = StudyRun(tmp_path, SUITE)
    assert again.done_by(BOB) == {TASKS[0]: True}
    again.record_end(BOB, TASKS[1], text(TASKS[1], "expert"), 60.0)
    assert (tmp_path / "results.json").read_bytes() != before
    assert [(one.task_id, one.trial) for one in read_run(tmp_path).outcomes] == [(TASKS[0], 0), (TASKS[0], 1), (TASKS[1], 0)]
    assert json.loads((tmp_path / "starts.jsonl").read_text()) == {"visitor": ALICE, "task_id": TASKS[0]}


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    StudyRun(tmp_path, SUITE)
    with pytest.raises(BadRun, match="holds a run of person on list"):
        StudyRun(tmp_path, suite_of("other", TASKS[:1]))


def test_seconds_that_were_edited_are_found(tmp_path: Path) -> None:
    study = StudyRun(tmp_path, SUITE)
    for task_id in TASKS:
        study.record_end(ALICE, task_id, text(task_id, "expert"), 60.0)
    assert check(tmp_path).findings == ()
    person = next(tmp_path.rglob("*.person.json"))
    person.write_text(person.read_text().replace("60.0", "6.0"))
    assert {finding.where for finding in check(tmp_path).findings} == {"outcomes.jsonl", "results.json"}
