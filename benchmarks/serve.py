"""Benchmark of the REST server: steps and rollouts, compared with a bare FastAPI POST that returns the same bytes.

`python -m benchmarks.serve [ROUNDS]` needs the extra `serve` and PostgreSQL's server. The client writes prepared bytes to
plain sockets and reads only lengths, so that the server is measured and not the client. Because the speed of a machine
varies, rounds alternate and the result is the ratio within a round. PostgreSQL flushes each commit to disk and runs on the
same machine.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI
from pydantic import BaseModel

from companyos.env import make, run_expert
from companyos.families import FAMILIES
from tests.serve.postgres import running

CONNECTIONS = 16
SESSIONS = 256
EPISODES = 4  # per connection and round
OPEN, LIVE_STEPS = 1000, 15
CLIENT = httpx.Client()  # for requests that are not measured


class Action(BaseModel):
    """The request body of the bare server."""

    session_id: str
    app: str
    method: str
    params: dict[str, Any] = {}


def bare() -> FastAPI:
    """Return a server that only checks the body and sends a fixed reply of typical length."""
    app, reply = FastAPI(), json.loads(os.environ["BARE_REPLY"])

    @app.post("/step")
    async def step(action: Action) -> Any:
        return reply

    return app


def main(rounds: int) -> None:
    env = make("vendor_onboarding", seed=8, chaos=0.5)
    run_expert(env)
    calls = [{"app": turn.call.app, "method": turn.call.method, "params": turn.call.params} for turn in env.turns]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        memory = stack.enter_context(server("companyos.serve.app:create", COMPANYOS_LEDGER="none"))
        ledger = stack.enter_context(server("companyos.serve.app:create", COMPANYOS_LEDGER=str(folder / "ledger")))
        database = stack.enter_context(running(fsync=True)).new_database()
        postgres = stack.enter_context(server("companyos.serve.app:create", COMPANYOS_LEDGER=database))
        empty = stack.enter_context(server("benchmarks.serve:bare", BARE_REPLY=usual_reply(memory, calls)))
        ledgers = {"no ledger": memory, "SQLite": ledger, "PostgreSQL": postgres}
        sockets = {
            port: [stack.enter_context(connect(port)) for _ in range(CONNECTIONS)] for port in (empty, *ledgers.values())
        }
        speeds: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name, port in {"bare POST": empty, **{f"step, {name}": port for name, port in ledgers.items()}}.items():
                speeds.setdefault(name, []).append(step_speed(port, sockets[port], calls))
            for name, port in ledgers.items():
                speeds.setdefault(f"rollout, {name}", []).append(rollout_speed(port, sockets[port][0], calls))
    for name, found in speeds.items():
        ratios = [one / other for one, other in zip(found, speeds["bare POST"], strict=True)]
        spread = f"{median(found):8,.0f}/s ({min(found):,.0f}–{max(found):,.0f})"
        print(f"{name:20} {spread:32} {median(ratios):5.2f} × bare ({min(ratios):.2f}–{max(ratios):.2f})")
    megabytes = memory_of_open_sessions()
    print(f"{OPEN:,} sessions open, of as many tasks, {LIVE_STEPS} steps old: {megabytes:.0f} MB in one worker")


def step_speed(port: int, sockets: Sequence[socket.socket], calls: list[dict[str, Any]]) -> float:
    """Return the requests a second of all connections at once, each with its own session."""
    seconds, count = 0.0, 0
    for _ in range(EPISODES):
        sessions = [reset(port) for _ in sockets]
        batches = [[request("/step", {**call, "session_id": name}) for name in sessions] for call in calls]
        began = time.perf_counter()
        for batch in batches:
            for one, wire in zip(sockets, batch, strict=True):
                one.sendall(wire)
            for one in sockets:
                read(one)
            count += len(batch)
        seconds += time.perf_counter() - began
    return count / seconds


def rollout_speed(port: int, one: socket.socket, calls: list[dict[str, Any]]) -> float:
    """Return the steps a second of requests that step all sessions once."""
    sessions = [reset(port) for _ in range(SESSIONS)]
    batches = [request("/rollout", {"steps": [{**call, "session_id": name} for name in sessions]}) for call in calls]
    began = time.perf_counter()
    for wire in batches:
        one.sendall(wire)
        read(one)
    seconds = time.perf_counter() - began
    for name in sessions:
        CLIENT.post(f"http://127.0.0.1:{port}/close", json={"session_id": name})
    return len(calls) * SESSIONS / seconds


def memory_of_open_sessions() -> float:
    """Return the megabytes of a server process with many sessions, each in the middle of the expert's solution."""
    with process("companyos.serve.app:create", COMPANYOS_LEDGER="none") as (port, pid):
        tasks = [(name, seed) for seed in range(OPEN) for name in FAMILIES][:OPEN]
        crew = []
        for name, seed in tasks:
            env = make(name, seed=seed, chaos=0.5)
            run_expert(env)
            begun = CLIENT.post(f"http://127.0.0.1:{port}/reset", json={"task": name, "seed": seed, "chaos": 0.5}).json()
            crew.append((begun["session_id"], [msgspec.to_builtins(turn.call) for turn in env.turns]))
        with connect(port) as one:  # only now: the server closes a connection that sends nothing
            for number in range(LIVE_STEPS):
                steps = [{**calls[number], "session_id": name} for name, calls in crew if number < len(calls) - 1]
                one.sendall(request("/rollout", {"steps": steps}))
                read(one)
        page = CLIENT.get(f"http://127.0.0.1:{port}/metrics").text
        assert f"\ncompanyos_live_sessions {OPEN}.0" in page
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def reset(port: int) -> str:
    """Start a session and return its id; the bare server gives none."""
    reply = CLIENT.post(f"http://127.0.0.1:{port}/reset", json={"seed": 8, "chaos": 0.5})
    return str(reply.json().get("session_id", "none"))


