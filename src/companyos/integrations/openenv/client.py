"""Client: `CompanyOS`, for those who use OpenEnv; sync and async, as every `EnvClient`. A socket that drops is no end.

The light client (`companyos.integrations.client`) does the same over HTTP without OpenEnv.
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

_PAUSE = 0.1  # seconds, between one try to connect and the next


class CompanyOS(EnvClient[CompanyAction, CompanyObservation, CompanyState]):
    """An episode at a time over a WebSocket. Against `companyos serve`, it outlives the socket and the server's process.

    Every step carries its turn, so that one whose answer was lost is sent again and happens once.
    """

    _ws_url: str | None

    def __init__(self, base_url: str | None = None, *, resume_within_s: float = 60.0, **more: Any) -> None:
        # A model may take minutes to write; that is no reason to hang up.
        super().__init__(base_url, **{"websocket_ping_timeout_s": 600.0, **more})
        self._resume_within_s = resume_within_s
        self._session_id = self._episode_id = ""
        self._turn = 0

    @property
    def session_id(self) -> str:
        """By which the server knows the episode; empty where it has no such thing."""
        return self._session_id

    # -- what OpenEnv asks of a client -----------------------------------------------------------------------------

    def _step_payload(self, action: CompanyAction | Call | dict[str, Any]) -> dict[str, Any]:
        if isinstance(action, Call):
            action = {"app": action.app, "method": action.method, "params": action.params}
        given = action.model_dump() if isinstance(action, CompanyAction) else action
        return {**given, "metadata": {"turn": self._turn + 1, **given.get("metadata", {})}}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CompanyObservation]:
        reward, done = payload["reward"], payload["done"]
        seen = CompanyObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=seen, reward=reward, done=done, metadata=payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> CompanyState:
        return CompanyState(**payload)

    # -- a socket that drops ---------------------------------------------------------------------------------------

    async def _reset_async(self, **given: Any) -> StepResult[CompanyObservation]:
        try:
            result = await super()._reset_async(**given)
        except (ConnectionClosed, ConnectionError):
            self._session_id = ""  # whatever it was, it is to be replaced
            result = await self._insist(lambda: EnvClient._reset_async(self, **given))
        about = result.metadata or {}
        self._session_id, self._episode_id = about.get("session_id", ""), given.get("episode_id") or ""
        self._turn = 0
        return result

    async def _step_async(self, action: Any, **more: Any) -> StepResult[CompanyObservation]:
        try:
            result = await super()._step_async(action, **more)
        except (ConnectionClosed, ConnectionError):
            if not self._session_id:
                raise
            result = await self._insist(lambda: EnvClient._step_async(self, action, **more))
        self._turn = result.observation.step
        return result

    async def _state_async(self) -> CompanyState:
        try:
            return await super()._state_async()
        except (ConnectionClosed, ConnectionError):
            if not self._session_id:
                raise
            return await self._insist(lambda: EnvClient._state_async(self))

    async def _connect_async(self) -> EnvClient[Any, Any, Any]:
        """Opens a socket, to the session that is under way if there is one."""
        plain, held = self._ws_url, self._session_id
        if held:
            names = {"session_id": held, "episode_id": self._episode_id}
            self._ws_url = f"{plain}?{urlencode({name: value for name, value in names.items() if value})}"
        try:
            return await super()._connect_async()
        finally:
            self._ws_url, self._session_id = plain, held  # a try that fails closes the client

    async def _close_async(self) -> None:
        await super()._close_async()
        self._session_id = ""

    async def _insist(self, ask: Any) -> Any:
        """Asks again over another socket, for as long as a server may need to come back."""
        give_up = time.monotonic() + self._resume_within_s
        while True:
            self._ws = None
            try:
                return await ask()
            except (ConnectionClosed, ConnectionError):
                if time.monotonic() + _PAUSE > give_up:
                    raise
                await asyncio.sleep(_PAUSE)
