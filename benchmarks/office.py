"""Benchmark of the web pages: how long 64 simultaneous people wait for a page.

`python -m benchmarks.office [SECONDS]` needs the extra `serve`. Each person follows the expert through their own tasks:
clicks (a POST and the page that it redirects to), reads for two seconds on average, and clicks again. The server runs in
its own process. The last line is for pages requested one after another, which shows the cost of a single page.
"""

import random
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from statistics import median, quantiles
from urllib.parse import urlencode

from benchmarks.serve import server
from companyos.env import make, run_expert
from companyos.env.line_syntax import write_line
from companyos.families import SHORT_FAMILIES

PEOPLE = 64
READING = 2.0  # seconds, on average
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Person:
    """A simulated person with their own session, and their waiting times in milliseconds."""

    def __init__(self, port: int, number: int) -> None:
        self._number = number
        self._line = HTTPConnection("127.0.0.1", port)
        self._clicks = self._work()
        self.clicks: list[float] = []
        self.pages: list[float] = []
        self.address = ""

    def click(self) -> None:
        """Make one call and load the page after it."""
        place, form = next(self._clicks)
        _, waited, self.address = self._ask("POST", place, form)
        self.clicks.append(waited)
        self.look()

    def look(self) -> None:
        status, waited, _ = self._ask("GET", self.address)
        assert status == 200, self.address
        self.pages.append(waited)

    def work(self, until: float) -> None:
        pace = random.Random(self._number)
        time.sleep(pace.uniform(0, READING))
        while time.perf_counter() < until:
            self.click()
            time.sleep(pace.expovariate(1 / READING))

    def _work(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the expert's calls as forms, task after task, each up to its verdict."""
        seed = self._number
        while True:
            family = SHORT_FAMILIES[seed % len(SHORT_FAMILIES)]
            env = make(family, seed=seed, chaos=0.5)
            run_expert(env)
            chosen = {"family": family, "seed": str(seed), "chaos": "0.5"}
            place = self._ask("POST", "/play", chosen)[2].removesuffix("/0")
            for turn, one in enumerate(env.turns, 1):
                yield f"{place}/call", {"_turn": str(turn), "_line": write_line(one.call)}
            seed += PEOPLE

    def _ask(self, method: str, place: str, form: dict[str, str] | None = None) -> tuple[int, float, str]:
        began = time.perf_counter()
        self._line.request(method, place, urlencode(form) if form else None, FORM if form else {})
        reply = self._line.getresponse()
        reply.read()
        return reply.status, 1000 * (time.perf_counter() - began), reply.getheader("location", "")


def main(seconds: float) -> None:
    with server("companyos.web.app:create", COMPANYOS_LEDGER="none") as port:
        people = [Person(port, number) for number in range(PEOPLE)]
        for person in people:
            for _ in range(10):  # so that everybody is in the middle of a task
                person.click()
            person.clicks, person.pages = [], []
        until = time.perf_counter() + seconds
        threads = [threading.Thread(target=person.work, args=(until,)) for person in people]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clicks = [wait for person in people for wait in person.clicks]
        pages = [wait for person in people for wait in person.pages]
        print(f"{PEOPLE} people, {len(pages) / seconds:.0f} clicks/s")
        say("call", clicks)
        say("page", pages)
        for person in people:
            person.pages = []
            for _ in range(10):
                person.look()
        alone = [wait for person in people for wait in person.pages]
        say("page, one at a time", alone)


def say(what: str, waits: list[float]) -> None:
    cuts = quantiles(waits, n=100)
    print(f"{what:20} {median(waits):5.1f} ms, p95 {cuts[94]:5.1f} ms, p99 {cuts[98]:5.1f} ms, of {len(waits):,}")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
