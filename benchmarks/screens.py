"""Benchmark of screenshots as observations: pictures a second with eight simultaneous sessions.

`python -m benchmarks.screens [SECONDS]` needs the extras `serve` and `browser`. First each session follows the expert by
tool calls, and every reply contains a JPEG of the resulting page. Then come keys and scrolls that stay on a page, then
pictures of an unchanged page. The server, the browser and the clients, which do little, share the machine.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any

import msgspec

from benchmarks.office import say
from benchmarks.serve import server
from companyos.env import make, run_expert
from companyos.families import SHORT_FAMILIES

SESSIONS = 8
PRESSES = (("key", {"key": "j"}), ("scroll", {"dy": 200}), ("key", {"key": "?"}), ("key", {"key": "Escape"}))


class Agent:
    """A client with its own session, and its waiting times for pictures in milliseconds."""

    def __init__(self, port: int, number: int) -> None:
        self._line = HTTPConnection("127.0.0.1", port, timeout=120)
        self._number = number
        self._session = ""
        self.waits: list[float] = []

    def calls(self) -> Iterator[None]:
        """Follow the expert by tool calls, task after task."""
        seed = self._number
        while True:
            family = SHORT_FAMILIES[seed % len(SHORT_FAMILIES)]
            env = make(family, seed=seed, chaos=0.5)
            run_expert(env)
            self.begin(family, seed)
            for turn in env.turns:
                self._step(turn.call.app, turn.call.method, turn.call.params)
                yield
            seed += SESSIONS

    def gestures(self) -> Iterator[None]:
        """Press keys and scroll on a list, without making a call."""
        self.begin("vendor_onboarding", self._number)
        self._step("ticketdesk", "list_tickets", {})
        while True:
            for method, params in PRESSES:
                self._step("screen", method, params)
                yield

    def pictures(self, view: str) -> Iterator[None]:
        """Ask for pictures of an unchanged page."""
        while True:
            self._ask("GET", f"/render?session_id={self._session}&view={view}")
            yield

    def begin(self, family: str, seed: int) -> None:
        if self._session:
            self._post("/close", {"session_id": self._session})
        body = {"task": family, "seed": seed, "chaos": 0.5, "observation": "screenshot"}
        self._session = msgspec.json.decode(self._post("/reset", body))["session_id"]

    def _step(self, app: str, method: str, params: dict[str, Any]) -> None:
        raw = self._post("/step", {"session_id": self._session, "app": app, "method": method, "params": params})
        assert b'"screenshot":"' in raw

    def _post(self, place: str, body: dict[str, Any]) -> bytes:
        return self._ask("POST", place, msgspec.json.encode(body))

    def _ask(self, method: str, place: str, body: bytes | None = None) -> bytes:
        began = time.perf_counter()
        self._line.request(method, place, body)
        reply = self._line.getresponse()
        raw = reply.read()
        assert reply.status == 200, raw
        self.waits.append(1000 * (time.perf_counter() - began))
        return raw


def measure(agents: list[Agent], what: str, way: Callable[[Agent], Iterator[None]], seconds: float) -> None:
    """Let all clients work at once, each as fast as it gets answers, and print the rate."""
    ways = [way(agent) for agent in agents]
    for one in ways:  # starts the session and loads a page
        next(one)
    for agent in agents:
        agent.waits = []
    made = [0] * len(agents)
    until = time.perf_counter() + seconds

    def work_on(number: int) -> None:
        while time.perf_counter() < until:
            next(ways[number])
            made[number] += 1

    threads = [threading.Thread(target=work_on, args=(number,)) for number in range(len(agents))]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    say(f"{what}, {sum(made) / took:.1f}/s", [wait for agent in agents for wait in agent.waits])


def main(seconds: float) -> None:
    with server("companyos.web.app:create", COMPANYOS_LEDGER="none") as port:
        agents = [Agent(port, number) for number in range(SESSIONS)]
        print(f"{SESSIONS} sessions at once, pictures of 1024 × 768")
        measure(agents, "tool calls, JPEG", Agent.calls, seconds)
        measure(agents, "gestures, JPEG", Agent.gestures, seconds)
        measure(agents, "looks, JPEG", lambda agent: agent.pictures("jpeg"), seconds)
        measure(agents, "looks, PNG", lambda agent: agent.pictures("png"), seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
