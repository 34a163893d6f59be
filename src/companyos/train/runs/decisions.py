"""Decision accuracy: whether a model makes the expert's call where one fact decides.

A task and its twin differ in one fact, which changes the right ending. The expert plays both alike up to the first call
that depends on the fact. The model gets the expert's script up to that call, for each of the two, and must make the next
call.
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
from companyos.train.data.demonstrations import Demonstration, DemoPlan, shown
from companyos.train.data.tokenizer import Tokenizer
from companyos.train.data.turns import split
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
    return [one for pair in pairs for one in _parting(plan, tokenizer, pair)]


def _parting(plan: DemoPlan, tokenizer: Tokenizer, pair: Pair) -> Iterator[Decision]:
    ways = [list(_calls(shown(plan, tokenizer, task_id), tokenizer)) for task_id in (pair.task, pair.twin)]
    for here in zip_longest(*ways):
        if None in here or here[0][1] != here[1][1]:
            for task_id, said in zip((pair.task, pair.twin), here, strict=True):
                if said is not None:
                    yield Decision(task_id, *said)
            return


def _calls(one: Demonstration, tokenizer: Tokenizer) -> Iterator[tuple[list[int], str]]:
    """Yield the learnt calls of a demonstration: the tokens before each, and its line."""
    for window in one.windows:
        for start, end in window.calls:
            yield window.tokens[:start], split(tokenizer.decode(window.tokens[start:end]))[1]


def asked(speaker: Speaker, scripts: Sequence[list[int]], temperature: float = 0.0) -> list[list[int]]:
    """Return the model's next turn after each script."""
    said: dict[int, list[int]] = {}
    queue = iter(enumerate(scripts))

    def listen() -> None:
        for who, script in queue:
            speaker.listen(who, script, temperature)
            return

    for _ in range(min(speaker.rows, len(scripts))):
        listen()
    while len(said) < len(scripts):
        for one in speaker.speak():
            said[one.who] = one.tokens
            speaker.leave(one.who)
            listen()
    return [said[who] for who in range(len(scripts))]


def accuracy(learner: Learner, speaker: Speaker, made: Sequence[Decision]) -> dict[str, Any]:
    """Return how often the model's most likely call is the expert's, in total and by family."""
    right: dict[str, list[bool]] = defaultdict(list)
    for one, tokens in zip(made, asked(speaker, [one.script for one in made]), strict=True):
        text = learner.decode(tokens)
        line = split(text)[1] if learner.working else text.strip()
        right[TaskId.parse(one.task_id).family].append(same_call(line, one.line))
    families = {name: fmean(ones) for name, ones in sorted(right.items())}
    return {"decision_accuracy": fmean(ok for ones in right.values() for ok in ones), "decisions": families}


def same_call(line: str, expected: str) -> bool:
    """Return whether two lines are the same call."""
    if line == expected:
        return True
    ours, theirs = parse_line(line), parse_line(expected)
    return isinstance(ours, Call) and isinstance(theirs, Call) and key_of(ours) == key_of(theirs)


def key_of(call: Call) -> bytes:
    """Return a key that is equal for equal calls."""
    return msgspec.json.encode(call, order="deterministic")
