"""Missed goals in words: what should have been, and what is there instead."""

from typing import Any

import pytest
from msgspec.structs import replace

from companyos.company import Approval, Entry, Metric, Ticket
from companyos.company.apps.ticketdesk import Citation
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make
from companyos.families import FAMILIES
from companyos.families.kit import citations, goals
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse
from companyos.families.kit.goals import (
    SIGNED_REQUEST,
    Ended,
    Fresh,
    Goal,
    HandedTo,
    MeasuredSince,
    ReadFresh,
    Requested,
    SignedFor,
    TicketHas,
    TicketIs,
)
from companyos.families.kit.missed import describe_goal, goal_title, missed, missed_goal
from tests.helpers import FAMILY, form, me, role, staged, ticket


@pytest.fixture
def env() -> CompanyEnv:
    return staged()


def write(env: CompanyEnv, **fields: Any) -> None:
    env.world.actor = me(env)
    env.world.put(replace(ticket(env), **fields))


def words(env: CompanyEnv, goal: Goal) -> str:
    """Return what is said of a goal that does not hold."""
    assert not goal.holds(env.world)
    return missed_goal(goal, env.world)


def test_every_goal_of_the_kit_has_a_title_and_words_of_its_own() -> None:
    kit = [kind for kind in Goal.__subclasses__() if kind.__module__ in (goals.__name__, citations.__name__)]
    assert len(kit) >= 12
    assert [kind.__name__ for kind in kit if kind not in missed_goal.registry] == []
    assert [kind.__name__ for kind in kit if goal_title(kind.__name__) == kind.__name__] == []


def test_an_entry_that_is_a_copy_is_called_that_where_it_was_verified_or_cited() -> None:
    env = staged(copied=True)
    entry = role(env, "entry")
    copy = next(other.id for other in env.world.all(Entry) if other.details.get("copy_of") == entry)
    until = env.world.get(Entry, copy).details["insurance_until"]
    write(env, verified=copy, evidence=(Citation(copy, "insurance_until", until),))
    own = ticket(env).id
    assert words(env, TicketIs(own, "verified", entry)) == (
        f"{own}'s verified should have been {entry}, was {copy} ({copy} is a copy of {entry})"
    )
    assert words(env, Cites(own, ((entry, "insurance_until"),))) == (
        f"the evidence should have cited {entry}'s insurance until, "
        f"cited {copy}'s insurance until {until} ({copy} is a copy of {entry})"
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Ended", "Right ending"),
        ("TicketIs:escalated_to", "Right value of: escalated to"),
        ("Linked:late_1", "Closed correctly: late 1"),
        ("Painted", "Painted"),
    ],
)
def test_a_goal_has_a_title_without_underscores(name: str, title: str) -> None:
    assert goal_title(name) == title


def test_a_goal_of_a_plug_in_is_described_by_its_docstring(env: CompanyEnv) -> None:
    class Painted(Goal, frozen=True):
        """The wall is painted."""

        def holds(self, world: object) -> bool:
            return False

    assert words(env, Painted()) == "this should have been so, and was not: The wall is painted."


def test_a_wrong_field_names_both_values(env: CompanyEnv) -> None:
    own = ticket(env).id
    assert words(env, TicketIs(own, "escalated_to", "@a.b")) == f"{own}'s escalated to should have been @a.b, was empty"
    write(env, escalated_to="@c.d")
    assert words(env, TicketIs(own, "escalated_to", "@a.b")) == f"{own}'s escalated to should have been @a.b, was @c.d"
    assert words(env, TicketIs(own, "escalated_to", None)) == f"{own}'s escalated to should have been empty, was @c.d"
    assert words(env, TicketHas(own, "waiting_on")) == f"{own}'s waiting on should have been filled in, was empty"
    head = role(env, "head")
    expected = f"{own} should have been assigned to {head} or their delegate, was assigned to {ticket(env).assignee}"
    assert words(env, HandedTo(own, head)) == expected


def test_a_wrong_ending_names_both_endings(env: CompanyEnv) -> None:
    own, goal = ticket(env).id, Ended(ticket(env).id, "on_hold", "document_expired")
    assert words(env, goal) == f"{own} should have been closed as on hold (document expired), was not closed"
    write(env, resolution="completed", reason="all_checks_passed")
    expected = f"{own} should have been closed as on hold (document expired), was closed as completed (all checks passed)"
    assert words(env, goal) == expected


