"""Play: steps, counted, and with a picture where that is what a session is looked at by."""

import msgspec

from companyos.core.calls import Call
from companyos.env import OVER
from companyos.serve.errors import NoScreens, ServeError, SessionOver
from companyos.serve.messages.wire import checked
from companyos.serve.ops.metrics import Metrics
from companyos.serve.sessions.lane import Lane
from companyos.serve.sessions.screens import Screens, is_pictured
from companyos.serve.steps import Outcome, Step


class Play:
    """Makes steps by the lane, or on the screen."""

    def __init__(self, lane: Lane, metrics: Metrics, screens: Screens | None = None) -> None:
        self._lane = lane
        self._metrics = metrics
        self._screens = screens

    async def __call__(self, session_id: str, call: Call, turn: int | None, owner: str) -> Outcome:
        """One step where the end is no error: OpenEnv's hosts step on after it. It changes nothing, and is paid with 0."""
        try:
            return await self.step(Step(session_id, checked(call), turn, owner))
        except SessionOver as over:
            last = msgspec.structs.replace(over.result.observation, reply=OVER, reward=0.0)
            return msgspec.structs.replace(over.result, observation=last)

    async def step(self, step: Step) -> Outcome:
        """One step; `SessionOver` after the last."""
        if is_pictured(step.session_id):
            return await self.screens.step(step)
        outcome = await self._lane.step(step)
        self._metrics.steps(1)
        return outcome

    def refused(self, error: ServeError) -> None:
        """Count a refusal that a door answers by itself."""
        self._metrics.refusal(error.code)

    @property
    def screens(self) -> Screens:
        if self._screens is None:
            raise NoScreens("this server has no pages to take pictures of: run `companyos serve`")
        return self._screens

    async def expect(self, observation: str) -> None:
        """Finds out whether there can be pictures, before a session begins that is looked at by them."""
        if observation == "screenshot":
            await self.screens.start()

    async def first_picture(self, session_id: str, owner: str) -> bytes | None:
        """Of a session that has just begun; None where it is looked at by words."""
        return await self.screens.picture(session_id, owner, "jpeg") if is_pictured(session_id) else None
