"""`CompanyOS`, the OpenEnv client: sync and async like every `EnvClient`. It reconnects when the socket drops.

The HTTP client (`companyos.integrations.client`) does the same without OpenEnv.
"""

import asyncio
import time
from typing import Any
from urllib.parse import urlencode

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from websockets.exceptions import ConnectionClosed

from companyos.core.calls import Call
from companyos.integrations.openenv.models import CompanyAction, CompanyObservation, CompanyState

_RETRY_PAUSE = 0.1  # seconds between two attempts to connect


class CompanyOS(EnvClient[CompanyAction, CompanyObservation, CompanyState]):
    """One episode at a time over a WebSocket. With `companyos serve`, it survives a lost socket and a restarted server.

    Every request for a step carries the number of the step. If the answer is lost, the client sends the request again, and
    the server does not make the step a second time.
    """

    _ws_url: str | None

    def __init__(self, base_url: str | None = None, *, resume_within_s: float = 60.0, **options: Any) -> None:
        # A model may take minutes to generate; the socket must stay open.
        super().__init__(base_url, **{"websocket_ping_timeout_s": 600.0, **options})
        self._resume_within_s = resume_within_s
        self._session_id = ""
        # The name that the caller gave the episode in `reset(episode_id=...)`, or empty. `state` returns it. The server
        # keeps it only as long as the socket, so the client sends it again when it reconnects.
        self._episode_id = ""
        self._turn = 0

    @property
    def session_id(self) -> str:
        """The session id of the episode; empty if the server has no sessions."""
        return self._session_id

    # -- the methods of an OpenEnv client --------------------------------------------------------------------------

    def _step_payload(self, action: CompanyAction | Call | dict[str, Any]) -> dict[str, Any]:
        if isinstance(action, Call):
            action = {"app": action.app, "method": action.method, "params": action.params}
        fields = action.model_dump() if isinstance(action, CompanyAction) else action
        return {**fields, "metadata": {"turn": self._turn + 1, **fields.get("metadata", {})}}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CompanyObservation]:
        reward, done = payload["reward"], payload["done"]
        observation = CompanyObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done, metadata=payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> CompanyState:
        return CompanyState(**payload)

    # -- reconnecting ----------------------------------------------------------------------------------------------

    async def _reset_async(self, **options: Any) -> StepResult[CompanyObservation]:
        try:
            result = await super()._reset_async(**options)
        except (ConnectionClosed, ConnectionError):
            self._session_id = ""  # the reset replaces the old session
            result = await self._retry(lambda: EnvClient._reset_async(self, **options))
        metadata = result.metadata or {}
        self._session_id, self._episode_id = metadata.get("session_id", ""), options.get("episode_id") or ""
        self._turn = 0
        return result

    async def _step_async(self, action: Any, **options: Any) -> StepResult[CompanyObservation]:
        try:
            result = await super()._step_async(action, **options)
        except (ConnectionClosed, ConnectionError):
            if not self._session_id:
                raise
            result = await self._retry(lambda: EnvClient._step_async(self, action, **options))
        self._turn = result.observation.step
        return result

    async def _state_async(self) -> CompanyState:
        try:
            return await super()._state_async()
        except (ConnectionClosed, ConnectionError):
            if not self._session_id:
                raise
            return await self._retry(lambda: EnvClient._state_async(self))

    async def _connect_async(self) -> EnvClient[Any, Any, Any]:
        """Open a socket. If there is a session, the socket resumes it."""
        url, session_id = self._ws_url, self._session_id
        if session_id:
            query = {"session_id": session_id, "episode_id": self._episode_id}
            self._ws_url = f"{url}?{urlencode({name: value for name, value in query.items() if value})}"
        try:
            return await super()._connect_async()
        finally:
            # The URL was changed above. A failed attempt calls `_close_async`, which clears the session id.
            self._ws_url, self._session_id = url, session_id

    async def _close_async(self) -> None:
        await super()._close_async()
        self._session_id = ""

    async def _retry(self, request: Any) -> Any:
        """Repeat a request over new sockets, for `resume_within_s` at most."""
        deadline = time.monotonic() + self._resume_within_s
        while True:
            self._ws = None
            try:
                return await request()
            except (ConnectionClosed, ConnectionError):
                if time.monotonic() + _RETRY_PAUSE > deadline:
                    raise
                await asyncio.sleep(_RETRY_PAUSE)
