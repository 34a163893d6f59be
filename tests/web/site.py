"""Site: a server with all its pages, in a thread of the test's own process, so that a test can look into its sessions."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn

from companyos.calls import Call
from companyos.serve.sessions import Session, Sessions
from companyos.serve.settings import Settings
from companyos.task import TaskId
from companyos.web.app import create
from companyos.web.watch import Watch
from tests.serve.doors import ADMIN, body_of, good, wait_for


class Served:
    """Where it is, and what it holds."""

    def __init__(self, url: str, sessions: Sessions, watch: Watch) -> None:
        self.url = url
        self._sessions = sessions
        self.watch = watch

    def begin(self, task: str) -> Session:
        """A session that was begun by some other door."""
        return self._sessions.create(TaskId.parse(task))

    def agent(self, task: str, token: str = "") -> "Agent":
        """Somebody who begins a session over HTTP, as agents do."""
        return Agent(self.url, self.watch, task, token)

    def session(self, address: str) -> Session:
        """The session that a page of the office is about."""
        return self._sessions.observe(address.split("/office/")[1].split("/")[0], None)


class Agent:
    """A session by the door for programs, and where to watch it."""

    def __init__(self, url: str, watch: Watch, task: str, token: str) -> None:
        self._url, self._headers = url, {"authorization": f"Bearer {token}"} if token else {}
        self.session_id = str(self._ask("/reset", {"task": task})["session_id"])
        self.code = watch.code(self.session_id)
        self.place = f"{url}/watch/{self.code}"

    def make(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self._ask("/step", body_of(self.session_id, call))

    def close(self) -> None:
        self._ask("/close", {"session_id": self.session_id})

    def _ask(self, place: str, body: dict[str, Any]) -> dict[str, Any]:
        return good(httpx.post(f"{self._url}{place}", json=body, headers=self._headers))


@contextmanager
def served(**settings: Any) -> Iterator[Served]:
    """Serves until it is left."""
    app = create(Settings(**{"ledger": "none", "admin_token": ADMIN} | settings))
    server = uvicorn.Server(uvicorn.Config(app, "127.0.0.1", 0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"http://127.0.0.1:{port}", app.state.sessions, app.state.watch)
    finally:
        server.should_exit = True
        thread.join()