def test_an_old_metric_names_its_age_and_the_limit(env: CompanyEnv) -> None:
    metric = env.world.get(Metric, role(env, "score"))
    env.world.now = metric.measured_at + 40 * DAY
    assert words(env, Fresh(metric.id)) == (
        f"{metric.id} should have been at most {metric.max_age_days} days old, was 40 days old"
    )
    assert words(env, MeasuredSince(metric.id, env.world.now)).startswith(
        f"{metric.id} should have been measured again after"
    )
    assert "should have been refreshed and read" in words(env, ReadFresh(me(env), metric.id, env.world.now))
    assert "should have been read, was not read" in words(env, ReadFresh(me(env), metric.id, metric.measured_at))


def test_a_missing_or_wrong_request_is_named_with_its_values(env: CompanyEnv) -> None:
    own, head, says = ticket(env).id, role(env, "head"), (("score", 91),)
    assert words(env, Requested(own, FAMILY, says=says)) == (
        "a vendor onboarding request (score 91) should have been pending or approved, but there was none"
    )
    assert words(env, SignedFor(own, FAMILY, says)).endswith("approved vendor onboarding request (score 91), linked none")
    env.world.put(Approval("A-901", FAMILY, "rejected", me(env), head, form(env) | {"score": 80}, env.world.now))
    write(env, approval="A-901")
    assert words(env, Requested(own, FAMILY, signed=True)).endswith("should have been approved, but A-901 rejected")
    assert words(env, SignedFor(own, FAMILY, says)).endswith(
        "linked A-901, a vendor onboarding request (score 80), which is rejected"
    )


def test_missing_false_and_competing_citations_are_listed(env: CompanyEnv) -> None:
    own, entry = ticket(env).id, role(env, "entry")
    kind = env.world.get(Entry, entry).kind
    lookalike = next(other.id for other in env.world.all(Entry) if other.kind == kind and other.id != entry)
    facts = ((entry, "owner"), (SIGNED_REQUEST, "status"))
    assert words(env, Cites(own, facts)) == (
        f"the evidence should have cited {entry}'s owner, the signed request's status, cited nothing"
    )
    write(env, evidence=(Citation(lookalike, "owner", "nobody"), Citation(own, "amount", 1)))
    assert words(env, Cites(own, facts)).endswith(f"cited {lookalike}'s owner nobody, {own}'s amount 1")
    untrue = f"everything cited should have been true, and this was not: {lookalike}'s owner nobody, {own}'s amount 1"
    assert words(env, CitesNothingFalse(own, 5)) == untrue
    assert words(env, CitesNothingFalse(own, 1)) == "the evidence should have had at most 1 citations, had 2"
    assert words(env, CitesNoOther(own, facts[:1])) == (
        f"the evidence should have been about {entry}'s owner, but also cited what competes with that: "
        f"{lookalike}'s owner nobody"
    )


def test_a_reached_goal_says_what_it_asked_for_without_placeholders() -> None:
    for name in FAMILIES:
        env = make(name, seed=3)
        ending = env.setting.ending
        texts = [describe_goal(ending, goal, True, env.world) for goal in env.setting.goals]
        assert not [text for text in texts if "$" in text]
        assert describe_goal(ending, "Ended", False, env.world).endswith("was not closed")


def test_a_ticket_of_a_queue_is_described_by_its_own_state() -> None:
    env = make("quarter_close", seed=0)
    ending = env.setting.ending
    linked = ending.linked[0]
    right = f"{linked.ending.resolution} ({linked.ending.reason})".replace("_", " ")
    should = f"{linked.ticket_id} should have been closed as {right}"
    assert missed(ending, f"Linked:{linked.name}", env.world) == f"{should}, was not closed"
    env.world.actor = me(env)
    own = env.world.get(Ticket, linked.ticket_id)
    env.world.put(replace(own, resolution="duplicate", reason="unused"))
    assert missed(ending, f"Linked:{linked.name}", env.world) == f"{should}, was closed as duplicate (unused)"
    env.world.put(replace(own, resolution=linked.ending.resolution, reason=linked.ending.reason))
    assert missed(ending, f"Linked:{linked.name}", env.world).startswith(
        f"{linked.ticket_id} was closed for the right reason, but the evidence should have cited "
    )
