"""The injector that makes calls go unanswered."""

from companyos.chaos.injector import Fault, Injector
from companyos.company import Tool
from companyos.core.calls import NO_ANSWER, Call, Reply
from companyos.core.world import Streams, World

_NO_ANSWER_REPLY = Reply(
    False, NO_ANSWER, None, "no answer within 30 s; if this was to write something, whether it was written is not known"
)


class Flaky(Injector):
    """A call gets no answer; it may have been carried out or not; the agent looks which, and tries again."""

    dial = "flaky"
    letter = "f"
    max_run = 2  # the most failures in a row of one tool on one record
    max_share = 0.25  # the share of calls that fail at dose 1

    def intercept(self, dose: float, world: World, tool: Tool, call: Call) -> Fault | None:
        key = f"{tool.name}/{call.params.get(tool.target)}"[:100]
        attempt = world.count_up(key) - 1
        luck = world.streams.luck(key, attempt)
        if luck >= self.max_share * dose or self._is_spared(world.streams, key, attempt):
            return None
        # Whether the call is carried out depends on a low bit of the same draw, which is as good as a second draw.
        answer_lost = tool.writes and not tool.ends and int(luck * 2**40) % 2 == 0
        return Fault(answer_lost, _NO_ANSWER_REPLY)

    def _is_spared(self, streams: Streams, key: str, attempt: int) -> bool:
        """Tell whether this attempt must not fail, because the longest allowed run of failures came right before it.

        The run is counted as if the dose were 1. So a call that fails at one dose also fails at higher ones.
        """
        run = 0
        for earlier in range(attempt):
            run = run + 1 if run < self.max_run and streams.luck(key, earlier) < self.max_share else 0
        return run >= self.max_run
