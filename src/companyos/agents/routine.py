"""Routines: agents that follow a program, a generator of calls which hears the reply to each."""

from collections.abc import Callable

from companyos.company.clerk import advance
from companyos.core.calls import OK, Call, Program, Reply
from companyos.env.observations import Observation

WAIT = Call("ticketdesk", "wait", {"hours": 1})


class Routine:
    """Follows a program, begun at the first observation; waits when it has come to its end."""

    def __init__(self, begin: Callable[[Observation], Program]) -> None:
        self._begin = begin
        self._program: Program | None = None

    def act(self, obs: Observation) -> Call:
        if self._program is None:
            self._program = self._begin(obs)
            return advance(self._program, None) or WAIT
        return advance(self._program, heard(obs)) or WAIT


def heard(obs: Observation) -> Reply:
    """The reply that an observation passed on."""
    return Reply(obs.code == OK, obs.code, obs.last_result, obs.message)
