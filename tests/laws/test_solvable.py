"""Law: every task can be solved within its budget, using only what the agent is told."""

import math

import pytest

from companyos.assurance import laws
from companyos.assurance.prove import untold
from companyos.chaos import DIALS
from companyos.env import make, par, run_expert, task_named
from companyos.families import family
from tests.laws import DOSES, FULL, NAMES, seeds, size


@pytest.mark.parametrize("dose", DOSES)
@pytest.mark.parametrize("name", NAMES)
def test_the_expert_solves_every_task_using_only_what_it_was_told(name: str, dose: float) -> None:
    laws.solvable(name, seeds(60, 1000, fresh=10, name=name), dose)


@pytest.mark.parametrize("dial", DIALS)
@pytest.mark.parametrize("name", NAMES)
def test_every_task_is_solvable_with_any_single_dial_at_full_dose(name: str, dial: str) -> None:
    laws.solvable(name, seeds(15, 200, name=name), {dial: 1.0})


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("name", NAMES)
def test_held_out_splits_are_as_solvable(name: str, split: str) -> None:
    laws.solvable(name, seeds(20, 200, name=name), 0.5, split)


@pytest.mark.parametrize("name", NAMES)
def test_an_expert_that_knew_more_than_it_was_told_would_be_caught(name: str) -> None:
    env = make(name, seed=3, chaos=0.5)
    run_expert(env)
    assert untold(env) is None
    hidden = next(turn for turn in env.turns if turn.reply.ok and turn.call.params)
    env.turns.remove(hidden)  # as if the agent had never got this reply
    assert untold(env) is not None


@pytest.mark.parametrize("name", NAMES)
def test_where_twins_end_differently_a_reply_says_so_before_an_irreversible_call(name: str) -> None:
    laws.endings_part_in_time(name, seeds(12, 1000, fresh=4, name=name))


@pytest.mark.parametrize("name", NAMES)
def test_budgets_are_frozen_at_one_and_three_quarters_of_the_99th_percentile_of_par(name: str) -> None:
    count = size(150, 1000, name)
    for dose, frozen in family(name).max_steps.items():
        pars = sorted(par(task_named(name, seed, dose / 100)) for seed in range(count))
        budget = math.ceil(1.75 * pars[math.ceil(0.99 * count) - 1])
        assert budget == frozen if FULL else 0.75 * frozen <= budget <= 1.25 * frozen


@pytest.mark.parametrize("name", NAMES)
def test_a_brief_names_its_family_and_tells_no_cause(name: str) -> None:
    laws.briefs_tell_nothing(name, seeds(40, 300, name=name))
