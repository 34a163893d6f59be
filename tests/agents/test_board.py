"""A board describes the replies in words that are the same for every task; its lazy updates lose nothing."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companyos.agents.choices.board import Board
from companyos.agents.choices.candidate_types import CandidateTypes
from companyos.agents.tiny import pick
from companyos.assurance.twins import twins_with_other_ending
from companyos.core.calls import Call
from companyos.env import CompanyEnv, make, run_expert
from companyos.families import SHORT_FAMILIES
from tests.helpers import FAMILY, STEADY

TYPES = CandidateTypes()


def contents(board: Board) -> tuple[list[int], list[int]]:
    """Return the features and the types of the candidates."""
    return sorted(board.features().tolist()), board.candidates()[0].tolist()


def board_after(env: CompanyEnv, calls: list[Call]) -> Board:
    """Return a board that has heard these calls and was never asked for its features on the way."""
    board = Board(env.reset(), TYPES)
    for call in calls:
        board.hear(call, env.step(call))
    return board


def wander(env: CompanyEnv, seed: int, steps: int) -> list[Call]:
    """Make random calls among the candidates, all tools equally likely. None closes the ticket."""
    draws = np.random.default_rng(seed)
    board, calls = Board(env.reset(), TYPES), list[Call]()
    while len(calls) < steps and not env.done:
        _, prior = board.candidates()
        call = board.call(int(pick(np.exp(prior), np.array([0]), draws.random(1))[0]))
        if call.method != "resolve_ticket":
            calls.append(call)
            board.hear(call, env.step(call))
    return calls


@STEADY
@given(st.sampled_from(SHORT_FAMILIES), st.integers(0, 500))
def test_reading_a_board_after_every_call_or_only_once_gives_the_same(name: str, seed: int) -> None:
    env = make(name, seed=seed, chaos=0.5)
    calls = wander(env, seed, 15)
    board = Board(env.reset(), TYPES)
    for number, call in enumerate(calls, 1):
        fork = board.fork()
        obs = env.step(call)
        board.hear(call, obs)
        fork.hear(call, obs)
        assert contents(board) == contents(fork) == contents(board_after(make(name, seed=seed, chaos=0.5), calls[:number]))


@STEADY
@given(st.integers(0, 500))
def test_boards_of_twins_are_equal_while_their_replies_are_equal(seed: int) -> None:
    env = make(FAMILY, seed=seed, chaos=0.25)
    run_expert(env)
    for _, twin_id in twins_with_other_ending(env.task_id)[:2]:
        original, twin = make(env.task_id), make(twin_id)
        boards = [Board(original.reset(), TYPES), Board(twin.reset(), TYPES)]
        for turn in env.turns:
            assert contents(boards[0]) == contents(boards[1])
            observations = [original.step(turn.call), twin.step(turn.call)]
            if observations[0].reply != observations[1].reply:
                break
            for board, obs in zip(boards, observations, strict=True):
                board.hear(turn.call, obs)


def test_a_fork_does_not_change_the_original() -> None:
    env = make(FAMILY, seed=3)
    board = board_after(env, wander(make(FAMILY, seed=3), 0, 6))
    before = contents(board)
    fork = board.fork()
    for call in wander(make(FAMILY, seed=3), 1, 6):
        fork.hear(call, env.step(call))
    assert contents(board) == before
    assert contents(fork) != before


def test_no_description_contains_an_id() -> None:
    for name in SHORT_FAMILIES:
        wander(make(name, seed=1, chaos=0.5), 1, 40)
    used = {word for _, words, _ in TYPES.known() for word in words}
    assert "case.requester" in used
    assert not [word for word in used if re.search(r"@\w|[A-Z]+-\d|\d{4}", word)]


@pytest.mark.parametrize("seed", range(8))
def test_the_calls_of_an_expert_are_among_the_candidates(seed: int) -> None:
    env = make(FAMILY, seed=seed)
    run_expert(env)
    calls = [turn.call for turn in env.turns]
    again, board = make(FAMILY, seed=seed), Board(make(FAMILY, seed=seed).reset(), TYPES)
    for call in calls[:-1]:
        offered = [board.call(number) for number in range(len(board.candidates()[0]))]
        params = _without_form(call)
        assert any(other.tool == call.tool and other.params.items() >= params.items() for other in offered), call
        board.hear(call, again.step(call))


def _without_form(call: Call) -> dict[str, object]:
    return {name: value for name, value in call.params.items() if name not in ("data", "text", "reason")}


def test_a_board_can_be_restricted_to_one_ending() -> None:
    board = Board(make(FAMILY, seed=3).reset(), TYPES)
    board.keep_to("declined", "below_minimum")
    calls = [board.call(number) for number in range(len(board.candidates()[0]))]
    closing = [call.params for call in calls if call.method == "resolve_ticket"]
    assert [(params["resolution"], params["reason"]) for params in closing] == [("declined", "below_minimum")]


def test_forms_are_filled_in_as_the_expert_does_even_after_a_field_was_renamed() -> None:
    renamed = 0
    for seed in range(40):
        env = make(FAMILY, seed=seed, chaos=0.5)
        run_expert(env)
        renamed += _submits_same_form(env) and env.setting.causes.renamed
    assert renamed > 2


def _submits_same_form(solved: CompanyEnv) -> bool:
    """Return whether the expert has submitted a form, and check that the candidates have the same data in it."""
    env = make(solved.task_id)
    board = Board(env.reset(), TYPES)
    for turn in solved.turns:
        if turn.call.method == "submit_approval":
            assert board.table.form(turn.call.params["approval_type"], with_optional=False) == turn.call.params["data"]
            return True
        board.hear(turn.call, env.step(turn.call))
    return False
