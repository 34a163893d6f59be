"""Handbook update: which document takes precedence, what only the requester knows, and two signatures in order."""

from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.company import Approval, Comment, Entry, Metric, Person, Policy, Ticket
from companyos.core.calls import Reply
from companyos.core.world import DAY
from companyos.env import CompanyEnv, make, run_expert
from companyos.families.kit.case import Value
from tests.families.helpers import ending, missed, staged_by, worked
from tests.helpers import answered, me, role, say, set_field, ticket, verify

FAMILY = "handbook_update"
# A case without problems, which the HR Lead signs alone.
CALM: dict[str, Value] = {
    "duplicate": False,
    "foreign": False,
    "law": False,
    "proposed": "low",
    "governs": "board",
    "unread": False,
    "notice": "long",
    "binding": False,
}
SEEDS = range(60)
APPROVED = ("approved", "signed")


staged = staged_by(FAMILY, CALM)


def ready(**causes: Value) -> CompanyEnv:
    """Return an episode in which the ticket is verified and the requester has answered."""
    env = staged(**causes)
    verify(env)
    ask_requester(env)
    return env


def ask_requester(env: CompanyEnv) -> str:
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="From when?", to=role(env, "requester")).ok
    env.world.advance(5 * DAY)
    return next(c.facts["effective"] for c in env.world.all(Comment) if "effective" in c.facts)


def proposed(env: CompanyEnv) -> str:
    return env.world.get(Entry, role(env, "proposal")).details["proposed"]


def submit(env: CompanyEnv, form: str, approver: str, **changes: Any) -> str:
    """Submit a right request with these changes, where None leaves a field out. Return its id."""
    case = ticket(env)
    right: dict[str, Any] = {"ticket_id": case.id, "subject": case.subject, "reference": case.reference}
    right["proposed"] = proposed(env)
    if form == FAMILY:
        right["readers"] = env.world.get(Metric, role(env, "readers")).value
        stated = [c.facts["effective"] for c in env.world.all(Comment) if "effective" in c.facts]
        right["effective"] = stated[0] if stated else "2026-12-24"
    data = {field: value for field, value in (right | changes).items() if value is not None}
    reply = say(env, "approvalflow.submit_approval", approval_type=form, approver=role(env, approver), data=data)
    assert reply.ok, reply
    return str(reply.data["id"])


def decision(env: CompanyEnv, form: str, approver: str, **changes: Any) -> tuple[str, str]:
    request = answered(env, submit(env, form, approver, **changes))
    return request.status, request.code


def reviewed(env: CompanyEnv, approver: str = "counsel") -> str:
    """Get a legal review approved and return its id."""
    request = answered(env, submit(env, "legal_review", approver))
    assert (request.status, request.code) == APPROVED, request
    return request.id


# -- which ending ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ({}, "completed/all_checks_passed"),
        ({"binding": True}, "completed/all_checks_passed"),
        ({"notice": "fair"}, "completed/all_checks_passed"),
        ({"notice": "fair", "binding": True}, "declined/too_late"),
        ({"notice": "short"}, "declined/too_late"),
        ({"unread": True, "notice": "short"}, "on_hold/below_minimum"),
        ({"proposed": "same", "unread": True}, "declined/already_done"),
        ({"foreign": True, "proposed": "same"}, "escalated/beyond_authority"),
        ({"duplicate": True, "foreign": True}, "duplicate/same_request"),
    ],
)
def test_the_first_check_that_applies_decides(causes: dict[str, Value], expected: str) -> None:
    env = staged(**causes)
    assert ending(env) == expected
    run_expert(env)
    assert env.success


def test_a_contractual_section_is_decided_by_two_offices() -> None:
    deciders = {staged(binding=contractual).setting.ending.decider for contractual in (False, True)}
    assert deciders == {"HR Lead", "Legal Counsel and HR Lead"}


def test_a_foreign_section_goes_to_the_owners_head_and_not_to_the_requesters() -> None:
    env = staged(foreign=True)
    owner = env.world.get(Entry, role(env, "entry")).details["owner"]
    head = env.world.get(Person, role(env, "owner_head"))
    assert head.role == f"Head of {owner}"
    assert owner != env.world.get(Person, role(env, "requester")).department
    rest, last = worked(env)
    own_head = next(p for p in rest.world.all(Person) if p.role == f"Head of {_department(rest)}")
    assert set_field(rest, "escalated_to", own_head.id).ok
    assert missed(rest, last) == ["TicketIs:escalated_to"]


def _department(env: CompanyEnv) -> str:
    return env.world.get(Person, role(env, "requester")).department


