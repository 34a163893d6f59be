"""Routines: agents that follow a program, a generator of calls which hears the reply to each."""

from collections.abc import Callable, Generator

from companyos.core.calls import OK, Call, Program, Reply
from companyos.core.errors import Stuck
from companyos.env.observations import Observation

WAIT = Call("ticketdesk", "wait", {"hours": 1})


class Routine:
    """Follows a program, begun at the first observation; waits when it has come to its end."""

    def __init__(self, begin: Callable[[Observation], Program]) -> None:
        self._begin = begin
        self._program: Program | None = None

    def act(self, obs: Observation) -> Call:
        try:
            if self._program is None:
                self._program = self._begin(obs)
                return next(self._program)
            return self._program.send(heard(obs))
        except StopIteration:
            return WAIT


def until_stuck(program: Program) -> Program:
    """The same program; it gives up where its author would call it stuck."""
    try:
        yield from program
    except Stuck:
        return


def steered(program: Program, steer: Callable[[Call], Generator[Call, Reply, Reply]]) -> Program:
    """A program whose calls go through somebody else's hands: `steer` makes them and says what came back."""
    try:
        call = next(program)
        while True:
            call = program.send((yield from steer(call)))
    except StopIteration:
        return


def heard(obs: Observation) -> Reply:
    """The reply that an observation passed on."""
    return Reply(obs.code == OK, obs.code, obs.last_result, obs.message)
