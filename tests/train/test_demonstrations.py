"""Demonstrations are won episodes, in the windows that a policy would see. Only right turns are learnt."""

from collections import Counter

import pytest

from companyos.core.errors import BadChoice, BadTask
from companyos.core.task import TaskId
from companyos.env import make
from companyos.env.line_syntax import parse_line
from companyos.train.data.demonstrations import Demonstration, DemoPlan, contains_value, demonstrate, stream, values_of
from companyos.train.data.script import RESERVE, Script, opening, reply_text
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.model.models import Learner
from tests.helpers import FAMILY

FAMILIES = (FAMILY, "license_renewal")
PLAN = DemoPlan(FAMILIES, ((0.0, 0.5), (0.5, 0.5)), slips=0.5, limit=2400)


@pytest.fixture
def tokenizer(learner: Learner) -> Tokenizer:
    return learner.script_tokenizer()


@pytest.fixture
def demos(tokenizer: Tokenizer) -> list[Demonstration]:
    return [demonstrate(PLAN, tokenizer, number) for number in range(8)]


def lines_of(demo: Demonstration, tokenizer: Tokenizer) -> list[str]:
    """Return the lines of all calls of an episode, learnt or not: they stay in the script to the end."""
    return [line[2:] for line in tokenizer.decode(demo.windows[-1].tokens).split("\n") if line.startswith("> ")]


def test_plan_and_number_decide_the_demonstration(demos: list[Demonstration], tokenizer: Tokenizer) -> None:
    assert [demonstrate(PLAN, tokenizer, number) for number in range(8)] == demos
    assert demonstrate(DemoPlan(FAMILIES, seed=1, limit=2400), tokenizer, 0) != demonstrate(
        DemoPlan(FAMILIES, limit=2400), tokenizer, 0
    )


def test_workers_make_the_same_demonstrations_in_the_same_order(demos: list[Demonstration], learner: Learner) -> None:
    streamed = stream(PLAN, learner.tokenizer_json, 2, total=100, workers=1)
    assert [next(streamed) for _ in range(6)] == demos[2:]
    streamed.close()


def test_after_the_last_demonstration_the_first_comes_again(demos: list[Demonstration], learner: Learner) -> None:
    streamed = stream(PLAN, learner.tokenizer_json, 1, total=3, workers=0)
    assert [next(streamed) for _ in range(5)] == [demos[1], demos[2], demos[0], demos[1], demos[2]]
    streamed.close()


def test_every_learnt_call_follows_exactly_what_a_policy_would_see(demos: list[Demonstration], tokenizer: Tokenizer) -> None:
    assert any(len(demo.windows) > 2 for demo in demos), "no script was long enough to shrink"
    for demo in demos:
        env = make(demo.task_id)
        script = Script(tokenizer.encode, PLAN.limit, RESERVE)
        script.open(opening(env.reset()))
        learnt = {(n, start) for n, window in enumerate(demo.windows) for start, _ in window.spans}
        met, window = set(), 0
        for line in lines_of(demo, tokenizer):
            before = script.tokens.copy()
            tokens = tokenizer.encode(f" {line}\n")
            if (window, len(before)) in learnt:
                met.add((window, len(before)))
                assert demo.windows[window].tokens[: len(before) + len(tokens)] == before + tokens
            script.add_turn(tokens)
            obs = env.step(parse_line(line, env.toolbox))
            window += not obs.done and script.add_reply(reply_text(obs))
        assert env.success
        assert met == learnt


def test_all_calls_but_slips_and_blind_ones_are_learnt(demos: list[Demonstration]) -> None:
    assert any(demo.slips for demo in demos)
    for demo in demos:
        assert sum(len(window.spans) for window in demo.windows) == demo.calls - demo.slips - demo.blind


def test_no_learnt_call_uses_a_value_that_the_script_has_dropped(demos: list[Demonstration], tokenizer: Tokenizer) -> None:
    assert any(demo.repeated for demo in demos), "no call was repeated to show a value again"
    for demo in demos:
        all_text = "".join(tokenizer.decode(window.tokens) for window in demo.windows)
        toolbox = make(demo.task_id).toolbox
        for window in demo.windows:
            for start, end in window.spans:
                call = parse_line(tokenizer.decode(window.tokens[start:end]), toolbox)
                assert not isinstance(call, str)
                before = tokenizer.decode(window.tokens[:start])
                text_so_far = all_text[: all_text.index(before) + len(before)]
                for value in values_of(call):
                    assert contains_value(value, before) or not contains_value(value, text_so_far)


def test_doses_come_in_their_shares_and_families_in_turn(tokenizer: Tokenizer) -> None:
    plan = DemoPlan((FAMILY,), ((0.0, 0.75), (0.5, 0.25)), slips=0.0)
    tasks = [TaskId.parse(demonstrate(plan, tokenizer, number).task_id) for number in range(16)]
    counts = Counter(task.doses for task in tasks)
    assert set(counts) == {"0", "50"}
    assert 1 <= counts["50"] <= 8
    assert {task.split for task in tasks} == {"train"}


def test_an_impossible_plan_is_refused() -> None:
    with pytest.raises(BadChoice):
        DemoPlan((FAMILY,), ((0.0, 0.0),))
    with pytest.raises(BadChoice):
        DemoPlan((FAMILY,), slips=2.0)
    with pytest.raises(BadTask):
        DemoPlan(("nobody",))
