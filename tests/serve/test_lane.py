"""Lane: the one way from all doors to the sessions."""

import asyncio
from collections.abc import Sequence

import pytest

from companyos.core.calls import Call
from companyos.env import task_named
from companyos.serve.errors import LedgerDown, ServeError, UnknownSession
from companyos.serve.ledger import NoLedger, Row
from companyos.serve.sessions.lane import SLICE, Lane
from companyos.serve.sessions.sessions import Sessions
from companyos.serve.steps import Step
from tests.helpers import FAMILY

LIST = Call("ticketdesk", "list_tickets")


class Counting(NoLedger):
    """Counts the rows of each commit, and can be made to fail."""

    def __init__(self, quick: bool) -> None:
        super().__init__()
        self.quick = quick
        self.gathers = True
        self.commits: list[int] = []
        self.fails: Exception | None = None

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        if self.fails is not None:
            raise self.fails
        self.commits.append(len(rows))
        return super().append_all(rows)


@pytest.mark.parametrize("quick", [True, False])
def test_steps_that_wait_together_go_in_one_commit(quick: bool) -> None:
    async def scene() -> None:
        lane = Lane(Sessions(ledger))
        sessions = [await lane.run(lambda s: s.create(task_named(FAMILY))) for _ in range(8)]
        for _ in range(2):
            outcomes = await asyncio.gather(*(lane.step(Step(one.header.session_id, LIST)) for one in sessions))
        assert [outcome.observation.step for outcome in outcomes] == [2] * 8
        lane.close()

    ledger = Counting(quick)
    asyncio.run(scene())
    assert ledger.commits == [8, 8]


@pytest.mark.parametrize("quick", [True, False])
def test_each_hears_of_its_own_error_and_all_of_a_common_one(quick: bool) -> None:
    async def scene() -> None:
        lane = Lane(Sessions(ledger))
        name = (await lane.run(lambda s: s.create(task_named(FAMILY)))).header.session_id
        steps = [lane.step(Step("nobody", LIST)), lane.step(Step(name, LIST))]
        unknown, outcome = await asyncio.gather(*steps, return_exceptions=True)
        assert isinstance(unknown, UnknownSession)
        assert not isinstance(outcome, BaseException)
        for ledger.fails in (LedgerDown(), RuntimeError("a bug")):
            both = await asyncio.gather(lane.step(Step(name, LIST)), lane.step(Step(name, LIST)), return_exceptions=True)
            assert list(both) == [ledger.fails, ledger.fails]
        ledger.fails = None
        assert (await lane.step(Step(name, LIST))).observation.step == 2
        lane.close()

    ledger = Counting(quick)
    asyncio.run(scene())


@pytest.mark.parametrize("quick", [True, False])
def test_a_rollout_lets_others_in_between(quick: bool) -> None:
    async def scene() -> list[str]:
        lane = Lane(Sessions(ledger, capacity=1000))
        names = [(await lane.run(lambda s: s.create(task_named(FAMILY)))).header.session_id for _ in range(300)]
        ended = []

        async def rollout() -> None:
            await lane.step_all([Step(name, LIST) for name in names[1:]], lambda answer: answer)
            ended.append("rollout")

        async def step() -> None:
            await lane.step(Step(names[0], LIST))
            ended.append("step")

        await asyncio.gather(rollout(), step())
        lane.close()
        return ended

    ledger = Counting(quick)
    assert asyncio.run(scene()) == ["step", "rollout"]
    assert sum(ledger.commits) == 300


class Stopping(Counting):
    """A ledger that goes away after some commits."""

    def append_all(self, rows: Sequence[Row]) -> list[ServeError | None]:
        if len(self.commits) == 2:
            raise LedgerDown
        return super().append_all(rows)


def test_a_rollout_says_which_of_its_steps_stand_when_the_ledger_goes_away_in_the_middle() -> None:
    async def scene() -> list[bool]:
        lane = Lane(Sessions(ledger, capacity=1000))
        names = [(await lane.run(lambda s: s.create(task_named(FAMILY)))).header.session_id for _ in range(100)]
        return await lane.step_all([Step(name, LIST) for name in names], lambda answer: isinstance(answer, LedgerDown))

    ledger = Stopping(quick=True)
    assert asyncio.run(scene()) == [False] * sum(ledger.commits) + [True] * (100 - sum(ledger.commits))
    assert ledger.commits == [SLICE, SLICE]
