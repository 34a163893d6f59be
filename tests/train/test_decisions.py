"""Decisions are the first calls in which twins differ, and a model that makes the expert's calls is right in all of them."""

import pytest

from companyos.env import make
from companyos.env.line_syntax import parse_line
from companyos.env.teacher import work_aloud
from companyos.evaluate.suites.suite import Pair
from companyos.train.data.turns import encode_turn
from companyos.train.decoding.speakers import SpokenTurn
from companyos.train.model.models import Learner
from companyos.train.runs.checkup import checkup_of
from companyos.train.runs.decisions import Decision, accuracy, decisions
from tests.helpers import FAMILY

PAIRS = checkup_of((FAMILY, "license_renewal"), 0.5, 0, 6).pairs


class ExpertSpeaker:
    """A speaker that makes the expert's calls, except at decisions with the numbers in `wrong`."""

    rows = 3

    def __init__(self, learner: Learner, tested: list[Decision], wrong: frozenset[int] = frozenset()) -> None:
        self._learner, self._wrong = learner, wrong
        self._answers = {tuple(decision.script): decision.line for decision in tested}
        self._waiting: dict[int, list[int]] = {}

    def load(self, model: object) -> None: ...
    def leave(self, episode_number: int) -> None: ...
    def listen(self, episode_number: int, script: list[int], temperature: float) -> None:
        assert temperature == 0
        self._waiting[episode_number] = script
        assert len(self._waiting) <= self.rows

    def speak(self) -> list[SpokenTurn]:
        episode_number, script = self._waiting.popitem()
        line = "no" if episode_number in self._wrong else self._answers[tuple(script)]
        tokens, _ = encode_turn(self._learner.encode, line, ("1 < 2: so",) if self._learner.working else ())
        return [SpokenTurn(episode_number, tokens, [0.0] * len(tokens))]


def expert_calls(task_id: str) -> list[str]:
    return [str(turn.call) for turn in work_aloud(make(task_id))]


@pytest.mark.parametrize("working", [True, False])
def test_a_decision_is_the_first_call_in_which_twins_differ(learner: Learner, working: bool) -> None:
    learner = learner._replace(limit=16384, working=working)
    for pair in PAIRS:
        calls, calls_of_twin = expert_calls(pair.task), expert_calls(pair.twin)
        index = next(n for n, (a, b) in enumerate(zip(calls, calls_of_twin, strict=False)) if a != b)
        found = decisions(learner, [pair])
        assert [decision.task_id for decision in found] == [pair.task, pair.twin]
        assert [str(parse_line(decision.line)) for decision in found] == [calls[index], calls_of_twin[index]]
        for decision in found:
            text = learner.decode(decision.script)
            assert text.endswith("\n>")
            assert len([line for line in text.split("\n> ")[1:] if not line.startswith("=")]) == index


@pytest.mark.parametrize("working", [True, False])
def test_only_the_experts_calls_are_right(learner: Learner, working: bool) -> None:
    learner = learner._replace(limit=16384, working=working)
    tested = decisions(learner, PAIRS)
    assert accuracy(learner, ExpertSpeaker(learner, tested), tested)["decision_accuracy"] == 1.0
    numbers = accuracy(learner, ExpertSpeaker(learner, tested, frozenset({0, 1, 2})), tested)
    assert numbers["decision_accuracy"] == pytest.approx(1 - 3 / len(tested))
    assert set(numbers["decisions"]) == {FAMILY, "license_renewal"}


def test_tasks_with_equal_calls_have_no_decision(learner: Learner) -> None:
    task = PAIRS[0].task
    assert decisions(learner._replace(limit=16384), [Pair(task, task, "ending", "none")]) == []
