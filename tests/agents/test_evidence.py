"""The evidence for a closing call has the facts that policy texts ask for, as far as they were read."""

from collections.abc import Mapping

from companyos.agents.choices.candidate_types import CandidateTypes
from companyos.agents.choices.evidence import evidence
from companyos.core.calls import Reply
from companyos.core.task import TaskId
from companyos.env import make
from companyos.env.knowledge import Knowledge
from companyos.train.tiny.starts import starts
from tests.helpers import FAMILY

TEXT = (
    "Cite what is so. same_request: the other ticket's reference and status. document_expired: the entry's insurance_until."
)
OWN = {"id": "T-1", "reference": "TAX-7", "status": "open"}
OTHER = {"id": "T-2", "reference": "TAX-7", "status": "in_progress"}
ENTRY = {"id": "E-1", "insurance_until": "2026-01-02", "owner": "@dana.reyes"}


def knowledge_of(*records: Mapping[str, object]) -> Knowledge:
    knowledge = Knowledge("Please finish T-1.")
    for record in records:
        knowledge.hear(Reply(True, "ok", record))
    return knowledge


def policy(text: str = TEXT) -> dict[str, object]:
    return {"id": "P-1", "title": "Evidence", "text": text}


def test_a_field_is_cited_from_the_kind_of_record_that_the_text_names() -> None:
    cited = evidence(knowledge_of(policy(), OWN, ENTRY), "T-1", "document_expired")
    assert cited == [{"record": "E-1", "field": "insurance_until", "value": "2026-01-02"}]


def test_the_other_ticket_is_not_the_ticket_itself() -> None:
    cited = evidence(knowledge_of(policy(), OTHER, OWN), "T-1", "same_request")
    assert [(citation["record"], citation["field"]) for citation in cited] == [("T-2", "reference"), ("T-2", "status")]


def test_nothing_is_cited_if_no_text_was_read_that_names_the_reason() -> None:
    assert evidence(knowledge_of(OWN, ENTRY), "T-1", "document_expired") == []
    assert evidence(knowledge_of(policy(), OWN, ENTRY), "T-1", "no_budget") == []


def test_facts_that_were_not_read_are_not_cited() -> None:
    assert evidence(knowledge_of(policy(), OWN), "T-1", "document_expired") == []


def test_among_several_records_the_one_that_the_text_describes_is_cited() -> None:
    text = "beyond_authority: the limit of the person who is CFO."
    people = [{"id": f"@a.{role.lower()}", "role": role, "limit": limit} for role, limit in (("CFO", 9), ("CEO", 99))]
    cited = evidence(knowledge_of(policy(text), OWN, *people), "T-1", "beyond_authority")
    assert cited == [{"record": "@a.cfo", "field": "limit", "value": 9}]


def test_of_two_terms_the_one_that_applied_is_cited() -> None:
    text = "below_minimum: the policy's minimum or minimum_personal, whichever applied."
    rule = {"id": "P-2", "title": "Scores", "minimum": 60, "minimum_personal": 70}
    for data_class, term in (("standard", "minimum"), ("personal", "minimum_personal")):
        entry = ENTRY | {"data_class": data_class}
        knowledge = knowledge_of(policy(text), OWN | {"verified": "E-1"}, entry, rule)
        assert [citation["field"] for citation in evidence(knowledge, "T-1", "below_minimum")] == [term]


def test_after_the_experts_reading_the_evidence_is_right_in_most_tasks() -> None:
    won = 0
    for seed in range(40):
        (episode,) = starts(TaskId.parse(make(FAMILY, seed=seed, chaos=0.25).task_id), [0.0], CandidateTypes())
        right, board = episode.env.setting.ending, episode.board
        board.keep_to(right.resolution, right.reason)
        calls = [board.call(number) for number in range(len(board.candidates()[0]))]
        closing = next(call for call in calls if call.method == "resolve_ticket")
        episode.env.step(closing)
        won += bool(episode.env.success)
    assert won >= 34
