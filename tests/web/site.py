"""A running server with its pages, whose sessions a test can read."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.serve.ops.settings import Settings
from companyos.serve.sessions.sessions import Session
from companyos.web import local_server
from companyos.web.pages.watch import WatchPages
from tests.serve.servers import ADMIN, body_of, good


class RunningSite:
    """A running server: its URL and its sessions."""

    def __init__(self, server: local_server.LocalServer) -> None:
        self.url = server.url
        self._server = server
        self.watch: WatchPages = server.app.state.watch

    def __len__(self) -> int:
        """Return the number of sessions."""
        return self._server.run(len)

    def begin(self, task: str) -> Session:
        """Start a session without HTTP."""
        return self._server.run(lambda sessions: sessions.create(TaskId.parse(task)))

    def agent(self, task: str, token: str = "") -> "Agent":
        """Start a session over HTTP, as agents do."""
        return Agent(self.url, self.watch, task, token)

    def session(self, address: str) -> Session:
        """Return the session of an office page."""
        session_id = address.split("/office/")[1].split("/")[0]
        return self._server.run(lambda sessions: sessions.observe(session_id, None))

    def session_of_code(self, code: str) -> Session:
        """Return the session of a watch link."""
        session_id = self.watch.session_id_of(code)
        return self._server.run(lambda sessions: sessions.observe(session_id, None))


class Agent:
    """An agent that works over REST, and the address at which to watch it."""

    def __init__(self, url: str, watch: WatchPages, task: str, token: str) -> None:
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
def served(**settings: Any) -> Iterator[RunningSite]:
    """Serve until the context ends."""
    with local_server.served(Settings(**{"ledger": "none", "admin_token": ADMIN} | settings)) as server:
        yield RunningSite(server)
