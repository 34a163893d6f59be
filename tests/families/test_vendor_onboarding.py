"""Vendor onboarding: its drawn rules decide, its papers tell them, and its approvers do not."""

from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from companyos.agents import play
from companyos.agents.adversaries.house import house_numbers, house_rules
from companyos.assurance.prove import solve, unread_rules
from companyos.assurance.twins import do, twins_with_other_ending
from companyos.chaos import doses_of
from companyos.company import ApprovalType, Mind, Policy
from companyos.core.calls import Call
from companyos.core.errors import BadTask
from companyos.core.task import SPLITS, TaskId
from companyos.core.world import Streams
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import family
from companyos.families.kit.case import Rule
from companyos.families.vendor_onboarding import FAMILY
from companyos.families.vendor_onboarding.causes import FORM, SECOND_FORM, Causes
from companyos.families.vendor_onboarding.facts import draw_numbers, recorded_answers, score_of
from companyos.families.vendor_onboarding.rules import COSTS, RULES
from companyos.rules import Limit, Ruling, answered, decide, eager
from companyos.rules.layout import MAX_WORDS

NAME = FAMILY.name
CALM = "vendor_onboarding-v4-train-3-0"
FINE = {
    "duplicate": "no", "conflict": "no", "insurance": "valid", "personal_data": False, "framework": False,
    "applied": "lately", "score": "over", "amount": "small",
}  # fmt: skip


def drawn(count: int, split: str = "train") -> Iterator[tuple[Causes, Streams]]:
    """Yield the causes of tasks, without staging them."""
    for seed in range(count):
        streams = Streams(TaskId(NAME, split, seed, "0").key)
        yield FAMILY.draw_causes(streams, streams, doses_of(0.0), split), streams


def fine() -> CompanyEnv:
    """Return a task under the house rules that the head of the department signs."""
    return make(do(CALM, rulebook="house", duplicate="no", conflict="no", insurance="valid", score="over", amount="small"))


def of_ruling(ruling: Ruling) -> tuple[str, str, tuple[str, ...]]:
    """Return the ending, whom it names or who signs, and the facts to cite."""
    then = ruling.then
    return f"{then.resolution}/{then.reason}", then.whom or " and ".join(ruling.signers), ruling.cites


# Ten endings by hand: what differs from a fine case under the house rules, and the ending that follows.
GOLDEN: list[tuple[dict[str, object], tuple[str, str, tuple[str, ...]]]] = [
    ({}, ("completed/all_checks_passed", "Head", ("status", "decided_by", "score"))),
    (
        {"amount": "larger", "second": "large", "second_by": "cto", "passed_cites": "signature"},
        ("completed/all_checks_passed", "CFO and CTO", ("status", "decided_by")),
    ),
    ({"duplicate": "done"}, ("duplicate/same_request", "other", ("other_reference", "other_status"))),
    (
        {"duplicate": "done", "duplicate_counts": "open", "ladder": "lead_cfo"},
        ("completed/all_checks_passed", "Procurement Lead", ("status", "decided_by", "score")),
    ),
    (
        {"conflict": "manager", "owner_counts": "near", "owner_then": "procurement", "owner_cites": "both"},
        ("escalated/contradicts_policy", "Procurement Lead", ("owner", "requester")),
    ),
    # The insurance ended after the ticket was opened, which counts under the house rules only.
    ({"insurance": "lapsed"}, ("on_hold/document_expired", "requester", ("insurance_until",))),
    (
        {"insurance": "lapsed", "insurance_day": "opened", "score": "under", "score_then": "hold"},
        ("on_hold/below_minimum", "requester", ("score", "minimum")),
    ),
    # A framework agreement exempts from the check of the insurance, but not a firm that handles personal data.
    (
        {"insurance": "expired", "framework": True, "personal_data": True, "insurance_unless": "framework",
         "insurance_despite": "personal", "insurance_then": "declined", "insurance_cites": "certificate"},
        ("declined/document_expired", "", ("certificate",)),
    ),
    # The amendment has a higher minimum, unless the older paper counts.
    (
        {"amendment": "score", "score": "over_minimum"},
        ("declined/below_minimum", "", ("score", "minimum")),
    ),
    ({"amount": "huge", "authority_then": "ceo", "authority_cites": "amount"},
     ("escalated/beyond_authority", "CEO", ("amount",))),
]  # fmt: skip


@pytest.mark.parametrize(("causes", "ending"), GOLDEN)
def test_an_ending_is_the_one_that_was_worked_out_by_hand(
    causes: dict[str, object], ending: tuple[str, str, tuple[str, ...]]
) -> None:
    drawn_causes, streams = next(drawn(1))
    house = {slot.name: slot.house for slot in RULES.design.slots}
    case = replace(drawn_causes, **{**FINE, **house, **causes})
    assert of_ruling(RULES.ruling(case, streams)) == ending


