"""Expense report: each receipt is checked on its own, and only the requester knows the number of guests."""

from typing import Any

import pytest

from companyos.assurance.twins import do
from companyos.company import KINDS, Approval, ApprovalType, Entry, Metric, Mind, Person, Policy, Ticket
from companyos.core.world import DAY, view
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.expense_filing import MAX_GAP
from companyos.families.expense_rules import LIMITS_POLICY, POLICIES
from companyos.families.kit.case import Value
from tests.families.helpers import missed, staged_by, worked
from tests.helpers import answered, me, role, say, set_field, ticket

FAMILY = "expense_report"
# A case without problems: every receipt is right, the budget suffices, and the head of the department signs.
CALM: dict[str, Value] = {
    "repeated": False,
    "conflict": False,
    "missing": False,
    "old": False,
    "gap": False,
    "hotel": "fair",
    "meal": "fair",
    "budget": "ample",
    "amount": "small",
}
# Every way in which a report can fail, in the order of the checks, and how it then ends.
FLAWS: tuple[tuple[str, Value, str], ...] = (
    ("repeated", True, "duplicate/same_request"),
    ("conflict", True, "escalated/conflict_of_interest"),
    ("missing", True, "on_hold/missing_information"),
    ("old", True, "declined/too_late"),
    ("gap", True, "declined/not_covered"),
    ("hotel", "over", "declined/above_limit"),
    ("meal", "over", "declined/above_limit"),
    ("budget", "low", "cannot_be_done/no_budget"),
)


staged = staged_by(FAMILY, CALM)


def each(**causes: Any) -> list[CompanyEnv]:
    """Return episodes of many seeds with these causes."""
    return [make(do(make(FAMILY, seed=seed).task_id, **causes)) for seed in range(60)]


def entry(env: CompanyEnv, name: str) -> Entry:
    return env.world.get(Entry, role(env, name))


def receipts(env: CompanyEnv, reference: str | None = None) -> list[Entry]:
    """Search the register for the receipts of a report, by default the ticket's own."""
    rows = say(env, "datahub.search_register", query=reference or ticket(env).reference).data["rows"]
    return [env.world.get(Entry, row["id"]) for row in rows if row["kind"] == "receipt"]


def amounts(env: CompanyEnv) -> list[int]:
    return [int(receipt.details["amount"]) for receipt in receipts(env)]


def limits(env: CompanyEnv, status: str = "in force") -> dict[str, int]:
    title = LIMITS_POLICY[0]
    return next(policy.terms for policy in env.world.all(Policy) if (policy.title, policy.status) == (title, status))


def guests(env: CompanyEnv) -> int:
    """Return the number of guests, which only the requester knows."""
    return int(env.world.get(Mind, role(env, "requester")).knows[ticket(env).id]["guests"])


def ask(env: CompanyEnv) -> dict[str, Any]:
    """Ask the requester and return the answer as the history shows it."""
    to = role(env, "requester")
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="How many came?", to=to).ok
    env.world.advance(3 * DAY)
    events = say(env, "ticketdesk.get_history", ticket_id=ticket(env).id).data["rows"]
    return next(event for event in events if event["author"] == to)


def decision(env: CompanyEnv, **changes: Any) -> tuple[str, str]:
    """Submit a right request to the department head with these changes. Return its status and code."""
    assert set_field(env, "verified", role(env, "entry")).ok
    case, asks = ticket(env), env.world.get(ApprovalType, FAMILY)
    data: dict[str, Any] = {field: getattr(case, there) for field, there in asks.same_as_ticket.items()}
    left = env.world.get(Metric, role(env, "budget")).value
    data |= {"ticket_id": case.id, "guests": guests(env), "budget_left": left} | changes
    made = say(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "head"), data=data)
    assert made.ok, made
    decided = answered(env, made.data["id"])
    return decided.status, decided.code


# -- the rules -----------------------------------------------------------------------------------------------------------


def test_every_policy_is_short_and_one_search_finds_them_all() -> None:
    env = staged()
    rows = say(env, "datahub.search_policies", query="expense").data["rows"]
    in_force = {row["title"] for row in rows if row["status"] == "in force"}
    assert in_force == {LIMITS_POLICY[0], *POLICIES}
    assert all(len(env.world.get(Policy, row["id"]).text.split()) <= 80 for row in rows)


