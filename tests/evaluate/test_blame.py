"""Blame: facts that were not seen, and summaries. `tests/laws/test_blame.py` tests the decisive call."""

from collections.abc import Callable

from companyos.company import TOOLBOX
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make
from companyos.evaluate.judge.blame import ACT, NOTHING, TIME, Blame, blame, summarise_blames
from companyos.evaluate.judge.blame_text import sentences
from companyos.evaluate.judge.habits import habit_of
from tests.evaluate.helpers import transcript
from tests.helpers import role, staged, task_id


def way(env: CompanyEnv) -> list[Call]:
    return [turn.call for turn in transcript(env.task_id, "expert").turns]


def worked(env: CompanyEnv, keep: Callable[[Call], bool], *more: Call) -> Blame:
    """The blame of an agent that makes only those of the expert's calls that `keep` accepts, and then `more`."""
    for call in [*filter(keep, way(env)), *more]:
        env.step(call)
    return blame(env.transcript())


def closing(env: CompanyEnv, resolution: str, reason: str) -> Call:
    said = {"ticket_id": role(env, "ticket"), "resolution": resolution, "reason": reason, "evidence": []}
    return Call("ticketdesk", "resolve_ticket", said)


def ends(call: Call) -> bool:
    return TOOLBOX.tools[call.app, call.method].ends


def test_a_success_without_reading_is_luck() -> None:
    def acts(call: Call) -> bool:
        return TOOLBOX.tools[call.app, call.method].writes or call.method == "wait"

    found = worked(staged(), acts)
    assert (found.success, found.kind, found.step) == (True, NOTHING, 0)
    assert found.luck
    assert {"duplicate", "conflict", "insurance"} <= set(found.blind)


def test_an_episode_without_any_call_is_described_as_such() -> None:
    env = make(task_id(0))
    while not env.done:
        env.step("What shall I do?")
    found = blame(env.transcript())
    assert any(line.endswith(f'step {found.step}, where the agent sent: "What shall I do?"') for line in sentences(found))
    assert habit_of(found) == "ran out of steps, mostly with invalid calls"


def test_the_expert_is_never_lucky() -> None:
    for seed in range(6):
        found = blame(transcript(task_id(seed, "50"), "expert"))
        assert (found.success, found.luck, found.blind, found.misjudged) == (True, False, (), ())


def test_a_fact_that_was_shown_and_not_respected_is_misjudged() -> None:
    env = staged(insurance="expired")
    found = worked(env, lambda call: not ends(call), closing(env, "completed", "all_checks_passed"))
    assert (found.kind, found.step, found.tool) == (ACT, env.step_count, "ticketdesk.resolve_ticket")
    assert found.misjudged == ("insurance",)
    assert "insurance" not in found.blind
    assert "Ended" in found.missed


def test_blame_names_the_call_that_the_expert_would_have_made_and_why() -> None:
    env = staged(insurance="expired")
    found = worked(env, lambda call: not ends(call), closing(env, "completed", "all_checks_passed"))
    assert found.due.startswith(f"resolve_ticket {env.setting.case.ticket_id} on_hold document_expired ")
    assert found.working[-1].endswith(": document_expired")
    assert any(f"The expert would have called there: {found.due}" in line for line in sentences(found))


def test_a_success_has_no_call_that_should_have_been_made_instead() -> None:
    assert blame(transcript(task_id(1, "50"), "expert")).due == ""


def test_an_agent_that_closes_at_once_is_blind_to_the_fact() -> None:
    env = staged(insurance="expired")
    found = worked(env, lambda call: False, closing(env, "completed", "all_checks_passed"))
    assert (found.kind, found.step, found.late) == (ACT, 1, 1)
    assert "insurance" in found.blind
    assert found.misjudged == ()


def test_a_wrong_act_after_too_few_steps_were_left_is_marked_as_late() -> None:
    env = staged()
    idle = [Call("ticketdesk", "my_changes", {})] * (env.max_steps - 1)
    found = worked(env, lambda call: False, *idle, closing(env, "declined", "unused"))
    assert (found.kind, found.step) == (ACT, env.max_steps)
    assert 0 < found.late < found.step


def test_an_unfinished_episode_has_no_blame() -> None:
    env = staged()
    found = worked(env, lambda call: not ends(call))
    assert (found.success, found.kind, found.step, found.missed) == (False, NOTHING, 0, ())


def test_an_invalid_action_is_replayed_as_it_was_sent() -> None:
    env = make(task_id())
    while not env.done:
        env.step(["no call"])
    found = blame(env.transcript())
    assert found.kind == TIME
    assert found.tool == "."


def test_the_summary_counts_every_blame() -> None:
    found = [blame(transcript(task_id(seed, "50"), agent)) for seed in range(3) for agent in ("expert", "null", "random")]
    total = summarise_blames(found)
    assert (total.episodes, total.successes, total.luck) == (9, 3, 0)
    assert sum(total.kinds.values()) == sum(total.tools.values()) == sum(total.apps.values()) == 6
    assert total.kinds[TIME] >= 3
    assert all(0 <= failed <= struck <= 9 for failed, struck in total.dials.values())
    assert list(total.tools.values()) == sorted(total.tools.values(), reverse=True)
