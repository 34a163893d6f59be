"""Session: an episode in memory. Where it has got to, and what its agent saw last."""

from collections.abc import Iterable

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.env.observations import Observation
from companyos.serve.ledger import Header, encode
from companyos.serve.steps import Outcome


class Session:
    """A copy of what the ledger holds, played up to some turn. `size` counts the bytes of its calls."""

    __slots__ = ("env", "header", "last", "size", "touched")

    def __init__(self, header: Header, touched: float, calls: Iterable[Call] = ()) -> None:
        self.header = header
        self.touched = touched
        self.size = 0
        self.env = CompanyEnv(TaskId.parse(header.task_id), header.reward, header.progress)
        self.last: Observation = self.env.reset()
        self.play(calls)

    def play(self, calls: Iterable[Call]) -> None:
        for call in calls:
            self.last = self.env.step(call)
            self.size += size_of(call)

    def fork(self, header: Header) -> "Session":
        twin = Session.__new__(Session)
        twin.header, twin.touched = header, header.created
        twin.env, twin.last, twin.size = self.env.fork(), self.last, self.size
        return twin

    @property
    def calls(self) -> list[Call]:
        return [turn.call for turn in self.env.turns]

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.header.session_id, self.last, self.env.success)


def size_of(call: Call) -> int:
    """Bytes that a call takes in a ledger."""
    return len(encode(call))
