"""Limits on connections before a request reaches the app, and a clean end when the server stops."""

import json
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from companyos.core.calls import Call
from companyos.serve.http.connections import MAX_URL_BYTES
from tests.serve.servers import Server, code_of, good, serving
from tests.serve.sockets import action

LIST = Call("ticketdesk", "list_tickets")
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("connections")
    with serving(folder / "ledger", HEAD_LIMIT="20000", HEAD_SECONDS="1", CONNECTIONS="100") as made:
        yield made


@contextmanager
def wire(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as one:
        yield one


def heard(one: socket.socket) -> bytes:
    """All that the server says until it hangs up."""
    said = b""
    try:
        while piece := one.recv(65536):
            said += piece
    except ConnectionError:
        pass  # it hung up on what it did not want to read
    return said


def refused(said: bytes) -> tuple[int, str]:
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def poured(one: socket.socket, begin: bytes, piece: bytes, most: int, pause: float = 0.0) -> int:
    """How many bytes the server took before it hung up."""
    one.sendall(begin)
    sent = 0
    try:
        while sent < most:
            sent += one.send(piece)
            time.sleep(pause)
    except ConnectionError:
        pass
    return sent


@pytest.mark.parametrize(
    ("begin", "piece"), [(b"GET /", b"a" * 65536), (GET, b"x-more: " + b"a" * 1000 + b"\r\n"), (GET + b"x: ", b"a" * 65536)]
)
def test_a_head_without_end_is_cut_off_and_costs_no_memory(server: Server, begin: bytes, piece: bytes) -> None:
    before = server.memory()
    with wire(server) as one:
        assert poured(one, begin, piece, most=64_000_000) < 16_000_000  # what lies in the system's buffers
    assert server.memory() - before < 16_000_000
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_whoever_sends_too_much_is_told_what(server: Server) -> None:
    for head, told in (
        (b"GET /" + b"a" * MAX_URL_BYTES + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (414, "url_too_long")),
        (GET + b"x: " + b"a" * 20_000 + b"\r\n\r\n", (431, "head_too_large")),
        (GET + b"x: " + b"a" * 21_000, (431, "head_too_large")),
        (GET, (408, "too_slow")),
    ):
        with wire(server) as one:
            one.sendall(head)
            assert refused(heard(one)) == told


def test_what_is_within_the_limits_passes_also_in_pieces_and_along_with_a_body(server: Server) -> None:
    long = {"x-long": "a" * 15_000}
    assert httpx.get(f"{server.url}/health?{'a' * 8000}", headers=long).status_code == 200
    with wire(server) as one:
        for piece in (GET[:7], GET[7:] + b"x: " + b"a" * 10_000, b"a" * 8_000 + b"\r\n", b"connection: close\r\n\r\n"):
            one.sendall(piece)
            time.sleep(0.05)
        assert heard(one).startswith(b"HTTP/1.1 200")
    with httpx.Client(base_url=server.url) as client:  # bodies and many requests on one connection are not heads
        for _ in range(3):
            assert code_of(client.post("/step", content=b" " * 500_000)) == (422, "malformed")
            good(client.get("/health"))


def test_half_sent_and_silent_requests_are_hung_up_on_while_those_at_work_are_not(server: Server) -> None:
    with ExitStack() as stack, httpx.Client(base_url=server.url) as client:
        good(client.get("/health"))  # an idle connection that has asked something stays
        silent = [stack.enter_context(wire(server)) for _ in range(20)]
        half = [stack.enter_context(wire(server)) for _ in range(20)]
        for one in half:
            one.sendall(GET)
        dribbling = stack.enter_context(wire(server))
        dribbling.sendall(GET)
        assert {refused(heard(one)) for one in half} == {(408, "too_slow")}
        assert {heard(one) for one in silent} == {b""}
        assert poured(dribbling, b"", b"x", most=1000, pause=0.05) < 1000  # a byte now and then buys no time
        good(client.get("/health"))


def test_a_full_house_lets_idle_connections_go_for_new_ones(server: Server) -> None:
    with ExitStack() as stack:
        crowd = []
        for _ in range(150):
            crowd.append(stack.enter_context(wire(server)))
            crowd[-1].sendall(GET + b"\r\n")
            assert crowd[-1].recv(65536).startswith(b"HTTP/1.1 200")
        assert not [said for one in crowd[:40] if b"HTTP" in (said := heard(one))]  # each was hung up on
        good(httpx.get(f"{server.url}/health"))


# -- the end -----------------------------------------------------------------------------------------------------------


@contextmanager
def slow_commits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seconds: float) -> Iterator[Server]:
    """A server whose ledger takes its time: it runs what `sitecustomize` says first."""
    patch = f"""
import time
from companyos.serve.ledger.sqlite import SqliteLedger
quick = SqliteLedger.append_all
def slow(self, rows):
    found = quick(self, rows)
    time.sleep({seconds})
    return found
SqliteLedger.append_all = slow
"""
    (tmp_path / "sitecustomize.py").write_text(patch)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    server = Server(tmp_path / "ledger", FSYNC="true")  # commits in a thread
    server.start()
    try:
        yield server
    finally:
        server.kill()


def test_a_socket_hears_what_was_written_before_the_server_stops(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with slow_commits(monkeypatch, tmp_path, 1.5) as server, ExitStack() as stack:
        ends = [stack.enter_context(connect(server.url.replace("http", "ws") + "/ws")) for _ in range(4)]
        names = [_said(one, {"type": "reset", "data": {}})["data"]["observation"]["metadata"]["session_id"] for one in ends]
        for one in ends:
            one.send(json.dumps({"type": "step", "data": action(LIST, 1)}))
        time.sleep(0.5)  # they are being written
        server.signal(signal.SIGTERM)
        replies = [json.loads(one.recv(20)) for one in ends]
        assert [reply["data"]["observation"]["step"] for reply in replies] == [1] * 4
        assert server.ended() in (0, -signal.SIGTERM)
        server.start()
        for name in names:
            seen = good(httpx.get(f"{server.url}/render", params={"session_id": name, "view": "json"}))
            assert seen["step"] == 1


def _said(one: Any, message: Any) -> Any:
    one.send(json.dumps(message))
    return json.loads(one.recv(20))


# -- logs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_line_of_the_log_holds_the_id_of_a_session(tmp_path: Path, form: str) -> None:
    with serving(tmp_path / "ledger", LOG_LEVEL="debug", LOG_FORMAT=form) as server:
        name = good(httpx.post(f"{server.url}/reset", json={}))["session_id"]
        for url in (f"/render?session_id={name}", f"/office/{name}/0", f"/{name}", f"/watch/{name}", f"/replay/{name}"):
            httpx.get(f"{server.url}{url}")
        httpx.post(f"{server.url}/step?session_id={name}", json={"app": "a", "method": "b"}, headers={"x-session-id": name})
        httpx.post(f"{server.url}/step?session_id={name}", content=b"{", headers={"x-session-id": name})
        for place in ("/ws", "/tools/ws"):
            with connect(f"{server.url.replace('http', 'ws')}{place}?session_id={name}") as one:
                assert _said(one, {"type": "state"})["type"] == "state"
                _said(one, {"type": "step", "data": {"name": name}})
        with wire(server) as one:
            one.sendall(f"GET /ws?session_id={name} HTTP/1.1\r\nHost: x y\r\nbad header\r\n\r\n".encode())
            heard(one)
        said = server.said()
    assert "SOCKET" in said
    assert name not in said
