"""Quarter close: the order of due dates, the CFO's limit, and work on several tickets at a time."""

from collections.abc import Iterator
from functools import cache

import pytest
from msgspec.structs import replace

from companyos import agents
from companyos.assurance.twins import do
from companyos.company import Approval, Entry, Ticket
from companyos.core.calls import OK, Call, Program, Reply, silent
from companyos.core.errors import Stuck
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import FAMILIES, EpisodeSoFar, ExpertStyle, quarter_close
from companyos.families.kit.family import Linked
from companyos.families.kit.moves import Move
from companyos.families.quarter_close import BEYOND_LIMIT
from companyos.families.quarter_desk import TOO_MANY, SharedOffice, TicketJob, run_jobs
from companyos.families.quarter_queue import ALWAYS_LATE, case_at, causes_at, draw_queue
from tests.helpers import role, step, ticket

FAMILY = "quarter_close"
SEEDS = range(12)
NOBODY = SharedOffice(frozenset(), 0)


def linked(env: CompanyEnv) -> dict[str, Linked]:
    """Return the tickets of the queue by place, ordered by due date."""
    return {one.name: one for one in env.setting.ending.linked}


def due(env: CompanyEnv, slot: str) -> str:
    return env.world.get(Entry, role(env, f"{slot}.item")).status


@cache
def limited() -> str:
    """Return a task in which the CFO signs for one ticket and not for one that is due later."""
    for seed in range(300):
        env = make(FAMILY, seed=seed)
        if env.setting.ending.name == "cannot_be_done/above_limit":
            return env.task_id
    raise AssertionError("no such seed among the first 300")


def signed_and_put_off(env: CompanyEnv) -> tuple[str, str]:
    """Return the place of a ticket that the CFO signs for, and of one that is beyond the limit."""
    queue = linked(env)
    signed = [slot for slot, one in queue.items() if one.ending.decider == "CFO" and one.ending.signatures]
    beyond = [slot for slot, one in queue.items() if one.ending.name == BEYOND_LIMIT]
    return signed[0], beyond[0]


def worked_up_to_the_close(env: CompanyEnv) -> tuple[CompanyEnv, Call]:
    """Return an episode in which the whole queue is resolved, and the call that would end it."""
    solved, rest = env.fork(), env.fork()
    run_expert(solved)
    for turn in solved.turns[:-1]:
        rest.step(turn.call)
    return rest, solved.turns[-1].call


# -- the queue ---------------------------------------------------------------------------------------------------------


def test_a_close_has_eight_to_ten_tickets_and_the_register_names_each_once() -> None:
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        tickets = {one.ticket_id for one in env.setting.ending.linked}
        found = env.world.search(Entry, ticket(env).reference)
        named = [entry.name.split(", ")[0] for entry in found if entry.kind == "close_item"]
        assert 8 <= len(tickets) <= 10
        assert sorted(named) == sorted(tickets)
        assert {env.world.get(Ticket, one).desk for one in tickets} == {"close"}


def test_a_case_in_time_ends_as_its_own_family_has_it_unless_it_is_beyond_the_limit() -> None:
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        world, case, causes = env.setting.world, env.setting.case, env.setting.causes
        for place in draw_queue(world.streams, causes.overdue):
            ending = linked(env)[place.slot].ending
            if place.standing == "in_time" and ending.name != BEYOND_LIMIT:
                case_causes = causes_at(world.streams, place, causes)
                assert ending == place.family.judge(world, case_at(world, case, place), case_causes)
            elif place.standing != "in_time":
                assert ending.name == f"on_hold/{place.standing}"


def test_every_other_family_except_two_occurs_in_queues() -> None:
    met = {place.family.name for seed in range(30) for place in draw_queue(make(FAMILY, seed=seed).world.streams, False)}
    assert met == set(FAMILIES) - {FAMILY, "license_renewal", "budget_transfer"}


