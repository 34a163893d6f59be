"""Damage: changes by the actor that the ending does not need and that still exist at the end."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.company import Approval, Comment, Ticket
from companyos.env import CompanyEnv
from companyos.families.kit.goals import CalledFor, Damage, Signature, damage
from tests.helpers import FAMILY, me, role, staged, ticket

SOMEBODY = "@some.body"


def write(env: CompanyEnv, actor: str, ticket_id: str, **fields: Any) -> None:
    """Change a record in somebody's name."""
    env.world.actor = actor
    env.world.put(replace(env.world.get(Ticket, ticket_id), **fields))


def harm(env: CompanyEnv, allowed: tuple[tuple[str, str | None], ...] = (), forms: tuple[str, ...] = ()) -> list[Damage]:
    given: Mapping[str, CalledFor] = {ticket(env).id: CalledFor(allowed, tuple(Signature(form) for form in forms))}
    return damage(env.world, me(env), given)


def fields_of(found: list[Damage]) -> list[tuple[str, str]]:
    return [(one.record, one.field) for one in found]


@pytest.fixture
def env() -> CompanyEnv:
    return staged()


@pytest.fixture
def other(env: CompanyEnv) -> Ticket:
    """Return a ticket that is not the brief's."""
    found = env.world.get(Ticket, role(env, "earlier"))
    assert found.id != ticket(env).id
    return found


# -- on tickets of others ----------------------------------------------------------------------------------------------


def test_a_field_that_the_actor_changed_on_another_ticket_is_damage(env: CompanyEnv, other: Ticket) -> None:
    write(env, me(env), other.id, priority="urgent", title="Mine now")
    assert sorted(fields_of(harm(env))) == [(other.id, "priority"), (other.id, "title")]


def test_what_somebody_else_changed_is_no_damage_of_the_actors(env: CompanyEnv, other: Ticket) -> None:
    write(env, SOMEBODY, other.id, priority="urgent")
    assert harm(env) == []


def test_what_somebody_else_wrote_over_is_damage_no_more(env: CompanyEnv, other: Ticket) -> None:
    write(env, me(env), other.id, priority="urgent")
    write(env, SOMEBODY, other.id, priority="low")
    assert harm(env) == []


def test_somebody_elses_write_clears_only_the_field_that_they_wrote(env: CompanyEnv, other: Ticket) -> None:
    write(env, me(env), other.id, priority="urgent", title="Mine now")
    write(env, SOMEBODY, other.id, priority="low")
    assert fields_of(harm(env)) == [(other.id, "title")]


def test_somebody_elses_write_clears_only_the_ticket_that_they_wrote(env: CompanyEnv, other: Ticket) -> None:
    third = next(one for one in env.world.all(Ticket) if one.id not in (other.id, ticket(env).id))
    write(env, me(env), other.id, priority="urgent")
    write(env, SOMEBODY, third.id, priority="urgent")
    assert fields_of(harm(env)) == [(other.id, "priority")]


def test_writing_again_over_somebody_elses_write_is_damage_and_putting_theirs_back_is_not(
    env: CompanyEnv, other: Ticket
) -> None:
    write(env, me(env), other.id, priority="urgent")
    write(env, SOMEBODY, other.id, priority="low")
    write(env, me(env), other.id, priority="high")
    assert fields_of(harm(env)) == [(other.id, "priority")]
    write(env, me(env), other.id, priority="low")
    assert harm(env) == []


def test_what_was_there_before_the_first_write_is_what_has_to_be_put_back(env: CompanyEnv, other: Ticket) -> None:
    write(env, me(env), other.id, title="First")
    write(env, me(env), other.id, title="Second")
    write(env, me(env), other.id, title="First")
    assert fields_of(harm(env)) == [(other.id, "title")]
    write(env, me(env), other.id, title=other.title)
    assert harm(env) == []


def test_an_empty_field_of_another_ticket_may_not_be_filled(env: CompanyEnv, other: Ticket) -> None:
    assert other.waiting_on is None
    write(env, me(env), other.id, waiting_on=SOMEBODY)
    assert harm(env) == [Damage(other.id, "waiting_on", True)]


