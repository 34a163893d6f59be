"""Proofs of many tasks report par, endings, twins and faults."""

import pytest

from companyos.assurance import prove as proof
from companyos.assurance import prove_many as proofs
from companyos.assurance.prove import first_irreversible, solve
from companyos.assurance.prove_many import ProofResult, Spread, check, spread
from companyos.assurance.twins import same_ending, twin_tasks
from companyos.core.errors import Unsolvable
from companyos.env import CompanyEnv, make
from companyos.families import ExpertStyle
from tests.helpers import staged, step, task_id, ticket


def test_a_result_has_par_ending_and_the_count_of_twins_with_another_ending() -> None:
    env = staged()
    expected = sum(not same_ending(env, make(other)) for _, _, other in twin_tasks(env.task_id))
    assert 0 < expected < len(twin_tasks(env.task_id))
    par = solve(staged()).step_count
    assert check(env.task_id, with_twins=True) == ProofResult(env.task_id, par, env.setting.ending.name, expected)
    assert check(env.task_id, with_twins=False) == ProofResult(env.task_id, par, env.setting.ending.name, 0)


@pytest.mark.parametrize(("later", "in_time"), [(-1, True), (0, False), (1, False)])
def test_twins_must_differ_before_the_expert_does_anything_irreversible(
    monkeypatch: pytest.MonkeyPatch, later: int, in_time: bool
) -> None:
    env = solve(staged())
    committed = first_irreversible(env.turns, ticket(env).id)
    monkeypatch.setattr(proofs, "first_difference", lambda turns, twin_turns: committed + later)
    failure = check(env.task_id, with_twins=True).failure
    assert (failure == "") == in_time
    assert in_time or "comes before anything differs from" in failure


def test_a_wrong_closing_or_giving_up_is_not_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(env: CompanyEnv, style: ExpertStyle | None = None) -> None:
        closing = {"resolution": "declined", "reason": "no_budget", "evidence": []}
        step(env, "ticketdesk.resolve_ticket", ticket_id=ticket(env).id, **closing)

    def idle(env: CompanyEnv, style: ExpertStyle | None = None) -> None:
        return None

    for expert, expected_failure in ((wrong, "Verdict"), (idle, "gave up")):
        monkeypatch.setattr(proof, "run_expert", expert)
        with pytest.raises(Unsolvable, match=expected_failure):
            solve(make(task_id()))
        assert expected_failure in check(task_id(), with_twins=False).failure


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([5], Spread(1, 5, 5, 5, 5, 5.0)),
        ([3, 1, 2], Spread(3, 2, 3, 3, 3, 2.0)),
        (list(range(1, 101)), Spread(100, 50, 90, 99, 100, 50.5)),
        (list(range(1, 12)), Spread(11, 6, 10, 11, 11, 6.0)),
    ],
)
def test_percentiles_are_numbers_that_occur_by_nearest_rank(numbers: list[int], expected: Spread) -> None:
    assert spread(numbers) == expected
