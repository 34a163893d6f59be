"""Sessions: episodes that many callers hold at once, and that outlive the memory and the process they run in."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from companyos.calls import Call
from companyos.env import CompanyEnv, make, task_named, work
from companyos.serve.errors import (
    LedgerDown,
    OtherVersion,
    OverCapacity,
    ServeError,
    SessionOver,
    TurnAhead,
    TurnTaken,
    UnknownSession,
)
from companyos.serve.ledger import Ledger, NoLedger, Row, SqliteLedger
from companyos.serve.sessions import Session, Sessions
from companyos.serve.steps import Outcome, Step
from tests.helpers import FAMILY

TASK = task_named(FAMILY, 7, 0.5)
LIST = Call("ticketdesk", "list_tickets")
INBOX = Call("ticketdesk", "my_changes")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def expert_calls(progress: bool = False) -> tuple[CompanyEnv, list[Call]]:
    env = CompanyEnv(TASK, "seed", progress)
    work(env)
    return env, [turn.call for turn in env.turns]


def two_workers(folder: Path) -> tuple[Sessions, Sessions]:
    return Sessions(SqliteLedger(str(folder / "it"))), Sessions(SqliteLedger(str(folder / "it")))


def id_of(session: Session) -> str:
    return session.header.session_id


def test_session_ids_cannot_be_guessed() -> None:
    sessions = Sessions(NoLedger())
    ids = {id_of(sessions.create(TASK)) for _ in range(50)}
    assert len(ids) == 50
    assert {len(name) for name in ids} == {32}


def test_a_session_is_the_episode_that_it_would_be_in_process() -> None:
    env, calls = expert_calls()
    sessions = Sessions(NoLedger())
    session = sessions.create(TASK)
    outcomes = [sessions.step(Step(id_of(session), call)) for call in calls]
    assert [outcome.observation.reward for outcome in outcomes] == [turn.reward for turn in env.turns]
    assert [outcome.success for outcome in outcomes] == [None] * (len(calls) - 1) + [True]
    assert session.env.digest() == env.digest()


# -- turns -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [False, True])
def test_the_same_turn_and_call_again_gives_the_recorded_reply(progress: bool) -> None:
    _, calls = expert_calls()
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK, progress=progress))
    first = [sessions.step(Step(name, call, turn)) for turn, call in enumerate(calls, 1)]
    again = [sessions.step(Step(name, call, turn)) for turn, call in enumerate(calls, 1)]
    assert again == first
    assert len(sessions.observe(name).env.turns) == len(calls)


def test_another_call_at_a_turn_that_was_made_is_turned_away() -> None:
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK))
    sessions.step(Step(name, LIST, 1))
    for other in (INBOX, Call("ticketdesk", "list_tickets", {"page": 1})):
        with pytest.raises(TurnTaken) as taken:
            sessions.step(Step(name, other, 1))
        assert taken.value.stands == LIST


def test_arguments_are_the_same_in_any_order_and_not_by_pythons_notion_of_equality() -> None:
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK))
    first = sessions.step(Step(name, Call("ticketdesk", "list_tickets", {"page": 1, "status": "open"}), 1))
    assert sessions.step(Step(name, Call("ticketdesk", "list_tickets", {"status": "open", "page": 1}), 1)) == first
    with pytest.raises(TurnTaken):
        sessions.step(Step(name, Call("ticketdesk", "list_tickets", {"page": True, "status": "open"}), 1))


def test_a_turn_that_is_not_due_is_turned_away() -> None:
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK))
    with pytest.raises(TurnAhead, match="the next is 1"):
        sessions.step(Step(name, LIST, 2))


def test_an_ended_session_answers_with_its_final_result_even_after_it_left_memory() -> None:
    env, calls = expert_calls()
    clock = Clock()
    sessions = Sessions(NoLedger(), clock=clock)
    name = id_of(sessions.create(TASK))
    for call in calls:
        last = sessions.step(Step(name, call))
    for _ in range(2):
        with pytest.raises(SessionOver) as over:
            sessions.step(Step(name, LIST))
        assert over.value.result == last
        assert sessions.step(Step(name, calls[-1], len(calls))) == last
        sessions.sweep()
        assert len(sessions) == 0
    assert sessions.observe(name).env.digest() == env.digest()


# -- many at once ------------------------------------------------------------------------------------------------------


def test_steps_of_one_commit_are_answered_each_by_itself_and_in_order() -> None:
    sessions = Sessions(NoLedger())
    a, b = id_of(sessions.create(TASK)), id_of(sessions.create(TASK))
    steps = [Step(a, LIST), Step("nobody", LIST), Step(b, INBOX), Step(a, INBOX), Step(a, LIST, 9), Step(a, LIST, 3)]
    answers = sessions.step_all(steps)
    kinds = [Outcome, UnknownSession, Outcome, Outcome, TurnAhead, Outcome]
    assert [type(answer) for answer in answers] == kinds
    assert sessions.observe(a).calls == [LIST, INBOX, LIST]
    assert sessions.observe(b).calls == [INBOX]


def test_forks_go_on_each_by_itself() -> None:
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK, reward="score", owner="me"))
    sessions.step(Step(name, LIST, owner="me"))
    one, two = sessions.fork(name, "me", 2)
    sessions.step(Step(id_of(one), INBOX, owner="me"))
    assert [len(sessions.observe(n, "me").calls) for n in (name, id_of(one), id_of(two))] == [1, 2, 1]
    fresh = Sessions(sessions.ledger)
    assert fresh.observe(id_of(one), "me").env.digest() == one.env.digest()
    assert fresh.observe(id_of(two), "me").header.reward == "score"


def test_a_session_is_only_its_owners() -> None:
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK, owner="me"))
    attempts: list[Callable[[Sessions], object]] = [
        lambda s: s.step(Step(name, LIST, owner="you")),
        lambda s: s.observe(name, ""),
        lambda s: s.fork(name, "you"),
        lambda s: s.close(name, "you"),
    ]
    for worker in (sessions, Sessions(sessions.ledger)):
        for attempt in attempts:
            with pytest.raises(UnknownSession):
                attempt(worker)
        assert worker.observe(name, None).calls == []


# -- memory ------------------------------------------------------------------------------------------------------------


def test_idle_sessions_leave_memory_and_come_back_by_replay() -> None:
    _, calls = expert_calls()
    clock = Clock()
    sessions = Sessions(NoLedger(), idle_seconds=60, clock=clock)
    name = id_of(sessions.create(TASK))
    for call in calls[:10]:
        last = sessions.step(Step(name, call))
    before = sessions.observe(name)
    clock.now += 61
    sessions.sweep()
    assert len(sessions) == 0
    after = sessions.observe(name)
    assert after is not before
    assert after.env.digest() == before.env.digest()
    assert after.outcome == last
    assert sessions.step(Step(name, calls[10])).observation.step == 11


def test_over_capacity_says_when_to_come_again_and_never_throws_out_who_is_at_work() -> None:
    clock = Clock()
    sessions = Sessions(NoLedger(), capacity=2, idle_seconds=60, clock=clock)
    first = id_of(sessions.create(TASK))
    clock.now += 20
    second = id_of(sessions.create(TASK))
    with pytest.raises(OverCapacity) as full:
        sessions.create(TASK)
    assert full.value.retry_after == 40
    with pytest.raises(OverCapacity):
        sessions.fork(second)
    clock.now += 45
    third = id_of(sessions.create(TASK))  # the second in its turn has been idle for less than a minute
    sessions.step(Step(second, LIST))
    with pytest.raises(OverCapacity):
        sessions.step(Step(first, LIST))
    sessions.close(third)
    assert sessions.step(Step(first, LIST)).observation.step == 1


def test_who_has_waited_longest_leaves_first_however_old_the_others_are() -> None:
    clock = Clock()
    sessions = Sessions(NoLedger(), capacity=2, idle_seconds=60, clock=clock)
    old, young = id_of(sessions.create(TASK)), id_of(sessions.create(TASK))
    clock.now += 40
    sessions.step(Step(old, LIST))
    clock.now += 40
    sessions.create(TASK)
    assert old in sessions._live
    assert young not in sessions._live


def test_ended_sessions_make_room_first() -> None:
    _, calls = expert_calls()
    sessions = Sessions(NoLedger(), capacity=2)
    sessions.create(TASK)
    done = id_of(sessions.create(TASK))
    for call in calls:
        sessions.step(Step(done, call))
    sessions.create(TASK)
    with pytest.raises(OverCapacity):
        sessions.create(TASK)


def test_sessions_expire_after_their_last_step_and_for_good() -> None:
    clock = Clock()
    sessions = Sessions(NoLedger(), idle_seconds=1e9, ttl_seconds=100, clock=clock)
    quiet, busy = id_of(sessions.create(TASK)), id_of(sessions.create(TASK))
    clock.now += 90
    sessions.step(Step(busy, LIST))
    clock.now += 20
    with pytest.raises(UnknownSession):
        sessions.step(Step(quiet, LIST))
    sessions.step(Step(busy, LIST))
    clock.now += 101
    sessions.sweep()
    assert sessions.ledger.read(busy) is None


def test_a_session_of_another_version_is_gone() -> None:
    sessions = Sessions(NoLedger())
    header = sessions.create(TASK).header
    old = msgspec.structs.replace(header, session_id="old", version=1)
    sessions.ledger.begin([old])
    with pytest.raises(OtherVersion, match="version 1"):
        sessions.step(Step("old", LIST))


def test_a_closed_session_is_unknown() -> None:
    sessions = Sessions(NoLedger())
    name = id_of(sessions.create(TASK))
    sessions.close(name)
    with pytest.raises(UnknownSession):
        sessions.observe(name)
    with pytest.raises(UnknownSession):
        sessions.close(name)


# -- several workers ---------------------------------------------------------------------------------------------------


def test_workers_take_turns_on_one_session_without_knowing_of_each_other(tmp_path: Path) -> None:
    env, calls = expert_calls()
    workers = two_workers(tmp_path)
    name = id_of(workers[0].create(TASK))
    outcomes = [workers[number % 2].step(Step(name, call)) for number, call in enumerate(calls)]
    assert [outcome.observation.reward for outcome in outcomes] == [turn.reward for turn in env.turns]
    assert {worker.observe(name).env.digest() for worker in workers} == {env.digest()}


def test_a_worker_that_lags_catches_up_before_it_says_what_is_due(tmp_path: Path) -> None:
    here, there = two_workers(tmp_path)
    name = id_of(here.create(TASK))
    outcomes = [there.step(Step(name, call, turn)) for turn, call in enumerate([LIST, INBOX, LIST], 1)]
    assert here.step(Step(name, INBOX, 2)) == outcomes[1]
    assert here.step(Step(name, LIST, 4)).observation.step == 4
    with pytest.raises(TurnTaken):
        there.step(Step(name, INBOX, 4))
    there.close(name)
    with pytest.raises(UnknownSession):
        here.step(Step(name, LIST))
    with pytest.raises(UnknownSession):
        here.observe(name)


class Failing(NoLedger):
    """A ledger that writes and then fails to say so, or fails to write."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes, self.fails = writes, True

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        if not self.fails:
            return super().append_all(rows)
        self.fails = False
        if self.writes:
            super().append_all(rows)
        raise LedgerDown


@pytest.mark.parametrize("writes", [False, True])
def test_after_a_mishap_the_ledger_has_the_last_word(writes: bool) -> None:
    ledger: Ledger = Failing(writes)
    sessions = Sessions(ledger)
    name = id_of(sessions.create(TASK))
    with pytest.raises(LedgerDown):
        sessions.step(Step(name, LIST, 1))
    assert sessions.step(Step(name, LIST, 1)).observation.step == 1
    assert ledger.calls(name, 0) == (LIST,)
    env = make(str(TASK))
    env.step(LIST)
    assert sessions.observe(name).env.digest() == env.digest()
