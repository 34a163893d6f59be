"""Agents that follow a program: a generator that yields calls and receives their replies."""

from collections.abc import Callable

from companyos.company.programs import advance
from companyos.core.calls import OK, Call, Program, Reply
from companyos.env.observations import Observation

WAIT = Call("ticketdesk", "wait", {"hours": 1})


class Routine:
    """An agent that starts a program at the first observation, and waits after the program has ended."""

    def __init__(self, begin: Callable[[Observation], Program]) -> None:
        self._begin = begin
        self._program: Program | None = None

    def act(self, obs: Observation) -> Call:
        if self._program is None:
            self._program = self._begin(obs)
            return advance(self._program, None) or WAIT
        return advance(self._program, reply_in(obs)) or WAIT


def reply_in(obs: Observation) -> Reply:
    """Return the reply that an observation carries."""
    return Reply(obs.code == OK, obs.code, obs.last_result, obs.message)