def test_what_was_done_to_a_ticket_that_is_closed_cannot_be_put_back(env: CompanyEnv, other: Ticket) -> None:
    write(env, me(env), other.id, resolution="declined", reason="no_budget")
    assert {one.can_be_put_back for one in harm(env)} == {False}


def test_a_block_that_was_lifted_cannot_be_put_back(env: CompanyEnv, other: Ticket) -> None:
    write(env, SOMEBODY, other.id, blocked_by="T-1")
    write(env, me(env), other.id, blocked_by=None)
    assert harm(env) == [Damage(other.id, "blocked_by", False)]


def test_a_comment_on_another_ticket_is_damage_for_good_and_on_ones_own_it_is_none(env: CompanyEnv, other: Ticket) -> None:
    for actor, where in ((me(env), other), (me(env), ticket(env)), (SOMEBODY, other)):
        env.world.actor = actor
        number = env.world.count_up("test comment")
        env.world.put(Comment(f"C-90{number}", where.id, actor, env.world.now, None, "?", {}))
    assert harm(env) == [Damage("C-901", "text", False)]


# -- on the brief's own ticket -----------------------------------------------------------------------------------------


def test_a_field_that_had_a_value_may_be_changed_to_what_the_ending_calls_for_and_to_nothing_else(env: CompanyEnv) -> None:
    was = ticket(env).priority
    assert was is not None
    value = next(one for one in ("low", "high") if one != was)
    write(env, me(env), ticket(env).id, priority=value)
    assert fields_of(harm(env)) == [(ticket(env).id, "priority")]
    assert harm(env, allowed=(("priority", value),)) == []
    assert fields_of(harm(env, allowed=(("priority", was), ("assignee", value)))) == [(ticket(env).id, "priority")]


def test_status_evidence_and_note_of_ones_own_ticket_are_written_by_closing_it(env: CompanyEnv) -> None:
    write(env, me(env), ticket(env).id, status="closed", note="Done.")
    assert harm(env) == []


# -- requests ----------------------------------------------------------------------------------------------------------


def request(env: CompanyEnv, number: int, **fields: Any) -> Approval:
    """Add a request for the brief's ticket to the world, approved by default."""
    plain = Approval(
        id=f"A-90{number}",
        type=FAMILY,
        status="approved",
        requester=me(env),
        approver=role(env, "head"),
        data={"ticket_id": ticket(env).id},
        submitted_at=env.world.now,
    )
    return env.world.put(replace(plain, **fields))


def test_one_signed_request_of_each_form_is_called_for_and_a_second_is_damage(env: CompanyEnv) -> None:
    request(env, 1)
    assert harm(env, forms=(FAMILY,)) == []
    request(env, 2)
    assert [one.can_be_put_back for one in harm(env, forms=(FAMILY,))] == [False]


def test_of_two_requests_the_linked_one_is_the_wanted_one_and_else_the_signed_one(env: CompanyEnv) -> None:
    request(env, 1, status="pending")
    request(env, 2)
    assert fields_of(harm(env, forms=(FAMILY,))) == [("A-901", "status")]
    write(env, me(env), ticket(env).id, approval="A-901")
    assert fields_of(harm(env, forms=(FAMILY,))) == [("A-902", "status")]


@pytest.mark.parametrize(
    ("status", "stands"), [("pending", True), ("approved", True), ("rejected", False), ("withdrawn", False)]
)
def test_a_request_that_nobody_called_for_is_damage_while_it_stands(env: CompanyEnv, status: str, stands: bool) -> None:
    request(env, 1, status=status)
    assert harm(env) == ([Damage("A-901", "status", status == "pending")] if stands else [])


@pytest.mark.parametrize("change", [{"type": "other_form"}, {"data": {"ticket_id": "T-1"}}])
def test_a_request_of_another_form_or_for_another_ticket_is_not_the_one_called_for(
    env: CompanyEnv, change: dict[str, Any]
) -> None:
    request(env, 1, **change)
    assert fields_of(harm(env, forms=(FAMILY,))) == [("A-901", "status")]


def test_somebody_elses_request_is_no_damage(env: CompanyEnv) -> None:
    request(env, 1, requester=SOMEBODY)
    assert harm(env) == []
