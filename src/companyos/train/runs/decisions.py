"""Decision accuracy: whether a model makes the expert's call where one fact decides.

A task and its twin differ in one fact, which changes the right ending. The expert makes the same calls in both, up to the
first call that depends on the fact. The model gets the expert's script up to that call, for each of the two tasks, and must
make the next call.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from statistics import fmean
from typing import Any

import msgspec

from companyos.core.calls import Call
from companyos.core.task import TaskId
from companyos.env.line_syntax import parse_line
from companyos.evaluate.suites.suite import Pair
from companyos.train.data.demonstrations import Demonstration, DemoPlan, demonstration_of
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import split_turn
from companyos.train.decoding.speakers import Speaker
from companyos.train.model.models import Learner


class Decision(msgspec.Struct, frozen=True):
    """The expert's script before the first call in which two twins differ, and the line of that call."""

    task_id: str
    script: list[int]
    line: str


def decisions(learner: Learner, pairs: Sequence[Pair]) -> list[Decision]:
    """Return the decisions of pairs of twins, as scripts in the form that the model was trained on."""
    tokenizer = learner.script_tokenizer()
    families = tuple({TaskId.parse(pair.task).family: None for pair in pairs})
    plan = DemoPlan(families, slips=0.0, limit=learner.limit, working=learner.working)
    return [decision for pair in pairs for decision in _decisions_of(plan, tokenizer, pair)]


def _decisions_of(plan: DemoPlan, tokenizer: Tokenizer, pair: Pair) -> Iterator[Decision]:
    """Yield the decision in each task of a pair. If the calls of one task end before that, it has no decision."""
    task_ids = pair.task, pair.twin
    calls_of_tasks = [list(_calls(demonstration_of(plan, tokenizer, task_id), tokenizer)) for task_id in task_ids]
    for call, call_of_twin in zip_longest(*calls_of_tasks):
        if call is None or call_of_twin is None or call[1] != call_of_twin[1]:
            for task_id, script_and_line in zip(task_ids, (call, call_of_twin), strict=True):
                if script_and_line is not None:
                    yield Decision(task_id, *script_and_line)
            return


def _calls(demonstration: Demonstration, tokenizer: Tokenizer) -> Iterator[tuple[list[int], str]]:
    """Yield the learnt calls of a demonstration: the script before each, and its line."""
    for window in demonstration.windows:
        for start, end in window.spans:
            yield window.tokens[:start], split_turn(tokenizer.decode(window.tokens[start:end]))[1]


def next_turns(speaker: Speaker, scripts: Sequence[list[int]], temperature: float = 0.0) -> list[list[int]]:
    """Return the model's next turn after each script."""
    turns: dict[int, list[int]] = {}
    queue = iter(enumerate(scripts))

    def listen_to_next() -> None:
        for number, script in queue:
            speaker.listen(number, script, temperature)
            return

    for _ in range(min(speaker.rows, len(scripts))):
        listen_to_next()
    while len(turns) < len(scripts):
        for turn in speaker.speak():
            turns[turn.episode_number] = turn.tokens
            speaker.leave(turn.episode_number)
            listen_to_next()
    return [turns[number] for number in range(len(scripts))]


def accuracy(learner: Learner, speaker: Speaker, tested: Sequence[Decision]) -> dict[str, Any]:
    """Return how often the model's most likely call is the expert's, in total and by family."""
    correct: dict[str, list[bool]] = defaultdict(list)
    turns = next_turns(speaker, [decision.script for decision in tested])
    for decision, tokens in zip(tested, turns, strict=True):
        text = learner.decode(tokens)
        line = split_turn(text)[1] if learner.working else text.strip()
        correct[TaskId.parse(decision.task_id).family].append(same_call(line, decision.line))
    families = {name: fmean(results) for name, results in sorted(correct.items())}
    total = fmean(is_correct for results in correct.values() for is_correct in results)
    return {"decision_accuracy": total, "decisions": families}


def same_call(line: str, expected: str) -> bool:
    """Return whether two lines are the same call."""
    if line == expected:
        return True
    call, expected_call = parse_line(line), parse_line(expected)
    return isinstance(call, Call) and isinstance(expected_call, Call) and key_of(call) == key_of(expected_call)


def key_of(call: Call) -> bytes:
    """Return a key that is equal for equal calls."""
    return msgspec.json.encode(call, order="deterministic")
