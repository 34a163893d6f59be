"""Faults: whatever is killed during the work, no acknowledged step is lost and no step is made twice."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import httpx
import pytest

from companyos.env import task_named
from companyos.families import FAMILIES
from tests.serve.postgres import running
from tests.serve.servers import AS_ADMIN, Expert, Server, good, result_of, serving, solo, wait_for

NAMES = list(FAMILIES)
SESSIONS = 64
BLOWS = 10
PAUSE = 0.2  # of a client before it sends the same again


class Crew:
    """Experts at work all at once, each sending every call until it is acknowledged, one episode after the other."""

    def __init__(self, url: str, size: int) -> None:
        limits = httpx.Limits(max_connections=size, max_keepalive_connections=size)
        self._client = httpx.Client(base_url=url, limits=limits, timeout=30)
        self._seeds = count(1)
        self._enough = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(size)]
        self.done: list[Expert] = []
        self.seen: Counter[str] = Counter()  # why something had to be sent again
        self.failures: list[BaseException] = []

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Everybody ends the episode that they are at."""
        self._enough.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a client waits for ever"
        assert self.failures == []

    def digest(self, session_id: str) -> str:
        return str(good(self._client.get("/inspect", params={"session_id": session_id}, headers=AS_ADMIN))["digest"])

    def close(self) -> None:
        self._enough.set()
        self._client.close()

    def _work(self, number: int) -> None:
        try:
            while not self._enough.is_set():
                task_id = str(task_named(NAMES[number % len(NAMES)], next(self._seeds), 0.5))
                expert = Expert(self._acknowledged("/reset", {"task": task_id}))
                while expert.call is not None:
                    expert.hear(self._acknowledged("/step", expert.body | {"turn": len(expert.rewards) + 1}))
                self.done.append(expert)
        except BaseException as failure:
            self.failures.append(failure)

    def _acknowledged(self, place: str, body: dict[str, object]) -> dict[str, object]:
        while True:
            try:
                reply = self._client.post(place, json=body)
            except httpx.TransportError as error:
                self.seen[type(error).__name__] += 1
            else:
                if reply.status_code != 503:
                    return good(reply)
                assert reply.headers["retry-after"] == "1"
                self.seen[reply.json()["error"]["code"]] += 1
            time.sleep(PAUSE)


@contextmanager
def at_work(server: Server) -> Iterator[Crew]:
    """A crew under which things break; in the end every episode must be as in process."""
    crew = Crew(server.url, SESSIONS)
    crew.start()
    try:
        yield crew
        crew.finish()
        print(len(crew.done), "episodes; sent again because of", dict(crew.seen))
        assert len(crew.done) >= SESSIONS
        server.kill()
        server.start()  # with nothing in memory, so that what is found is what the ledger holds
        found = [result_of(expert, crew.digest(expert.session_id)) for expert in crew.done]
        assert found == [solo(expert.task_id) for expert in crew.done]
    finally:
        crew.close()


def strike(blows: Sequence[Callable[[], None]], longest: float) -> None:
    """The blows, one after the other, at moments drawn from a seed that is printed."""
    seed = time.time_ns()
    print("seed", seed)
    draw = random.Random(seed)
    for blow in blows:
        time.sleep(draw.uniform(0.02, longest))
        blow()


def cut_short(crew: Crew) -> int:
    """Requests that were under way when their server died."""
    return crew.seen["ReadError"] + crew.seen["RemoteProtocolError"]


def test_the_server_is_killed_and_started_again(tmp_path: Path) -> None:
    def blow() -> None:
        server.kill()
        server.start()

    with serving(tmp_path / "ledger") as server, at_work(server) as crew:
        strike([blow] * BLOWS, longest=0.6)
    assert cut_short(crew) >= BLOWS
    assert "ledger_down" not in crew.seen


def test_workers_are_killed_and_come_back_by_themselves(tmp_path: Path) -> None:
    killed: set[int] = set()

    def kill_one() -> None:
        killed.add(server.kill_worker())

    def kill_all() -> None:
        server.kill()
        server.start()

    with serving(tmp_path / "ledger", WORKERS="2") as server, at_work(server) as crew:
        strike([kill_one] * (BLOWS - 2) + [kill_all] * 2, longest=1.0)
        kill_one()
        wait_for(lambda: len(set(server.workers()) - killed) == 2)
    assert cut_short(crew) >= BLOWS


@pytest.mark.parametrize("workers", ["1", "2"])
def test_postgres_is_stopped_and_killed_and_started_again(tmp_path: Path, workers: str) -> None:
    with running() as postgres:

        def crash() -> None:
            postgres.stop("immediately")
            postgres.start()

        def kill() -> None:
            postgres.stop("kill -9")
            postgres.start()

        place = {"LEDGER": postgres.new_database(), "WORKERS": workers}
        with serving(tmp_path / "none", **place) as server, at_work(server) as crew:
            strike([crash, kill] * (BLOWS // 2), longest=0.6)
    assert crew.seen["ledger_down"] >= BLOWS
    assert set(crew.seen) == {"ledger_down"}  # the server itself was there all the time
