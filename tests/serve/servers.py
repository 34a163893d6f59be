"""A server to test, in this process or in one of its own, and an expert who works through either."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import httpx
from fastapi import FastAPI

from companyos.core.calls import OK, Call, Program, Reply
from companyos.core.task import TaskId
from companyos.env import make
from companyos.families import EpisodeSoFar, ExpertStyle, family
from companyos.serve.app import create
from companyos.serve.ops.settings import Settings

ADMIN = "admin-token"
AS_ADMIN = {"authorization": f"Bearer {ADMIN}"}


class AppClient:
    """A client of the app in this process, which sends one request at a time."""

    create: Callable[[Settings], FastAPI] = staticmethod(create)

    def __init__(self, **settings: Any) -> None:
        self.app = self.create(Settings(**{"ledger": "none", "admin_token": ADMIN} | settings))
        self.runner = asyncio.Runner()
        self._life = self.app.router.lifespan_context(self.app)
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")

    def __enter__(self) -> Self:
        self.runner.run(self._life.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.run(self._client.aclose())
        self.runner.run(self._life.__aexit__(None, None, None))
        self.runner.close()

    def get(self, place: str, **more: Any) -> httpx.Response:
        return self.runner.run(self._client.get(place, **more))

    def post(self, place: str, body: Any = None, **more: Any) -> httpx.Response:
        return self.runner.run(self._client.post(place, json=body, **more))

    def options(self, place: str, **more: Any) -> httpx.Response:
        return self.runner.run(self._client.options(place, **more))

    def post_together(self, place: str, bodies: list[Any]) -> list[httpx.Response]:
        """Send requests concurrently."""

        async def all_of_them() -> list[httpx.Response]:
            return await asyncio.gather(*(self._client.post(place, json=body) for body in bodies))

        return self.runner.run(all_of_them())

    def reset(self, **body: Any) -> dict[str, Any]:
        return good(self.post("/reset", {"seed": 7, "chaos": 0.5} | body if "-" not in body.get("task", "") else body))

    def step(self, session_id: str, call: Call, **more: Any) -> httpx.Response:
        return self.post("/step", body_of(session_id, call) | more)

    def digest(self, session_id: str) -> str:
        found = self.get("/inspect", params={"session_id": session_id}, headers=AS_ADMIN)
        return str(good(found)["digest"])


def good(reply: httpx.Response) -> dict[str, Any]:
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def code_of(reply: httpx.Response) -> tuple[int, str]:
    """Return status and code of an error, after checking that it has a message and a hint."""
    error = reply.json()["error"]
    assert set(error) == {"code", "message", "what_next"}
    assert error["message"]
    assert error["what_next"]
    return reply.status_code, error["code"]


def body_of(session_id: str, call: Call) -> dict[str, Any]:
    return {"session_id": session_id, "app": call.app, "method": call.method, "params": call.params}


class Expert:
    """The expert of the family as a remote client: it sees only what the server sends."""

    def __init__(self, begun: dict[str, Any]) -> None:
        self.session_id = str(begun["session_id"])
        self.task_id = str(begun["task_id"])
        self.rewards: list[float] = []
        self.texts = [begun["observation"]["text"]]
        self.success: bool | None = None
        so_far = EpisodeSoFar(begun["observation"]["task"], begun["observation"]["now"])
        self._program: Program = family(TaskId.parse(self.task_id).family).expert(so_far, ExpertStyle())
        self.call: Call | None = next(self._program)

    @property
    def body(self) -> dict[str, Any]:
        assert self.call is not None
        return body_of(self.session_id, self.call)

    def hear(self, reply: dict[str, Any]) -> None:
        seen = reply["observation"]
        self.rewards.append(reply["reward"])
        self.texts.append(seen["text"])
        if reply["done"]:
            self.success, self.call = reply["success"], None
        else:
            assert "success" not in reply
            self.call = self._program.send(Reply(seen["code"] == OK, seen["code"], seen["last_result"], seen["message"]))


def solo(task_id: str, reward: str = "dense") -> tuple[str, list[float], bool | None, list[str]]:
    """Run the expert in this process. Return digest, rewards, success and the texts that it saw."""
    env = make(task_id, reward=reward)
    obs = env.reset()
    expert = Expert(
        {"session_id": "", "task_id": task_id, "observation": {"task": obs.task, "now": obs.now, "text": obs.text}}
    )
    while expert.call is not None:
        obs = env.step(expert.call)
        seen = {"text": obs.text, "code": obs.code, "last_result": obs.last_result, "message": obs.message}
        ended = {"success": env.success} if obs.done else {}
        expert.hear({"observation": seen, "reward": obs.reward, "done": obs.done, **ended})
    return env.digest(), expert.rewards, env.success, expert.texts


def result_of(expert: Expert, digest: str) -> tuple[str, list[float], bool | None, list[str]]:
    return digest, expert.rewards, expert.success, expert.texts


class Server:
    """`companyos serve` in its own process. It keeps its port when it is killed and started again."""

    def __init__(self, ledger: Path, **variables: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.ledger = ledger
        settings = {"LEDGER": str(ledger), "PORT": str(self.port), "ADMIN_TOKEN": ADMIN, "LOG_LEVEL": "warning"} | variables
        # A killed server cannot remove its temporary files, so they go to the folder of the test.
        temporary = {"TMPDIR": str(ledger.parent)}
        self._variables = os.environ | temporary | {f"COMPANYOS_{name}": value for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self._log = ledger.with_name("log")

    def start(self) -> None:
        command = [sys.executable, "-m", "companyos", "serve"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=self._variables, start_new_session=True, stderr=log)
        wait_for(lambda: httpx.get(f"{self.url}/health").status_code == 200)

    def said(self) -> str:
        """Return its log."""
        return self._log.read_text()

    def memory(self) -> int:
        """Return its resident memory in bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Kill the server with all its workers, if it has not ended."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def workers(self) -> list[int]:
        """Return the pids of its worker processes, if it has several workers."""
        assert self._process is not None
        parent = self._process.pid
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        # One other child is the resource tracker of multiprocessing.
        return [int(pid) for pid in children if b"spawn_main" in _command_line(pid)]

    def kill_worker(self) -> int:
        """Kill the oldest worker, as soon as there is one."""
        found: list[int] = []

        def some() -> bool:
            found[:] = self.workers()
            return bool(found)

        wait_for(some)
        pid = min(found)
        os.kill(pid, signal.SIGKILL)
        return pid

    def stop(self) -> tuple[int, str]:
        """Stop it as Ctrl-C does. Return the exit code and the log."""
        self.signal(signal.SIGINT)
        return self.ended(), self._log.read_text()

    def signal(self, what: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(what)

    def ended(self) -> int:
        """Wait until it has ended. Return its exit code."""
        assert self._process is not None
        return self._process.wait(20)


def _command_line(pid: str) -> bytes:
    """Return the command line of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@contextmanager
def serving(ledger: Path, **variables: str) -> Iterator[Server]:
    server = Server(ledger, **variables)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def wait_for(ready: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if ready():
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "it did not come up"
        time.sleep(0.05)
