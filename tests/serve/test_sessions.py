"""Sessions: episodes that many clients use at once, and that survive eviction and restarts."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from companyos.core.calls import Call
from companyos.core.task import BENCHMARK_VERSION
from companyos.env import CompanyEnv, make, rewards, run_expert, task_named
from companyos.serve.errors import (
    LedgerDown,
    OldTurns,
    OtherRelease,
    OtherVersion,
    OverCapacity,
    ServeError,
    SessionFull,
    SessionOver,
    TurnAhead,
    TurnTaken,
    UnknownSession,
)
from companyos.serve.ledger import Ledger, MemoryLedger, SqliteLedger, TurnRow, open_ledger
from companyos.serve.messages.bodies import ResetBody
from companyos.serve.sessions.begin import episode
from companyos.serve.sessions.sessions import ReplayBudget, Session, Sessions
from companyos.serve.steps import StepRequest, StepResult
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
    env = CompanyEnv(TASK, "dense", progress)
    run_expert(env)
    return env, [turn.call for turn in env.turns]


def two_workers(folder: Path) -> tuple[Sessions, Sessions]:
    return Sessions(SqliteLedger(str(folder / "it"))), Sessions(SqliteLedger(str(folder / "it")))


def id_of(session: Session) -> str:
    return session.header.session_id


def test_session_ids_cannot_be_guessed() -> None:
    sessions = Sessions(MemoryLedger())
    ids = {id_of(sessions.create(TASK)) for _ in range(50)}
    assert len(ids) == 50
    assert {len(name) for name in ids} == {32}


def test_an_episode_that_is_asked_for_with_the_old_name_of_a_reward_profile_has_the_new_one() -> None:
    rewards._warn_of_old_name.cache_clear()
    with pytest.warns(FutureWarning, match="'seed' is now called 'dense'"):
        env = episode(ResetBody(reward="seed"), progress=False)
    assert env.transcript().header.reward == "dense"


def test_a_session_is_the_episode_that_it_would_be_in_process() -> None:
    env, calls = expert_calls()
    sessions = Sessions(MemoryLedger())
    session = sessions.create(TASK)
    outcomes = [sessions.step(StepRequest(id_of(session), call)) for call in calls]
    assert [outcome.observation.reward for outcome in outcomes] == [turn.reward for turn in env.turns]
    assert [outcome.success for outcome in outcomes] == [None] * (len(calls) - 1) + [True]
    assert session.env.digest() == env.digest()


# -- turns -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("progress", [False, True])
def test_the_same_turn_and_call_again_gives_the_recorded_reply(progress: bool) -> None:
    _, calls = expert_calls()
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK, progress=progress))
    first = [sessions.step(StepRequest(name, call, turn)) for turn, call in enumerate(calls, 1)]
    again = [sessions.step(StepRequest(name, call, turn)) for turn, call in enumerate(calls, 1)]
    assert again == first
    assert len(sessions.observe(name).env.turns) == len(calls)


def test_another_call_at_a_turn_that_was_made_is_turned_away() -> None:
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK))
    sessions.step(StepRequest(name, LIST, 1))
    for other in (INBOX, Call("ticketdesk", "list_tickets", {"page": 1})):
        with pytest.raises(TurnTaken) as taken:
            sessions.step(StepRequest(name, other, 1))
        assert taken.value.recorded == LIST


def test_arguments_are_the_same_in_any_order_and_not_by_pythons_notion_of_equality() -> None:
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK))
    first = sessions.step(StepRequest(name, Call("ticketdesk", "list_tickets", {"page": 1, "status": "open"}), 1))
    assert sessions.step(StepRequest(name, Call("ticketdesk", "list_tickets", {"status": "open", "page": 1}), 1)) == first
    with pytest.raises(TurnTaken):
        sessions.step(StepRequest(name, Call("ticketdesk", "list_tickets", {"page": True, "status": "open"}), 1))


def test_a_turn_that_is_not_due_is_turned_away() -> None:
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK))
    with pytest.raises(TurnAhead, match="the next turn is 1"):
        sessions.step(StepRequest(name, LIST, 2))


def test_an_ended_session_answers_with_its_final_result_even_after_it_left_memory() -> None:
    env, calls = expert_calls()
    clock = Clock()
    sessions = Sessions(MemoryLedger(), clock=clock)
    name = id_of(sessions.create(TASK))
    for call in calls:
        last = sessions.step(StepRequest(name, call))
    for _ in range(2):
        with pytest.raises(SessionOver) as over:
            sessions.step(StepRequest(name, LIST))
        assert over.value.result == last
        assert sessions.step(StepRequest(name, calls[-1], len(calls))) == last
        sessions.sweep()
        assert len(sessions) == 0
    assert sessions.observe(name).env.digest() == env.digest()


# -- many at once ------------------------------------------------------------------------------------------------------


def test_steps_of_one_commit_are_answered_each_by_itself_and_in_order() -> None:
    sessions = Sessions(MemoryLedger())
    a, b = id_of(sessions.create(TASK)), id_of(sessions.create(TASK))
    steps = [
        StepRequest(a, LIST),
        StepRequest("nobody", LIST),
        StepRequest(b, INBOX),
        StepRequest(a, INBOX),
        StepRequest(a, LIST, 9),
        StepRequest(a, LIST, 3),
    ]
    answers = sessions.step_all(steps)
    kinds = [StepResult, UnknownSession, StepResult, StepResult, TurnAhead, StepResult]
    assert [type(answer) for answer in answers] == kinds
    assert sessions.observe(a).calls == [LIST, INBOX, LIST]
    assert sessions.observe(b).calls == [INBOX]


def test_forks_go_on_each_by_itself() -> None:
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK, reward="score", owner="me"))
    sessions.step(StepRequest(name, LIST, owner="me"))
    one, two = sessions.fork(name, "me", 2)
    sessions.step(StepRequest(id_of(one), INBOX, owner="me"))
    assert [len(sessions.observe(n, "me").calls) for n in (name, id_of(one), id_of(two))] == [1, 2, 1]
    fresh = Sessions(sessions.ledger)
    assert fresh.observe(id_of(one), "me").env.digest() == one.env.digest()
    assert fresh.observe(id_of(two), "me").header.reward == "score"


def test_a_session_is_only_its_owners() -> None:
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK, owner="me"))
    attempts: list[Callable[[Sessions], object]] = [
        lambda s: s.step(StepRequest(name, LIST, owner="you")),
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
    sessions = Sessions(MemoryLedger(), idle_seconds=60, clock=clock)
    name = id_of(sessions.create(TASK))
    for call in calls[:10]:
        last = sessions.step(StepRequest(name, call))
    before = sessions.observe(name)
    clock.now += 61
    sessions.sweep()
    assert len(sessions) == 0
    after = sessions.observe(name)
    assert after is not before
    assert after.env.digest() == before.env.digest()
    assert after.result == last
    assert sessions.step(StepRequest(name, calls[10])).observation.step == 11


def test_over_capacity_says_when_to_come_again_and_never_throws_out_who_is_at_work() -> None:
    clock = Clock()
    sessions = Sessions(MemoryLedger(), capacity=2, idle_seconds=60, clock=clock)
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
    sessions.step(StepRequest(second, LIST))
    with pytest.raises(OverCapacity):
        sessions.step(StepRequest(first, LIST))
    sessions.close(third)
    assert sessions.step(StepRequest(first, LIST)).observation.step == 1


def test_who_has_waited_longest_leaves_first_however_old_the_others_are() -> None:
    clock = Clock()
    sessions = Sessions(MemoryLedger(), capacity=2, idle_seconds=60, clock=clock)
    old, young = id_of(sessions.create(TASK)), id_of(sessions.create(TASK))
    clock.now += 40
    sessions.step(StepRequest(old, LIST))
    clock.now += 40
    sessions.create(TASK)
    assert sessions.holds(old)
    assert not sessions.holds(young)


def test_ended_sessions_make_room_first() -> None:
    _, calls = expert_calls()
    sessions = Sessions(MemoryLedger(), capacity=2)
    sessions.create(TASK)
    done = id_of(sessions.create(TASK))
    for call in calls:
        sessions.step(StepRequest(done, call))
    sessions.create(TASK)
    with pytest.raises(OverCapacity):
        sessions.create(TASK)


def test_at_capacity_the_least_recently_used_session_leaves_and_the_ledger_brings_it_back(tmp_path: Path) -> None:
    _, calls = expert_calls()
    sessions = Sessions(SqliteLedger(str(tmp_path / "it")), capacity=2)
    first, second = (id_of(sessions.create(TASK)) for _ in range(2))
    before = sessions.step(StepRequest(first, calls[0]))
    third = id_of(sessions.create(TASK))
    assert [sessions.holds(name) for name in (first, second, third)] == [True, False, True]
    assert sessions.step(StepRequest(second, LIST, 1)).observation.step == 1
    assert not sessions.holds(first)
    assert sessions.observe(first).result == before
    assert (len(sessions), sessions.cache.evictions) == (2, 3)


def test_more_forks_and_steps_than_there_are_places_are_all_carried_out(tmp_path: Path) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"))
    sessions = Sessions(ledger, capacity=2)
    name = id_of(sessions.create(TASK))
    sessions.step(StepRequest(name, LIST, 1))
    names = [name, *(id_of(one) for one in sessions.fork(name, count=5))]
    answers = sessions.step_all([StepRequest(one, INBOX, 2) for one in names])
    assert [type(answer) for answer in answers] == [StepResult] * 6
    assert [ledger.calls(one, 0) for one in names] == [(LIST, INBOX)] * 6
    assert len(sessions) == 2


def test_ended_sessions_make_room_before_any_that_is_at_work(tmp_path: Path) -> None:
    _, calls = expert_calls()
    sessions = Sessions(SqliteLedger(str(tmp_path / "it")), capacity=2)
    busy, done = (id_of(sessions.create(TASK)) for _ in range(2))
    for call in calls:
        sessions.step(StepRequest(done, call))
    sessions.create(TASK)
    assert (sessions.holds(busy), sessions.holds(done)) == (True, False)
    assert sessions.cache.evictions == 0


@pytest.mark.parametrize("ledger", ["sqlite", "postgres"])
def test_four_workers_in_turn_with_half_the_places_refuse_nobody(
    ledger: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """400 places for 200 sessions, but each session visits all four workers.

    Without eviction this gives 800 `over_capacity`, and 600 `turn_ahead`: whoever goes on to the next turn after a refused
    one asks for a turn that is not due.
    """
    place = str(tmp_path / "it") if ledger == "sqlite" else request.getfixturevalue("postgres").new_database()
    workers = [Sessions(open_ledger(place), capacity=100) for _ in range(4)]
    names = [id_of(workers[number % 4].create(TASK)) for number in range(200)]
    seen: Counter[str] = Counter()
    for turn in range(1, 9):
        for number, worker in enumerate(workers):
            mine = [StepRequest(name, LIST, turn) for place, name in enumerate(names) if (place + turn) % 4 == number]
            seen.update("ok" if isinstance(one, StepResult) else one.code for one in worker.step_all(mine))
    assert seen == {"ok": 1600}
    assert [workers[0].ledger.calls(name, 0) for name in names] == [(LIST,) * 8] * len(names)
    for worker in workers:
        assert len(worker) == 100
        worker.ledger.close()


# -- what one session may cost -----------------------------------------------------------------------------------------


def test_the_calls_of_a_session_take_only_so_many_bytes_wherever_they_were_made(tmp_path: Path) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"))
    sessions = Sessions(ledger, session_bytes=2000)
    name = id_of(sessions.create(TASK))
    long = Call("ticketdesk", "list_tickets", {"status": "x" * 900})
    for turn in (1, 2):
        sessions.step(StepRequest(name, long, turn))
    for worker in (sessions, Sessions(ledger, session_bytes=2000)):
        with pytest.raises(SessionFull, match="2000 bytes"):
            worker.step(StepRequest(name, long, 3))
    assert sessions.step(StepRequest(name, long, 2)).observation.step == 2  # what was made can still be asked for
    assert sessions.step(StepRequest(name, LIST, 3)).observation.step == 3
    assert len(ledger.calls(name, 0) or ()) == 3


def test_one_request_looks_up_only_so_many_old_turns() -> None:
    sessions = Sessions(MemoryLedger())
    name = id_of(sessions.create(TASK))
    for _ in range(3):
        sessions.step(StepRequest(name, LIST))
    steps = [StepRequest(name, LIST, turn) for turn in (1, 2, 1, 3, 2)]
    answers = sessions.step_all(steps, ReplayBudget(2))
    kinds = [StepResult, StepResult, OldTurns, StepResult, OldTurns]  # the last turn costs nothing
    assert [type(answer) for answer in answers] == kinds


# -- time --------------------------------------------------------------------------------------------------------------


def test_sessions_expire_after_their_last_step_and_for_good() -> None:
    clock = Clock()
    sessions = Sessions(MemoryLedger(), idle_seconds=1e9, ttl_seconds=100, clock=clock)
    quiet, busy = id_of(sessions.create(TASK)), id_of(sessions.create(TASK))
    clock.now += 90
    sessions.step(StepRequest(busy, LIST))
    clock.now += 20
    with pytest.raises(UnknownSession):
        sessions.step(StepRequest(quiet, LIST))
    sessions.step(StepRequest(busy, LIST))
    clock.now += 101
    sessions.sweep()
    assert sessions.ledger.read(busy) is None


def test_a_session_of_another_version_is_gone() -> None:
    sessions = Sessions(MemoryLedger())
    header = sessions.create(TASK).header
    old = msgspec.structs.replace(header, session_id="old", version=1)
    sessions.ledger.begin([old])
    with pytest.raises(OtherVersion, match="version 1"):
        sessions.step(StepRequest("old", LIST))


@pytest.mark.parametrize(
    "other",
    [{"task_id": "juggling-v%d-train-7-50"}, {"task_id": "vendor_onboarding-v%d-train-7-50-colour.red"}, {"reward": "gold"}],
)
def test_a_session_of_another_release_is_gone(other: dict[str, str]) -> None:
    sessions = Sessions(MemoryLedger())
    header = sessions.create(TASK).header
    other = {name: text.replace("%d", str(BENCHMARK_VERSION)) for name, text in other.items()}
    sessions.ledger.begin([msgspec.structs.replace(header, session_id="odd", **other)])
    looks: list[Callable[[], object]] = [
        lambda: sessions.step(StepRequest("odd", LIST)),
        lambda: sessions.observe("odd"),
        lambda: sessions.entry("odd"),
    ]
    for look in looks:
        with pytest.raises(OtherRelease):
            look()


def test_a_closed_session_is_unknown() -> None:
    sessions = Sessions(MemoryLedger())
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
    outcomes = [workers[number % 2].step(StepRequest(name, call)) for number, call in enumerate(calls)]
    assert [outcome.observation.reward for outcome in outcomes] == [turn.reward for turn in env.turns]
    assert {worker.observe(name).env.digest() for worker in workers} == {env.digest()}


def test_a_worker_that_lags_catches_up_before_it_says_what_is_due(tmp_path: Path) -> None:
    here, there = two_workers(tmp_path)
    name = id_of(here.create(TASK))
    outcomes = [there.step(StepRequest(name, call, turn)) for turn, call in enumerate([LIST, INBOX, LIST], 1)]
    assert here.step(StepRequest(name, INBOX, 2)) == outcomes[1]
    assert here.step(StepRequest(name, LIST, 4)).observation.step == 4
    with pytest.raises(TurnTaken):
        there.step(StepRequest(name, INBOX, 4))
    there.close(name)
    with pytest.raises(UnknownSession):
        here.step(StepRequest(name, LIST))
    with pytest.raises(UnknownSession):
        here.observe(name)


class Failing(MemoryLedger):
    """A ledger that writes and then fails to say so, or fails to write."""

    def __init__(self, writes: bool) -> None:
        super().__init__()
        self.writes, self.fails = writes, True

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
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
        sessions.step(StepRequest(name, LIST, 1))
    assert sessions.step(StepRequest(name, LIST, 1)).observation.step == 1
    assert ledger.calls(name, 0) == (LIST,)
    env = make(str(TASK))
    env.step(LIST)
    assert sessions.observe(name).env.digest() == env.digest()