def test_what_is_on_hold_waits_for_the_steward_and_what_is_declined_for_the_requester() -> None:
    for causes, waits_on, wrong in (
        ({"unread": True}, "steward", "requester"),
        ({"proposed": "same"}, "requester", "steward"),
        ({"notice": "short"}, "requester", "steward"),
    ):
        rest, last = worked(staged(**causes))
        assert ticket(rest).waiting_on == role(rest, waits_on)
        assert set_field(rest, "waiting_on", role(rest, wrong)).ok
        assert missed(rest, last) == ["TicketIs:waiting_on"]


# -- documents against documents ---------------------------------------------------------------------------------------


def _governing(env: CompanyEnv) -> Policy:
    """Return the document that takes precedence, computed from the records without the code under test."""
    topic = env.world.get(Entry, role(env, "entry")).details["topic"]
    found = [p for p in env.world.all(Policy) if any(term.endswith("_" + topic) for term in p.terms)]
    assert len(found) >= 4
    standing = [p for p in found if p.status == "in force"]
    return sorted(standing, key=lambda p: (len(p.terms) == 1, p.since))[-1]


def _forbidden(document: Policy, topic: str, value: int) -> bool:
    if f"most_{topic}" in document.terms:
        return value > document.terms[f"most_{topic}"]
    return value < document.terms[f"least_{topic}"]


def test_a_change_is_declined_exactly_where_the_governing_document_forbids_it() -> None:
    seen = set()
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        causes, document = env.setting.causes, _governing(env)
        assert document.id == role(env, causes.governs)
        if causes.duplicate or causes.foreign or causes.law or causes.proposed == "same":
            continue
        topic = env.world.get(Entry, role(env, "entry")).details["topic"]
        forbidden = _forbidden(document, topic, int(proposed(env)))
        assert (ending(env) == "declined/contradicts_policy") == forbidden, env.task_id
        seen.add((causes.governs, forbidden))
    assert len(seen) == 6


def test_neither_the_latest_document_nor_the_general_one_nor_the_strictest_always_decides() -> None:
    """Each simple rule picks the wrong document in a considerable share of tasks."""
    wrong = {"latest": 0, "general": 0, "strictest": 0, "latest special": 0}
    for seed in SEEDS:
        env = make(FAMILY, seed=seed)
        governs = role(env, env.setting.causes.governs)
        documents = [env.world.get(Policy, role(env, name)) for name in ("general", "board", "council")]
        limit = next(iter(documents[1].terms))
        strictest = (min if limit.startswith("most") else max)(documents, key=lambda p: p.terms[limit])
        wrong["latest"] += max(documents, key=lambda p: p.since).id != governs
        wrong["general"] += documents[0].id != governs
        wrong["strictest"] += strictest.id != governs
        wrong["latest special"] += max(documents[1:], key=lambda p: p.since).id != governs
    assert min(wrong.values()) >= 0.3 * len(SEEDS), wrong


def test_a_value_right_on_the_limit_is_allowed() -> None:
    on_the_limit = 0
    for seed in range(200):
        env = make(FAMILY, seed=seed)
        document = _governing(env)
        topic = env.world.get(Entry, role(env, "entry")).details["topic"]
        term = next(term for term in document.terms if term.endswith("_" + topic))
        if document.terms[term] == int(proposed(env)):
            on_the_limit += 1
            assert ending(env) != "declined/contradicts_policy"
    assert on_the_limit >= 10


def test_citing_another_documents_limit_is_not_enough() -> None:
    for causes in ({}, {"proposed": "high"}):
        rest, last = worked(staged(**causes))
        governs = role(rest, "board")
        cited = [dict(fact) for fact in last.params["evidence"]]
        assert any(fact["record"] == governs for fact in cited)
        other = rest.world.get(Policy, role(rest, "council"))
        for fact in cited:
            if fact["record"] == governs:
                fact |= {"record": other.id, "value": other.terms[fact["field"]]}
        assert missed(rest, last, evidence=cited) == ["Cites", "CitesNoOther"]


def test_a_withdrawn_proposal_does_not_count() -> None:
    env = ready()
    drafts = [e for e in env.world.all(Entry) if e.reference.startswith(f"{ticket(env).reference}/")]
    assert sorted(e.status for e in drafts) == ["submitted", "withdrawn"]
    withdrawn = next(e for e in drafts if e.status == "withdrawn")
    assert set_field(env, "verified", withdrawn.id).code == "no_match"
    if withdrawn.details["proposed"] == proposed(env):
        pytest.fail("the calm seed's withdrawn proposal is the same as the submitted one: choose another")
    assert decision(env, FAMILY, "lead", proposed=withdrawn.details["proposed"]) == ("rejected", "mismatch")