def test_most_tasks_take_90_to_200_steps() -> None:
    lengths = []
    for seed in range(20):
        env = make(FAMILY, seed=seed, chaos=0.5, reward="sparse")
        run_expert(env)
        lengths.append(env.step_count)
    assert sum(90 <= length <= 200 for length in lengths) >= 0.75 * len(lengths), sorted(lengths)


# -- deadlines and the one who signs ------------------------------------------------------------------------------------


def test_of_two_tickets_that_the_cfo_would_sign_the_one_due_first_is_signed() -> None:
    env = make(limited())
    signed, beyond = signed_and_put_off(env)
    assert due(env, signed) < due(env, beyond)


def test_to_swap_two_due_dates_swaps_who_is_signed_for() -> None:
    env = make(limited())
    setting, family = env.setting, FAMILIES[FAMILY]
    signed, beyond = signed_and_put_off(env)
    world = setting.world.fork()
    for one, other in ((signed, beyond), (beyond, signed)):
        world.put_at_start(replace(world.get(Entry, role(env, f"{one}.item")), status=due(env, other)))
    swapped = {one.name: one.ending for one in family.judge(world, setting.case, setting.causes).linked}
    assert swapped[beyond].decider == "CFO"
    if setting.causes.signatures == "one":
        assert swapped[signed].name == BEYOND_LIMIT


def test_one_signature_more_and_the_limit_does_not_decide() -> None:
    for seed in range(300):
        env = make(FAMILY, seed=seed)
        beyond = [one for one in env.setting.ending.linked if one.ending.name == BEYOND_LIMIT]
        if env.setting.causes.signatures == "one" and len(beyond) == 1:
            other = make(do(env.task_id, signatures="two")).setting.ending
            assert BEYOND_LIMIT not in [one.ending.name for one in other.linked]
            return
    raise AssertionError("no such seed among the first 300")


def test_a_signature_beyond_the_limit_cannot_be_made_good() -> None:
    env = make(limited())
    _, beyond = signed_and_put_off(env)
    one = linked(env)[beyond]
    place = next(p for p in draw_queue(env.world.streams, env.setting.causes.overdue) if p.slot == beyond)
    program = place.family.expert(EpisodeSoFar(one.ticket_id, "Mon 2026-01-05 09:00"), ExpertStyle())
    call = next(program)
    while call.method != "resolve_ticket":  # works on it as if there were no limit
        env.step(call)
        call = program.send(env.turns[-1].reply)
    assert any(a.status == "approved" and a.ticket_id == one.ticket_id for a in env.world.all(Approval))
    assert env.lost() == "damage"


def test_one_more_late_item_changes_the_ending() -> None:
    for seed in range(300):
        env = make(FAMILY, seed=seed)
        if env.setting.ending.name == "completed/all_checks_passed":
            late = make(do(env.task_id, overdue=True))
            assert late.setting.ending.name == "on_hold/too_late"
            assert sum(one.ending.name == "on_hold/too_late" for one in late.setting.ending.linked) == ALWAYS_LATE + 1
            return
    raise AssertionError("no such seed among the first 300")


# -- how the tickets hang together --------------------------------------------------------------------------------------


def test_how_the_cases_end_decides_how_the_close_ends() -> None:
    for seed in range(300):
        env = make(FAMILY, seed=seed)
        if env.setting.ending.name == "completed/all_checks_passed" and linked(env)["vendor"].ending.decider == "CFO":
            other = make(do(env.task_id, vendor_conflict="requester"))
            assert linked(other)["vendor"].ending.name == "escalated/conflict_of_interest"
            assert other.setting.ending.name == "escalated/beyond_authority"
            return
    raise AssertionError("no such seed among the first 300")


def test_closing_a_ticket_of_the_queue_ends_nothing_and_closing_the_close_does() -> None:
    env = make(FAMILY, seed=1)
    rest, last = worked_up_to_the_close(env)
    tickets = [rest.world.get(Ticket, one.ticket_id) for one in env.setting.ending.linked]
    assert all(one.resolution is not None for one in tickets)
    assert not rest.done
    rest.step(last)
    assert rest.success


