"""Licence renewal: simple rules pick the wrong offer, approvers check requests, and the policies are complete."""

from collections.abc import Callable
from datetime import date
from itertools import product
from typing import Any

import pytest

from companyos.company import Approval, ApprovalType, Entry, Metric, Person, Policy, Ticket
from companyos.core.calls import Call
from companyos.core.world import stamp
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.kit.case import Value
from companyos.families.kit.company import SEEDS_PER_COMPANY
from companyos.families.license_offers import AGREED, BULK, LARGE, NAMESAKE_OFFER, OFFERS, PLAIN
from companyos.families.license_rules import FORM, LIMITS
from tests.families.helpers import staged_by
from tests.helpers import answered, me, role, say, set_field, ticket, verify

# A case without problems: the smallest offer has enough seats, and the Procurement Lead signs.
CALM: dict[str, Value] = {
    "duplicate": False,
    "days": "due",
    "used": "fits",
    "personal": False,
    "plain": "held",
    "large": "held",
    "price": "low",
    "budget": "ample",
}
CHOICES = [
    # used, personal, plain, large, the right offer
    ("fits", False, "held", "held", PLAIN),
    ("fits", False, "over", "held", AGREED),
    ("fits", True, "held", "over", AGREED),
    ("grown", False, "held", "held", LARGE),
    ("grown", True, "held", "held", LARGE),
    ("grown", False, "held", "over", BULK),
    ("grown", True, "held", "over", None),
]


staged = staged_by(FORM, CALM, reward="sparse")


def solved(**causes: Any) -> CompanyEnv:
    env = staged(**causes)
    run_expert(env)
    assert env.success
    return env


def offer(env: CompanyEnv, name: str) -> Entry:
    return env.world.get(Entry, role(env, name))


def limits(env: CompanyEnv) -> Policy:
    return env.world.get(Policy, role(env, "policy"))


def decided(env: CompanyEnv, offered: str, approver: str = "lead", **changes: Any) -> Approval:
    """Submit a right request for this offer with these changes. Return it when it is decided."""
    if not ticket(env).verified:
        verify(env)
    case, chosen = ticket(env), offer(env, offered)
    data = {
        "ticket_id": case.id,
        "subject": case.subject,
        "reference": case.reference,
        "offer": chosen.id,
        "seats": int(chosen.details["seats"]),
        "amount": int(chosen.details["amount"]),
        "used": env.world.get(Metric, role(env, "used")).value,
        "cost_center": env.world.get(Person, case.requester).cost_center,
    } | changes
    return asked(env, role(env, approver), data)


def asked(env: CompanyEnv, approver: str, data: dict[str, Any]) -> Approval:
    reply = say(env, "approvalflow.submit_approval", approval_type=FORM, approver=approver, data=data)
    assert reply.ok, reply
    return answered(env, reply.data["id"])


# -- the choice --------------------------------------------------------------------------------------------------------

Eligible = Callable[[CompanyEnv, Entry], bool]


def of_contract(env: CompanyEnv, entry: Entry) -> bool:
    return entry.details["contract"] == ticket(env).reference


def held_at(env: CompanyEnv, entry: Entry, minute: int) -> bool:
    waited = date.fromisoformat(stamp(minute)[:10]) - date.fromisoformat(entry.details["issued"])
    return waited.days <= int(entry.details["valid_days"])


def held(env: CompanyEnv, entry: Entry) -> bool:
    return held_at(env, entry, ticket(env).opened)


def covers(env: CompanyEnv, entry: Entry, headroom: int | None = None) -> bool:
    percent = limits(env).terms["headroom"] if headroom is None else headroom
    return int(entry.details["seats"]) >= env.world.get(Metric, role(env, "used")).value * (1 + percent / 100)


def lawful(env: CompanyEnv, entry: Entry) -> bool:
    personal = env.world.get(Entry, role(env, "entry")).details["data_class"] == "personal"
    return not personal or entry.details["data_agreement"] == "included"


def chosen(env: CompanyEnv, *rules: Eligible, least: str = "seats") -> str | None:
    """Return the offer with the fewest seats (or the lowest amount) among those that these rules leave."""
    entries = [entry for entry in env.world.all(Entry) if entry.kind == "offer"]
    left = [entry for entry in entries if all(rule(env, entry) for rule in rules)]
    return min(left, key=lambda entry: int(entry.details[least])).id if left else None


