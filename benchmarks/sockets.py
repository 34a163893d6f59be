"""Benchmark of steps over `/ws`, compared with an OpenEnv environment that does nothing under OpenEnv's own server.

`python -m benchmarks.sockets [ROUNDS]` needs the extra `serve`. Both sides send an observation of the same bytes, of median
length. The client writes prepared frames and reads only lengths, so that the server is measured and not the client. Rounds
alternate, and the result is the ratio within a round.
"""

import base64
import json
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from fastapi import FastAPI

from benchmarks.serve import connect, server
from companyos.env import make, run_expert

SESSIONS = (1, 16, 64)
STEPS = 4000  # at least, per round and number of sessions
RESET = {"type": "reset", "data": {"seed": 8, "chaos": 0.5}}


def idle() -> FastAPI:
    """Return OpenEnv's server over an environment that always gives the same observation.

    As in most environments, `step` is a plain function, which OpenEnv runs in a thread. The variable `QUICK` selects one
    that overrides `step_async`, too.
    """
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment

    from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState

    usual = json.loads(os.environ["USUAL_REPLY"])["data"]
    shown = CompanyObservation(**usual["observation"], reward=usual["reward"], done=usual["done"])

    class Idle(Environment[CompanyAction, CompanyObservation, CompanyState]):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> CompanyObservation:
            return shown

        def step(self, action: CompanyAction, timeout_s: float | None = None, **_: Any) -> CompanyObservation:
            return shown

        @property
        def state(self) -> CompanyState:
            return CompanyState()

    class Quick(Idle):
        """The same without a thread."""

        async def step_async(self, action: CompanyAction, timeout_s: float | None = None, **_: Any) -> CompanyObservation:
            return shown

    room = 4 * max(SESSIONS)  # sessions of the last round take a moment to end
    kind = Quick if os.environ.get("QUICK") else Idle
    app: FastAPI = create_app(kind, CompanyAction, CompanyObservation, state_cls=CompanyState, max_concurrent_envs=room)
    return app


class Line:
    """A WebSocket client that sends prepared frames and does not parse the replies."""

    def __init__(self, port: int) -> None:
        self._socket = connect(port)
        key = base64.b64encode(b"0123456789abcdef").decode()
        self._socket.sendall(
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        self._got = b""
        while b"\r\n\r\n" not in self._got:
            self._more()
        head, _, self._got = self._got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101"), head

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def read(self) -> bytes:
        """Return the payload of one frame."""
        length, start = self._need(2)[1], 2
        if length > 125:
            start = 4 if length == 126 else 10
            length = int.from_bytes(self._need(start)[2:start])
        whole = self._need(start + length)
        payload, self._got = whole[start : start + length], whole[start + length :]
        assert b'"type":"error"' not in payload[:20], payload
        return payload

    def ask(self, message: Any) -> bytes:
        self.send(frame(message))
        return self.read()

    def close(self) -> None:
        self._socket.close()

    def _need(self, count: int) -> bytes:
        while len(self._got) < count:
            self._more()
        return self._got

    def _more(self) -> None:
        got = self._socket.recv(1 << 18)
        assert got, "the server closed the connection"
        self._got += got


def frame(message: Any) -> bytes:
    """Return a text frame of a client, with a mask of zeros."""
    raw = json.dumps(message).encode()
    length = bytes([128 | len(raw)]) if len(raw) < 126 else struct.pack(">BH", 128 | 126, len(raw))
    return b"\x81" + length + bytes(4) + raw


@contextmanager
def lines(port: int, count: int) -> Iterator[list[Line]]:
    made = [Line(port) for _ in range(count)]
    try:
        yield made
    finally:
        for line in made:
            line.ask({"type": "state"})
            line.send(frame({"type": "close"}))
            line.close()


def step_speed(crew: Sequence[Line], frames: list[bytes]) -> float:
    """Return the steps a second of all sockets at once, each with its own session."""
    seconds, count = 0.0, 0
    while count < STEPS:
        for line in crew:
            line.ask(RESET)
        began = time.perf_counter()
        for one in frames:
            for line in crew:
                line.send(one)
            for line in crew:
                line.read()
        seconds += time.perf_counter() - began
        count += len(frames) * len(crew)
    return count / seconds


def usual_reply(port: int, frames: list[bytes]) -> str:
    """Return the reply of median length, so that both sides send the same."""
    with lines(port, 1) as [line]:
        line.ask(RESET)
        replies = []
        for one in frames:
            line.send(one)
            replies.append(line.read().decode())
    return sorted(replies, key=len)[len(replies) // 2]


def main(rounds: int) -> None:
    env = make("vendor_onboarding", seed=8, chaos=0.5)
    run_expert(env)
    calls = [{"app": turn.call.app, "method": turn.call.method, "params": turn.call.params} for turn in env.turns]
    frames = [frame({"type": "step", "data": call}) for call in calls]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        memory = stack.enter_context(server("companyos.serve.app:create", COMPANYOS_LEDGER="none"))
        ledger = stack.enter_context(server("companyos.serve.app:create", COMPANYOS_LEDGER=str(folder / "ledger")))
        reply = usual_reply(memory, frames)
        idles = stack.enter_context(server("benchmarks.sockets:idle", USUAL_REPLY=reply))
        quick = stack.enter_context(server("benchmarks.sockets:idle", USUAL_REPLY=reply, QUICK="yes"))
        sides = {"idle OpenEnv": idles, "idle, async": quick, "no ledger": memory, "SQLite": ledger}
        speeds: dict[tuple[int, str], list[float]] = {}
        for _ in range(rounds):
            for count in SESSIONS:
                for name, port in sides.items():
                    with lines(port, count) as crew:
                        speeds.setdefault((count, name), []).append(step_speed(crew, frames))
    for (count, name), found in speeds.items():
        ratios = [one / other for one, other in zip(found, speeds[count, "idle OpenEnv"], strict=True)]
        spread = f"{median(found):8,.0f}/s ({min(found):,.0f}–{max(found):,.0f})"
        print(f"{count:3} sockets, {name:13} {spread:32} {median(ratios):5.2f} × idle ({min(ratios):.2f}–{max(ratios):.2f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