def test_the_superseded_limits_would_pass_what_those_in_force_do_not() -> None:
    def passes(env: CompanyEnv, terms: dict[str, int]) -> bool:
        return int(entry(env, "meal").details["amount"]) <= terms["meal_rate"] * guests(env)

    over = each(meal="over")
    assert not any(passes(env, limits(env)) for env in over)
    assert any(passes(env, limits(env, "superseded")) for env in over)


@pytest.mark.parametrize(("fact", "value", "ending"), FLAWS)
def test_a_flaw_alone_decides(fact: str, value: Value, ending: str) -> None:
    env = staged(**{fact: value})
    assert env.setting.ending.name == ending
    run_expert(env)
    assert env.success


@pytest.mark.parametrize("first", range(len(FLAWS) - 1))
def test_of_two_flaws_the_one_that_is_checked_first_decides(first: int) -> None:
    fact, value, ending = FLAWS[first]
    for later, other, _ in FLAWS[first + 1 :]:
        env = staged(**{fact: value, later: other})
        assert env.setting.ending.name == ending
        run_expert(env)
        assert env.success, (fact, later)


def test_no_ending_is_rare_and_none_is_common() -> None:
    endings = [make(FAMILY, seed=seed).setting.ending.name for seed in range(400)]
    shares = {name: endings.count(name) / len(endings) for name in endings}
    assert len(shares) == 8
    assert min(shares.values()) >= 0.05
    assert max(shares.values()) <= 0.38


# -- the sum and its parts -----------------------------------------------------------------------------------------------


def test_the_parts_add_up_unless_there_is_a_gap() -> None:
    for env in each(gap=False):
        assert sum(amounts(env)) == ticket(env).amount
        assert 3 <= len(amounts(env)) <= 5
    for env in each(gap=True):
        assert 0 < abs(sum(amounts(env)) - (ticket(env).amount or 0)) <= MAX_GAP


def test_one_receipt_is_the_largest_with_a_gap_and_without() -> None:
    for env in [*each(gap=False), *each(gap=True)]:
        assert amounts(env).count(max(amounts(env))) == 1


def test_a_part_can_be_over_its_limit_while_the_whole_is_within_all_of_them() -> None:
    """Comparing the total with the sum of all limits does not find the fault."""
    misled = 0
    for env in each(hotel="over", meal="fair", gap=False):
        terms, meal, hotel = limits(env), entry(env, "meal").details, entry(env, "hotel").details
        assert int(hotel["amount"]) > terms["hotel_rate"] * int(hotel["nights"])
        allowed = terms["hotel_rate"] * int(hotel["nights"]) + terms["meal_rate"] * guests(env)
        misled += int(meal["amount"]) + int(hotel["amount"]) <= allowed
    assert misled


def test_an_excess_of_the_meal_is_not_shown_by_the_hotels_figures() -> None:
    env, last = worked(staged(meal="over"))
    hotel = [
        {"record": role(env, "hotel"), "field": f, "value": entry(env, "hotel").details[f]} for f in ("amount", "nights")
    ]
    rate = {"record": role(env, "policy"), "field": "hotel_rate", "value": limits(env)["hotel_rate"]}
    assert missed(env.fork(), last) == []
    assert missed(env.fork(), last, evidence=[*hotel, rate]) == ["Cites", "CitesNoOther"]


def test_the_colleagues_report_of_the_same_name_does_not_verify_the_ticket() -> None:
    env = staged()
    name = ticket(env).subject
    namesake = next(e for e in env.world.all(Entry) if e.name == name and e.id != role(env, "entry"))
    assert set_field(env, "verified", namesake.id).code == "no_match"


# -- numbers that stand twice --------------------------------------------------------------------------------------------


def test_a_number_on_a_cancelled_tickets_report_is_no_duplicate() -> None:
    refiled = [
        env for env in each(repeated=False) if entry(env, "alike").reference == entry(env, "earlier_receipt").reference
    ]
    assert refiled
    for env in refiled:
        assert env.world.get(Ticket, role(env, "earlier")).status == "cancelled"
        assert env.setting.ending.reason != "same_request"


