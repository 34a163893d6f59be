"""Playback: an episode as a page shows it, step by step. Everything shown comes from replaying its calls."""

from collections.abc import Mapping

import msgspec

from companyos.assurance.replay import ReplayedEpisode
from companyos.core.episode import Turn
from companyos.core.errors import ReplayDiffers
from companyos.env import CompanyEnv
from companyos.env.line_syntax import write_line
from companyos.env.observations import compact
from companyos.evaluate.judge.blame import Blame
from companyos.evaluate.judge.blame_text import sentences
from companyos.evaluate.judge.outcome import damage_of

_MAX_CALL, _MAX_REPLY, _MAX_BRIEF = 600, 1200, 2000  # characters that are shown of each


class Moment(msgspec.Struct, frozen=True):
    """One call with its reply and reward. `standing` are the numbers of the milestones that hold after it."""

    clock: str
    call: str
    code: str
    reply: str
    reward: float
    parts: Mapping[str, float]
    standing: tuple[int, ...]


class Playback(msgspec.Struct, frozen=True):
    """One episode of a run, from its brief to its verdict, with the result of blame."""

    run: int  # the number of its run in the report
    task_id: str
    trial: int
    success: bool
    brief: str
    begins: str
    budget: int
    milestones: tuple[str, ...]
    moments: tuple[Moment, ...]
    goals: Mapping[str, bool]
    damage: tuple[str, ...]
    decisive: int  # the decisive call, counted from 1; 0 if there is none
    late: int  # the call after which the steps left were too few; 0 if there is none
    told: tuple[str, ...]  # why it was lost, in sentences
    differs: str  # the first recorded line that differs from the replay; empty if none does


def playback(run: int, trial: int, replayed: ReplayedEpisode, blame: Blame) -> Playback:
    """Return what a page shows of a replayed episode."""
    env = replayed.end
    return Playback(
        run=run,
        task_id=env.task_id,
        trial=trial,
        success=bool(env.success),
        brief=_cut(env.scene.brief, _MAX_BRIEF),
        begins=replayed.states[0].look().now,
        budget=env.max_steps,
        milestones=tuple(milestone.name for milestone in env.setting.ending.milestones),
        moments=tuple(moment(turn, holding(after)) for turn, after in zip(env.turns, replayed.states[1:], strict=True)),
        goals=env.verdict.goals if env.verdict else {},
        damage=damage_of(env),
        decisive=blame.step,
        late=blame.late,
        told=tuple(sentences(blame)),
        differs=difference(replayed),
    )


def holding(env: CompanyEnv) -> tuple[int, ...]:
    """Return the numbers of the milestones of the right ending that hold now."""
    milestones = env.setting.ending.milestones
    return tuple(number for number, milestone in enumerate(milestones) if milestone.goal.holds(env.world))


def moment(turn: Turn, standing: tuple[int, ...]) -> Moment:
    """Return a turn as it is shown. Long texts are cut."""
    sent = msgspec.json.encode(turn.action[0]).decode() if turn.action else write_line(turn.call)
    reply = compact(turn.reply.data) if turn.reply.ok else turn.reply.message
    return Moment(
        clock=turn.now,
        call=_cut(sent, _MAX_CALL),
        code=turn.reply.code,
        reply=_cut(reply, _MAX_REPLY),
        reward=round(turn.reward, 4),
        parts={name: round(part, 4) for name, part in turn.parts.items()},
        standing=standing,
    )


def difference(replayed: ReplayedEpisode) -> str:
    """Return the first recorded line that differs from the replay; empty if none does."""
    try:
        replayed.verify()
    except ReplayDiffers as first:
        return _cut(str(first), _MAX_REPLY)
    return ""


def _cut(text: str, max_length: int) -> str:
    if len(text) <= max_length:
        return text
    return f"{text[:max_length]} … and {len(text) - max_length:,} characters more"
