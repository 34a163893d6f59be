"""Faults: trouble in the calls themselves."""

from companyos.calls import NO_ANSWER, Call, Reply
from companyos.chaos.injector import Fault, Injector, ToolTraits
from companyos.world import World

_SILENCE = Reply(False, NO_ANSWER, None, "no answer within 30 s; whether it was carried out is not known")


class Flaky(Injector):
    """No answer in 30 s; either nothing was written or only the answer was lost; looking tells which, trying again works."""

    dial = "flaky"
    letter = "f"
    longest_run = 2  # failures in a row at one target
    worst = 0.25  # share of calls that fail at dose 1

    def intercept(self, world: World, call: Call, tool: ToolTraits, dose: float) -> Fault | None:
        key = f"flaky/{call.tool}/{tool.target}"
        # One counter holds both which attempt this is and how long the run of failures is that dose 1 would have seen.
        # The bound on runs goes by that, not by what this dose let through: so doses nest.
        attempt, run = divmod(world.counter(key), 4)
        draw = world.streams.at(key, attempt)
        luck = draw.random()
        fails_at_worst = run < self.longest_run and luck < self.worst
        world.tally(key, (attempt + 1) * 4 + (run + 1 if fails_at_worst else 0))
        if not fails_at_worst or luck >= self.worst * dose:
            return None
        return Fault(tool.writes and draw.chance(0.5), _SILENCE)
