"""Fuzzing: thousands of valid and invalid requests and frames, against a server in its own process."""

import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import connect

from tests.serve.servers import ADMIN, Server, serving, wait_for

CASES = 3000
LEAK = 16_000_000  # bytes over some 2,000 cases: less than each of them takes while it is answered
REJECTIONS = 'checks.negative_data_rejection.expected-statuses = ["400", "401", "404", "405", "409", "413", "422"]'


def fuzz(server: Server, folder: Path, seed: int, phases: str, examples: int, *more: str) -> int:
    """How many cases were tried; all of them held every promise of the description, and none took 20 seconds."""
    (folder / "schemathesis.toml").write_text(REJECTIONS)
    # Whether there is such a session or such a task is no matter of schemas, hence without `positive_data_acceptance`.
    command = (
        f"{Path(sys.executable).with_name('schemathesis')} --config-file schemathesis.toml run {server.url}/openapi.json"
        f" --seed {seed} --phases {phases} --max-examples {examples} --checks all --exclude-checks positive_data_acceptance"
        " --request-timeout 20 --warnings off --generation-database none --no-color --continue-on-failure"
        " --report json --report-json-path report.json"
    )
    done = subprocess.run([*command.split(), *more], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"Seed: {seed}" in done.stdout
    return int(json.loads((folder / "report.json").read_text())["test_cases"]["generated"])


def sessions_left(server: Server, ledger: Path) -> int:
    in_memory = httpx.get(f"{server.url}/metrics").text.split("\ncompanyos_live_sessions ")[1].split()[0]
    with sqlite3.connect(ledger) as db:
        [kept] = db.execute("SELECT count(*) FROM session").fetchone()
    db.close()
    return int(float(in_memory)) + int(kept)


def test_no_request_makes_the_server_fail_or_hang_or_break_its_description_or_grow(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    # Sessions go soon, so that those of one run do not stay for the next.
    with serving(ledger, CAPACITY="100000", IDLE_SECONDS="2", TTL_SECONDS="4") as server:
        cases = fuzz(server, tmp_path, 1, "coverage,fuzzing", 120)
        cases += fuzz(server, tmp_path, 2, "stateful", 30, "--header", f"Authorization: Bearer {ADMIN}")
        wait_for(lambda: sessions_left(server, ledger) == 0)
        before = server.memory()
        cases += fuzz(server, tmp_path, 3, "coverage,fuzzing", 200)
        cases += fuzz(server, tmp_path, 4, "stateful", 30, "--header", f"Authorization: Bearer {ADMIN}")
        wait_for(lambda: sessions_left(server, ledger) == 0)
        assert server.memory() - before < LEAK
        assert cases >= CASES
        served = httpx.get(f"{server.url}/metrics").text
        for place in ("reset", "step", "rollout", "fork", "close", "render", "inspect"):  # by the links, with real sessions
            assert f'{{place="/{place}",status="200"}}' in served
        assert "Traceback" not in server.said()


FRAMES = 20_000
SOCKETS = 100


def malformed(draw: random.Random) -> str | bytes:
    """Something that is no message, or no longer one."""
    good = draw.choice(
        (
            {"type": "reset", "data": {"seed": 3, "chaos": 0.5}},
            {"type": "step", "data": {"app": "ticketdesk", "method": "list_tickets", "params": {}}},
            {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
            {"type": "state"},
        )
    )
    text = json.dumps(good)
    at = draw.randrange(len(text))
    nonsense: Any = draw.choice(
        (None, True, -1, 2**70, 1e308, "", "\ud800", [], {}, [[]] * 50, {"a": {"b": []}}, "x" * 3000)
    )
    return draw.choice(
        (
            text[:at],
            text[:at] + draw.choice('{}[]",:\\\0e9') + text[at:],
            text.encode(),
            draw.randbytes(draw.randrange(80)),
            "[" * draw.randrange(1, 3000),
            json.dumps(nonsense),
            json.dumps(good | {"type": nonsense}),
            json.dumps(good | {"data": nonsense}),
            json.dumps(good | {"data": {draw.choice(("app", "params", "seed", "task", "turn", "method", "id")): nonsense}}),
        )
    )


def test_no_frame_makes_a_socket_fail_or_hang_or_the_server_grow(tmp_path: Path) -> None:
    ledger, draw = tmp_path / "ledger", random.Random(20_000)
    with serving(ledger, IDLE_SECONDS="2", TTL_SECONDS="4", LOG_LEVEL="info") as server:
        before = 0
        for number in range(SOCKETS):
            with connect(f"{server.url.replace('http', 'ws', 1)}/{'tools/' * (number % 2)}ws") as line:
                for _ in range(FRAMES // SOCKETS):
                    line.send(malformed(draw))
                    reply = json.loads(line.recv(timeout=20))
                    assert reply["type"] in ("observation", "state", "mcp", "error")
                    assert reply["data"].get("reason") != "bug"
                line.send('{"type": "reset", "data": {}}')
                assert json.loads(line.recv(timeout=20))["type"] == "observation"
            if number == SOCKETS // 10:
                before = server.memory()
        wait_for(lambda: sessions_left(server, ledger) == 0)
        assert server.memory() - before < LEAK
        assert "Traceback" not in server.said()
