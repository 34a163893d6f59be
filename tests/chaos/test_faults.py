"""Tests of calls that go unanswered: how often, how long in a row, and what was written."""

from typing import Any

import pytest

from companyos.chaos import Fault
from companyos.chaos.faults import Flaky
from companyos.company import ALL_TOOLS
from companyos.core.calls import Call
from companyos.core.world import Streams, World
from companyos.env import make
from tests.helpers import FAMILY


class Drawn(Streams):
    """Draws that a test decides: `fails` holds the paths and attempts with the worst luck."""

    def __init__(self, *fails: tuple[str, int], luck: float = 0.0) -> None:
        super().__init__("drawn")
        self.fails, self.worst, self.asked = fails, luck, list[tuple[str, int]]()

    def luck(self, path: str, number: int) -> float:
        self.asked.append((path, number))
        return self.worst if (path, number) in self.fails else 0.999


def world_of(streams: Streams) -> World:
    world = make(FAMILY, seed=1).setting.world.fork()
    world.streams = streams
    return world


def strike(world: World, tool: str, dose: float = 1.0, **params: Any) -> Fault | None:
    app, method = tool.split(".")
    return Flaky().intercept(dose, world, ALL_TOOLS.tools[app, method], Call(app, method, params))


def test_a_fault_hits_one_tool_one_record_and_one_attempt() -> None:
    streams = Drawn(("ticketdesk.get_ticket/T-2", 1))
    world = world_of(streams)
    assert strike(world, "ticketdesk.get_ticket", ticket_id="T-2") is None
    assert strike(world, "ticketdesk.get_ticket", ticket_id="T-3") is None
    assert strike(world, "ticketdesk.comment", ticket_id="T-2", text="?") is None
    assert strike(world, "ticketdesk.get_ticket", ticket_id="T-3") is None
    assert strike(world, "ticketdesk.get_ticket", ticket_id="T-2") is not None
    assert strike(world, "ticketdesk.get_ticket", ticket_id="T-2") is None
    assert streams.asked[0] == ("ticketdesk.get_ticket/T-2", 0)


def test_other_arguments_than_the_record_do_not_change_the_target() -> None:
    world = world_of(Drawn(("ticketdesk.comment/T-2", 1)))
    assert strike(world, "ticketdesk.comment", ticket_id="T-2", text="one") is None
    assert strike(world, "ticketdesk.comment", ticket_id="T-2", text="two") is not None


def test_two_records_have_faults_of_their_own() -> None:
    """With real draws: faults at one ticket are independent of faults at another."""
    world = make(FAMILY, seed=1).setting.world.fork()
    seen = [
        tuple(strike(world, "ticketdesk.get_ticket", ticket_id=f"T-{number}") is None for _ in range(40))
        for number in range(8)
    ]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    ("luck", "dose", "fails"), [(0.1249, 0.5, True), (0.125, 0.5, False), (0.2499, 1.0, True), (0.25, 1.0, False)]
)
def test_a_call_fails_below_a_quarter_of_the_dose_and_not_at_it(luck: float, dose: float, fails: bool) -> None:
    world = world_of(Drawn(("ticketdesk.get_ticket/T-2", 0), luck=luck))
    assert (strike(world, "ticketdesk.get_ticket", dose, ticket_id="T-2") is not None) == fails


def test_after_two_failures_in_a_row_the_third_attempt_is_spared_and_the_fourth_is_not() -> None:
    world = world_of(Drawn(*(("ticketdesk.get_ticket/T-2", attempt) for attempt in range(6))))
    failed = [strike(world, "ticketdesk.get_ticket", ticket_id="T-2") is not None for _ in range(6)]
    assert failed == [True, True, False, True, True, False]


def test_a_success_between_two_failures_starts_the_count_again() -> None:
    world = world_of(Drawn(*(("ticketdesk.get_ticket/T-2", attempt) for attempt in (0, 2, 3))))
    failed = [strike(world, "ticketdesk.get_ticket", ticket_id="T-2") is not None for _ in range(5)]
    assert failed == [True, False, True, True, False]


def test_only_a_write_that_does_not_end_the_episode_may_have_been_carried_out() -> None:
    closing: dict[str, Any] = {"ticket_id": "T-2", "resolution": "declined", "reason": "no_budget", "evidence": []}
    carried = {}
    for tool, params in (
        ("ticketdesk.get_ticket", {"ticket_id": "T-2"}),
        ("ticketdesk.comment", {"ticket_id": "T-2", "text": "?"}),
        ("ticketdesk.resolve_ticket", closing),
    ):
        fault = strike(world_of(Drawn((f"{tool}/T-2", 0), luck=0.0)), tool, **params)
        assert fault is not None
        carried[tool] = fault.carried_out
    assert carried == {"ticketdesk.get_ticket": False, "ticketdesk.comment": True, "ticketdesk.resolve_ticket": False}
