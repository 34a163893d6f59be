"""Teacher: what the expert would do next, from wherever an episode stands, and the working lines that lead to it."""

from collections.abc import Iterator

import msgspec

from companyos.calls import Call, Reply, aloud
from companyos.env import CompanyEnv
from companyos.families import Taste, family
from companyos.task import TaskId


class Spoken(msgspec.Struct, frozen=True):
    """A call that the expert made, the working lines that it said right before it, and the reply."""

    working: tuple[str, ...]
    call: Call
    reply: Reply


def work_aloud(env: CompanyEnv, taste: Taste | None = None) -> Iterator[Spoken]:
    """Let the expert work the episode from here to its end, as `work` does, and yield each turn with its working lines."""
    procedure = aloud(family(TaskId.parse(env.task_id).family).procedure(env.memory(), taste or Taste()))
    reply: Reply | None = None
    while not env.done:
        try:
            working, call = next(procedure) if reply is None else procedure.send(reply)
        except StopIteration:
            return
        env.step(call)
        reply = env.turns[-1].reply
        yield Spoken(working, call, reply)
