"""One session in memory: its episode and the agent's last observation."""

from collections.abc import Iterable

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.env.observations import Observation
from companyos.serve.ledger import SessionHeader, encode
from companyos.serve.steps import StepResult


class Session:
    """A copy of a stored session, played up to some turn. `size` is the number of bytes of its calls."""

    __slots__ = ("env", "header", "last", "size", "touched")

    def __init__(self, header: SessionHeader, touched: float, calls: Iterable[Call] = ()) -> None:
        self.header = header
        self.touched = touched
        self.size = 0
        self.env = CompanyEnv(TaskId.parse(header.task_id), header.reward, header.progress)
        self.last: Observation = self.env.reset()
        self.play(calls)

    def play(self, calls: Iterable[Call]) -> None:
        """Make these calls in the episode."""
        for call in calls:
            self.last = self.env.step(call)
            self.size += size_of(call)

    def fork(self, header: SessionHeader) -> "Session":
        """Return an independent copy of this session, under another header."""
        fork = Session.__new__(Session)  # without `__init__`, which would play the episode again
        fork.header, fork.touched = header, header.created
        fork.env, fork.last, fork.size = self.env.fork(), self.last, self.size
        return fork

    @property
    def calls(self) -> list[Call]:
        return [turn.call for turn in self.env.turns]

    @property
    def result(self) -> StepResult:
        """The result of the last step."""
        return StepResult(self.header.session_id, self.last, self.env.success)


def size_of(call: Call) -> int:
    """Return how many bytes a call takes in a ledger."""
    return len(encode(call))
