"""Site: a server with all its pages, in a thread of the test's own process, so that a test can look into its sessions."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from companyos.serve.sessions import Session, Sessions
from companyos.serve.settings import Settings
from companyos.task import TaskId
from companyos.web.app import create
from tests.serve.doors import ADMIN, wait_for


class Served:
    """Where it is, and what it holds."""

    def __init__(self, url: str, sessions: Sessions) -> None:
        self.url = url
        self._sessions = sessions

    def begin(self, task: str) -> Session:
        """A session that was begun by some other door."""
        return self._sessions.create(TaskId.parse(task))

    def session(self, address: str) -> Session:
        """The session that a page of the office is about."""
        return self._sessions.observe(address.split("/office/")[1].split("/")[0], None)


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
        yield Served(f"http://127.0.0.1:{port}", app.state.sessions)
    finally:
        server.should_exit = True
        thread.join()
