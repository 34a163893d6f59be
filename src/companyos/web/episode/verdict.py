"""Summarizes the verdict of a finished episode, and compares its calls with the expert's."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from companyos.core.episode import Turn
from companyos.core.task import TaskId
from companyos.env import CompanyEnv, run_expert
from companyos.env.line_syntax import write_line
from companyos.families.kit.missed import describe_goal, goal_title
from companyos.web.links import encode_task_link


class CallLine(msgspec.Struct, frozen=True):
    """One call of the player or of the expert."""

    line: str
    code: str  # of the reply
    ok: bool
    writes: bool
    shared: bool  # the player and the expert both made this call


class VerdictSummary(msgspec.Struct, frozen=True):
    """Everything that the verdict page shows."""

    success: bool
    out_of_steps: bool
    right: str  # the right ending
    closed_as: str  # the player's ending; empty: the ticket was not closed
    goals: Sequence[tuple[str, str, bool]]  # name, what it asks for, whether it was reached
    damage: Sequence[tuple[str, str]]  # record, field
    steps: int
    budget: int
    par: int  # the number of steps that the expert takes
    total: float
    parts: Sequence[tuple[str, float]]  # the return by reward term
    yours: Sequence[CallLine]
    experts: Sequence[CallLine]
    task_code: str  # the last part of the link /play/…, which starts the same task
    family: str


def summarize_verdict(env: CompanyEnv) -> VerdictSummary:
    """Return the summary of an episode that is over."""
    verdict, ending, task = env.verdict, env.setting.ending, TaskId.parse(env.task_id)
    assert verdict is not None
    expert = _expert_turns(task)
    player_lines = {write_line(turn.call) for turn in env.turns}
    expert_lines = {write_line(turn.call) for turn in expert}
    parts: dict[str, float] = {}
    for turn in env.turns:
        for name, reward in turn.parts.items():
            parts[name] = parts.get(name, 0.0) + reward
    last_params = env.turns[-1].call.params if env.turns else {}
    resolved = any(turn.reply.ok and turn.call.method == "resolve_ticket" for turn in env.turns[-1:])
    return VerdictSummary(
        success=verdict.success,
        out_of_steps=env.step_count >= env.max_steps and not resolved,
        right=_ending_text(ending.resolution, ending.reason),
        closed_as=_ending_text(last_params.get("resolution"), last_params.get("reason")) if resolved else "",
        goals=[
            (goal_title(name), describe_goal(ending, name, reached, env.world), reached)
            for name, reached in verdict.goals.items()
        ],
        damage=[(harm.record, harm.field) for harm in verdict.damage],
        steps=env.step_count,
        budget=env.max_steps,
        par=len(expert),
        total=env.total,
        parts=sorted(parts.items(), key=lambda part: -abs(part[1])),
        yours=_call_lines(env, env.turns, expert_lines),
        experts=_call_lines(env, expert, player_lines),
        task_code=encode_task_link(task),
        family=task.family,
    )


def _ending_text(resolution: object, reason: object) -> str:
    return f"{resolution}, {reason}".replace("_", " ")


def _call_lines(env: CompanyEnv, turns: Sequence[Turn], other_lines: set[str]) -> list[CallLine]:
    """Return the calls of an episode as lines. `other_lines` are those of the episode that it is compared with."""
    lines = []
    for turn in turns:
        line, tool = write_line(turn.call), env.toolbox.find(turn.call)
        lines.append(CallLine(line, turn.reply.code, turn.reply.ok, bool(tool and tool.writes), line in other_lines))
    return lines


@lru_cache(maxsize=256)
def _expert_turns(task: TaskId) -> tuple[Turn, ...]:
    env = CompanyEnv(task, "sparse")
    run_expert(env)
    return tuple(env.turns)
