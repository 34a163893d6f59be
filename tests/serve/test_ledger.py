"""The contract of a ledger, checked on every kind of ledger."""

import random
import sqlite3
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.serve.errors import TurnTaken, UnknownSession
from companyos.serve.ledger import (
    MAX_EXPIRED,
    ExamAttempt,
    Handle,
    IdTaken,
    Ledger,
    SessionHeader,
    StoredSession,
    TurnRow,
    attempt_of,
    open_ledger,
)
from companyos.serve.ops.settings import BadSetting
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.steps import StepRequest

WAIT = Call("ticketdesk", "wait", {"minutes": 5})
LOOK = Call("ticketdesk", "get_ticket", {"ticket_id": "T-1", "ümlaut": [1, None, 2.5]})


@pytest.fixture(params=["memory", "sqlite", "sqlite with fsync", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ledger(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made = open_ledger(place_of(kind, request, tmp_path), "fsync" in kind)
    yield made
    made.close()


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the address of a new ledger of this kind. Starts the database server if it is needed."""
    if kind == "memory":
        return "none"
    return str(folder / "it") if "sqlite" in kind else str(request.getfixturevalue("postgres").new_database())


def header(session_id: str, created: float = 100.0) -> SessionHeader:
    return SessionHeader(session_id, "some-task", "seed", False, 2, created, "owner")


def test_what_is_written_is_read_again(ledger: Ledger) -> None:
    ledger.begin([header("a")])
    ledger.append(TurnRow("a", 1, WAIT, 101.0))
    ledger.append(TurnRow("a", 2, LOOK, 102.0))
    assert ledger.read("a") == StoredSession(header("a"), (WAIT, LOOK), 102.0)
    assert ledger.calls("a", 1) == (LOOK,)
    assert ledger.calls("a", 2) == ()


def test_a_turn_is_taken_once_and_says_by_what(ledger: Ledger) -> None:
    ledger.begin([header("a")])
    ledger.append(TurnRow("a", 1, WAIT, 101.0))
    with pytest.raises(TurnTaken) as taken:
        ledger.append(TurnRow("a", 1, LOOK, 102.0))
    assert taken.value.recorded == WAIT
    assert ledger.read("a") == StoredSession(header("a"), (WAIT,), 101.0)


def test_in_one_commit_each_row_stands_or_falls_by_itself(ledger: Ledger) -> None:
    ledger.begin([header("a"), header("b"), header("c")])
    ledger.append(TurnRow("b", 1, WAIT, 101.0))
    rows = [TurnRow(name, 1, LOOK, 102.0) for name in ("a", "b", "nobody", "c")]
    refusals = ledger.append_all(rows)
    assert [type(refused) for refused in refusals] == [type(None), TurnTaken, UnknownSession, type(None)]
    assert [ledger.calls(name, 0) for name in "abc"] == [(LOOK,), (WAIT,), (LOOK,)]


def test_sessions_begin_with_the_calls_of_the_one_they_come_from(ledger: Ledger) -> None:
    ledger.begin([header("a"), header("b")], [WAIT, LOOK])
    assert ledger.calls("a", 0) == ledger.calls("b", 0) == (WAIT, LOOK)


def test_an_id_is_used_once_and_sessions_begin_together_or_not_at_all(ledger: Ledger) -> None:
    ledger.begin([header("a")], [WAIT])
    with pytest.raises(IdTaken):
        ledger.begin([header("b"), header("a")])
    assert ledger.read("b") is None
    assert ledger.read("a") == StoredSession(header("a"), (WAIT,), 100.0)
    ledger.begin([header("b")])
    assert ledger.read("b") == StoredSession(header("b"), (), 100.0)


def test_all_headers_are_listed_in_the_order_in_which_they_began(ledger: Ledger) -> None:
    assert ledger.headers() == []
    ledger.begin([header("b")], [WAIT])
    ledger.begin([header("a", 200.0)])
    assert ledger.headers() == [header("b"), header("a", 200.0)]
    ledger.remove("b")
    assert ledger.headers() == [header("a", 200.0)]


def test_an_attempt_is_one_for_an_owner_and_a_task_whatever_its_doses_and_never_expires(ledger: Ledger) -> None:
    task = TaskId("vendor_onboarding", "train", 7, "50")
    dosed = TaskId("vendor_onboarding", "train", 7, "0", weather=3)
    ledger.begin([header("a")], attempt=attempt_of(header("a"), task))
    assert ledger.expire(1e10) == 1  # the session, and not the attempt
    for again in (task, dosed):
        with pytest.raises(IdTaken):
            ledger.begin([header("b")], attempt=attempt_of(header("b"), again))
        assert ledger.read("b") is None
    others = (attempt_of(header("c"), TaskId("vendor_onboarding", "train", 8, "50")), attempt_of(theirs("d"), task))
    for number, other in enumerate(others):
        ledger.begin([header(f"other {number}")], attempt=other)
    expected = [attempt_of(header("a"), task), *others]
    assert sorted(ledger.attempts(), key=str) == sorted(expected, key=str)


def test_a_handle_points_to_the_session_that_was_stored_last_until_it_is_removed(ledger: Ledger) -> None:
    assert ledger.handle("h") is None
    ledger.put_handle(Handle("h", "", 100.0, "owner"))
    ledger.put_handle(Handle("other", "b", 100.0, "owner"))
    ledger.put_handle(Handle("h", "a", 101.0, "owner"))
    assert ledger.handle("h") == Handle("h", "a", 101.0, "owner")
    ledger.remove_handle("h")
    ledger.remove_handle("h")
    assert ledger.handle("h") is None
    assert ledger.handle("other") == Handle("other", "b", 100.0, "owner")


def test_handles_and_attempts_are_not_sessions(ledger: Ledger) -> None:
    ledger.put_handle(Handle("h", "a", 100.0, "owner"))
    ledger.begin([header("a")], attempt=ExamAttempt("x", "a", "owner"))
    assert ledger.headers() == [header("a")]
    assert ledger.read("h") is None
    assert ledger.read("x") is None
    assert ledger.calls("h", 0) is None
    assert ledger.handle("a") is None
    with pytest.raises(UnknownSession):
        ledger.append(TurnRow("h", 1, WAIT, 101.0))


def test_handles_expire_with_sessions_a_part_at_a_time(ledger: Ledger) -> None:
    ledger.begin([header(f"old {number}") for number in range(MAX_EXPIRED - 1)])
    for handle in (Handle("old", "", 100.0), Handle("older", "", 90.0), Handle("young", "", 150.0)):
        ledger.put_handle(handle)
    assert [ledger.expire(150.0) for _ in range(3)] == [MAX_EXPIRED, 1, 0]
    assert [ledger.handle(name) is None for name in ("old", "older", "young")] == [True, True, False]


def theirs(session_id: str) -> SessionHeader:
    return SessionHeader(session_id, "some-task", "seed", False, 2, 100.0, "another owner")


def test_what_is_removed_is_unknown(ledger: Ledger) -> None:
    ledger.begin([header("a")], [WAIT])
    ledger.remove("a")
    ledger.remove("a")
    assert ledger.read("a") is None
    assert ledger.calls("a", 0) is None
    with pytest.raises(UnknownSession):
        ledger.append(TurnRow("a", 2, WAIT, 101.0))


@pytest.mark.parametrize("way", ["removed", "expired"])
def test_a_new_session_has_none_of_the_turns_of_one_that_is_gone(ledger: Ledger, way: str) -> None:
    """SQLite reuses the key of a deleted row, so no turns may stay behind under that key."""
    ledger.begin([header("a")], [WAIT, LOOK])
    if way == "removed":
        ledger.remove("a")
    else:
        assert ledger.expire(150.0) == 1
    ledger.begin([header("b")])
    assert ledger.read("b") == StoredSession(header("b"), (), 100.0)
    ledger.append(TurnRow("b", 1, LOOK, 101.0))
    assert ledger.calls("b", 0) == (LOOK,)


def test_a_session_that_was_touched_at_the_very_moment_does_not_expire(ledger: Ledger) -> None:
    ledger.begin([header("begun", 100.0), header("stepped", 50.0)])
    ledger.append(TurnRow("stepped", 1, WAIT, 100.0))
    assert ledger.expire(100.0) == 0
    assert ledger.expire(100.5) == 2


def test_sessions_expire_that_nobody_has_touched_for_long(ledger: Ledger) -> None:
    ledger.begin([header("old", 100.0), header("busy", 100.0), header("young", 200.0)])
    ledger.append(TurnRow("busy", 1, WAIT, 201.0))
    assert ledger.expire(150.0) == 1
    assert [ledger.read(name) is None for name in ("old", "busy", "young")] == [True, False, False]


def test_many_expire_a_part_at_a_time(ledger: Ledger) -> None:
    ledger.begin([header(f"old {number}") for number in range(MAX_EXPIRED + 5)])
    assert [ledger.expire(150.0) for _ in range(3)] == [MAX_EXPIRED, 5, 0]


def test_records_are_counted_by_their_owner(ledger: Ledger) -> None:
    ledger.begin([header("a"), header("b"), msgspec.structs.replace(header("c"), owner="another")])
    assert [ledger.count(owner) for owner in ("owner", "another", "nobody")] == [2, 1, 0]
    ledger.remove("a")
    assert ledger.count("owner") == 1
    ledger.put_handle(Handle("h", "", 100.0, "owner"))
    ledger.begin([header("d")], attempt=ExamAttempt("x", "d", "owner"))
    assert [ledger.count(owner) for owner in ("owner", "another")] == [4, 1]
    ledger.ping()


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a ledger that several can share."""
    return place_of(kind, request, tmp_path)


shared = pytest.mark.parametrize("kind", ["sqlite", "postgres"])


@shared
def test_two_share_one_place(place: str) -> None:
    mine, theirs = open_ledger(place), open_ledger(place)
    mine.begin([header("a")])
    theirs.append(TurnRow("a", 1, WAIT, 101.0))
    [refused] = mine.append_all([TurnRow("a", 1, LOOK, 102.0)])
    assert isinstance(refused, TurnTaken)
    assert refused.recorded == WAIT
    theirs.remove("a")
    [refused] = mine.append_all([TurnRow("a", 2, LOOK, 102.0)])
    assert isinstance(refused, UnknownSession)
    mine.close()
    theirs.close()


@shared
def test_of_many_at_once_one_wins_each_turn_and_the_others_learn_who(place: str) -> None:
    writers, turns, names = 4, 10, [f"session-{number}" for number in range(8)]

    def write(number: int) -> list[tuple[str, int, Call]]:
        """Return the stored call of each turn, as this writer sees it: its own call or another writer's."""
        ledger, draw, found = open_ledger(place), random.Random(number), []
        gate.wait()
        for turn in range(1, turns + 1):
            call = Call("ticketdesk", "wait", {"minutes": number})
            rows = [TurnRow(name, turn, call, 101.0) for name in draw.sample(names, len(names))]
            for row, refused in zip(rows, ledger.append_all(rows), strict=True):
                assert refused is None or isinstance(refused, TurnTaken)
                found.append((row.session_id, turn, refused.recorded if refused else call))
        ledger.close()
        return sorted(found, key=repr)

    first, gate = open_ledger(place), threading.Barrier(writers)
    first.begin([header(name) for name in names])
    with ThreadPoolExecutor(writers) as pool:
        found = list(pool.map(write, range(writers)))
    stands = [(name, turn, call) for name in names for turn, call in enumerate(first.calls(name, 0) or (), 1)]
    assert len(stands) == len(names) * turns
    assert found == [sorted(stands, key=repr)] * writers
    first.close()


# How format 2 stored handles and attempts: as sessions, with the kind in `reward` and the session in `task_id`.
OLD_HANDLE = SessionHeader("h", "a", "handle", False, 2, 101.0, "owner")
OLD_ATTEMPT = SessionHeader("~exam.x", "a", "attempt", False, 2, 1e11, "owner")


def check_upgrade(ledger: Ledger, stored: StoredSession | None) -> None:
    """Nothing of an older ledger is lost, and its handles and attempts are records of their own."""
    assert stored is not None
    assert ledger.read("a") == stored
    assert ledger.headers() == [stored.header]
    assert ledger.handle("h") == Handle("h", "a", 101.0, "owner")
    assert ledger.attempts() == [ExamAttempt("x", "a", "owner")]
    assert ledger.count("owner") == 3
    with pytest.raises(IdTaken):
        ledger.begin([header("b")], attempt=ExamAttempt("x", "b", "owner"))
    ledger.begin([header("b")])
    assert ledger.count("owner") == 4


@shared
def test_many_furnish_one_empty_place_at_once(place: str) -> None:
    many = 12
    gate = threading.Barrier(many)

    def furnish(number: int) -> None:
        gate.wait()
        ledger = open_ledger(place)
        ledger.begin([header(f"of {number}")])
        ledger.close()

    with ThreadPoolExecutor(many) as pool:
        list(pool.map(furnish, range(many)))
    ledger = open_ledger(place)
    assert all(ledger.read(f"of {number}") for number in range(many))
    ledger.close()


def test_a_file_that_somebody_is_furnishing_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "it"
    first = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
    first.executescript("BEGIN IMMEDIATE; CREATE TABLE something (it)")
    with ThreadPoolExecutor(1) as pool:
        ledger = pool.submit(open_ledger, str(place))
        with pytest.raises(TimeoutError):
            ledger.result(0.3)
        first.execute("COMMIT")
        ledger.result(5).close()
    first.close()


@shared
def test_ids_that_no_ledger_can_hold_are_unknown(place: str) -> None:
    ledger = open_ledger(place)
    sessions = Sessions(ledger)
    for name in ("", "\0", "a\0b", "\ud800", "é", "\x7f", "'; DROP TABLE turn; --", "%s", "a" * 10_000):
        with pytest.raises(UnknownSession):
            sessions.step(StepRequest(name, WAIT))
    ledger.close()


def test_a_place_of_no_known_kind_is_one_line_without_its_secrets() -> None:
    with pytest.raises(BadSetting, match=r"\A[^\n]+\Z") as mistake:
        open_ledger("mysql://me:secret@somewhere/db")
    assert "secret" not in str(mistake.value)


def test_the_newest_session_under_a_name_is_found_by_it(ledger: Ledger) -> None:
    assert ledger.newest("a") is None
    ledger.begin([header("a.z", 100.0)])
    ledger.begin([header("a.b", 101.0)])
    ledger.begin([header("ab.c", 102.0), header("a-b.c", 102.0), header("a", 102.0), header("A.c", 102.0)])
    assert ledger.newest("a") == "a.b"
    ledger.remove("a.b")
    assert ledger.newest("a") == "a.z"


def test_postgres_without_its_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "companyos.serve.ledger.postgres", raising=False)
    with pytest.raises(BadSetting, match=r'needs psycopg: pip install "\.\[serve\]" in a checkout'):
        open_ledger("postgresql://nowhere/none")
