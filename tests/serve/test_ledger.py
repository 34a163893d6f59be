"""Ledger: the durable record of sessions. One contract, whichever ledger keeps it."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from companyos.calls import Call
from companyos.serve.errors import LedgerDown, TurnTaken, UnknownSession
from companyos.serve.ledger import Entry, Header, Ledger, NoLedger, Row, SqliteLedger, open_ledger
from companyos.serve.settings import BadSetting

WAIT = Call("ticketdesk", "wait", {"minutes": 5})
LOOK = Call("ticketdesk", "get_ticket", {"ticket_id": "T-1", "ümlaut": [1, None, 2.5]})


@pytest.fixture(params=["none", "sqlite", "sqlite with fsync"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made: Ledger = NoLedger() if request.param == "none" else SqliteLedger(str(tmp_path / "it"), "fsync" in request.param)
    yield made
    made.close()


def header(session_id: str, created: float = 100.0) -> Header:
    return Header(session_id, "some-task", "seed", False, 2, created, "owner")


def test_what_is_written_is_read_again(ledger: Ledger) -> None:
    ledger.begin([header("a")])
    ledger.append(Row("a", 1, WAIT, 101.0))
    ledger.append(Row("a", 2, LOOK, 102.0))
    assert ledger.read("a") == Entry(header("a"), (WAIT, LOOK), 102.0)
    assert ledger.calls("a", 1) == (LOOK,)
    assert ledger.calls("a", 2) == ()


def test_a_turn_is_taken_once_and_says_by_what(ledger: Ledger) -> None:
    ledger.begin([header("a")])
    ledger.append(Row("a", 1, WAIT, 101.0))
    with pytest.raises(TurnTaken) as taken:
        ledger.append(Row("a", 1, LOOK, 102.0))
    assert taken.value.stands == WAIT
    assert ledger.read("a") == Entry(header("a"), (WAIT,), 101.0)


def test_in_one_commit_each_row_stands_or_falls_by_itself(ledger: Ledger) -> None:
    ledger.begin([header("a"), header("b"), header("c")])
    ledger.append(Row("b", 1, WAIT, 101.0))
    rows = [Row("a", 1, LOOK, 102.0), Row("b", 1, LOOK, 102.0), Row("nobody", 1, LOOK, 102.0), Row("c", 1, LOOK, 102.0)]
    refusals = ledger.append_all(rows)
    assert [type(refused) for refused in refusals] == [type(None), TurnTaken, UnknownSession, type(None)]
    assert [ledger.calls(name, 0) for name in "abc"] == [(LOOK,), (WAIT,), (LOOK,)]


def test_sessions_begin_with_the_calls_of_the_one_they_come_from(ledger: Ledger) -> None:
    ledger.begin([header("a"), header("b")], [WAIT, LOOK])
    assert ledger.calls("a", 0) == ledger.calls("b", 0) == (WAIT, LOOK)


def test_what_is_removed_is_unknown(ledger: Ledger) -> None:
    ledger.begin([header("a")], [WAIT])
    ledger.remove("a")
    ledger.remove("a")
    assert ledger.read("a") is None
    assert ledger.calls("a", 0) is None
    with pytest.raises(UnknownSession):
        ledger.append(Row("a", 2, WAIT, 101.0))


def test_sessions_expire_that_nobody_has_touched_for_long(ledger: Ledger) -> None:
    ledger.begin([header("old", 100.0), header("busy", 100.0), header("young", 200.0)])
    ledger.append(Row("busy", 1, WAIT, 201.0))
    assert ledger.expire(150.0) == 1
    assert [ledger.read(name) is None for name in ("old", "busy", "young")] == [True, False, False]


def test_two_processes_share_one_file(tmp_path: Path) -> None:
    mine, theirs = SqliteLedger(str(tmp_path / "it")), SqliteLedger(str(tmp_path / "it"))
    mine.begin([header("a")])
    theirs.append(Row("a", 1, WAIT, 101.0))
    assert isinstance(mine.append_all([Row("a", 1, LOOK, 102.0)])[0], TurnTaken)
    mine.close()
    theirs.close()


def test_a_ledger_that_does_not_answer_is_said_to_be_down(tmp_path: Path) -> None:
    ledger = SqliteLedger(str(tmp_path / "it"), patience=0.01)
    ledger.begin([header("a")])
    other = sqlite3.connect(tmp_path / "it", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerDown):
        ledger.append(Row("a", 1, WAIT, 101.0))
    other.execute("COMMIT")
    other.close()
    ledger.append(Row("a", 1, WAIT, 101.0))
    ledger.close()


def test_a_place_that_can_hold_no_ledger_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is no database, " * 100)
    later = sqlite3.connect(tmp_path / "later")
    later.execute("PRAGMA user_version = 99")
    later.close()
    for place in (str(tmp_path), str(tmp_path / "text"), str(tmp_path / "later"), "mysql://somewhere"):
        with pytest.raises(BadSetting, match=r"\A[^\n]+\Z"):
            open_ledger(place)
    assert isinstance(open_ledger("none"), NoLedger)


def test_the_newest_session_under_a_name_is_found_by_it(ledger: Ledger) -> None:
    assert ledger.newest("a") is None
    ledger.begin([header("a.z", 100.0)])
    ledger.begin([header("a.b", 101.0)])
    ledger.begin([header("ab.c", 102.0), header("a-b.c", 102.0), header("a", 102.0), header("A.c", 102.0)])
    assert ledger.newest("a") == "a.b"
    ledger.remove("a.b")
    assert ledger.newest("a") == "a.z"