RULES = (of_contract, held, covers, lawful)


@pytest.mark.parametrize(("used", "personal", "plain", "large", "right"), CHOICES)
def test_the_right_offer_is_the_one_that_the_policy_leaves(
    used: str, personal: bool, plain: str, large: str, right: str | None
) -> None:
    env = staged(used=used, personal=personal, plain=plain, large=large)
    assert chosen(env, *RULES) == (role(env, right) if right else None)
    if right is None:
        assert env.setting.ending.name == "cannot_be_done/not_covered"
        return
    run_expert(env)
    assert env.success
    signed = env.world.get(Approval, ticket(env).approval or "")
    assert signed.data["offer"] == role(env, right)


def _mistakes() -> dict[str, Callable[[CompanyEnv], str | None]]:
    def today(env: CompanyEnv, entry: Entry) -> bool:
        return held_at(env, entry, env.world.now)

    def without_headroom(env: CompanyEnv, entry: Entry) -> bool:
        return covers(env, entry, 0)

    def with_old_headroom(env: CompanyEnv, entry: Entry) -> bool:
        old = next(p for p in env.world.all(Policy) if p.title == LIMITS and p.status == "superseded")
        return covers(env, entry, old.terms["headroom"])

    return {
        "takes the cheapest": lambda env: chosen(env, *RULES, least="amount"),
        "goes by today's date": lambda env: chosen(env, of_contract, today, covers, lawful),
        "forgets the dates": lambda env: chosen(env, of_contract, covers, lawful),
        "forgets the headroom": lambda env: chosen(env, of_contract, held, without_headroom, lawful),
        "reads the superseded policy": lambda env: chosen(env, of_contract, held, with_old_headroom, lawful),
        "forgets the data agreement": lambda env: chosen(env, of_contract, held, covers),
        "goes by the name alone": lambda env: chosen(env, held, covers, lawful),
    }


@pytest.mark.parametrize("mistake", _mistakes())
def test_each_simplified_rule_picks_a_wrong_offer_in_some_tasks(mistake: str) -> None:
    wrong = 0
    for seed in range(300):
        env = make(FORM, seed=seed, reward="sparse")
        if env.setting.ending.resolution == "completed":
            wrong += _mistakes()[mistake](env) != chosen(env, *RULES)
    print(f"{mistake}: wrong in {wrong} of those of 300 that are signed")
    assert wrong >= 5


def test_every_offer_is_right_in_some_tasks_and_a_trap_in_others() -> None:
    right: set[str] = set()
    for seed in range(200):
        env = make(FORM, seed=seed, reward="sparse")
        if env.setting.ending.resolution == "completed":
            right |= {name for name in OFFERS if role(env, name) == chosen(env, *RULES)}
    assert right == set(OFFERS)


def test_the_order_in_which_offers_are_listed_tells_nothing() -> None:
    places = set()
    for seed in range(40):
        env = make(FORM, seed=seed, reward="sparse")
        listed = say(env, "datahub.search_register", query=ticket(env).subject).data["rows"]
        places.add([row["id"] for row in listed if row["kind"] == "offer"].index(role(env, LARGE)))
    assert places == set(range(5))


# -- what a signer looks into --------------------------------------------------------------------------------------------


def test_a_signer_signs_any_offer_of_the_contract_and_a_wrong_one_loses_the_case() -> None:
    for used, personal, plain, large in product(("fits", "grown"), (False, True), ("held", "over"), ("held", "over")):
        for name in OFFERS:
            env = staged(used=used, personal=personal, plain=plain, large=large)
            right = role(env, name) == chosen(env, *RULES)
            assert decided(env, name).status == "approved"
            assert env.lost() == (None if right else "damage"), (used, personal, plain, large, name)


def test_a_namesakes_offer_is_not_signed_and_the_rejection_names_no_other_record() -> None:
    env = staged()
    request = decided(env, NAMESAKE_OFFER)
    assert request.code == "wrong_offer"
    others = {entry.id for entry in env.world.all(Entry)} - {role(env, NAMESAKE_OFFER)}
    assert not any(other in request.reason for other in others)


@pytest.mark.parametrize("named", ["E-0", "contract", True])
def test_a_record_that_is_not_an_offer_is_not_signed(named: str | bool) -> None:
    env = staged()
    assert decided(env, PLAIN, offer=role(env, "entry") if named == "contract" else named).code == "wrong_offer"