def test_a_verdict_says_of_every_goal_what_it_asks_for_the_linked_tickets_included() -> None:
    env = make(FAMILY, seed=7)
    run_expert(env)
    assert env.verdict is not None
    asks = {name: env.setting.ending.asks(name) for name in env.verdict.goals}
    assert all(asks.values())
    for one in linked(env).values():
        assert one.ticket_id in asks[f"Linked:{one.name}"]


def test_closing_the_close_first_fails_all_its_tickets() -> None:
    env = make(FAMILY, seed=1)
    _, last = worked_up_to_the_close(env)
    env.step(last)
    assert env.verdict is not None
    assert [goal for goal in env.verdict.goals if goal.startswith("Linked:") and env.verdict.goals[goal]] == []
    assert not env.success


def test_a_ticket_of_the_queue_that_is_closed_wrongly_is_lost_and_the_verdict_names_it() -> None:
    env = make(FAMILY, seed=1)
    late = linked(env)["late_1"]
    closing = {"resolution": "completed", "reason": "all_checks_passed", "evidence": []}
    step(env, "ticketdesk.resolve_ticket", ticket_id=late.ticket_id, **closing)
    assert env.lost() == "irreversible"
    run_expert(env)
    assert env.verdict is not None
    assert not env.verdict.goals["Linked:late_1"]


def test_a_case_is_judged_when_it_is_closed_however_old_its_figures_grow_after_that() -> None:
    for seed in range(5):
        rest, last = worked_up_to_the_close(make(FAMILY, seed=seed))
        again = rest.fresh_budget()
        for _ in range(15):
            again.step(Call("ticketdesk", "wait", {"hours": 72}))
        assert again.lost() is None
        again.step(last)
        assert again.verdict is not None
        assert all(holds for goal, holds in again.verdict.goals.items() if goal.startswith("Linked:"))


def test_a_comment_on_a_ticket_of_the_queue_does_no_harm_and_on_any_other_it_does() -> None:
    env = make(FAMILY, seed=1)
    own = env.setting.ending.linked[0].ticket_id
    step(env, "ticketdesk.comment", ticket_id=own, text="I am on it.")
    assert env.lost() is None
    other = next(t.id for t in env.world.all(Ticket) if t.id not in env.setting.needed_changes)
    step(env, "ticketdesk.comment", ticket_id=other, text="I am on it.")
    assert env.lost() == "damage"


def test_a_script_that_won_elsewhere_wins_nothing() -> None:
    for source in range(5):
        for seed in range(3):
            env = make(FAMILY, seed=seed, chaos=0.5, reward="sparse")
            assert not agents.play(env, agents.make("blind_script", source)).success


# -- one pair of hands --------------------------------------------------------------------------------------------------


def one_after_the_other(jobs: list[TicketJob], office: SharedOffice, beyond_limit: dict[str, Program]) -> Move[None]:
    for number in range(len(jobs)):
        yield from run_jobs(jobs[: number + 1], office, beyond_limit)


def test_working_while_other_tickets_wait_takes_less_time_and_fewer_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: dict[bool, tuple[int, int]] = {}
    for in_turns in (True, False):
        if not in_turns:
            monkeypatch.setattr(quarter_close, "run_jobs", one_after_the_other)
        steps = minutes = 0
        for seed in SEEDS:
            env = make(FAMILY, seed=seed, chaos=0.5, reward="sparse")
            began = env.world.now
            run_expert(env)
            assert env.success
            steps, minutes = steps + env.step_count, minutes + env.world.now - began
        spent[in_turns] = steps, minutes
    print(f"in turns {spent[True]}, one after the other {spent[False]} (steps, minutes)")
    assert spent[True][0] < spent[False][0]
    assert spent[True][1] < spent[False][1]


def waiter(ticket_id: str, waits: int) -> Program:
    yield Call("ticketdesk", "get_ticket", {"ticket_id": ticket_id})
    for _ in range(waits):
        yield Call("ticketdesk", "wait", {"hours": 24})
        yield Call("ticketdesk", "get_ticket", {"ticket_id": ticket_id})


