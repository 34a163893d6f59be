"""Adversaries that replay a solution of another seed, either blindly or with the ids of this episode."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from companyos.agents.routine import Routine
from companyos.company.programs import until_answered
from companyos.core.calls import Call, Program, Reply
from companyos.env import CompanyEnv, run_expert, task_named
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation
from companyos.families import family_of

SOURCES = 20  # number of seeds to copy a script from; the floor reports the best of them


class Solution(msgspec.Struct, frozen=True):
    """An episode of the validation split as the expert has solved it."""

    brief: str
    calls: list[Call]
    replies: list[Reply]


@lru_cache(maxsize=1024)
def expert_solution(family: str, seed: int, chaos: float) -> Solution:
    """Let the expert solve a task of the validation split."""
    env = CompanyEnv(task_named(family, seed, chaos, split="validation"), "sparse")
    run_expert(env)
    # `env.setting` is the start state of the task: the staged company, its case and the right ending.
    return Solution(env.setting.case.brief, [turn.call for turn in env.turns], [turn.reply for turn in env.turns])


# -- blindly -----------------------------------------------------------------------------------------------------------


class BlindScript:
    """Replays a solution of another seed. It replaces only the ids that the briefs name, and reads no reply."""

    def __init__(self, source: int) -> None:
        self._source = source % SOURCES
        self._calls: list[Call] | None = None

    def act(self, obs: Observation) -> Call:
        if self._calls is None:
            # `obs.task` is the text of the brief.
            won = expert_solution(family_of(obs.task).name, self._source, 0.5)
            swaps = _ids_by_position(Knowledge(won.brief), Knowledge(obs.task))
            self._calls = [Call(call.app, call.method, _swap(call.params, swaps)) for call in won.calls]
        return self._calls[obs.step % len(self._calls)]


def _ids_by_position(source: Knowledge, target: Knowledge) -> dict[str, str]:
    """Map each id in one brief to the id of the same kind at the same position in the other brief."""
    pairs: dict[str, str] = {}
    for kind, ids in source.ids.items():
        pairs.update(zip(ids, target.known(kind), strict=False))
    return pairs


def _swap(value: Any, swaps: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _swap(item, swaps) for key, item in value.items()}
    if isinstance(value, list):
        return [_swap(item, swaps) for item in value]
    return swaps.get(value, value) if isinstance(value, str) else value


# -- with ids looked up ------------------------------------------------------------------------------------------------


class Checklist(Routine):
    """Follows a solution of another seed that ends as `completed`.

    Each value of the script is replaced by the value at the same place in this episode's replies, and never judged.
    """

    def __init__(self, source: int) -> None:
        self._source = source % SOURCES
        super().__init__(self._follow)

    def _follow(self, obs: Observation) -> Program:
        name = family_of(obs.task).name
        won = expert_solution(name, granted_seeds(name)[self._source], 0.0)
        swaps = _ids_by_position(Knowledge(won.brief), Knowledge(obs.task))
        replies: list[Reply] = []
        for number, call in enumerate(won.calls):
            params = _look_up(call.params, won.replies[:number], replies, swaps)
            replies.append((yield from until_answered(Call(call.app, call.method, params))))


@lru_cache(maxsize=64)
def granted_seeds(family: str) -> tuple[int, ...]:
    """Return seeds of the validation split whose right ending is `completed`."""
    found: list[int] = []
    seed = 0
    while len(found) < SOURCES:
        if CompanyEnv(task_named(family, seed, 0.0, "validation")).setting.ending.resolution == "completed":
            found.append(seed)
        seed += 1
    return tuple(found)


def _look_up(value: Any, script_replies: list[Reply], replies: list[Reply], swaps: dict[str, str]) -> Any:
    """Replace a value of the script by the value at the same place in this episode's brief or earlier replies."""
    if isinstance(value, dict):
        return {key: _look_up(item, script_replies, replies, swaps) for key, item in value.items()}
    if isinstance(value, list):
        return [_look_up(item, script_replies, replies, swaps) for item in value]
    if value in swaps:
        return swaps[value]
    for number, reply in enumerate(script_replies):
        for way, found in _leaves(reply.data):
            if found == value and type(found) is type(value):
                return _at(replies[number].data, way, value)
    # A text such as `Head of Marketing` can contain a value, here the department. So look up each word.
    if isinstance(value, str) and " " in value:
        return " ".join(str(_look_up(word, script_replies, replies, swaps)) for word in value.split())
    return value


def _leaves(data: Any, way: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if isinstance(data, dict):
        for key, item in data.items():
            yield from _leaves(item, (*way, key))
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _leaves(item, (*way, number))
    elif data is not None:
        yield way, data


def _at(data: Any, way: tuple[str | int, ...], otherwise: Any) -> Any:
    for part in way:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return otherwise
    return data
