"""Steps: what a door asks of a session, and what comes of it."""

import msgspec

from companyos.core.calls import Call
from companyos.env.observations import Observation


class Step(msgspec.Struct, frozen=True, gc=False):
    """A call in a session. With `turn` it is that turn's and no other's, however often it is sent."""

    session_id: str
    call: Call
    turn: int | None = None
    owner: str = ""


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a session stands after a turn. `success` is known once it is over."""

    session_id: str
    observation: Observation
    success: bool | None = None
    screenshot: bytes | None = None  # of the page that the agent is on, where that is how it looks at its episode
