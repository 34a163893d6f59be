"""Adversaries that replay a solution of another seed, either blindly or with the ids of this episode."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from companyos.agents.routine import Routine
from companyos.company.clerk import answered
from companyos.core.calls import Call, Program, Reply
from companyos.env import CompanyEnv, task_named, work
from companyos.env.knowledge import Knowledge
from companyos.env.observations import Observation
from companyos.families import family_of

SOURCES = 20  # seeds from which a script is copied; the best one counts


class Solution(msgspec.Struct, frozen=True):
    """An episode of the validation split as the expert has solved it."""

    brief: str
    calls: list[Call]
    replies: list[Reply]


@lru_cache(maxsize=1024)
def expert_solution(family: str, seed: int, chaos: float) -> Solution:
    """Let the expert solve a task of the validation split."""
    env = CompanyEnv(task_named(family, seed, chaos, split="validation"), "sparse")
    work(env)
    return Solution(env.setting.case.brief, [turn.call for turn in env.turns], [turn.reply for turn in env.turns])


# -- blindly -----------------------------------------------------------------------------------------------------------


class BlindScript:
    """Replays a solution of another seed. It replaces only the ids that the briefs name, and reads no reply."""

    def __init__(self, source: int) -> None:
        self._source = source % SOURCES
        self._calls: list[Call] | None = None

    def act(self, obs: Observation) -> Call:
        if self._calls is None:
            won = expert_solution(family_of(obs.task).name, self._source, 0.5)
            swaps = _same_place(Knowledge(won.brief), Knowledge(obs.task))
            self._calls = [Call(call.app, call.method, _swap(call.params, swaps)) for call in won.calls]
        return self._calls[obs.step % len(self._calls)]


def _same_place(source: Knowledge, target: Knowledge) -> dict[str, str]:
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
    """Follows a solution in which the work is done. It reads each value at the same place here, and never judges it."""

    def __init__(self, source: int) -> None:
        self._source = source % SOURCES
        super().__init__(self._follow)

    def _follow(self, obs: Observation) -> Program:
        name = family_of(obs.task).name
        won = expert_solution(name, happy_seeds(name)[self._source], 0.0)
        swaps = _same_place(Knowledge(won.brief), Knowledge(obs.task))
        replies: list[Reply] = []
        for number, call in enumerate(won.calls):
            params = _look_up(call.params, won.replies[:number], replies, swaps)
            replies.append((yield from answered(Call(call.app, call.method, params))))


@lru_cache(maxsize=64)
def happy_seeds(family: str) -> tuple[int, ...]:
    """Return seeds of the validation split whose right ending is that the work is done."""
    found: list[int] = []
    seed = 0
    while len(found) < SOURCES:
        if CompanyEnv(task_named(family, seed, 0.0, "validation")).setting.ending.resolution == "completed":
            found.append(seed)
        seed += 1
    return tuple(found)


def _look_up(value: Any, then: list[Reply], now: list[Reply], swaps: dict[str, str]) -> Any:
    """Replace a value of the script by the value at the same place here: in the brief, or in an earlier reply."""
    if isinstance(value, dict):
        return {key: _look_up(item, then, now, swaps) for key, item in value.items()}
    if isinstance(value, list):
        return [_look_up(item, then, now, swaps) for item in value]
    if value in swaps:
        return swaps[value]
    for number, reply in enumerate(then):
        for way, found in _leaves(reply.data):
            if found == value and type(found) is type(value):
                return _at(now[number].data, way, value)
    if isinstance(value, str) and " " in value:  # `Head of Marketing`: word by word
        return " ".join(str(_look_up(word, then, now, swaps)) for word in value.split())
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
