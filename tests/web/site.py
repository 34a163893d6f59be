"""Site: a server with all its pages, into whose sessions a test can look."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from companyos.serve.sessions import Session
from companyos.serve.settings import Settings
from companyos.task import TaskId
from companyos.web import local
from tests.serve.doors import ADMIN


class Served:
    """Where it is, and what it holds."""

    def __init__(self, server: local.Local) -> None:
        self.url = server.url
        self._server = server

    def __len__(self) -> int:
        """How many sessions there are."""
        return self._server.run(len)

    def begin(self, task: str) -> Session:
        """A session that was begun by some other door."""
        return self._server.run(lambda sessions: sessions.create(TaskId.parse(task)))

    def session(self, address: str) -> Session:
        """The session that a page of the office is about."""
        session_id = address.split("/office/")[1].split("/")[0]
        return self._server.run(lambda sessions: sessions.observe(session_id, None))


@contextmanager
def served(**settings: Any) -> Iterator[Served]:
    """Serves until it is left."""
    with local.served(Settings(**{"ledger": "none", "admin_token": ADMIN} | settings)) as server:
        yield Served(server)
