"""The ledger in PostgreSQL, shared by any number of machines."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import urlencode

import psycopg
import pytest

from companyos.core.calls import Call
from companyos.env import make, task_named
from companyos.serve.errors import LedgerDown
from companyos.serve.ledger import Ledger, TurnRow, open_ledger, postgres_sql
from companyos.serve.ledger import postgres as postgres_ledger
from companyos.serve.ledger.ledger import encode
from companyos.serve.ledger.postgres import _CREATE_TABLES_LOCK, RECONNECT_PAUSE, PostgresLedger
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.steps import StepRequest
from tests.helpers import FAMILY
from tests.serve.postgres import PASSWORD, Postgres, running
from tests.serve.servers import AppClient, body_of, code_of, good, wait_for
from tests.serve.sockets import socket as ws
from tests.serve.test_ledger import OLD_ATTEMPT, OLD_HANDLE, WAIT, check_upgrade, header
from tests.shell import run

LIST = Call("ticketdesk", "list_tickets")


def sql(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        found = db.execute(query)
        return found.fetchall() if found.description else []


# -- when it cannot be -------------------------------------------------------------------------------------------------


def bad_places(postgres: Postgres) -> dict[str, str]:
    """Places that cannot be, and what is said of them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody_there = free.getsockname()[1]
    good_one = postgres.new_database()
    other = postgres.new_database()
    sql(other, "CREATE TABLE companyos_format AS SELECT 99 AS format")
    return {
        postgres.url(password="wrong-secret"): "password authentication failed",
        postgres.url("no_such_database"): "does not exist",
        other: "format 99",
        f"postgresql://me:secret@127.0.0.1:{nobody_there}/db": "refused",
        # What people write by mistake: signs in a password that had to be escaped, and half a URL.
        good_one.replace("p%40ss%3Aw%2Frd", "sec%zzret"): "cannot be read",
        good_one.replace("p%40ss%3Aw%2Frd", "sec@ret"): "cannot be read",
        good_one.replace("p%40ss%3Aw%2Frd", "sec/ret"): "cannot be read",
        good_one.replace("p%40ss%3Aw%2Frd", "123/sec@ret"): "cannot be read",
        good_one.replace("p%40ss%3Aw%2Frd", "sec ret"): "cannot be read",
        "postgresql:/me:secret@here/db": "cannot be read",
        "postgres:secret": "cannot be read",
        "postgresql://me:secret@here:port/db": "cannot be read",
    }