def usual_reply(port: int, calls: list[dict[str, Any]]) -> str:
    """Return the reply of median length, so that both sides send the same."""
    name = reset(port)
    replies = [CLIENT.post(f"http://127.0.0.1:{port}/step", json={**call, "session_id": name}).text for call in calls]
    return sorted(replies, key=len)[len(replies) // 2]


def request(place: str, body: dict[str, Any]) -> bytes:
    raw = json.dumps(body).encode()
    about = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}"
    return f"POST {place} HTTP/1.1\r\n{about}\r\n\r\n".encode() + raw


def read(one: socket.socket) -> None:
    """Read one reply and check that its status is 200."""
    got = b""
    while b"\r\n\r\n" not in got:
        more = one.recv(65536)
        assert more, "the server closed the connection"
        got += more
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), got
    left = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]) - len(body)
    while left > 0:
        left -= len(one.recv(min(left, 1 << 20)))


def connect(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port))
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one


@contextmanager
def server(factory: str, **variables: str) -> Iterator[int]:
    """Run a server in a separate process, and yield its port."""
    with process(factory, **variables) as (port, _):
        yield port


@contextmanager
def process(factory: str, **variables: str) -> Iterator[tuple[int, int]]:
    """Run a server in a separate process, and yield its port and process id."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    kept = "timeout_keep_alive=600"  # connections are idle while other servers are measured
    # Our server uses the same protocol classes as under `companyos serve`.
    ours = "from companyos.serve.http.connections import Connection, Socket; more = {'http': Connection, 'ws': Socket}"
    code = (
        f"import uvicorn; {ours if factory.startswith('companyos') else 'more = {}'}; "
        f"uvicorn.run({factory!r}, factory=True, port={port}, {kept}, access_log=False, log_level='error', **more)"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    here = {"PYTHONPATH": path, "COMPANYOS_LOG_LEVEL": "warning"}
    started = subprocess.Popen([sys.executable, "-c", code], env=os.environ | here | variables)
    try:
        while True:
            try:
                connect(port).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port, started.pid
    finally:
        started.terminate()
        started.wait()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
