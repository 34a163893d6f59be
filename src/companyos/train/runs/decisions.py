"""Decisions: whether a model decides as the expert does, where one fact decides.

A task and its twin differ in one fact, which changes the right ending. The expert works both alike up to the call in which
they part: that call depends on the fact. A model is given what the expert has seen until then, on each of the two, and is
asked for its next call.
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
from companyos.train.data.demonstrations import Demonstration, Plan, Tongue, shown
from companyos.train.data.turns import split
from companyos.train.decoding.speakers import Speaker
from companyos.train.model.models import Learner


class Decision(msgspec.Struct, frozen=True):
    """What stood before the expert when it made the call in which two twins part, and that call."""

    task_id: str
    script: list[int]
    line: str


def decisions(learner: Learner, pairs: Sequence[Pair]) -> list[Decision]:
    """The decisions of pairs of twins, in the form in which a model was trained."""
    tongue = Tongue(learner.tokenizer.backend_tokenizer.to_str())
    families = tuple({TaskId.parse(pair.task).family: None for pair in pairs})
    plan = Plan(families, slips=0.0, limit=learner.limit, working=learner.working)
    return [one for pair in pairs for one in _parting(plan, tongue, pair)]


def _parting(plan: Plan, tongue: Tongue, pair: Pair) -> Iterator[Decision]:
    ways = [list(_calls(shown(plan, tongue, task_id), tongue)) for task_id in (pair.task, pair.twin)]
    for here in zip_longest(*ways):
        if None in here or here[0][1] != here[1][1]:
            for task_id, said in zip((pair.task, pair.twin), here, strict=True):
                if said is not None:
                    yield Decision(task_id, *said)
            return


def _calls(one: Demonstration, tongue: Tongue) -> Iterator[tuple[list[int], str]]:
    """The calls of a demonstration that can be learnt from, each after what stood before it."""
    for window in one.windows:
        for start, end in window.calls:
            yield window.tokens[:start], split(tongue.decode(window.tokens[start:end]))[1]


def asked(speaker: Speaker, scripts: Sequence[list[int]], temperature: float = 0.0) -> list[list[int]]:
    """What a model says after each of some scripts."""
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
    """How often the model's likeliest call is the expert's, in all and by family."""
    right: dict[str, list[bool]] = defaultdict(list)
    for one, tokens in zip(made, asked(speaker, [one.script for one in made]), strict=True):
        text = learner.decode(tokens)
        line = split(text)[1] if learner.working else text.strip()
        right[TaskId.parse(one.task_id).family].append(same_call(line, one.line))
    families = {name: fmean(ones) for name, ones in sorted(right.items())}
    return {"decision_accuracy": fmean(ok for ones in right.values() for ok in ones), "decisions": families}


def same_call(line: str, expected: str) -> bool:
    """Whether two lines say the same call."""
    if line == expected:
        return True
    ours, theirs = parse_line(line), parse_line(expected)
    return isinstance(ours, Call) and isinstance(theirs, Call) and key_of(ours) == key_of(theirs)


def key_of(call: Call) -> bytes:
    """Calls are the same where their JSON is."""
    return msgspec.json.encode(call, order="deterministic")
