"""Goals: the conditions on the company at the end, at the limits of each."""

from typing import Any

import pytest
from msgspec.structs import replace

from companyos.company import Approval, ApprovalType, Metric, Person, Ticket
from companyos.company.apps.datahub import read_mark
from companyos.core.world import DAY
from companyos.env import CompanyEnv
from companyos.families.kit.goals import (
    Ended,
    Fresh,
    HandedTo,
    MeasuredSince,
    ReadFresh,
    Requested,
    SignedFor,
    TicketHas,
    TicketIs,
)
from tests.helpers import FAMILY, form, me, role, staged, ticket


@pytest.fixture
def env() -> CompanyEnv:
    return staged()


def write(env: CompanyEnv, **fields: Any) -> None:
    """Change fields of the brief's ticket, as the actor."""
    env.world.actor = me(env)
    env.world.put(replace(ticket(env), **fields))


def request(env: CompanyEnv, number: int = 1, **fields: Any) -> Approval:
    """Add an approved request with the right values for the brief's ticket, with these fields changed."""
    plain = Approval(f"A-90{number}", FAMILY, "approved", me(env), role(env, "head"), form(env), env.world.now)
    return env.world.put(replace(plain, **fields))


# -- the ticket --------------------------------------------------------------------------------------------------------


def test_an_ending_is_a_resolution_and_a_reason(env: CompanyEnv) -> None:
    goal = Ended(ticket(env).id, "declined", "no_budget")
    assert not goal.holds(env.world)
    for resolution, reason, holds in (
        ("declined", "no_budget", True),
        ("declined", "below_minimum", False),
        ("on_hold", "no_budget", False),
    ):
        write(env, resolution=resolution, reason=reason)
        assert goal.holds(env.world) == holds


def test_a_goal_on_a_field_asks_for_a_value_or_for_any_value(env: CompanyEnv) -> None:
    exactly, any_at_all = TicketIs(ticket(env).id, "waiting_on", "@a.b"), TicketHas(ticket(env).id, "waiting_on")
    assert (exactly.holds(env.world), any_at_all.holds(env.world)) == (False, False)
    write(env, waiting_on="@c.d")
    assert (exactly.holds(env.world), any_at_all.holds(env.world)) == (False, True)
    write(env, waiting_on="@a.b")
    assert (exactly.holds(env.world), any_at_all.holds(env.world)) == (True, True)


def test_a_ticket_is_handed_to_a_person_or_their_delegate_of_then_or_now(env: CompanyEnv) -> None:
    world = env.world
    person = world.get(Person, role(env, "cfo"))
    deputy = next(one.id for one in world.all(Person) if one.id not in (person.id, me(env)))
    world.put(replace(person, delegate=deputy, away_from=world.now + DAY, away_until=world.now + 2 * DAY))
    goal = HandedTo(ticket(env).id, person.id)
    write(env, assignee=deputy)
    assert not goal.holds(world)  # nobody is away yet
    write(env, assignee=person.id)
    assert goal.holds(world)
    world.advance(DAY)
    assert goal.holds(world)  # they were in when it was assigned
    write(env, assignee=deputy)
    assert goal.holds(world)
    world.advance(DAY)
    assert goal.holds(world)  # … and away when it was assigned
    write(env, assignee=me(env))
    assert not goal.holds(world)


# -- metrics -----------------------------------------------------------------------------------------------------------


def aged(env: CompanyEnv, name: str, minutes: int) -> Metric:
    """Set the metric to be measured this many minutes ago. It is stale when it is older than 2 days."""
    metric = env.world.get(Metric, name)
    return env.world.put(replace(metric, measured_at=env.world.now - minutes, max_age_days=2))


@pytest.mark.parametrize(("minutes", "fresh"), [(0, True), (2 * DAY, True), (3 * DAY - 1, True), (3 * DAY, False)])
def test_a_metric_is_fresh_up_to_and_including_the_days_that_it_may_be_old(
    env: CompanyEnv, minutes: int, fresh: bool
) -> None:
    score = aged(env, role(env, "score"), minutes)
    assert Fresh(score.id).holds(env.world) == fresh