@pytest.mark.parametrize("field", ["seats", "amount"])
def test_a_request_that_says_another_number_than_the_offer_is_not_signed(field: str) -> None:
    assert decided(staged(), PLAIN, "lead", **{field: 7}).code == "mismatch"


def test_an_amount_must_come_as_a_number() -> None:
    env = staged()
    assert decided(env, PLAIN, amount=offer(env, PLAIN).details["amount"]).code == "mismatch"


def test_a_stale_use_is_not_signed_for() -> None:
    env = staged(used_stale=True)
    assert decided(env, PLAIN).code == "stale"


def test_elsewhere_the_same_form_is_signed_without_an_offer() -> None:
    for seed in range(0, 20 * SEEDS_PER_COMPANY, SEEDS_PER_COMPANY):
        env = make("vendor_onboarding", seed=seed, reward="sparse")
        for other in env.world.all(Ticket):
            if other.kind == FORM and other.status == "open":
                data = {"ticket_id": other.id, "subject": other.subject, "amount": other.amount}
                lead = next(p for p in env.world.all(Person) if p.role == "Procurement Lead")
                if (lead.limit or 0) >= (other.amount or 0):
                    assert asked(env, lead.id, data).status == "approved"
                    return
    raise AssertionError("no open ticket that the Procurement Lead may sign for")


# -- who signs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "name", "office"),
    [
        ({"price": "low"}, PLAIN, "lead"),
        ({"price": "high"}, PLAIN, "lead"),
        ({"price": "high", "personal": True}, AGREED, "cfo"),
        ({"price": "low", "used": "grown"}, LARGE, "lead"),
        ({"price": "high", "used": "grown"}, LARGE, "cfo"),
    ],
)
def test_the_amount_of_the_offer_decides_whose_signature_it_takes(causes: dict[str, Any], name: str, office: str) -> None:
    other = {"lead": "cfo", "cfo": "lead"}[office]
    assert decided(staged(**causes), name, other).code == "not_mine"
    assert decided(staged(**causes), name, office).status == "approved"
    wanted = {"lead": "Procurement Lead", "cfo": "CFO"}[office]
    assert staged(**causes).setting.ending.decider == wanted


def test_the_amount_on_the_ticket_points_to_the_wrong_office_in_some_tasks() -> None:
    misled = 0
    for seed in range(200):
        env = make(FORM, seed=seed, reward="sparse")
        ending, limit = env.setting.ending, env.world.get(Person, role(env, "lead")).limit or 0
        if ending.resolution == "completed":
            misled += (ending.decider == "Procurement Lead") != ((ticket(env).amount or 0) <= limit)
    assert misled >= 10


@pytest.mark.parametrize(
    ("away", "signs"),
    [((), "lead"), (("lead_away",), "lead_deputy"), (("lead_away", "lead_deputy_away"), "lead_third")],
)
def test_while_the_procurement_lead_is_away_the_delegates_sign(away: tuple[str, ...], signs: str) -> None:
    env = solved(**dict.fromkeys(away, True))
    assert env.world.get(Approval, ticket(env).approval or "").decided_by == role(env, signs)


# -- dates and figures ---------------------------------------------------------------------------------------------------


def test_the_day_that_counts_is_the_one_on_which_the_ticket_was_opened() -> None:
    """In most tasks the right offer has expired by today, but was valid when the ticket was opened."""
    late = 0
    for seed in range(100):
        env = make(FORM, seed=seed, reward="sparse")
        right = chosen(env, *RULES)
        if env.setting.ending.resolution == "completed" and right:
            late += not held_at(env, env.world.get(Entry, right), env.world.now)
            run_expert(env)
            assert env.success
    assert late >= 10


def test_offers_are_over_by_one_day_or_hold_to_the_last() -> None:
    spare = set()
    for seed in range(150):
        env = make(FORM, seed=seed, reward="sparse")
        for name in (PLAIN, LARGE):
            details = offer(env, name).details
            waited = date.fromisoformat(stamp(ticket(env).opened)[:10]) - date.fromisoformat(details["issued"])
            spare.add(int(details["valid_days"]) - waited.days)
    assert {-1, 0} <= spare