def test_a_section_for_which_nothing_is_submitted_is_not_signed_for() -> None:
    env = staged()
    other = env.world.get(Ticket, role(env, "decoy"))
    section = next(e for e in env.world.all(Entry) if e.reference == other.reference)
    assert set_field(env, "verified", section.id, other.id).ok
    about = {"ticket_id": other.id, "subject": other.subject, "reference": other.reference}
    readers = env.world.get(Metric, section.details["readers_metric"])
    env.world.put(replace(readers, value=100))
    assert decision(env, FAMILY, "lead", **about, readers=100) == ("rejected", "mismatch")


# -- what only the requester knows -------------------------------------------------------------------------------------


def test_the_date_stands_nowhere_until_the_requester_is_asked() -> None:
    env = staged()
    known = env.world.fork()
    effective = ask_requester(env)
    shown = [repr(record) for kind in known.kinds() if not kind.hidden for record in known.all(kind)]
    assert not any(effective in text for text in shown)


@pytest.mark.parametrize("contractual", [False, True])
@pytest.mark.parametrize("notice", ["short", "fair", "long"])
def test_the_date_lies_on_its_side_of_the_limits(notice: str, contractual: bool) -> None:
    env = staged(notice=notice, binding=contractual)
    terms = env.world.get(Policy, role(env, "notice")).terms
    opened = say(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id).data["opened"][:10]
    days = (date.fromisoformat(ask_requester(env)) - date.fromisoformat(opened)).days
    least = terms["notice_days_contractual" if contractual else "notice_days"]
    assert (days < least) == (ending(env) == "declined/too_late")


def test_what_the_analyst_says_in_the_requesters_place_does_not_count() -> None:
    env = staged()
    verify(env)
    stated = {"effective": "2027-05-01"}
    assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="From May.", facts=stated).ok
    assert decision(env, FAMILY, "lead", effective="2027-05-01") == ("rejected", "not_stated")


def test_another_date_than_the_requesters_is_rejected_and_theirs_is_signed() -> None:
    env = ready()
    assert decision(env, FAMILY, "lead", effective="2026-01-01") == ("rejected", "not_stated")
    assert decision(env, FAMILY, "lead") == APPROVED


def test_the_requesters_answer_is_found_behind_many_others() -> None:
    env = ready()
    for _ in range(25):
        assert say(env, "ticketdesk.comment", ticket_id=ticket(env).id, text="Note to the file.").ok
    assert decision(env, FAMILY, "lead") == APPROVED


# -- two signatures in order -------------------------------------------------------------------------------------------


def test_a_contractual_section_is_not_signed_without_a_review() -> None:
    env = ready(binding=True)
    assert decision(env, FAMILY, "lead") == ("rejected", "not_reviewed")


def test_a_pending_review_does_not_count() -> None:
    env = ready(binding=True, counsel_away=True)
    pending = submit(env, "legal_review", "counsel")
    assert decision(env, FAMILY, "lead", legal_review=pending) == ("rejected", "not_reviewed")
    assert env.world.get(Approval, pending).status == "pending"


def test_a_rejected_review_does_not_count() -> None:
    env = ready(binding=True)
    wrong = submit(env, "legal_review", "counsel", proposed="77")
    assert (answered(env, wrong).code, decision(env, FAMILY, "lead", legal_review=wrong)[1]) == ("mismatch", "not_reviewed")


def test_with_the_review_the_hr_lead_signs() -> None:
    env = ready(binding=True)
    assert decision(env, FAMILY, "lead", legal_review=reviewed(env)) == APPROVED


def test_legal_reviews_no_ordinary_section() -> None:
    env = ready()
    assert decision(env, "legal_review", "counsel") == ("rejected", "not_needed")


def test_neither_office_signs_for_the_other() -> None:
    env = ready(binding=True)
    assert decision(env, "legal_review", "lead") == ("rejected", "not_mine")
    review = reviewed(env)
    assert decision(env, FAMILY, "counsel", legal_review=review) == ("rejected", "not_mine")


def test_legal_reviews_only_tickets_about_the_handbook() -> None:
    env = ready(binding=True)
    assert decision(env, "legal_review", "counsel", ticket_id=role(env, "blocker")) == ("rejected", "wrong_ticket")