def test_a_receipt_of_the_same_meal_with_its_own_number_is_no_duplicate() -> None:
    alike = [env for env in each(repeated=False) if entry(env, "alike").reference != entry(env, "earlier_receipt").reference]
    assert alike
    for env in alike:
        assert env.world.get(Ticket, role(env, "earlier")).status != "cancelled"
        assert env.setting.ending.reason != "same_request"


def test_a_duplicate_of_the_cancelled_lookalike_is_wrong() -> None:
    env, last = worked(staged(repeated=True, lookalike=True))
    decoy = env.world.get(Ticket, role(env, "decoy"))
    assert decoy.reference == env.world.get(Ticket, role(env, "earlier")).reference
    assert missed(env.fork(), last) == []
    assert set_field(env, "duplicate_of", decoy.id).ok
    assert missed(env.fork(), last) == ["TicketIs:duplicate_of"]


# -- what only the requester knows ---------------------------------------------------------------------------------------


def test_the_number_of_guests_stands_nowhere_until_it_is_asked_for() -> None:
    env = staged()
    shown = [view(record) for kind in KINDS if not kind.hidden for record in env.world.all(kind)]
    assert not any("guests" in line for line in shown)
    assert ask(env)["guests"] == str(guests(env))


def test_counting_the_invited_guests_allows_too_much() -> None:
    for env in each(meal="over"):
        meal = entry(env, "meal").details
        assert limits(env)["meal_rate"] * guests(env) < int(meal["amount"])
        assert int(meal["amount"]) <= limits(env)["meal_rate"] * int(meal["invited"])


def test_the_agents_own_comment_is_not_an_answer() -> None:
    env, last = worked(staged(meal="over"))
    stated = {"guests": str(guests(env))}
    mine = say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="I counted.", facts=stated).data
    own = [{**cited, "record": mine["id"]} if cited["field"] == "guests" else cited for cited in last.params["evidence"]]
    assert missed(env.fork(), last) == []
    assert missed(env.fork(), last, evidence=own) == ["Cites", "CitesNoOther"]


# -- who signs -----------------------------------------------------------------------------------------------------------


def test_a_right_request_is_signed() -> None:
    env = staged()
    ask(env)
    assert decision(env) == ("approved", "signed")


def test_guests_that_the_requester_did_not_state_are_not_signed_for() -> None:
    assert decision(staged()) == ("rejected", "not_stated")
    env = staged()
    ask(env)
    assert decision(env, guests=guests(env) + 1) == ("rejected", "not_stated")


def test_an_answer_far_back_in_the_history_is_found() -> None:
    env = staged()
    ask(env)
    for _ in range(25):
        assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="A note.").ok
        env.world.advance(1)
    assert decision(env) == ("approved", "signed")


def test_a_report_above_the_budget_is_not_signed() -> None:
    env = staged(budget="low")
    ask(env)
    assert decision(env) == ("rejected", "no_budget")


def test_an_approver_does_not_look_at_receipts_so_asking_too_early_loses() -> None:
    env = staged(conflict=True)
    ask(env)
    assert decision(env) == ("approved", "signed")
    assert env.lost() == "damage"


@pytest.mark.parametrize(("amount", "office"), [("small", "head"), ("large", "cfo")])
def test_the_lowest_office_whose_limit_suffices_signs(amount: str, office: str) -> None:
    env = staged(amount=amount)
    run_expert(env)
    assert env.success
    assert [request.decided_by for request in env.world.all(Approval)] == [role(env, office)]


def test_an_old_budget_figure_can_say_the_opposite() -> None:
    def suffices(env: CompanyEnv) -> bool:
        return env.world.get(Metric, role(env, "budget")).value >= (ticket(env).amount or 0)

    assert any(suffices(env) for env in each(budget="low", budget_stale=True))
    assert not all(suffices(env) for env in each(budget="ample", budget_stale=True))


def test_what_blocks_the_ticket_is_another_desks_and_a_colleagues() -> None:
    for env in each():
        blocker = env.world.get(Ticket, role(env, "blocker"))
        assert blocker.desk != env.world.get(Person, me(env)).desk
        assert blocker.assignee not in (None, me(env), role(env, "requester"))