# -- version 3 ---------------------------------------------------------------------------------------------------------


def version_3(causes: Causes, streams: Streams) -> tuple[str, str, tuple[str, ...]]:
    """Return the ending, whom it names or who signs, and the facts to cite, as the judge of version 3 had them."""
    numbers, score = draw_numbers(streams), score_of(causes, streams)
    if causes.duplicate != "no":
        return "duplicate/same_request", "other", ("other_reference", "other_status")
    if causes.conflict == "requester":
        return "escalated/conflict_of_interest", "Compliance Officer", ("owner",)
    if causes.insurance != "valid":
        return "on_hold/document_expired", "requester", ("insurance_until",)
    if score < (numbers.personal if causes.personal_data else numbers.minimum):
        return "declined/below_minimum", "", ("score", "minimum")
    if causes.amount == "huge":
        return "cannot_be_done/beyond_authority", "", ("amount", "limit")
    office = "CFO" if causes.amount in ("large", "larger") else "Head"
    return "completed/all_checks_passed", office, ("status", "decided_by", "score")


def test_the_house_rulebook_has_the_endings_of_version_3_on_1000_tasks() -> None:
    endings: Counter[str] = Counter()
    for causes, streams in drawn(1000):
        found = of_ruling(RULES.ruling(replace(causes, rulebook="house"), streams))
        assert found == version_3(causes, streams), streams.key
        endings[found[0]] += 1
    assert len(endings) == 6


# -- judges and facts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("split", SPLITS)
def test_a_second_judge_comes_to_the_same_ending(split: str) -> None:
    for causes, streams in drawn(200, split):
        book, answer = RULES.book(causes, streams), RULES.answers(causes, streams)
        assert eager.judge(book, answer) == RULES.ruling(causes, streams).ending, streams.key


@pytest.mark.parametrize("split", SPLITS)
def test_facts_from_causes_lead_to_the_same_rulings_as_facts_from_records(split: str) -> None:
    for seed in range(60):
        env = make(NAME, seed=seed, split=split)
        world, case, causes = env.setting.world, env.setting.case, env.setting.causes
        book = RULES.book(causes, Streams(case.draws))
        recorded = answered(decide(book, COSTS), recorded_answers(world, case))
        assert env.setting.ending.ruling is not None
        assert recorded.ending == env.setting.ending.ruling.ending, env.task_id
        assert recorded.asked == env.setting.ending.ruling.asked


# -- clause twins ------------------------------------------------------------------------------------------------------


def test_clause_twins_look_alike_and_the_expert_wins_both() -> None:
    pairs, slots = 0, set()
    for seed in range(36):
        env = make(NAME, seed=seed, chaos=(0.0, 0.5, 1.0)[seed % 3], split=SPLITS[seed % 3])
        first = env.reset()
        twins = twins_with_other_ending(env.task_id, Rule)
        if twins:
            assert not unread_rules(solve(env)), env.task_id
        for slot, twin_id in twins:
            twin = make(twin_id)
            assert twin.reset() == first, twin_id
            assert not unread_rules(solve(twin)), twin_id
            pairs += 1
            slots.add(slot)
    assert pairs >= 200
    assert len(slots) >= 20


def test_a_clause_twin_changes_nothing_but_papers_and_what_their_owner_explains() -> None:
    for seed in range(8):
        env = make(NAME, seed=seed)
        for _, twin_id in twins_with_other_ending(env.task_id, Rule):
            world, other = env.setting.world, make(twin_id).setting.world
            for kind in world.kinds():
                if kind not in (Policy, Mind):
                    assert world.own(kind) == other.own(kind), (twin_id, kind)


def test_a_held_out_variant_belongs_to_test_tasks_alone() -> None:
    assert make(str(do("vendor_onboarding-v4-test-3-0", score_then="cfo"))).setting.causes.score_then == "cfo"  # type: ignore[attr-defined]
    with pytest.raises(BadTask, match="score_then cannot be 'cfo'; valid: declined, hold, compliance"):
        do(CALM, score_then="cfo")
    held_out = {slot.name: slot.held_out for slot in RULES.slots() if slot.held_out}
    for causes, _ in drawn(300):
        assert all(getattr(causes, name) not in values for name, values in held_out.items())
        assert RULES.is_known(RULES.variants(causes))
    strata = Counter(RULES.design.stratum(RULES.variants(causes)) for causes, _ in drawn(300, "test"))
    assert set(strata) == {"known", "combination", "clause", "wording"}
    assert min(strata.values()) > 40


def test_most_tasks_hang_on_a_rule_and_no_ending_is_frequent() -> None:
    endings: Counter[str] = Counter()
    differ = 0
    for causes, streams in drawn(300):
        found = of_ruling(RULES.ruling(causes, streams))
        endings["/".join(found[:2])] += 1
        differ += found != version_3(causes, streams)
    assert max(endings.values()) < 0.3 * 300
    assert differ > 0.7 * 300


