"""Tests of what an agent can know: the ids, facts and values that it was shown."""

import re

import pytest

from companyos.company import KINDS, Approval, ApprovalType, Entry, Message, Metric, Mind, Person, Policy, Source, Ticket
from companyos.core.calls import Reply
from companyos.env import make
from companyos.env.knowledge import Knowledge
from tests.helpers import played, role, say, staged, task_id, ticket


def heard(message: str = "", data: object = None) -> Knowledge:
    knowledge = Knowledge("")
    knowledge.hear(Reply(True, "ok", data, message))
    return knowledge


def test_a_brief_tells_its_ticket_and_nothing_else_with_an_id() -> None:
    for seed in range(20):
        env = make(task_id(seed))
        knowledge = Knowledge(env.reset().task)
        assert list(knowledge.known(Ticket)) == [ticket(env).id]
        assert set(knowledge.ids) == {Ticket}


def test_ids_in_prose_are_known_by_their_kind() -> None:
    knowledge = heard("T-10 waits for A-7, said @dana.reyes: see P-12, E-99 and compliance_score.acme_ltd (M-3).")
    assert list(knowledge.known(Ticket)) == ["T-10"]
    assert list(knowledge.known(Approval)) == ["A-7"]
    assert list(knowledge.known(Person)) == ["@dana.reyes"]
    assert list(knowledge.known(Policy)) == ["P-12"]
    assert list(knowledge.known(Entry)) == ["E-99"]
    assert list(knowledge.known(Metric)) == ["compliance_score.acme_ltd"]
    assert list(knowledge.known(Message)) == ["M-3"]


@pytest.mark.parametrize("text", ["XT-10", "T-10x", "IT-10", "T-10-2", "T10", "t-10", "@Dana.Reyes"])
def test_text_that_only_looks_like_an_id_is_not_an_id(text: str) -> None:
    assert not heard(text).ids


def test_ids_are_kept_in_the_order_told_and_once_each() -> None:
    knowledge = heard("T-3 T-1 T-2 T-1 T-3")
    assert list(knowledge.known(Ticket)) == ["T-3", "T-1", "T-2"]


def test_a_shown_record_tells_facts_field_by_field_and_the_last_word_counts() -> None:
    knowledge = heard(data={"rows": [{"id": "T-1", "amount": 5, "priority": None}]})
    assert knowledge.facts["T-1", "amount"] == 5
    assert knowledge.facts["T-1", "priority"] is None
    knowledge.hear(Reply(True, "ok", {"id": "T-1", "amount": 6}))
    assert knowledge.facts["T-1", "amount"] == 6


def test_values_are_known_however_deep_they_stand() -> None:
    knowledge = heard(data={"a": [{"b": {"c": "deep"}}, 7], "d": None})
    assert {"deep", "7", "a", "b", "c", "d"} <= set(knowledge.values)


def test_words_are_known_that_nothing_but_punctuation_separates() -> None:
    assert {"colour", "red", "blue", "5", "7"} <= set(heard("colour:red,blue;5 (7)").values)


def test_words_of_a_text_are_known_without_their_punctuation() -> None:
    assert {"Signed", "certificate", "IC-123"} <= set(heard("Signed. (field certificate), IC-123!").values)


@pytest.mark.parametrize("original_hears", [True, False])
def test_a_reply_to_one_side_of_a_fork_is_unknown_to_the_other(original_hears: bool) -> None:
    knowledge = heard("T-1", {"id": "T-1", "amount": 5})
    fork = knowledge.fork()
    hearing, silent = (knowledge, fork) if original_hears else (fork, knowledge)
    hearing.hear(Reply(True, "ok", {"id": "form", "required": ["what"], "optional": ["why"], "amount": 6}, "T-2 costs 7"))
    assert {"T-2", "7", "form"}.isdisjoint({*silent.values, *silent.known(Ticket), *silent.forms, *silent.attachments})
    assert ("form", "amount") not in silent.facts
    assert {"T-1", "T-2"} <= set(hearing.known(Ticket))


def test_forms_are_known_from_their_list() -> None:
    env = staged()
    knowledge = Knowledge("")
    knowledge.hear(say(env, "approvalflow.list_approval_types"))
    assert set(knowledge.known(ApprovalType)) == {kind.id for kind in env.world.all(ApprovalType)}


def test_a_record_of_one_kind_is_not_taken_for_another() -> None:
    env = staged()
    knowledge = Knowledge("")
    for tool, params in (
        ("ticketdesk.list_tickets", {}),
        ("ticketdesk.get_ticket", {"ticket_id": ticket(env).id}),
        ("datahub.list_metrics", {}),
        ("datahub.query_metric", {"metric_name": role(env, "score")}),
        ("datahub.describe_metric", {"metric_name": role(env, "score")}),
        ("datahub.get_person", {"person_id": role(env, "cfo")}),
        ("datahub.get_entry", {"entry_id": role(env, "entry")}),
        ("datahub.search_policies", {}),
        ("datahub.read_policy", {"policy_id": role(env, "policy")}),
        ("approvalflow.list_approval_types", {}),
        ("ticketdesk.read_inbox", {}),
    ):
        knowledge.hear(say(env, tool, actor=None, **params))
    for kind, ids in knowledge.ids.items():
        assert all(env.world.peek(kind, record_id) is not None for record_id in ids), kind


def test_nothing_hidden_is_ever_told() -> None:
    for agent in ("expert", "random"):
        env = played(agent, 5, chaos=1.0)
        knowledge = Knowledge(env.setting.case.brief)
        for turn in env.turns:
            knowledge.hear(turn.reply)
        assert not list(knowledge.known(Mind))
        assert not list(knowledge.known(Source))


def test_every_id_of_every_company_is_of_its_kind_and_of_no_other() -> None:
    named = [kind for kind in KINDS if kind.pattern]
    for seed in range(30):
        world = make(task_id(seed, "100")).world
        for kind in named:
            for record in world.all(kind):
                matched = [kind for kind in named if re.fullmatch(kind.pattern, record.id)]
                assert matched == [kind], record.id