def test_a_place_that_can_hold_no_ledger_is_one_line_without_the_password(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", {"PATH": ""})  # flags become variables: none are to stay behind
    for place, said in bad_places(postgres).items():
        code, out, err = run("serve", "--ledger", place)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err
        assert not [part for part in ("secret", "sec", "ret", PASSWORD, "p%40ss") if part in err]


def test_what_is_logged_while_it_is_away_does_not_hold_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with running() as server, AppClient(ledger=server.new_database(), idle_seconds=0.05) as api:
        name = api.reset()["session_id"]
        server.stop()
        for _ in range(4):
            assert code_of(api.step(name, LIST)) == (503, "ledger_down")
            time.sleep(0.1)  # the sweeper finds it away as well
    formatter = logging.Formatter()
    said = "\n".join(formatter.format(record) for record in caplog.records)
    assert "Traceback" in said
    assert PASSWORD not in said
    assert "p%40ss" not in said


# -- when it goes away -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["immediately", "kill -9"])
def test_while_it_is_away_callers_are_told_to_come_again_and_then_all_is_well(
    how: Literal["immediately", "kill -9"],
) -> None:
    with running() as server, AppClient(ledger=server.new_database()) as api:
        name = api.reset()["session_id"]
        assert good(api.step(name, LIST, turn=1))["turn"] == 1
        server.stop(how)
        server.start()
        # It was away while nobody asked: nobody notices.
        assert good(api.step(name, LIST, turn=2))["turn"] == 2
        server.stop(how)
        for _ in range(3):
            away = api.step(name, LIST, turn=3)
            assert code_of(away) == (503, "ledger_down")
            assert away.headers["retry-after"] == "1"
        assert code_of(api.post("/reset", {})) == (503, "ledger_down")
        assert good(api.get("/health")) == {"status": "healthy"}
        server.start()
        time.sleep(RECONNECT_PAUSE)
        assert good(api.step(name, LIST, turn=3))["turn"] == 3
        env = make(api.reset()["task_id"])
        for _ in range(3):
            env.step(LIST)
        assert api.digest(name) == env.digest()


def test_a_database_that_is_frozen_is_given_up_by_all_who_ask_and_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("companyos.serve.ledger.postgres.ANSWER_TIMEOUT", 0.5)
    with running() as server, AppClient(ledger=server.new_database()) as api:
        name = api.reset()["session_id"]
        assert good(api.step(name, LIST, turn=1))["turn"] == 1
        with server.frozen():
            replies = api.post_together("/step", [body_of(name, LIST) | {"turn": 2} for _ in range(20)])
            assert {code_of(reply) for reply in replies} == {(503, "ledger_down")}
            assert code_of(api.step(name, LIST, turn=2)) == (503, "ledger_down")  # which connects anew, in vain
        wait_for(lambda: api.step(name, LIST, turn=2).status_code == 200)
        assert good(api.step(name, LIST, turn=3))["turn"] == 3


def test_whoever_asks_a_silent_database_is_answered_within_five_seconds() -> None:
    """Patience is bounded by constants, so that no test need look at a clock: a request waits for the one before it, which
    gives up after `ANSWER_TIMEOUT` or `connect_timeout`, and then is answered at once."""
    assert postgres_ledger.ANSWER_TIMEOUT * 17 / 16 < 5
    assert postgres_ledger._CONNECTION_DEFAULTS["connect_timeout"] < 5
    assert float(postgres_ledger._STATEMENT_TIMEOUT.removesuffix("s")) < postgres_ledger.ANSWER_TIMEOUT


class Wire:
    """Stands between a ledger and its database, and can cut the connection at the next request."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.cut: Literal["before it arrives", "before the answer"] | None = None
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far, silent = socket.create_connection(("127.0.0.1", self._to)), threading.Event()
            threading.Thread(target=self._ask, args=(near, far, silent), daemon=True).start()
            threading.Thread(target=self._answer, args=(near, far, silent), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket, silent: threading.Event) -> None:
        while asked := _received(near):
            cut, self.cut = self.cut, None
            if cut == "before it arrives":
                break
            if cut == "before the answer":
                silent.set()
            with suppress(OSError):  # the other thread may have shut it
                far.sendall(asked)
        _shut(near, far)

    def _answer(self, near: socket.socket, far: socket.socket, silent: threading.Event) -> None:
        while (said := _received(far)) and not silent.is_set():
            with suppress(OSError):
                near.sendall(said)
        _shut(near, far)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _received(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""


def _shut(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def wired(postgres: Postgres) -> Iterator[tuple[Wire, PostgresLedger, Ledger]]:
    """A ledger at the far end of a wire, and one beside it that sees what stands."""
    url = postgres.new_database()
    wire = Wire(postgres.port)
    ledger, beside = PostgresLedger(url.replace(str(postgres.port), str(wire.port))), open_ledger(url)
    try:
        yield wire, ledger, beside
    finally:
        ledger.close()
        beside.close()
        wire.close()


@pytest.mark.parametrize(("cut", "written"), [("before it arrives", 0), ("before the answer", 1)])
def test_a_commit_whose_fate_is_unknown_is_settled_by_reading_and_happens_once(
    postgres: Postgres, cut: Literal["before it arrives", "before the answer"], written: int
) -> None:
    with wired(postgres) as (wire, ledger, beside):
        sessions = Sessions(ledger)
        name = sessions.create(task_named(FAMILY)).header.session_id
        wire.cut = cut
        with pytest.raises(LedgerDown):
            sessions.step(StepRequest(name, LIST, 1))
        assert len(beside.calls(name, 0) or ()) == written
        assert sessions.step(StepRequest(name, LIST, 1)).observation.step == 1
        assert beside.calls(name, 0) == (LIST,)
        assert sessions.observe(name).env.step_count == 1


def test_a_connection_that_broke_while_idle_costs_nobody_a_step(postgres: Postgres) -> None:
    url = postgres.new_database()
    ledger = open_ledger(url)
    ledger.begin([header("a")])
    for turn in range(1, 4):
        sql(url, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'companyos'")
        ledger.append(TurnRow("a", turn, WAIT, 101.0))
    assert ledger.calls("a", 0) == (WAIT,) * 3
    ledger.close()


# -- what it promises --------------------------------------------------------------------------------------------------


def test_a_commit_is_flushed_even_where_the_database_is_set_not_to(postgres: Postgres) -> None:
    url = postgres.new_database()
    sql(url, f"ALTER DATABASE {url.rpartition('/')[2]} SET synchronous_commit = off")
    ledger = PostgresLedger(url)
    assert ledger._connected().execute("SHOW synchronous_commit").fetchone() == ("on",)
    ledger.close()


def test_expiry_is_done_by_one_at_a_time_and_leaves_alone_who_is_at_work(postgres: Postgres) -> None:
    url = postgres.new_database()
    ledger = open_ledger(url)
    ledger.begin([header("quiet", 100.0), header("at work", 100.0)])
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (0x434F_5302,))
        assert ledger.expire(150.0) == 0
    with psycopg.connect(url) as other:
        other.execute("INSERT INTO companyos_turn VALUES ('at work', 1, 200, %s)", (encode(WAIT),))
        assert ledger.expire(150.0) == 1  # and does not wait for it
    assert [ledger.read(name) is None for name in ("quiet", "at work")] == [True, False]
    ledger.close()


class Raced:
    """A connection on which something happens just before sessions are held."""

    def __init__(self, db: Any, before: Callable[[], None]) -> None:
        self._db, self._before = db, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, query: str, values: Any = ()) -> Any:
        if "FOR UPDATE" not in query:
            return self._db.execute(query, values)
        # What a snapshot shows that was taken before: in it, nobody has stepped.
        found = self._db.execute(query.partition("FOR UPDATE")[0], values).fetchall()
        self._before()
        return found


def test_expiry_looks_again_at_what_it_holds_since_a_step_may_have_come_before_the_lock(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.new_database()
    ledger, other = PostgresLedger(url), open_ledger(url)
    ledger.begin([header("quiet", 100.0), header("stepped", 100.0)])
    raced = Raced(ledger._connected(), lambda: other.append(TurnRow("stepped", 1, WAIT, 200.0)))
    monkeypatch.setattr(ledger, "_connected", lambda: raced)
    assert ledger.expire(150.0) == 1
    assert [other.read(name) is None for name in ("quiet", "stepped")] == [True, False]
    ledger.close()
    other.close()


def test_whoever_waited_while_another_furnished_looks_again_before_they_do(postgres: Postgres) -> None:
    url = postgres.new_database()
    with psycopg.connect(url) as first, ThreadPoolExecutor(1) as pool:
        first.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_TABLES_LOCK,))
        second = pool.submit(open_ledger, url)
        waits = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = "
        wait_for(lambda: bool(sql(url, f"{waits} (SELECT oid FROM pg_database WHERE datname = current_database())")))
        first.execute(postgres_sql.UPGRADES[0])
        first.execute("INSERT INTO companyos_format VALUES (%s)", (postgres_sql.FORMAT,))
        first.commit()
        second.result(10).close()


TO_FORMAT_2 = "DROP TABLE companyos_handle; DROP TABLE companyos_attempt; UPDATE companyos_format SET format = 2;"
TO_FORMAT_1 = f"{TO_FORMAT_2} ALTER TABLE companyos_session DROP COLUMN owner; UPDATE companyos_format SET format = 1;"


@pytest.mark.parametrize("downgrade", [TO_FORMAT_1, TO_FORMAT_2])
def test_a_ledger_of_an_older_format_is_brought_up_to_date_and_loses_nothing(postgres: Postgres, downgrade: str) -> None:
    url = postgres.new_database()
    ledger = open_ledger(url)
    ledger.begin([header("a")], [WAIT])
    stored = ledger.read("a")
    ledger.begin([OLD_HANDLE, OLD_ATTEMPT])
    ledger.close()
    sql(url, downgrade)
    for _ in range(2):  # the second time it is up to date
        ledger = open_ledger(url)
        ledger.remove("b")
        check_upgrade(ledger, stored)
        ledger.close()


def test_batches_that_overlap_do_not_wait_for_each_other_for_ever(postgres: Postgres) -> None:
    url = postgres.new_database()
    ledger = open_ledger(url)
    names = [f"session-{number:02}" for number in range(40)]
    ledger.begin([header(name) for name in names])

    def write(backwards: bool) -> None:
        mine = open_ledger(url)
        for turn in range(1, 30):
            mine.append_all([TurnRow(name, turn, WAIT, 101.0) for name in (reversed(names) if backwards else names)])
        mine.close()

    threads = [threading.Thread(target=write, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {len(ledger.calls(name, 0) or ()) for name in names} == {29}
    [(deadlocks,)] = sql(url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert deadlocks == 0
    ledger.close()


@pytest.mark.parametrize("name", ["\0", "a\0b", "\x7f"])
def test_a_session_id_that_no_database_can_hold_is_unknown_at_every_endpoint(postgres: Postgres, name: str) -> None:
    with AppClient(ledger=postgres.new_database()) as api:
        assert code_of(api.get("/render", params={"session_id": name})) == (404, "unknown_session")
        assert code_of(api.step(name, LIST)) == (404, "unknown_session")
        one = ws(api, query=urlencode({"session_id": name}))
        assert one.said(one.hear())["data"]["reason"] == "unknown_session"
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "session_id": name}}
        assert good(api.post("/mcp", asked))["error"]["code"] == -32602
