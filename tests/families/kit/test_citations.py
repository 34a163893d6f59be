"""Citations: which facts the evidence of a closed ticket must cite and must not cite, at the limits of each rule."""

from typing import Any

import pytest
from msgspec.structs import replace

from companyos.company import Approval, Comment, Entry, Policy, Ticket
from companyos.company.apps.ticketdesk import Citation
from companyos.env import CompanyEnv
from companyos.families.kit.citations import Cites, CitesNoOther, CitesNothingFalse
from companyos.families.kit.goals import ANSWER, SIGNED_REQUEST
from tests.helpers import FAMILY, form, me, role, staged, ticket

SOMEBODY = "@some.body"


@pytest.fixture
def env() -> CompanyEnv:
    return staged()


def cite(env: CompanyEnv, *said: tuple[str, str, Any], **fields: Any) -> None:
    """Close the brief's ticket with this evidence: record, field and value of each citation."""
    env.world.actor = me(env)
    env.world.put(replace(ticket(env), evidence=tuple(Citation(*one) for one in said), **fields))


def title_of(env: CompanyEnv, ticket_id: str) -> tuple[str, str, str]:
    return ticket_id, "title", env.world.get(Ticket, ticket_id).title


def request(env: CompanyEnv, number: int, **fields: Any) -> str:
    plain = Approval(f"A-90{number}", FAMILY, "approved", me(env), role(env, "head"), form(env), env.world.now)
    return env.world.put(replace(plain, **fields)).id


# -- what must be cited ------------------------------------------------------------------------------------------------


def test_every_decisive_fact_must_be_cited_by_record_and_field(env: CompanyEnv) -> None:
    goal = Cites(ticket(env).id, (("E-1", "status"), ("P-1", "limit")))
    for said, holds in (
        ([("E-1", "status", "?"), ("P-1", "limit", 5)], True),
        ([("E-1", "status", "?"), ("P-1", "limit", 5), ("E-2", "status", "?")], True),
        ([("E-1", "status", "?")], False),
        ([("E-1", "status", "?"), ("P-1", "other", 5)], False),
        ([("E-1", "status", "?"), ("P-2", "limit", 5)], False),
        ([], False),
    ):
        cite(env, *said)
        assert goal.holds(env.world) == holds


def test_the_signed_request_is_an_approved_one_for_this_ticket_and_of_this_form(env: CompanyEnv) -> None:
    other = next(one.id for one in env.world.all(Ticket) if one.id != ticket(env).id)
    right = request(env, 1)
    pending, elsewhere = request(env, 2, status="pending"), request(env, 3, data=form(env) | {"ticket_id": other})
    of_other_form = request(env, 4, type="other_form")
    for record, any_form, this_form in (
        (right, True, True),
        (pending, False, False),
        (elsewhere, False, False),
        (of_other_form, True, False),
    ):
        cite(env, (record, "status", "approved"))
        assert Cites(ticket(env).id, ((SIGNED_REQUEST, "status"),)).holds(env.world) == any_form
        assert Cites(ticket(env).id, ((f"{SIGNED_REQUEST}:{FAMILY}", "status"),)).holds(env.world) == this_form


def test_an_answer_is_a_comment_of_that_person_on_this_ticket(env: CompanyEnv) -> None:
    other = next(one.id for one in env.world.all(Ticket) if one.id != ticket(env).id)
    goal = Cites(ticket(env).id, ((f"{ANSWER}{SOMEBODY}", "budget"),))
    for number, (author, where, holds) in enumerate(
        ((SOMEBODY, ticket(env).id, True), (me(env), ticket(env).id, False), (SOMEBODY, other, False)), 1
    ):
        env.world.put(Comment(f"C-90{number}", where, author, env.world.now, None, "?", {"budget": "5"}))
        cite(env, (f"C-90{number}", "budget", "5"))
        assert goal.holds(env.world) == holds


# -- what is false, and what is too much -------------------------------------------------------------------------------


def test_the_maximum_number_of_citations_is_allowed_and_one_more_is_not(env: CompanyEnv) -> None:
    tickets = list(env.world.all(Ticket))[:3]
    cite(env, *(title_of(env, one.id) for one in tickets))
    assert CitesNothingFalse(ticket(env).id, 3).holds(env.world)
    assert not CitesNothingFalse(ticket(env).id, 2).holds(env.world)


