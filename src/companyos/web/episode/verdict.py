"""Verdicts: how an episode was judged, and the expert's way beside one's own."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from companyos.core.episode import Turn
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, work
from companyos.env.line_syntax import write_line
from companyos.web.links import link_code
from companyos.web.words import goal_in_words


class Stride(msgspec.Struct, frozen=True):
    """One call of one way."""

    line: str
    code: str
    ok: bool
    writes: bool
    shared: bool  # the other way has it, too


class Judged(msgspec.Struct, frozen=True):
    """All that a verdict shows."""

    success: bool
    out_of_steps: bool
    right: str
    closed_as: str
    goals: Sequence[tuple[str, str, bool]]
    damage: Sequence[tuple[str, str]]
    steps: int
    budget: int
    par: int
    total: float
    parts: Sequence[tuple[str, float]]
    yours: Sequence[Stride]
    experts: Sequence[Stride]
    code: str
    family: str


def judged(env: CompanyEnv) -> Judged:
    """An episode that is over, looked back at."""
    verdict, ending, task = env.verdict, env.setting.ending, TaskId.parse(env.task_id)
    assert verdict is not None
    expert = _expert(task)
    mine = {write_line(turn.call) for turn in env.turns}
    theirs = {write_line(turn.call) for turn in expert}
    parts: dict[str, float] = {}
    for turn in env.turns:
        for name, worth in turn.parts.items():
            parts[name] = parts.get(name, 0.0) + worth
    last = env.turns[-1].call.params if env.turns else {}
    resolved = any(turn.reply.ok and turn.call.method == "resolve_ticket" for turn in env.turns[-1:])
    return Judged(
        success=verdict.success,
        out_of_steps=env.step_count >= env.max_steps and not resolved,
        right=_how(ending.resolution, ending.reason),
        closed_as=_how(last.get("resolution"), last.get("reason")) if resolved else "",
        goals=[(goal_in_words(name), ending.asks(name), reached) for name, reached in verdict.goals.items()],
        damage=[(harm.record, harm.field) for harm in verdict.damage],
        steps=env.step_count,
        budget=env.max_steps,
        par=len(expert),
        total=env.total,
        parts=sorted(parts.items(), key=lambda one: -abs(one[1])),
        yours=_strides(env, env.turns, theirs),
        experts=_strides(env, expert, mine),
        code=link_code(task),
        family=task.family,
    )


def _how(resolution: object, reason: object) -> str:
    return f"{resolution}, {reason}".replace("_", " ")


def _strides(env: CompanyEnv, turns: Sequence[Turn], others: set[str]) -> list[Stride]:
    strides = []
    for turn in turns:
        line, tool = write_line(turn.call), env.toolbox.find(turn.call)
        strides.append(Stride(line, turn.reply.code, turn.reply.ok, bool(tool and tool.writes), line in others))
    return strides


@lru_cache(maxsize=256)
def _expert(task: TaskId) -> tuple[Turn, ...]:
    env = CompanyEnv(task, "sparse")
    work(env)
    return tuple(env.turns)
