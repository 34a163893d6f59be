"""The request for one step in a session, and its result."""

import msgspec

from companyos.core.calls import Call
from companyos.env.observations import Observation


class StepRequest(msgspec.Struct, frozen=True, gc=False):
    """A call in a session. With `turn`, it is made as that turn, once, however often it is sent."""

    session_id: str
    call: Call
    turn: int | None = None
    owner: str = ""


class StepResult(msgspec.Struct, frozen=True, gc=False):
    """The observation after a turn. `success` is None until the episode has ended."""

    session_id: str
    observation: Observation
    success: bool | None = None
    screenshot: bytes | None = None  # of the agent's page, in a session that is observed by screenshots