def test_a_citation_must_be_true_now(env: CompanyEnv) -> None:
    other = next(one for one in env.world.all(Ticket) if one.id != ticket(env).id)
    goal = CitesNothingFalse(ticket(env).id, 4)
    for value, holds in ((other.title, True), ("something else", False)):
        cite(env, title_of(env, ticket(env).id), (other.id, "title", value))
        assert goal.holds(env.world) == holds
    for wrong in (("T-0", "title", "?"), (other.id, "no_such_field", "?")):
        cite(env, wrong)
        assert not goal.holds(env.world)


def test_evidence_may_cite_the_state_before_the_closing_only_of_its_own_ticket(env: CompanyEnv) -> None:
    goal = CitesNothingFalse(ticket(env).id, 4)
    cite(env, (ticket(env).id, "status", ticket(env).status), status="closed")
    assert goal.holds(env.world)
    cite(env, (ticket(env).id, "status", "never_so"), status="closed")
    assert not goal.holds(env.world)
    other = next(one for one in env.world.all(Ticket) if one.id != ticket(env).id)
    env.world.put(replace(other, title="Another title"))
    for was in (other.title, ticket(env).title):  # what it said itself before, and what our ticket says
        cite(env, (other.id, "title", was))
        assert not goal.holds(env.world)


# -- rivals of decisive facts ----------------------------------------------------------------------------------------


def holds_with(env: CompanyEnv, decisive: tuple[str, str], *beside: tuple[str, str], must_not_cite: Any = ()) -> bool:
    """Return whether these facts may be cited together with a decisive one. Another goal checks that values are true."""
    cite(env, *((*one, "?") for one in (decisive, *beside)))
    return CitesNoOther(ticket(env).id, (decisive,), must_not_cite).holds(env.world)


def test_the_same_field_of_another_entry_of_its_kind_is_a_rival_and_other_fields_are_not(env: CompanyEnv) -> None:
    entry = env.world.get(Entry, role(env, "entry"))
    alike, other_kind = replace(entry, id="E-90001"), replace(entry, id="E-90002", kind="another kind")
    env.world.put(alike)
    env.world.put(other_kind)
    assert holds_with(env, (entry.id, "status"))
    assert not holds_with(env, (entry.id, "status"), (alike.id, "status"))
    assert holds_with(env, (entry.id, "status"), (alike.id, "name"))
    assert holds_with(env, (entry.id, "status"), (other_kind.id, "status"))


def test_other_terms_of_a_policy_and_terms_of_its_other_versions_are_rivals(env: CompanyEnv) -> None:
    policy = replace(env.world.get(Policy, role(env, "policy")), id="P-901", title="Ours", terms={"a": 1, "b": 2})
    old, other = replace(policy, id="P-902", status="superseded"), replace(policy, id="P-903", title="Another")
    for one in (policy, old, other):
        env.world.put(one)
    assert holds_with(env, ("P-901", "a"), ("P-901", "title"))
    assert not holds_with(env, ("P-901", "a"), ("P-901", "b"))
    assert not holds_with(env, ("P-901", "a"), ("P-902", "b"))
    assert holds_with(env, ("P-901", "a"), ("P-903", "b"))
    assert not holds_with(env, ("P-901", "a"), ("P-903", "a"))  # the same field of another policy


def test_a_named_rival_loses_and_another_field_of_its_record_does_not(env: CompanyEnv) -> None:
    entry, named = role(env, "entry"), ((role(env, "score"), "value"),)
    assert not holds_with(env, (entry, "status"), (role(env, "score"), "value"), must_not_cite=named)
    assert holds_with(env, (entry, "status"), (role(env, "score"), "unit"), must_not_cite=named)


def test_the_ticket_itself_and_its_approved_request_are_never_rivals(env: CompanyEnv) -> None:
    one, other = [found.id for found in env.world.all(Ticket) if found.id != ticket(env).id][:2]
    assert holds_with(env, (one, "status"), (ticket(env).id, "status"))
    assert not holds_with(env, (one, "status"), (other, "status"))
    signed, pending = request(env, 1), request(env, 2, status="pending")
    first = request(env, 3)
    assert holds_with(env, (first, "status"), (signed, "status"))
    assert not holds_with(env, (first, "status"), (pending, "status"))


def test_a_record_that_does_not_exist_is_no_rival(env: CompanyEnv) -> None:
    assert holds_with(env, (role(env, "entry"), "status"), ("E-0", "status"))
