"""Faults: trouble in the calls themselves."""

from companyos.apps import Tool
from companyos.calls import NO_ANSWER, Call, Reply
from companyos.chaos.injector import Fault, Injector
from companyos.world import World

_SILENCE = Reply(
    False, NO_ANSWER, None, "no answer within 30 s; if this was to write something, whether it was written is not known"
)


class Flaky(Injector):
    """No answer in 30 s; either nothing was written or only the answer was lost; looking tells which, trying again works."""

    dial = "flaky"
    letter = "f"
    longest_run = 2  # failures in a row at one target
    worst = 0.25  # share of calls that fail at dose 1

    def intercept(self, world: World, call: Call, tool: Tool, dose: float) -> Fault | None:
        key = f"flaky/{tool.name}/{call.params.get(tool.target, '')!s:.80}"
        # One counter holds both which attempt this is and how long the run of failures is that dose 1 would have seen.
        # The bound on runs goes by that, not by what this dose let through: so doses nest.
        state = world.counter(key)
        attempt, run = state >> 2, state & 3
        luck = world.streams.luck(key, attempt)
        if luck >= self.worst or run >= self.longest_run:
            world.move(key, state, state - run + 4)
            return None
        world.move(key, state, state + 5)
        if luck >= self.worst * dose:
            return None
        answer_lost = tool.writes and not tool.ends and int(luck * 2**40) % 2 == 0
        return Fault(answer_lost, _SILENCE)
