"""Benchmark of latency while another client misbehaves or sends large requests.

`python -m benchmarks.neighbours [SECONDS]` needs the extra `serve`. One client asks for `/health` and another makes steps,
all the time. Beside them run in turn: no other client; 900 clients that send half a request and stay connected; a client
that sends an endless URL; one that sends endless headers; one that sends rollouts of 1,000 sessions. The exit code is 1 if
`/health` takes more than 100 ms at the 99th percentile.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from benchmarks.serve import connect, read, request
from tests.serve.servers import Server, good

HALF_SENT = 900
SESSIONS = 1000
HEAD = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
STEP = {"app": "ticketdesk", "method": "list_tickets", "params": {}}
BOUND = 0.1  # limit in seconds for /health at the 99th percentile


def main(seconds: float) -> int:
    slow = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "ledger", CAPACITY="4000", LOG_FORMAT="json")
        server.start()
        try:
            for name, nuisance in NUISANCES.items():
                with nuisance(server):
                    health, steps = waits(server, seconds)
                slow += percentile(health, 99) > BOUND
                print(
                    f"{name:24} /health {summary(health)}   /step {summary(steps)}   {server.memory() / 1e6:.0f} MB",
                    flush=True,
                )
        finally:
            server.kill()
    return 1 if slow else 0


def waits(server: Server, seconds: float) -> tuple[list[float], list[float]]:
    """Return the seconds of each `/health` request and of each step, from one client each."""
    name = good(httpx.post(f"{server.url}/reset", json={}, timeout=60))["session_id"]
    health = threading.Thread(target=ask, args=(server, HEAD + b"\r\n", seconds, asked := list[float]()))
    # Repeat a turn that was already made: it costs the server the same, and the episode does not end.
    good(httpx.post(f"{server.url}/step", json={**STEP, "session_id": name, "turn": 1}, timeout=60))
    again = request("/step", {**STEP, "session_id": name, "turn": 1})
    steps = threading.Thread(target=ask, args=(server, again, seconds, stepped := list[float]()))
    for one in (health, steps):
        one.start()
    for one in (health, steps):
        one.join()
    return asked, stepped


def ask(server: Server, wire: bytes, seconds: float, took: list[float]) -> None:
    end = time.monotonic() + seconds
    with connect(server.port) as one:
        while time.monotonic() < end:
            began = time.perf_counter()
            one.sendall(wire)
            read(one)
            took.append(time.perf_counter() - began)
            time.sleep(0.005)


# -- disturbances --------------------------------------------------------------------------------------------------------


@contextmanager
def nobody(server: Server) -> Iterator[None]:
    yield


@contextmanager
def half_sent(server: Server) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(HALF_SENT):
            stack.enter_context(connect(server.port)).sendall(HEAD)
        yield


def endless(begin: bytes, piece: bytes) -> Callable[[Server], Any]:
    """Send without end, and connect again when the server closes the connection."""

    def pour(server: Server) -> None:
        with suppress(OSError), connect(server.port) as one:
            one.sendall(begin)
            while True:
                one.sendall(piece)

    return lambda server: busy(lambda: pour(server))


@contextmanager
def rollouts(server: Server) -> Iterator[None]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        names = [good(client.post("/reset", json={"seed": number}))["session_id"] for number in range(SESSIONS)]
    wire = request("/rollout", {"steps": [{**STEP, "session_id": name} for name in names]})

    def roll() -> None:
        with connect(server.port) as one:
            one.sendall(wire)
            read(one)

    with busy(roll):
        yield


@contextmanager
def busy(work: Callable[[], None]) -> Iterator[None]:
    """Do some work again and again in another thread."""
    enough = threading.Event()

    def go_on() -> None:
        while not enough.is_set():
            work()

    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join(30)


NUISANCES: dict[str, Callable[[Server], Any]] = {
    "nobody": nobody,
    f"{HALF_SENT} half-sent requests": half_sent,
    "an endless URL": endless(b"GET /", b"a" * 65536),
    "endless headers": endless(HEAD, b"x-more: " + b"a" * 8000 + b"\r\n"),
    f"rollouts of {SESSIONS:,}": rollouts,
}


def percentile(took: list[float], share: int) -> float:
    return sorted(took)[min(len(took) - 1, len(took) * share // 100)]


def summary(took: list[float]) -> str:
    return "  ".join(f"p{share} {percentile(took, share) * 1000:6.1f} ms" for share in (50, 99)) + f" ({len(took):,})"


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0))
