"""Faults: trouble in the calls themselves."""

from companyos.chaos.injector import Fault, Injector
from companyos.company import Tool
from companyos.core.calls import NO_ANSWER, Call, Reply
from companyos.core.world import Streams, World

_SILENCE = Reply(
    False, NO_ANSWER, None, "no answer within 30 s; if this was to write something, whether it was written is not known"
)


class Flaky(Injector):
    """No answer in 30 s; either nothing was written or only the answer was lost; looking tells which, trying again works."""

    dial = "flaky"
    letter = "f"
    longest_run = 2  # failures in a row at one target
    worst = 0.25  # share of calls that fail at dose 1

    def intercept(self, dose: float, world: World, tool: Tool, call: Call) -> Fault | None:
        key = f"{tool.name}/{call.params.get(tool.target)}"[:100]
        attempt = world.count_up(key) - 1
        luck = world.streams.luck(key, attempt)
        if luck >= self.worst * dose or self._is_spared(world.streams, key, attempt):
            return None
        answer_lost = tool.writes and not tool.ends and int(luck * 2**40) % 2 == 0
        return Fault(answer_lost, _SILENCE)

    def _is_spared(self, streams: Streams, key: str, attempt: int) -> bool:
        """Whether so many attempts before this one failed that it must not.

        The bound goes by what dose 1 would have seen, not by what this dose let through: so doses nest.
        """
        run = 0
        for earlier in range(attempt):
            run = run + 1 if run < self.longest_run and streams.luck(key, earlier) < self.worst else 0
        return run >= self.longest_run
