"""Makes steps for the endpoints: counts them, and adds a screenshot if the session is observed by screenshots."""

import msgspec

from companyos.core.calls import Call
from companyos.env import OVER
from companyos.serve.errors import NoScreens, ServeError, SessionOver
from companyos.serve.messages.wire import checked
from companyos.serve.ops.metrics import Metrics
from companyos.serve.sessions.screens import ScreenBackend, has_screenshots
from companyos.serve.sessions.work_queue import WorkQueue
from companyos.serve.steps import StepRequest, StepResult


class Stepper:
    """Makes steps through the work queue, or in the browser for a session that is observed by screenshots."""

    def __init__(self, queue: WorkQueue, metrics: Metrics, screens: ScreenBackend | None = None) -> None:
        self._queue = queue
        self._metrics = metrics
        self._screens = screens

    async def step_or_repeat_end(self, session_id: str, call: Call, turn: int | None, owner: str) -> StepResult:
        """Make one step, or return the last observation with reward 0 if the episode is over.

        For OpenEnv, whose hosts do not expect an error there.
        """
        try:
            return await self.step(StepRequest(session_id, checked(call), turn, owner))
        except SessionOver as over:
            last = msgspec.structs.replace(over.result.observation, reply=OVER, reward=0.0)
            return msgspec.structs.replace(over.result, observation=last)

    async def step(self, step: StepRequest) -> StepResult:
        """Make one step. Raise `SessionOver` after the end of the episode."""
        if has_screenshots(step.session_id):
            return await self.screens.step(step)
        result = await self._queue.step(step)
        self._metrics.steps(1)
        return result

    def count_refusal(self, error: ServeError) -> None:
        """Count a refusal that an endpoint answers itself."""
        self._metrics.refusal(error.code)

    @property
    def screens(self) -> ScreenBackend:
        """The browser. Raise `NoScreens` if the server has none."""
        if self._screens is None:
            raise NoScreens("this server has no pages to take screenshots of: run `companyos serve`")
        return self._screens

    async def prepare_screens(self, observation: str) -> None:
        """Start the browser if a session that is about to begin needs it, so that a failure comes before the session."""
        if observation == "screenshot":
            await self.screens.start()

    async def first_picture(self, session_id: str, owner: str) -> bytes | None:
        """Return the first screenshot of a session, or None if it is observed by text."""
        return await self.screens.picture(session_id, owner, "jpeg") if has_screenshots(session_id) else None
