"""Lane: the one way from all doors to the sessions."""

import asyncio
from collections.abc import Sequence

import pytest

from companyos.calls import Call
from companyos.env import task_named
from companyos.serve.errors import LedgerDown, ServeError, UnknownSession
from companyos.serve.lane import Lane
from companyos.serve.ledger import NoLedger, Row
from companyos.serve.sessions import Sessions
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