@pytest.mark.parametrize("figure", ["days", "used"])
def test_who_trusts_a_stale_figure_is_misled_in_some_tasks(figure: str) -> None:
    misled = 0
    for seed in range(60):
        env = make(FORM, seed=seed, chaos={"stale": 1.0}, reward="sparse")
        if getattr(env.setting.causes, f"{figure}_stale") and not env.setting.causes.duplicate:
            value = env.world.get(Metric, role(env, figure)).value
            terms, contract = limits(env).terms, env.world.get(Entry, role(env, "entry")).details
            by_days = "early" if value > terms["window_days"] else "late" if value < int(contract["notice_days"]) else "due"
            by_use = "few" if 100 * value < terms["minimum_share"] * int(contract["seats"]) else "enough"
            truly = getattr(env.setting.causes, figure)
            misled += by_days != truly if figure == "days" else (by_use == "few") != (truly == "few")
    assert misled >= 5


def test_a_renewal_that_missed_its_notice_goes_to_the_procurement_lead_even_if_away() -> None:
    env = solved(days="late", lead_away=True)
    assert ticket(env).escalated_to == role(env, "lead")


def test_who_has_no_budget_for_the_right_offer_must_cite_its_amount_and_not_another_ones() -> None:
    done = solved(budget="tight", used="grown")
    *before, last = [turn.call for turn in done.turns]
    for name, wins in ((LARGE, True), (BULK, False)):
        env = staged(budget="tight", used="grown")
        for call in before:
            env.step(call)
        cited = {"record": role(env, name), "field": "amount", "value": offer(env, name).details["amount"]}
        evidence = [citation for citation in last.params["evidence"] if citation["field"] != "amount"]
        env.step(Call(last.app, last.method, {**last.params, "evidence": [*evidence, cited]}))
        assert env.success is wins


@pytest.mark.parametrize(
    ("price", "used", "enough"), [("low", "fits", True), ("low", "grown", False), ("high", "fits", False)]
)
def test_whether_the_budget_is_enough_hangs_on_the_right_offer(price: str, used: str, enough: bool) -> None:
    env = solved(budget="tight", price=price, used=used)
    assert (env.setting.ending.reason == "all_checks_passed") == enough
    left, right = env.world.get(Metric, role(env, "budget")).value, chosen(env, *RULES)
    assert (left >= int(env.world.get(Entry, right or "").details["amount"])) == enough


def test_an_offer_cannot_stand_for_the_contract() -> None:
    env = staged()
    assert set_field(env, "verified", role(env, PLAIN)).code == "no_match"
    assert set_field(env, "verified", role(env, "entry")).ok


# -- rules ---------------------------------------------------------------------------------------------------------------


def test_one_word_finds_every_rule_and_each_is_short() -> None:
    env = staged()
    found = say(env, "datahub.search_policies", query="licence").data
    assert found["pages"] == 1
    assert {row["title"].split(":")[0] for row in found["rows"]} == {"Licence renewal"}
    assert [row["title"] for row in found["rows"] if row["status"] == "superseded"] == [LIMITS]
    for row in found["rows"]:
        assert len(env.world.get(Policy, row["id"]).text.split()) <= 80


def test_the_numbers_of_a_policy_stand_in_its_text() -> None:
    for policy in staged().world.all(Policy):
        assert all(str(value) in policy.text for value in policy.terms.values())


def test_the_rules_name_every_reason_and_every_field_that_they_rest_on() -> None:
    env = staged()
    texts = " ".join(policy.text for policy in env.world.all(Policy) if policy.status == "in force")
    endings = [make(FORM, seed=seed).setting.ending for seed in range(60)]
    details = {**env.world.get(Entry, role(env, "entry")).details, **offer(env, PLAIN).details}
    words = {ending.resolution for ending in endings} | {ending.reason for ending in endings}
    words |= set(details) - {"supplier_no", "master_agreement"}  # those a form or a signer asks for by name
    assert {word for word in words if word not in texts} == set()


def test_every_ending_is_right_in_a_fair_share_of_tasks() -> None:
    endings = [make(FORM, seed=seed).setting.ending.name for seed in range(400)]
    shares = {name: endings.count(name) / 400 for name in set(endings)}
    assert len(shares) == 7
    assert all(0.05 <= share <= 0.38 for share in shares.values()), shares


def test_the_form_leaves_the_ticket_s_amount_out() -> None:
    env = staged()
    assert "amount" not in env.world.get(ApprovalType, FORM).same_as_ticket
    assert ticket(env).amount != int(offer(env, PLAIN).details["amount"])
    assert env.world.get(Person, me(env)).role == "Procurement Analyst"