# -- papers ------------------------------------------------------------------------------------------------------------


def test_papers_are_short_and_say_the_rulebook() -> None:
    for seed in range(40):
        env = make(NAME, seed=seed, split=SPLITS[seed % 3])
        world, case = env.setting.world, env.setting.case
        papers = [policy for policy in world.all(Policy) if policy.id in case.papers]
        assert all(len(policy.text.split()) <= MAX_WORDS for policy in papers)
        explained = world.get(Mind, case.roles["policy_owner"]).explains.get(case.ticket_id, "")
        said = RULES.language.read([*(paper.text for paper in papers if paper.status == "in force"), explained])
        assert said.rules == RULES.book(env.setting.causes, Streams(case.draws)).rules, env.task_id


def test_a_new_version_of_the_figures_keeps_their_order() -> None:
    for seed in range(40):
        env = make(do(str(TaskId(NAME, "train", seed, "0")), drift=True))
        policy = env.setting.case.roles["policy"]
        for _ in range(3):
            env.step(Call("ticketdesk", "wait", {"hours": 24}))
        versions = [one for one in env.world.all(Policy) if one.title == env.world.get(Policy, policy).title]
        newest = max(versions, key=lambda one: one.since)
        old = env.world.get(Policy, policy).terms
        assert newest.id != policy
        assert sorted(old, key=old.__getitem__) == sorted(newest.terms, key=newest.terms.__getitem__)
        read = {piece.limit: piece.number for piece in RULES.language.pieces_in(newest.text) if isinstance(piece, Limit)}
        assert read == {"minimum": newest.terms["minimum"]}


def test_the_words_of_a_task_do_not_change_its_ending() -> None:
    for seed in range(20):
        env = make(NAME, seed=seed, split="test")
        causes = env.setting.causes
        other = make(do(env.task_id, wording="known" if causes.wording == "new" else "new"))
        assert other.setting.ending.ruling == env.setting.ending.ruling


# -- approvers ---------------------------------------------------------------------------------------------------------


def asked(env: CompanyEnv, form: str, role: str) -> tuple[str, str]:
    """Let the expert prepare the ticket, ask another office to sign, and return status and code of the decision."""
    solved = env.fork()
    run_expert(solved)
    submit = next((turn.call for turn in solved.turns if turn.call.method == "submit_approval"), None)
    for turn in solved.turns:
        if turn.call.method in ("submit_approval", "resolve_ticket") or turn.call.params.get("field") == "escalated_to":
            break
        env.step(turn.call)
    assert submit is not None
    data = {**submit.params["data"]}
    call = Call("approvalflow", "submit_approval", {"approval_type": form, "approver": role, "data": data})
    env.step(call)
    request = env.turns[-1].reply.data["id"]
    for _ in range(3):
        env.step(Call("ticketdesk", "wait", {"hours": 24}))
    env.step(Call("approvalflow", "check_status", {"approval_id": request}))
    shown = env.turns[-1].reply.data
    return shown["status"], shown["code"]


def test_an_office_that_the_rules_do_not_name_signs_nevertheless_and_the_task_is_lost() -> None:
    env = fine()
    roles = env.setting.case.roles
    assert asked(env, FORM, roles["procurement"]) == ("approved", "signed")
    assert env.lost() is not None
    env = fine()
    assert asked(env, FORM, roles["head"]) == ("approved", "signed")
    assert env.lost() is None
    env = fine()
    assert asked(env, FORM, roles["head_deputy"]) == ("rejected", "not_mine")


def test_no_form_tells_approvers_the_minimum() -> None:
    for form in (FORM, SECOND_FORM):
        assert not make(CALM).world.get(ApprovalType, form).policy


# -- who does not read -------------------------------------------------------------------------------------------------


def test_an_agent_that_goes_by_the_house_rulebook_wins_seldom_and_hardly_ever_both_tasks_of_a_clause_pair() -> None:
    for agent in (house_rules, house_numbers):
        won, pairs, both = 0, 0, 0
        for seed in range(40):
            env = play(make(NAME, seed=seed, chaos=0.5), agent(seed))
            won += bool(env.success)
            twins = twins_with_other_ending(env.task_id, Rule) if seed % 4 == 0 else ()
            pairs += len(twins)
            if env.success:
                both += sum(bool(play(make(twin_id), agent(seed)).success) for _, twin_id in twins)
        assert won <= 0.3 * 40
        assert both <= 0.03 * pairs
    home = make(do(CALM, rulebook="house"))
    assert play(home, house_numbers(0)).success


def test_the_family_declares_its_rules() -> None:
    assert family(NAME).rules is RULES
    assert {cause.name for cause in FAMILY.specs() if isinstance(cause.annotation, Rule)} == {s.name for s in RULES.slots()}
