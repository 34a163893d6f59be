"""Ready: whether a server can do its work. `/health` says only that its process answers."""

import asyncio
import time

from fastapi import FastAPI, Response

from companyos.serve.errors import LedgerDown
from companyos.serve.http.requests import json_response
from companyos.serve.sessions.lane import Lane

_FRESH = 1.0  # seconds for which an answer of the ledger holds: anybody may ask here


class Ready:
    """The place `/ready`."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._asked = -_FRESH
        self._answer: asyncio.Task[bool] | None = None

    def open(self, app: FastAPI) -> None:
        app.add_api_route("/ready", self.ready, response_class=Response)

    async def ready(self) -> Response:
        """That the server can begin and step sessions: its ledger answers."""
        if self._answer is None or (self._answer.done() and time.monotonic() - self._asked > _FRESH):
            self._answer, self._asked = asyncio.create_task(self._ask()), time.monotonic()
        if not await asyncio.shield(self._answer):
            raise LedgerDown
        return json_response({"status": "ready"})

    async def _ask(self) -> bool:
        try:
            await self._lane.run(lambda sessions: sessions.ledger.ping())
        except LedgerDown:
            return False
        return True
