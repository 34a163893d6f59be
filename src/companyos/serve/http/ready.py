"""`/ready`: whether the server can begin and step sessions. `/health` only says that the process answers."""

import asyncio
import time

from fastapi import FastAPI, Response

from companyos.serve.errors import LedgerDown
from companyos.serve.http.requests import json_response
from companyos.serve.sessions.work_queue import WorkQueue

_ANSWER_LIFETIME = 1.0  # seconds for which an answer of the ledger is reused, because anybody may call this endpoint


class Ready:
    """The endpoint `/ready`."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._asked_at = -_ANSWER_LIFETIME
        self._answer: asyncio.Task[bool] | None = None

    def open(self, app: FastAPI) -> None:
        app.add_api_route("/ready", self.ready, response_class=Response)

    async def ready(self) -> Response:
        """Returns `ready` if the ledger answers, so that sessions can begin and step."""
        if self._answer is None or (self._answer.done() and time.monotonic() - self._asked_at > _ANSWER_LIFETIME):
            self._answer, self._asked_at = asyncio.create_task(self._ask()), time.monotonic()
        if not await asyncio.shield(self._answer):
            raise LedgerDown
        return json_response({"status": "ready"})

    async def _ask(self) -> bool:
        """Return whether the ledger answers."""
        try:
            await self._queue.run(lambda sessions: sessions.ledger.ping())
        except LedgerDown:
            return False
        return True
