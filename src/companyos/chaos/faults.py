"""The injector that makes calls go unanswered."""

from companyos.chaos.injector import Fault, Injector
from companyos.company import Tool
from companyos.core.calls import NO_ANSWER, Call, Reply
from companyos.core.world import Streams, World

_SILENCE = Reply(
    False, NO_ANSWER, None, "no answer within 30 s; if this was to write something, whether it was written is not known"
)


class Flaky(Injector):
    """A call gets no answer; it may have been carried out or not; the agent looks which, and tries again."""

    dial = "flaky"
    letter = "f"
    longest_run = 2  # the most failures in a row at one target
    worst = 0.25  # the share of calls that fail at dose 1

    def intercept(self, dose: float, world: World, tool: Tool, call: Call) -> Fault | None:
        key = f"{tool.name}/{call.params.get(tool.target)}"[:100]
        attempt = world.count_up(key) - 1
        luck = world.streams.luck(key, attempt)
        if luck >= self.worst * dose or self._is_spared(world.streams, key, attempt):
            return None
        answer_lost = tool.writes and not tool.ends and int(luck * 2**40) % 2 == 0
        return Fault(answer_lost, _SILENCE)

    def _is_spared(self, streams: Streams, key: str, attempt: int) -> bool:
        """Tell whether this attempt must not fail, because the longest allowed run of failures came right before it.

        The run is counted as at dose 1, whatever the dose. So a call that fails at one dose also fails at higher ones.
        """
        run = 0
        for earlier in range(attempt):
            run = run + 1 if run < self.longest_run and streams.luck(key, earlier) < self.worst else 0
        return run >= self.longest_run
