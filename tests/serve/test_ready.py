"""`/ready`, and the metrics and log lines about the ledger."""

import logging
from pathlib import Path

import httpx
import pytest

from companyos.core.calls import Call
from companyos.serve.errors import LedgerDown
from companyos.serve.ledger import MemoryLedger
from companyos.serve.ledger.measured import LOG_INTERVAL, MeasuredLedger
from tests.serve.postgres import running
from tests.serve.servers import AppClient, code_of, good, serving, wait_for
from tests.serve.test_sessions import Clock

LIST = Call("ticketdesk", "list_tickets")


def count(page: str, line: str) -> float:
    """A number on the page of metrics; 0 where it is not there."""
    return next((float(one.rpartition(" ")[2]) for one in page.splitlines() if one.startswith(f"{line} ")), 0.0)


def test_ready_asks_the_ledger_and_health_does_not(tmp_path: Path) -> None:
    with AppClient(ledger=str(tmp_path / "it"), tokens=("alice",)) as api:
        assert good(api.get("/ready")) == {"status": "ready"}
        (tmp_path / "it").rename(tmp_path / "elsewhere")
        wait_for(lambda: api.get("/ready").status_code == 503)
        assert code_of(api.get("/ready")) == (503, "ledger_down")
        assert good(api.get("/health")) == {"status": "healthy"}
        (tmp_path / "elsewhere").rename(tmp_path / "it")
        wait_for(lambda: api.get("/ready").status_code == 200)


def test_a_frozen_database_leaves_health_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("companyos.serve.ledger.postgres.ANSWER_TIMEOUT", 0.5)
    with running() as postgres, AppClient(ledger=postgres.new_database()) as api:
        with postgres.frozen():
            assert code_of(api.get("/ready")) == (503, "ledger_down")
            assert good(api.get("/health")) == {"status": "healthy"}
        wait_for(lambda: api.get("/ready").status_code == 200)


class Away(MemoryLedger):
    """A ledger that does not answer."""

    def ping(self) -> None:
        raise LedgerDown from ConnectionError("nobody is there\nmore")


def test_the_cause_is_logged_once_a_minute_however_many_ask(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    ledger = MeasuredLedger(Away(), lambda *_: None)
    for seconds in (0.0, 1.0, LOG_INTERVAL):
        clock.now += seconds
        for _ in range(10):
            with pytest.raises(LedgerDown):
                ledger.ping()
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert said == ["the ledger does not answer: ConnectionError: nobody is there"] * 2


def test_metrics_say_how_the_ledger_and_memory_do(tmp_path: Path) -> None:
    with AppClient(ledger=str(tmp_path / "it"), capacity=2) as api:
        names = [api.reset()["session_id"] for _ in range(5)]
        good(api.step(names[0], LIST))
        api.step("nobody", LIST)
        api.post("/rollout", {"steps": [{"session_id": "nobody", "app": "a", "method": "b"}] * 3})
        page = api.get("/metrics").text
    assert count(page, "companyos_capacity") == 2
    assert count(page, "companyos_live_sessions") == 2
    assert count(page, "companyos_evictions_total") == 4
    assert count(page, "companyos_workers") == 1
    assert count(page, 'companyos_refusals_total{code="unknown_session"}') == 4
    assert count(page, 'companyos_ledger_seconds_count{operation="begin"}') == 5
    assert count(page, 'companyos_ledger_seconds_count{operation="append"}') == 1


def test_killed_workers_are_out_of_the_sums_at_once(tmp_path: Path) -> None:
    with serving(tmp_path / "ledger", WORKERS="2", CAPACITY="100") as server:

        def page() -> str:
            return httpx.get(f"{server.url}/metrics").text

        wait_for(lambda: count(page(), "companyos_workers") == 2)
        for _ in range(20):
            good(httpx.post(f"{server.url}/reset", json={}))
        wait_for(lambda: count(page(), "companyos_live_sessions") == 20)
        killed = server.kill_worker()
        wait_for(lambda: killed not in server.workers() and len(server.workers()) == 2)
        wait_for(lambda: count(page(), "companyos_workers") == 2)
        assert count(page(), "companyos_capacity") == 200
        assert count(page(), "companyos_live_sessions") < 20