def test_a_metric_beside_the_first_must_be_fresh_too(env: CompanyEnv) -> None:
    one, other = aged(env, role(env, "score"), 0), next(m for m in env.world.all(Metric) if m.id != role(env, "score"))
    goal = Fresh(one.id, (other.id,))
    aged(env, other.id, 3 * DAY)
    assert not goal.holds(env.world)
    aged(env, other.id, 0)
    assert goal.holds(env.world)


def test_a_metric_is_measured_since_a_minute_at_that_minute_and_later(env: CompanyEnv) -> None:
    score = aged(env, role(env, "score"), 100)
    for since, holds in ((-1, True), (0, True), (1, False)):
        assert MeasuredSince(score.id, score.measured_at + since).holds(env.world) == holds


def test_a_fresh_measurement_must_have_been_read_by_the_actor_themselves(env: CompanyEnv) -> None:
    score = aged(env, role(env, "score"), 100)
    goal = ReadFresh(me(env), score.id, score.measured_at)
    assert not goal.holds(env.world)
    env.world.set_read_mark(read_mark("@some.body", score.id), score.measured_at)
    assert not goal.holds(env.world)
    env.world.set_read_mark(read_mark(me(env), score.id), score.measured_at - 1)
    assert not goal.holds(env.world)  # an earlier measurement
    env.world.set_read_mark(read_mark(me(env), score.id), score.measured_at)
    assert goal.holds(env.world)
    assert not ReadFresh(me(env), score.id, score.measured_at + 1).holds(env.world)


# -- requests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "put", "signed"),
    [("approved", True, True), ("pending", True, False), ("rejected", False, False), ("withdrawn", False, False)],
)
def test_a_request_is_put_while_it_is_pending_and_signed_once_it_is_approved(
    env: CompanyEnv, status: str, put: bool, signed: bool
) -> None:
    made = request(env, status=status)
    write(env, approval=made.id)
    assert Requested(ticket(env).id, FAMILY).holds(env.world) == put
    assert Requested(ticket(env).id, FAMILY, signed=True).holds(env.world) == signed
    assert SignedFor(ticket(env).id, FAMILY).holds(env.world) == signed


def test_the_request_that_the_ticket_links_to_is_the_one_that_counts(env: CompanyEnv) -> None:
    goal = SignedFor(ticket(env).id, FAMILY)
    right, wrong = request(env, 1), request(env, 2, status="pending")
    for linked, holds in ((None, False), (wrong.id, False), ("A-0", False), (right.id, True)):
        write(env, approval=linked)
        assert goal.holds(env.world) == holds


def test_a_request_for_another_ticket_or_of_another_form_is_not_the_one(env: CompanyEnv) -> None:
    other = next(one.id for one in env.world.all(Ticket) if one.id != ticket(env).id)
    another_form = next(one.id for one in env.world.all(ApprovalType) if one.id != FAMILY)
    wrongs: list[dict[str, Any]] = [{"data": form(env) | {"ticket_id": other}}, {"type": another_form}]
    for number, wrong in enumerate(wrongs, 1):
        made = request(env, number, **wrong)
        write(env, approval=made.id)
        assert not Requested(ticket(env).id, FAMILY).holds(env.world)
        assert not SignedFor(ticket(env).id, FAMILY).holds(env.world)


def test_every_value_that_the_form_repeats_from_the_ticket_must_be_right(env: CompanyEnv) -> None:
    repeated = env.world.get(ApprovalType, FAMILY).same_as_ticket
    assert len(repeated) > 1
    for number, field in enumerate(repeated, 1):
        made = request(env, number, data=form(env) | {field: "something else"})
        write(env, approval=made.id)
        assert not SignedFor(ticket(env).id, FAMILY).holds(env.world), field


def test_a_request_must_say_what_the_ending_asks_it_to_say(env: CompanyEnv) -> None:
    made = request(env, data=form(env) | {"severity": "high", "hours": 3})
    write(env, approval=made.id)
    for says, holds in (
        ((("severity", "high"), ("hours", 3)), True),
        ((("severity", "low"),), False),
        ((("severity", "high"), ("hours", 4)), False),
        ((("unheard_of", "x"),), False),
    ):
        assert Requested(ticket(env).id, FAMILY, says=says).holds(env.world) == holds
        assert SignedFor(ticket(env).id, FAMILY, says=says).holds(env.world) == holds