def drive(program: Program, news: Iterator[list[str]]) -> list[str]:
    """Return the calls of a program, when each wait brings messages about these records."""
    done = []
    try:
        call = next(program)
        while True:
            done.append(call.params.get("ticket_id") or call.method)
            arrived = [{"topic": "comment", "about": about} for about in next(news)] if call.method == "wait" else []
            call = program.send(Reply(True, OK, {"arrived": arrived}))
    except StopIteration:
        return done


def test_time_passes_only_when_all_wait_and_who_goes_on_is_who_the_news_is_about() -> None:
    jobs = [TicketJob("T-1", waiter("T-1", 1)), TicketJob("T-2", waiter("T-2", 2))]
    done = drive(silent(run_jobs(jobs, NOBODY, {})), iter([["T-2"], ["T-1"], []]))
    assert done == ["T-1", "T-2", "wait", "T-2", "wait", "T-1", "wait", "T-2"]
    assert all(job.done for job in jobs)


def test_if_no_message_arrives_all_jobs_go_on() -> None:
    jobs = [TicketJob("T-1", waiter("T-1", 1)), TicketJob("T-2", waiter("T-2", 1))]
    assert drive(silent(run_jobs(jobs, NOBODY, {})), iter([[]])) == ["T-1", "T-2", "wait", "T-1", "T-2"]


def test_a_message_that_announces_a_delay_wakes_no_job() -> None:
    job = TicketJob("T-1", waiter("T-1", 1))
    program = silent(run_jobs([job], NOBODY, {}))
    next(program)
    assert program.send(Reply(True, OK, {})).method == "wait"
    letters = [{"topic": "queue", "about": "T-1"}]
    assert program.send(Reply(True, OK, {"arrived": letters})).method == "wait"


def asker(ticket_id: str, waits: int) -> Program:
    yield from waiter(ticket_id, waits)
    data = {"ticket_id": ticket_id}
    yield Call(
        "approvalflow", "submit_approval", {"approver": "@the.cfo", "approval_type": f"for {ticket_id}", "data": data}
    )


def put_off(ticket_id: str) -> Program:
    yield Call("ticketdesk", "resolve_ticket", {"ticket_id": f"{ticket_id} put off"})


def test_who_is_due_first_is_asked_for_first_however_long_that_takes() -> None:
    cfo = SharedOffice(frozenset({"@the.cfo"}), 1)
    jobs = [TicketJob("T-1", asker("T-1", 2)), TicketJob("T-2", asker("T-2", 0))]
    done = drive(silent(run_jobs(jobs, cfo, {"T-2": put_off("T-2")})), iter([[], []]))
    assert done == ["T-1", "T-2", "wait", "T-1", "wait", "T-1", "submit_approval", "T-2 put off"]


def test_a_ticket_that_needs_no_signature_leaves_it_to_the_next() -> None:
    cfo = SharedOffice(frozenset({"@the.cfo"}), 1)
    jobs = [TicketJob("T-1", waiter("T-1", 1)), TicketJob("T-2", asker("T-2", 0))]
    assert drive(silent(run_jobs(jobs, cfo, {})), iter([[]])) == ["T-1", "T-2", "wait", "T-1", "submit_approval"]


def test_a_request_that_is_one_too_many_is_submitted_again_later() -> None:
    job = TicketJob("T-1", asker("T-1", 0))
    program = silent(run_jobs([job], NOBODY, {}))
    assert next(program).method == "get_ticket"
    asked = program.send(Reply(True, OK, {}))
    assert program.send(Reply(False, TOO_MANY)).method == "wait"
    assert program.send(Reply(True, OK, {"arrived": []})) == asked


def test_an_expert_that_is_stuck_says_so() -> None:
    def stuck() -> Program:
        yield Call("ticketdesk", "get_ticket", {"ticket_id": "T-1"})
        raise Stuck("no way")

    program = silent(run_jobs([TicketJob("T-1", stuck())], NOBODY, {}))
    next(program)
    with pytest.raises(Stuck):
        program.send(Reply(True, OK, {}))