@pytest.mark.parametrize(
    ("causes", "counsel", "lead"),
    [
        ({"lead_away": True}, "counsel", "lead_deputy"),
        ({"counsel_away": True}, "counsel_deputy", "lead"),
        ({"counsel_away": True, "counsel_deputy_away": True}, "counsel_third", "lead"),
        ({"lead_away": True, "lead_deputy_away": True}, "counsel", "lead_third"),
    ],
)
def test_the_delegate_signs(causes: dict[str, Value], counsel: str, lead: str) -> None:
    env = ready(binding=True, **causes)
    assert decision(env, FAMILY, lead, legal_review=reviewed(env, counsel)) == APPROVED


def test_a_superiors_wish_is_met_on_both_forms() -> None:
    env = staged(binding=True, objection="superior", lead_away=True, counsel_away=True, counsel_deputy_away=True)
    run_expert(env)
    assert env.success
    signed = [a for a in env.world.all(Approval) if a.status == "approved"]
    assert [a.type for a in signed] == ["legal_review", FAMILY]
    assert {env.world.get(Person, str(a.decided_by)).role for a in signed} == {"CEO"}


def test_linking_the_review_instead_of_the_update_is_wrong() -> None:
    rest, last = worked(staged(binding=True))
    review = next(a for a in rest.world.all(Approval) if a.type == "legal_review")
    assert set_field(rest, "approval", review.id).ok
    assert missed(rest, last) == ["SignedFor"]


def test_a_review_that_was_got_where_none_was_needed_cannot_be_put_back() -> None:
    env = ready(binding=True, notice="short")
    reviewed(env)
    assert env.lost() == "damage"


def test_where_this_work_is_not_staged_the_plain_form_is_decided_as_ever() -> None:
    env = make("vendor_onboarding", seed=7)
    case = next(t for t in env.world.all(Ticket) if t.kind == FAMILY and t.status == "open")
    data = {"ticket_id": case.id, "subject": case.subject, "amount": case.amount}
    lead = next(p for p in env.world.all(Person) if p.role == "HR Lead")
    env.world.put_at_start(replace(lead, limit=case.amount))
    asked = say(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=lead.id, data=data)
    request = answered(env, asked.data["id"])
    assert (request.status, request.code) == APPROVED


# -- what the policies say ---------------------------------------------------------------------------------------------


def _search(env: CompanyEnv, query: str) -> Reply:
    return say(env, "datahub.search_policies", query=query)


def test_one_word_finds_the_rules_of_this_work_on_one_page_and_no_document() -> None:
    env = staged()
    found = _search(env, "handbook").data
    assert found["pages"] == 1
    assert all(row["title"].startswith("Handbook update: ") for row in found["rows"])
    in_force = [row["title"] for row in found["rows"] if row["status"] == "in force"]
    assert len(set(in_force)) == len(in_force) == found["total"] - 1


def test_the_topic_finds_every_document_on_it_and_no_rule() -> None:
    for seed in range(20):
        env = make(FAMILY, seed=seed)
        topic = env.world.get(Entry, role(env, "entry")).details["topic"]
        found = {row["id"] for row in _search(env, topic).data["rows"]}
        assert found == {p.id for p in env.world.all(Policy) if any(term.endswith("_" + topic) for term in p.terms)}


def test_every_policy_is_short_and_says_its_numbers() -> None:
    for seed in range(20):
        for policy in make(FAMILY, seed=seed).world.all(Policy):
            assert len(policy.text.split()) <= 80, policy.title
            assert all(str(value) in policy.text for value in policy.terms.values()), policy.title


def test_the_policies_name_every_way_to_end_and_every_office() -> None:
    env = staged()
    texts = " ".join(policy.text for policy in env.world.all(Policy) if policy.title.startswith("Handbook update"))
    for seed in SEEDS:
        right = make(FAMILY, seed=seed).setting.ending
        assert right.resolution in texts
        assert texts.count(right.reason) == 2  # when it applies, and what to cite
    for office in ("HR Lead", "Legal Counsel", "Head of Marketing", "Head of Operations", "Head of Research"):
        assert office in texts


def test_the_superseded_rule_would_let_other_figures_pass() -> None:
    env = staged()
    versions = [p for p in env.world.all(Policy) if p.title == "Handbook update: consultation"]
    assert sorted(p.status for p in versions) == ["in force", "superseded"]
    assert len({p.terms["minimum"] for p in versions}) == 2


def test_the_actor_sits_at_the_people_desk() -> None:
    env = staged()
    assert env.world.get(Person, me(env)).role == "HR Analyst"
    assert set_field(env, "priority", "high", role(env, "blocker")).code == "other_desk"
