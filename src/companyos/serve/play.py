"""Play: a step where the end of an episode is no error. OpenEnv's hosts step on after it, and MCP's agents may."""

import msgspec

from companyos.calls import Call
from companyos.env import OVER
from companyos.serve.errors import SessionOver
from companyos.serve.lane import Lane
from companyos.serve.metrics import Metrics
from companyos.serve.steps import Outcome, Step
from companyos.serve.wire import checked


class Play:
    """Makes steps by the lane, and counts them."""

    def __init__(self, lane: Lane, metrics: Metrics) -> None:
        self._lane = lane
        self._metrics = metrics

    async def __call__(self, session_id: str, call: Call, turn: int | None, owner: str) -> Outcome:
        """One step. In a session that is over it changes nothing, and says so with reward 0."""
        try:
            outcome = await self._lane.step(Step(session_id, checked(call), turn, owner))
        except SessionOver as over:
            last = msgspec.structs.replace(over.result.observation, reply=OVER, reward=0.0)
            return msgspec.structs.replace(over.result, observation=last)
        self._metrics.steps(1)
        return outcome
