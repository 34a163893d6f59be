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


# -- without reading replies -------------------------------------------------------------------------------------------


class BlindScript:
    """Replays a solution of another seed. It replaces only the ids that the briefs name, and reads no reply."""

    def __init__(self, source: int) -> None:
        self._source = source % SOURCES
        self._calls: list[Call] | None = None

    def act(self, obs: Observation) -> Call:
        if self._calls is None:
            # `obs.task` is the text of the brief.
            solution = expert_solution(family_of(obs.task).name, self._source, chaos=0.5)
            new_ids = _ids_by_position(Knowledge(solution.brief), Knowledge(obs.task))
            self._calls = [Call(call.app, call.method, _with_new_ids(call.params, new_ids)) for call in solution.calls]
        return self._calls[obs.step % len(self._calls)]


def _ids_by_position(source: Knowledge, target: Knowledge) -> dict[str, str]:
    """Map each id in one brief to the id of the same kind at the same position in the other brief."""
    new_ids: dict[str, str] = {}
    for kind, ids in source.ids.items():
        new_ids.update(zip(ids, target.known(kind), strict=False))
    return new_ids


def _with_new_ids(value: Any, new_ids: dict[str, str]) -> Any:
    """Return an argument of a call with each id replaced, also inside lists and dicts."""
    if isinstance(value, dict):
        return {key: _with_new_ids(item, new_ids) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_new_ids(item, new_ids) for item in value]
    return new_ids.get(value, value) if isinstance(value, str) else value


# -- with values from this episode's replies ---------------------------------------------------------------------------


class Checklist(Routine):
    """Follows a solution of another seed that ends as `completed`.

    Each value of the script is replaced by the value at the same place in this episode's replies, and never judged.
    """

    def __init__(self, source: int) -> None:
        self._source = source % SOURCES
        super().__init__(self._follow)

    def _follow(self, obs: Observation) -> Program:
        name = family_of(obs.task).name
        solution = expert_solution(name, seeds_ending_completed(name)[self._source], chaos=0.0)
        new_ids = _ids_by_position(Knowledge(solution.brief), Knowledge(obs.task))
        replies: list[Reply] = []
        for number, call in enumerate(solution.calls):
            params = _look_up(call.params, solution.replies[:number], replies, new_ids)
            replies.append((yield from until_answered(Call(call.app, call.method, params))))


@lru_cache(maxsize=64)
def seeds_ending_completed(family: str) -> tuple[int, ...]:
    """Return seeds of the validation split whose right ending is `completed`."""
    seeds: list[int] = []
    seed = 0
    while len(seeds) < SOURCES:
        if CompanyEnv(task_named(family, seed, 0.0, "validation")).setting.ending.resolution == "completed":
            seeds.append(seed)
        seed += 1
    return tuple(seeds)


def _look_up(value: Any, script_replies: list[Reply], replies: list[Reply], new_ids: dict[str, str]) -> Any:
    """Replace a value of the script by the value at the same place in this episode's brief or earlier replies."""
    if isinstance(value, dict):
        return {key: _look_up(item, script_replies, replies, new_ids) for key, item in value.items()}
    if isinstance(value, list):
        return [_look_up(item, script_replies, replies, new_ids) for item in value]
    if value in new_ids:
        return new_ids[value]
    for number, script_reply in enumerate(script_replies):
        for path, leaf in _leaves(script_reply.data):
            if leaf == value and type(leaf) is type(value):
                return _value_at(replies[number].data, path, default=value)
    # A text such as `Head of Marketing` can contain a value, here the department. So look up each word.
    if isinstance(value, str) and " " in value:
        return " ".join(str(_look_up(word, script_replies, replies, new_ids)) for word in value.split())
    return value


Path = tuple[str | int, ...]  # keys and indexes that lead to a value inside nested dicts and lists


def _leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value in nested dicts and lists, with the path to it."""
    if isinstance(data, dict):
        for key, item in data.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _leaves(item, (*path, index))
    elif data is not None:
        yield path, data


def _value_at(data: Any, path: Path, default: Any) -> Any:
    """Return the value at a path, or the default if nothing is there."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return default
    return data
