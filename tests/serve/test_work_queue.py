"""The work queue, through which every endpoint uses the sessions."""

import asyncio
from collections.abc import Sequence

import pytest

from companyos.core.calls import Call
from companyos.env import task_named
from companyos.serve.errors import LedgerDown, ServeError, UnknownSession
from companyos.serve.ledger import MemoryLedger, TurnRow
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.sessions.work_queue import STEPS_PER_SLICE, WorkQueue
from companyos.serve.steps import StepRequest
from tests.helpers import FAMILY

LIST = Call("ticketdesk", "list_tickets")


class Counting(MemoryLedger):
    """Counts the rows of each commit, and can be made to fail."""

    def __init__(self, quick: bool) -> None:
        super().__init__()
        self.quick = quick
        self.gathers = True
        self.commits: list[int] = []
        self.fails: Exception | None = None

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        if self.fails is not None:
            raise self.fails
        self.commits.append(len(rows))
        return super().append_all(rows)


@pytest.mark.parametrize("quick", [True, False])
def test_steps_that_wait_together_go_in_one_commit(quick: bool) -> None:
    async def scene() -> None:
        queue = WorkQueue(Sessions(ledger))
        sessions = [await queue.run(lambda s: s.create(task_named(FAMILY))) for _ in range(8)]
        for _ in range(2):
            outcomes = await asyncio.gather(*(queue.step(StepRequest(one.header.session_id, LIST)) for one in sessions))
        assert [outcome.observation.step for outcome in outcomes] == [2] * 8
        queue.close()

    ledger = Counting(quick)
    asyncio.run(scene())
    assert ledger.commits == [8, 8]


@pytest.mark.parametrize("quick", [True, False])
def test_each_hears_of_its_own_error_and_all_of_a_common_one(quick: bool) -> None:
    async def scene() -> None:
        queue = WorkQueue(Sessions(ledger))
        name = (await queue.run(lambda s: s.create(task_named(FAMILY)))).header.session_id
        steps = [queue.step(StepRequest("nobody", LIST)), queue.step(StepRequest(name, LIST))]
        unknown, outcome = await asyncio.gather(*steps, return_exceptions=True)
        assert isinstance(unknown, UnknownSession)
        assert not isinstance(outcome, BaseException)
        for ledger.fails in (LedgerDown(), RuntimeError("a bug")):
            both = await asyncio.gather(
                queue.step(StepRequest(name, LIST)), queue.step(StepRequest(name, LIST)), return_exceptions=True
            )
            assert list(both) == [ledger.fails, ledger.fails]
        ledger.fails = None
        assert (await queue.step(StepRequest(name, LIST))).observation.step == 2
        queue.close()

    ledger = Counting(quick)
    asyncio.run(scene())


@pytest.mark.parametrize("quick", [True, False])
def test_a_rollout_lets_others_in_between(quick: bool) -> None:
    async def scene() -> list[str]:
        queue = WorkQueue(Sessions(ledger, capacity=1000))
        names = [(await queue.run(lambda s: s.create(task_named(FAMILY)))).header.session_id for _ in range(300)]
        ended = []

        async def rollout() -> None:
            await queue.step_all([StepRequest(name, LIST) for name in names[1:]], lambda answer: answer)
            ended.append("rollout")

        async def step() -> None:
            await queue.step(StepRequest(names[0], LIST))
            ended.append("step")

        await asyncio.gather(rollout(), step())
        queue.close()
        return ended

    ledger = Counting(quick)
    assert asyncio.run(scene()) == ["step", "rollout"]
    assert sum(ledger.commits) == 300


class Stopping(Counting):
    """A ledger that goes away after some commits."""

    def append_all(self, rows: Sequence[TurnRow]) -> list[ServeError | None]:
        if len(self.commits) == 2:
            raise LedgerDown
        return super().append_all(rows)


def test_a_rollout_says_which_of_its_steps_stand_when_the_ledger_goes_away_in_the_middle() -> None:
    async def scene() -> list[bool]:
        queue = WorkQueue(Sessions(ledger, capacity=1000))
        names = [(await queue.run(lambda s: s.create(task_named(FAMILY)))).header.session_id for _ in range(100)]
        return await queue.step_all(
            [StepRequest(name, LIST) for name in names], lambda answer: isinstance(answer, LedgerDown)
        )

    ledger = Stopping(quick=True)
    assert asyncio.run(scene()) == [False] * sum(ledger.commits) + [True] * (100 - sum(ledger.commits))
    assert ledger.commits == [STEPS_PER_SLICE, STEPS_PER_SLICE]
