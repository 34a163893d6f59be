"""Tests of the parts that programs of calls share: silence, pages, absences and the end of a program."""

from collections.abc import Callable
from typing import Any

import pytest

from companyos.company import programs
from companyos.company.programs import Row, Subprogram
from companyos.core.calls import NO_ANSWER, OK, Call, Program, Reply, Working
from companyos.core.errors import Stuck
from companyos.families.kit import moves

SILENCE = Reply(False, NO_ANSWER)
LOOK = Call("datahub", "get_person", {"person_id": "@a.b"})


def says(data: Any) -> Reply:
    return Reply(True, OK, data)


def two_calls() -> Program:
    yield LOOK
    yield Call("ticketdesk", "wait", {"hours": 1})


def scripted(*replies: Reply) -> tuple[list[Call], Callable[[Call], Reply]]:
    """A list that collects the calls that are made, and a function that answers them in turn."""
    made: list[Call] = []
    rest = iter(replies)

    def make(call: Call) -> Reply:
        made.append(call)
        return next(rest)

    return made, make


def test_advance_starts_a_program_passes_replies_on_and_returns_none_at_its_end() -> None:
    program = two_calls()
    assert programs.advance(program, None) == LOOK
    assert programs.advance(program, says({})) == Call("ticketdesk", "wait", {"hours": 1})
    assert programs.advance(program, says({})) is None


def test_a_program_is_run_to_its_end_without_its_working_lines_and_its_result_is_returned() -> None:
    def program() -> moves.Move[int]:
        yield Working("1 < 2")
        reply = yield LOOK
        return int(reply.data)

    made, make = scripted(says(7))
    assert programs.run(program(), make) == 7
    assert made == [LOOK]


def test_a_call_is_repeated_until_an_answer_comes_even_if_that_is_a_refusal() -> None:
    refusal = Reply(False, "not_found")
    made, make = scripted(SILENCE, SILENCE, refusal)
    assert programs.run(programs.until_answered(LOOK), make) == refusal
    assert made == [LOOK] * 3


def test_a_steered_program_gets_the_replies_that_the_steering_function_returns() -> None:
    made, make = scripted(SILENCE, says({}), SILENCE, says({}))
    programs.run(programs.steered(two_calls(), programs.until_answered), make)
    assert [call.method for call in made] == ["get_person", "get_person", "wait", "wait"]


def test_a_program_that_gets_stuck_ends_there_and_other_errors_are_raised() -> None:
    def program(error: Exception) -> Program:
        yield LOOK
        raise error

    made, make = scripted(says({}), says({}))
    programs.run(programs.stop_when_stuck(program(Stuck("no way"))), make)
    with pytest.raises(ValueError, match="a bug"):
        programs.run(programs.stop_when_stuck(program(ValueError("a bug"))), make)
    assert made == [LOOK] * 2


def test_all_pages_of_a_list_are_read_in_order_and_a_list_without_pages_once() -> None:
    def show(page: int) -> Subprogram[Row]:
        shown: Row = (yield Call("ticketdesk", "list_tickets", {"page": page})).data
        return shown

    pages = [says({"rows": [{"id": page}], "pages": 3}) for page in (1, 2, 3)]
    made, make = scripted(*pages)
    assert programs.run(programs.all_rows(show), make) == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert [call.params["page"] for call in made] == [1, 2, 3]
    made, make = scripted(says({"rows": []}))
    assert programs.run(programs.all_rows(show), make) == []
    assert len(made) == 1


PEOPLE: dict[str, Row] = {
    "@a.a": {"id": "@a.a", "presence": "away", "delegate": "@b.b"},
    "@b.b": {"id": "@b.b", "presence": "away", "delegate": "@c.c"},
    "@c.c": {"id": "@c.c", "presence": "in", "delegate": "@d.d"},
    "@e.e": {"id": "@e.e", "presence": "away", "delegate": None},
}


def look_up(call: Call) -> Reply:
    return says(PEOPLE[call.params["person_id"]])


def test_the_signer_is_the_first_in_the_chain_of_delegates_who_is_in() -> None:
    chain = programs.run(programs.delegate_chain(PEOPLE["@a.a"], moves.delegate), look_up)
    assert [person["id"] for person in chain] == ["@a.a", "@b.b", "@c.c"]
    assert programs.run(moves.signer(PEOPLE["@a.a"]), look_up) == PEOPLE["@c.c"]


def test_an_absent_person_without_a_delegate_ends_the_chain_and_an_expert_is_stuck_there() -> None:
    assert programs.run(programs.delegate_chain(PEOPLE["@e.e"], moves.delegate), look_up) == [PEOPLE["@e.e"]]
    with pytest.raises(Stuck, match="no delegate"):
        programs.run(moves.signer(PEOPLE["@e.e"]), look_up)
