"""Decisions are the calls in which twins part, and a model that says what the expert says is right in all of them."""

import pytest

from companyos.env import make
from companyos.env.line_syntax import parse_line
from companyos.env.teacher import work_aloud
from companyos.evaluate.suites.suite import Pair
from companyos.train.data.turns import encoded
from companyos.train.decoding.speakers import SpokenTurn
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.decisions import Decision, accuracy, decisions
from tests.helpers import FAMILY

PAIRS = checkup_of((FAMILY, "license_renewal"), 0.5, 0, 6).pairs


class Reciting:
    """Says what somebody else would have, or nothing that is a call."""

    rows = 3

    def __init__(self, learner: Learner, made: list[Decision], wrong: frozenset[int] = frozenset()) -> None:
        self._learner, self._wrong = learner, wrong
        self._answers = {tuple(one.script): one.line for one in made}
        self._waiting: dict[int, list[int]] = {}

    def load(self, model: object) -> None: ...
    def leave(self, who: int) -> None: ...
    def listen(self, who: int, script: list[int], temperature: float) -> None:
        assert temperature == 0
        self._waiting[who] = script
        assert len(self._waiting) <= self.rows

    def speak(self) -> list[SpokenTurn]:
        who, script = self._waiting.popitem()
        line = "no" if who in self._wrong else self._answers[tuple(script)]
        tokens, _ = encoded(self._learner.encode, line, ("1 < 2: so",) if self._learner.working else ())
        return [SpokenTurn(who, tokens, [0.0] * len(tokens))]


def way(task_id: str) -> list[str]:
    return [str(turn.call) for turn in work_aloud(make(task_id))]


@pytest.mark.parametrize("working", [True, False])
def test_a_decision_is_the_first_call_in_which_the_ways_of_twins_part(learner: Learner, working: bool) -> None:
    learner = learner._replace(limit=16384, working=working)
    for pair in PAIRS:
        ours, theirs = way(pair.task), way(pair.twin)
        place = next(n for n, (one, other) in enumerate(zip(ours, theirs, strict=False)) if one != other)
        found = decisions(learner, [pair])
        assert [one.task_id for one in found] == [pair.task, pair.twin]
        assert [str(parse_line(one.line)) for one in found] == [ours[place], theirs[place]]
        for one in found:
            text = learner.decode(one.script)
            assert text.endswith("\n>")
            calls = [line for line in text.split("\n> ")[1:] if not line.startswith("=")]
            assert len(calls) == place


@pytest.mark.parametrize("working", [True, False])
def test_who_says_what_the_expert_says_is_right_and_who_does_not_is_wrong(learner: Learner, working: bool) -> None:
    learner = learner._replace(limit=16384, working=working)
    made = decisions(learner, PAIRS)
    assert accuracy(learner, Reciting(learner, made), made)["decision_accuracy"] == 1.0
    found = accuracy(learner, Reciting(learner, made, frozenset({0, 1, 2})), made)
    assert found["decision_accuracy"] == pytest.approx(1 - 3 / len(made))
    assert set(found["decisions"]) == {FAMILY, "license_renewal"}


def test_twins_that_never_part_have_no_decision(learner: Learner) -> None:
    task = PAIRS[0].task
    assert decisions(learner._replace(limit=16384), [Pair(task, task, "ending", "none")]) == []
