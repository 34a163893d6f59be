"""Tests of the teacher: the expert's next call from any state."""

from collections.abc import Iterator

from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, run_expert
from companyos.env.teacher import LOST, OVER, Due, Teacher, due, work_aloud
from companyos.families.kit.working import days
from tests.helpers import staged


def vendor(seed: int = 3, chaos: float = 0.0) -> CompanyEnv:
    return make("vendor_onboarding", seed=seed, chaos=chaos, reward="sparse")


def ticket_of(env: CompanyEnv) -> str:
    return env.setting.case.ticket_id


def expert_calls(env: CompanyEnv) -> list[Call]:
    fork = env.fork()
    run_expert(fork)
    return [turn.call for turn in fork.turns]


def test_working_aloud_makes_the_same_calls_as_working() -> None:
    aloud, silent = vendor(chaos=0.5), vendor(chaos=0.5)
    spoken = list(work_aloud(aloud))
    run_expert(silent)
    assert [spoken_turn.call for spoken_turn in spoken] == [turn.call for turn in silent.turns]
    assert [spoken_turn.reply for spoken_turn in spoken] == [turn.reply for turn in silent.turns]
    assert any(spoken_turn.working for spoken_turn in spoken)
    assert not any(isinstance(turn.call, str) for turn in aloud.turns)
    assert aloud.digest() == silent.digest()


def test_a_record_that_was_read_early_is_not_read_again() -> None:
    env = staged(reward="sparse")
    calls = expert_calls(env)
    early = next(call for call in calls[2:] if call.method == "describe_metric")
    env.step(early)
    teacher, made_calls = Teacher(env), []
    while not env.done:
        call = teacher.due().call
        assert call is not None
        made_calls.append(call)
        env.step(call)
    assert env.success
    assert made_calls == [call for call in calls if call != early]


def test_a_reading_that_nobody_needs_changes_nothing_of_what_is_due() -> None:
    env = vendor()
    teacher = Teacher(env)
    before = teacher.due()
    env.step(Call("ticketdesk", "read_inbox", {}))
    assert (teacher.due().call, teacher.due().working) == (before.call, before.working)


def test_a_call_that_was_refused_before_its_time_is_still_due_later() -> None:
    env = staged(reward="sparse")
    calls = expert_calls(env)
    link = next(call for call in calls if call.params.get("field") == "approval")
    env.step(link)
    assert not env.turns[-1].reply.ok
    teacher, made_calls = Teacher(env), []
    while not env.done:
        call = teacher.due().call
        assert call is not None
        made_calls.append(call)
        env.step(call)
    assert env.success
    assert made_calls == calls


def test_a_wrong_write_is_undone_and_earlier_reads_are_not_repeated() -> None:
    env = vendor()
    calls = expert_calls(env)
    for call in calls[:6]:
        env.step(call)
    env.step(Call("ticketdesk", "update_ticket", {"ticket_id": ticket_of(env), "field": "priority", "value": "low"}))
    env.step(Call("ticketdesk", "update_ticket", {"ticket_id": ticket_of(env), "field": "priority", "value": "urgent"}))
    restarted = env.fork()
    run_expert(restarted)
    steps = Teacher(env).due().steps
    assert steps is not None
    assert steps <= restarted.step_count - env.step_count


def test_the_comment_may_be_in_other_words() -> None:
    env = make("expense_report", seed=next(_seeds_with_a_question()), reward="sparse")
    calls = expert_calls(env)
    asked = next(number for number, call in enumerate(calls) if call.method == "comment")
    for call in calls[:asked]:
        env.step(call)
    env.step(Call("ticketdesk", "comment", {**calls[asked].params, "text": "Hello! How many people had the meal?"}))
    assert Teacher(env).due().call == calls[asked + 1]


def _seeds_with_a_question() -> Iterator[int]:
    for seed in range(50):
        if any(call.method == "comment" for call in expert_calls(make("expense_report", seed=seed, reward="sparse"))):
            yield seed


def test_an_episode_that_is_over_or_lost_has_nothing_due() -> None:
    env = vendor()
    calls = expert_calls(env)
    lost = env.fork()
    wrong = {"ticket_id": ticket_of(env), "resolution": "declined", "reason": "unused", "evidence": []}
    lost.step(Call("ticketdesk", "resolve_ticket", wrong))
    assert due(lost).call is None
    assert due(lost).why in (OVER, LOST + "irreversible")
    for call in calls:
        env.step(call)
    assert due(env) == Due(why=OVER)


def test_the_teacher_says_when_the_steps_left_are_too_few() -> None:
    env = vendor()
    teacher, waiting = Teacher(env), Call("ticketdesk", "read_inbox", {})
    assert teacher.due().in_time
    steps = teacher.due().steps
    assert steps is not None
    while env.steps_left() >= steps:
        env.step(waiting)
    late = teacher.due()
    assert late.call is not None
    assert late.in_time is False


def test_days_are_counted_month_by_month() -> None:
    said = days("2026-01-15 09:30", "2026-03-10")
    assert next(said).text == "2026-01-15 to 2026-03-10 = 16 + 28 + 10 = 54"
    assert next(days("2026-03-02", "2026-03-10")).text == "2026-03-02 to 2026-03-10 = 8"
    assert next(days("2026-12-30", "2027-01-02")).text == "2026-12-30 to 2027-01-02 = 1 + 2 = 3"
    assert next(days("2026-03-10", "2026-03-02")).text == "2026-03-10 to 2026-03-02 = -8"
