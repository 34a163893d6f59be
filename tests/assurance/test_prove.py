"""A proof shows that the expert solves a task and uses only what the agent is told."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from companyos.assurance import prove as proof
from companyos.assurance.prove import first_difference, first_irreversible, prove, untold
from companyos.core.calls import Call, Reply
from companyos.core.episode import Turn
from companyos.core.errors import Unsolvable
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import FAMILIES, ExpertStyle
from tests.helpers import FAMILY, form, role, staged, step, task_id, ticket

NOWHERE = 987_654_321  # a number that no company contains


def episode(*said: tuple[Call, Any]) -> CompanyEnv:
    """Return an episode of these calls with the data of their replies. The brief names one ticket and no other id."""
    env = staged()
    env.turns = [_turn(call, Reply(True, "ok", data)) for call, data in said]
    return env


def _turn(call: Call, reply: Reply, actor: str = "") -> Turn:
    return Turn(call, reply, "", 0.0, {}, "", actor=actor)


def call(tool: str, **params: Any) -> Call:
    app, method = tool.split(".")
    return Call(app, method, params)


def looked_up(record: str) -> Call:
    return call("datahub.get_entry", entry_id=record)


def heard(data: Any, then: Call) -> Any:
    """Return the value of a call that `untold` reports after a reply with this data, or None."""
    found = untold(episode((call("ticketdesk.list_tickets"), data), (then, None)))
    assert found is None or found[0] == then
    return found and found[1]


# -- told values -------------------------------------------------------------------------------------------------------


def test_the_ticket_of_the_brief_may_be_used() -> None:
    env = staged()
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    assert untold(env) is None


@pytest.mark.parametrize(
    "data",
    [
        {"id": "E-1234"},
        {"rows": [{"entry": "E-1234"}]},
        {"text": "It is filed as E-1234."},
        {"text": "See (E-1234), please: E-99."},
        {"E-1234": "the key of a table"},
    ],
)
def test_an_id_that_an_earlier_reply_contained_may_be_used(data: Any) -> None:
    assert heard(data, looked_up("E-1234")) is None


@pytest.mark.parametrize("told", [4500, {"amount": 4500}, ["4500"], "It costs 4500 EUR.", "It costs 4500."])
def test_a_number_that_an_earlier_reply_contained_may_be_used(told: Any) -> None:
    assert heard([told, "approval_type vendor @a.b amount"], submitted(amount=4500)) is None


def submitted(**data: Any) -> Call:
    return call("approvalflow.submit_approval", approval_type="vendor", approver="@a.b", data=data)


# -- guesses -----------------------------------------------------------------------------------------------------------


def test_a_guessed_number_is_caught() -> None:
    assert heard("amount vendor @a.b 4500", submitted(amount=4501)) == 4501


def test_a_guessed_id_is_caught() -> None:
    assert heard("E-1234", looked_up("E-1235")) == "E-1235"


def test_a_guessed_name_of_a_field_is_caught() -> None:
    assert heard("vendor @a.b 4500", submitted(amount=4500)) == "amount"


@pytest.mark.parametrize(
    ("told", "fragment"),
    [
        ("E-1234", "E-12"),
        ("E-1234", "1234"),
        ("E-1234", "E"),
        ("E-1234-7", "E-1234"),
        ("WE-1234", "E-1234"),
        ("@dana.reyes", "dana"),
        ("@dana.reyes", "reyes"),
        ("@dana.reyes", "dana.reyes"),
        ("compliance_score.acme_ltd", "compliance_score"),
        ("compliance_score.acme_ltd", "acme_ltd"),
        ("compliance_score.acme_ltd", "acme"),
        ("It costs 4500 EUR", "450"),
        ("It costs 4500 EUR", "500"),
        ("It costs 12.50 EUR", "12"),
        ("It costs 12.50 EUR", "50"),
        ("It costs 4,500 EUR", "500"),
        ("since 2026-03-17", "2026"),
        ("since 2026-03-17", "17"),
        ("at 09:30", "30"),
        ("at 09:30", "09"),
    ],
)
def test_a_fragment_of_a_told_value_is_a_guess(told: str, fragment: str) -> None:
    for data in (told, {"note": told}, [{"text": f"We know: {told}."}]):
        assert heard(data, looked_up(fragment)) == fragment
        assert heard(data, looked_up(told)) is None


def test_a_value_from_the_reply_to_a_call_is_a_guess_in_that_same_call() -> None:
    env = episode((looked_up("E-1234"), {"id": "E-1234"}))
    assert untold(env) == (looked_up("E-1234"), "E-1234")


def test_replies_and_calls_of_another_actor_do_not_count() -> None:
    env = staged()
    elsewhere = _turn(looked_up("E-77"), Reply(True, "ok", {"id": "E-1234"}), actor="@a.b")
    env.turns = [elsewhere, _turn(looked_up("E-1234"), Reply(True, "ok", None))]
    assert untold(env) == (looked_up("E-1234"), "E-1234")


def test_the_first_guess_is_reported() -> None:
    env = episode((looked_up("E-1"), None), (looked_up("E-2"), None))
    assert untold(env) == (looked_up("E-1"), "E-1")


def test_values_in_a_refusal_may_be_used() -> None:
    env = staged()
    refusal = Reply(False, "unknown_record", None, "there is no E-1; did you mean E-12?")
    env.turns = [_turn(call("datahub.list_metrics"), refusal), _turn(looked_up("E-12"), Reply(True, "ok", None))]
    assert untold(env) is None


def test_choices_of_the_schema_may_be_used_and_others_are_guesses() -> None:
    env = staged()
    update = {"ticket_id": ticket(env).id, "field": "priority"}
    for value, guess in (("high", None), ("highest_of_all", "highest_of_all")):
        one = call("ticketdesk.update_ticket", **update, value=value)
        env.turns = [_turn(one, Reply(True, "ok", None))]
        found = untold(env)
        assert (found and found[1]) == guess


def test_the_agent_may_choose_hours_and_pages() -> None:
    assert heard(None, call("ticketdesk.wait", hours=37)) is None
    assert heard(None, call("ticketdesk.list_tickets", page=9, status="")) is None


def test_ids_and_numbers_in_prose_must_have_been_told_and_words_need_not() -> None:
    env = staged()
    for text, guess in (
        ("Declined, as the owner of the firm asked.", None),
        (f"As {ticket(env).id} says.", None),
        ("As E-4711 says.", "E-4711"),
        ("It costs 4711.", "4711"),
        ("Ask @no.body about it.", "@no.body"),
    ):
        env.turns = [_turn(call("ticketdesk.comment", ticket_id=ticket(env).id, text=text), Reply(True, "ok", None))]
        found = untold(env)
        assert (found and found[1]) == guess


def test_a_guess_deep_in_a_structure_is_caught() -> None:
    env = staged()
    cited = {"record": ticket(env).id, "field": "amount", "value": NOWHERE}
    closing = call(
        "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, resolution="declined", reason="no_budget", evidence=[cited]
    )
    told = _turn(call("ticketdesk.list_tickets"), Reply(True, "ok", "amount"))
    env.turns = [told, _turn(closing, Reply(True, "ok", None))]
    assert untold(env) == (closing, NOWHERE)


def test_a_call_of_a_tool_that_is_not_offered_is_ignored() -> None:
    assert heard(None, call("ticketdesk.no_such_tool", record="E-1")) is None


# -- proofs ------------------------------------------------------------------------------------------------------------


def test_a_win_by_a_guess_is_not_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def guessing(env: CompanyEnv, style: ExpertStyle | None = None) -> None:
        step(env, "datahub.get_entry", entry_id="E-999999")
        run_expert(env, style)

    monkeypatch.setattr(proof, "run_expert", guessing)
    with pytest.raises(Unsolvable, match=r"used 'E-999999' in datahub\.get_entry, which it had not been told"):
        prove(task_id())


def test_a_proof_has_the_experts_steps_and_the_ending() -> None:
    env = make(task_id(), reward="sparse")
    run_expert(env)
    assert env.success
    assert prove(task_id()) == proof.Proof(task_id(), env.step_count, env.setting.ending.name)


def guesses_in(turn: Turn) -> Iterator[tuple[Turn, str]]:
    """Yield the turn with one argument or one form value replaced by a part of it or by a neighbouring number."""
    for name, value in turn.call.params.items():
        for wrong in _near(value):
            yield replace(turn, call=replace(turn.call, params=turn.call.params | {name: wrong})), str(wrong)
        if isinstance(value, dict):
            for field, item in value.items():
                for wrong in _near(item):
                    params = turn.call.params | {name: value | {field: wrong}}
                    yield replace(turn, call=replace(turn.call, params=params)), str(wrong)


def _near(value: Any) -> Iterator[Any]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield from (value + NOWHERE, int(f"{value}0"))
    elif isinstance(value, str) and re.fullmatch(r"[A-Z]+-\d+", value):
        yield from (value[:-1], f"{value}1", value.partition("-")[2])
    elif isinstance(value, str) and value.startswith("@"):
        yield from (value[1:], f"{value}s")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_guess_in_any_value_of_an_experts_calls_is_caught(name: str) -> None:
    env, caught = make(name, seed=1, chaos=0.5, reward="sparse"), 0
    run_expert(env)
    turns = list(env.turns)
    assert untold(env) is None
    for number, turn in enumerate(turns[:60]):
        texts = " ".join(str(earlier.reply) for earlier in turns[:number]) + env.setting.case.brief
        tokens = set(re.findall(r"[^\s,;:()\"'\[\]{}=]+", texts))
        for wrong, guess in guesses_in(turn):
            bounded = turn.call.method in ("wait",) or "page" in turn.call.params
            if bounded or {guess, f"{guess}."} & tokens:
                continue  # chosen by the agent, or also told as a whole value
            env.turns = [*turns[:number], wrong]
            found = untold(env)
            assert found is not None, (turn.call, guess)
            caught += 1
    assert caught > 10


# -- first differences -------------------------------------------------------------------------------------------------


def test_the_first_difference_is_the_first_turn_with_another_call_or_reply() -> None:
    one, other = looked_up("E-1"), looked_up("E-2")
    same, told = _turn(one, Reply(True, "ok", 1)), _turn(one, Reply(True, "ok", 2))
    assert first_difference([same, same], [same, same]) == 2
    assert first_difference([same, same], [same, told]) == 1
    assert first_difference([same, _turn(other, Reply(True, "ok", 1))], [same, same]) == 1
    assert first_difference([same], [same, same]) == 1
    assert first_difference([], [same]) == 0


def test_closing_the_ticket_and_requesting_a_signature_are_irreversible() -> None:
    env = staged()
    step(env, "ticketdesk.get_ticket", ticket_id=ticket(env).id)
    assert first_irreversible(env.turns, ticket(env).id) == 1
    step(env, "approvalflow.submit_approval", approval_type=FAMILY, approver=role(env, "head"), data=form(env))
    step(env, "ticketdesk.wait", hours=1)
    assert first_irreversible(env.turns, ticket(env).id) == 1
    assert first_irreversible(env.turns, "T-1") == 3
