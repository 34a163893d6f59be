"""Run: `companyos serve`, from its flags to a server that listens, and what is left when it is killed."""

import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from companyos.env import task_named
from companyos.families import FAMILIES
from tests.serve.doors import AS_ADMIN, Expert, Server, good, result_of, serving, solo
from tests.shell import run

SESSIONS = 8
KILLS = 3


def digest(url: str, session_id: str) -> str:
    return str(good(httpx.get(f"{url}/inspect", params={"session_id": session_id}, headers=AS_ADMIN))["digest"])


class Worker(threading.Thread):
    """An expert who sends every call until it is answered, whatever becomes of the server in between."""

    def __init__(self, url: str, task_id: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.expert = Expert(good(httpx.post(f"{url}/reset", json={"task": task_id})))
        self.lost_replies = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self.url) as client:
                while self.expert.call is not None:
                    self.expert.hear(self._sent(client))
        except BaseException as error:
            self.failure = error

    def _sent(self, client: httpx.Client) -> dict[str, object]:
        body = self.expert.body | {"turn": len(self.expert.rewards) + 1}
        while True:
            try:
                return good(client.post("/step", json=body))
            except httpx.TransportError:
                self.lost_replies += 1
                time.sleep(0.05)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_no_acknowledged_step_is_lost_and_none_happens_twice_when_the_server_is_killed(tmp_path: Path, workers: str) -> None:
    draw = random.Random(7)
    tasks = [str(task_named(name, seed, 0.5)) for seed in range(SESSIONS) for name in FAMILIES][:SESSIONS]
    with serving(tmp_path / "ledger", WORKERS=workers) as server:
        crew = [Worker(server.url, task_id) for task_id in tasks]
        for one in crew:
            one.start()
        kills = 0
        while kills < KILLS and any(one.is_alive() for one in crew):
            time.sleep(draw.uniform(0.02, 0.08))
            server.kill()
            kills += 1
            server.start()
        for one in crew:
            one.join(120)
        assert [one.failure for one in crew] == [None] * SESSIONS
        assert kills >= 2
        assert sum(one.lost_replies for one in crew) > 0
        found = [result_of(one.expert, digest(server.url, one.expert.session_id)) for one in crew]
    assert found == [solo(task_id) for task_id in tasks]


def test_workers_share_sessions_and_counts(tmp_path: Path) -> None:
    task_id = str(task_named("vendor_onboarding", 7, 0.5))
    with serving(tmp_path / "ledger", WORKERS="2", LOG_LEVEL="debug", LOG_FORMAT="json") as server:
        expert = Expert(good(httpx.post(f"{server.url}/reset", json={"task": task_id})))
        while expert.call is not None:  # each over a connection of its own, so that whichever worker takes it
            expert.hear(good(httpx.post(f"{server.url}/step", json=expert.body)))
        assert result_of(expert, digest(server.url, expert.session_id)) == solo(task_id)
        assert f"companyos_steps_total {float(len(expert.rewards))}" in httpx.get(f"{server.url}/metrics").text


def test_it_ends_cleanly_and_goes_on_where_it_was(tmp_path: Path) -> None:
    server = Server(tmp_path / "ledger")
    server.start()
    expert = Expert(good(httpx.post(f"{server.url}/reset", json={"seed": 3})))
    expert.hear(good(httpx.post(f"{server.url}/step", json=expert.body)))
    before = digest(server.url, expert.session_id)
    code, said = server.stop()
    assert code == 0
    assert "ERROR" not in said
    assert "Traceback" not in said
    assert not list(tmp_path.glob("ledger-wal"))
    server.start()
    assert digest(server.url, expert.session_id) == before
    server.kill()


def test_bad_flags_and_bad_places_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"PATH": ""})  # flags become variables: none are to stay behind
    for flags, said in (
        (("--port", "http"), "COMPANYOS_PORT: "),
        (("--workers", "0"), "COMPANYOS_WORKERS: "),
        (("--workers", "2", "--ledger", "none"), "several workers"),
        (("--workers", "1", "--ledger", tmp_path), "cannot keep a ledger"),
    ):
        code, out, err = run("serve", *flags)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert said in err
