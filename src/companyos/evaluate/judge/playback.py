"""Playback: an episode as a page shows it, step by step. It is what its calls come to when they are made again."""

from collections.abc import Mapping

import msgspec

from companyos.assurance.replay import compare, states
from companyos.core.episode import Transcript, Turn
from companyos.core.errors import ReplayDiffers
from companyos.core.task import TaskId
from companyos.env import CompanyEnv
from companyos.env.line_syntax import write_line
from companyos.env.observations import compact
from companyos.evaluate.judge.blame import Blame
from companyos.evaluate.judge.blame_text import sentences

_LONGEST_CALL, _LONGEST_REPLY, _LONGEST_BRIEF = 600, 1200, 2000  # signs that are shown of each


class Moment(msgspec.Struct, frozen=True):
    """One call and what came of it. `standing` are the milestones that hold then, by number."""

    clock: str
    call: str
    code: str
    reply: str
    reward: float
    parts: Mapping[str, float]
    standing: tuple[int, ...]


class Playback(msgspec.Struct, frozen=True):
    """One episode of a run, from its brief to its verdict, with what blame found in it."""

    run: int  # whose, by number
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
    decisive: int  # steps from 1; 0 for none
    late: int
    told: tuple[str, ...]  # what it was lost by, in sentences
    differs: str  # where the file says otherwise than its calls; empty where it does not


def playback(run: int, trial: int, transcript: Transcript, found: Blame) -> Playback:
    """Makes the calls of a transcript again, and keeps what is worth showing."""
    env = CompanyEnv(TaskId.parse(transcript.header.task_id), transcript.header.reward)
    begins = env.reset().now
    milestones = env.setting.ending.milestones
    standing = [
        tuple(number for number, milestone in enumerate(milestones) if milestone.goal.holds(state.world))
        for state in states(transcript, env)
    ]
    verdict = env.verdict
    return Playback(
        run=run,
        task_id=env.task_id,
        trial=trial,
        success=bool(env.success),
        brief=_cut(env.scene.task, _LONGEST_BRIEF),
        begins=begins,
        budget=env.max_steps,
        milestones=tuple(milestone.name for milestone in milestones),
        moments=tuple(moment(turn, then) for turn, then in zip(env.turns, standing[1:], strict=True)),
        goals=verdict.goals if verdict else {},
        damage=tuple(f"{harm.record} {harm.field}" for harm in verdict.damage) if verdict else (),
        decisive=found.step,
        late=found.late,
        told=tuple(sentences(found)),
        differs=difference(transcript, env.transcript()),
    )


def moment(turn: Turn, standing: tuple[int, ...]) -> Moment:
    """A turn as it is shown: what is very long is cut."""
    said = msgspec.json.encode(turn.action[0]).decode() if turn.action else write_line(turn.call)
    heard = compact(turn.reply.data) if turn.reply.ok else turn.reply.message
    return Moment(
        clock=turn.now,
        call=_cut(said, _LONGEST_CALL),
        code=turn.reply.code,
        reply=_cut(heard, _LONGEST_REPLY),
        reward=round(turn.reward, 4),
        parts={name: round(part, 4) for name, part in turn.parts.items()},
        standing=standing,
    )


def difference(recorded: Transcript, played: Transcript) -> str:
    """Where a file says otherwise than its calls; empty where it does not."""
    try:
        compare(recorded, played)
    except ReplayDiffers as difference:
        return _cut(str(difference), _LONGEST_REPLY)
    return ""


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … and {len(text) - longest:,} signs more"
