"""Demonstrations are won episodes, seen through the windows that a policy would have, and learnt from where right."""

from collections import Counter

import pytest

from companyos.core.errors import BadChoice, BadTask
from companyos.core.task import TaskId
from companyos.env import make
from companyos.env.line_syntax import parse_line
from companyos.train.data.demonstrations import Demonstration, DemoPlan, demonstrate, stands_in, stream, values_of
from companyos.train.data.script import RESERVE, Script, heard, opening
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.model.models import Learner
from tests.helpers import FAMILY

FAMILIES = (FAMILY, "license_renewal")
PLAN = DemoPlan(FAMILIES, ((0.0, 0.5), (0.5, 0.5)), slips=0.5, limit=2400)


@pytest.fixture
def tokenizer(learner: Learner) -> Tokenizer:
    return learner.script_tokenizer()


@pytest.fixture
def shown(tokenizer: Tokenizer) -> list[Demonstration]:
    return [demonstrate(PLAN, tokenizer, number) for number in range(8)]


def said(one: Demonstration, tokenizer: Tokenizer) -> list[str]:
    """Every line of an episode, learnt from or not: calls stay in the script to the end."""
    return [line[2:] for line in tokenizer.decode(one.windows[-1].tokens).split("\n") if line.startswith("> ")]


def test_what_is_shown_is_a_function_of_the_plan_and_the_number(shown: list[Demonstration], tokenizer: Tokenizer) -> None:
    assert [demonstrate(PLAN, tokenizer, number) for number in range(8)] == shown
    assert demonstrate(DemoPlan(FAMILIES, seed=1, limit=2400), tokenizer, 0) != demonstrate(
        DemoPlan(FAMILIES, limit=2400), tokenizer, 0
    )


def test_workers_make_the_same_in_the_same_order(shown: list[Demonstration], learner: Learner) -> None:
    made = stream(PLAN, learner.tokenizer_json, 2, among=100, workers=1)
    assert [next(made) for _ in range(6)] == shown[2:]
    made.close()


def test_demonstrations_come_round_again(shown: list[Demonstration], learner: Learner) -> None:
    made = stream(PLAN, learner.tokenizer_json, 1, among=3, workers=0)
    assert [next(made) for _ in range(5)] == [shown[1], shown[2], shown[0], shown[1], shown[2]]
    made.close()


def test_every_call_follows_exactly_what_a_policy_would_have_before_it(
    shown: list[Demonstration], tokenizer: Tokenizer
) -> None:
    assert any(len(one.windows) > 2 for one in shown), "none was long enough to be forgotten in part"
    for one in shown:
        env = make(one.task_id)
        script = Script(tokenizer.encode, PLAN.limit, RESERVE)
        script.open(opening(env.reset()))
        learnt = {(n, start) for n, window in enumerate(one.windows) for start, _ in window.calls}
        seen, window = set(), 0
        for line in said(one, tokenizer):
            before = script.tokens.copy()
            tokens = tokenizer.encode(f" {line}\n")
            if (window, len(before)) in learnt:
                seen.add((window, len(before)))
                assert one.windows[window].tokens[: len(before) + len(tokens)] == before + tokens
            script.say(tokens)
            obs = env.step(parse_line(line, env.toolbox))
            window += not obs.done and script.hear(heard(obs))
        assert env.success
        assert seen == learnt


def test_slips_are_not_learnt_and_all_that_is_right_is(shown: list[Demonstration]) -> None:
    assert any(one.slipped for one in shown)
    for one in shown:
        assert sum(len(window.calls) for window in one.windows) == one.said - one.slipped - one.blind


def test_nobody_learns_to_use_what_is_out_of_sight(shown: list[Demonstration], tokenizer: Tokenizer) -> None:
    assert any(one.again for one in shown), "nothing was looked up again"
    for one in shown:
        told = "".join(tokenizer.decode(window.tokens) for window in one.windows)
        toolbox = make(one.task_id).toolbox
        for window in one.windows:
            for start, end in window.calls:
                call = parse_line(tokenizer.decode(window.tokens[start:end]), toolbox)
                assert not isinstance(call, str)
                before = tokenizer.decode(window.tokens[:start])
                told_before = told[: told.index(before) + len(before)]
                for value in values_of(call):
                    assert stands_in(value, before) or not stands_in(value, told_before)


def test_doses_come_in_their_shares_and_families_in_turn(tokenizer: Tokenizer) -> None:
    plan = DemoPlan((FAMILY,), ((0.0, 0.75), (0.5, 0.25)), slips=0.0)
    made = [TaskId.parse(demonstrate(plan, tokenizer, number).task_id) for number in range(16)]
    found = Counter(task.doses for task in made)
    assert set(found) == {"0", "50"}
    assert 1 <= found["50"] <= 8
    assert {task.split for task in made} == {"train"}


def test_a_plan_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadChoice):
        DemoPlan((FAMILY,), ((0.0, 0.0),))
    with pytest.raises(BadChoice):
        DemoPlan((FAMILY,), slips=2.0)
    with pytest.raises(BadTask):
        DemoPlan(("nobody",))
