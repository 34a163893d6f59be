"""Reviews: a whole episode looked back at. Its story, the call at which it was lost, and the same calls on a twin."""

import re
from collections.abc import Sequence

import msgspec

from companyos.assurance.regrade import claim_of
from companyos.assurance.twins import opposites, siblings
from companyos.core.episode import Transcript
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.evaluate.judge.blame import blame
from companyos.evaluate.judge.blame_text import sentences
from companyos.evaluate.judge.playback import difference
from companyos.web.episode.story import Cause, Chapter, Telling, causes
from companyos.web.words import goal_in_words, in_words


class Unreadable(ValueError):
    """A file that is no transcript, or none that can be played here: what is wrong with it, in one line."""


class OtherTimes(Unreadable):
    """A transcript of another version of the benchmark."""


class Choice(msgspec.Struct, frozen=True):
    """A twin that one can look at: the task with one cause set otherwise."""

    name: str  # `cause.value`
    title: str
    other_ending: bool  # there, something else is right


class Beside(msgspec.Struct, frozen=True):
    """The same calls, made on a twin."""

    name: str
    title: str
    other_ending: bool
    right: str
    chapters: tuple[Chapter, ...]  # as many as the twin took: it may be over sooner
    diverges: int  # the first step whose reply or clock is another; 0: none
    success: bool | None


class Review(msgspec.Struct, frozen=True):
    """All that a page shows of an episode that has been."""

    task_id: str
    brief: str
    begins: str
    budget: int
    reward: str
    total: float
    done: bool
    success: bool | None
    chapters: tuple[Chapter, ...]
    milestones: tuple[str, ...]
    goals: tuple[tuple[str, str, bool], ...]
    damage: tuple[str, ...]
    causes: tuple[Cause, ...]
    right: str
    decisive: int  # the step at which it was lost; 0: at none
    late: int
    lost_by: tuple[str, ...]  # in sentences
    differs: str  # where the file says otherwise than its calls
    choices: tuple[Choice, ...]
    beside: Beside | None

    def mark(self, step: int) -> str:
        """What is to be said of a step before all else."""
        if step == self.decisive:
            return "decisive"
        return "diverges" if self.beside is not None and step == self.beside.diverges else ""


def review(text: bytes, twin: str = "") -> Review:
    """Makes the calls of a transcript again. `twin` names the cause and the value to lay beside it; else one is chosen."""
    recorded = read(text)
    header = recorded.header
    telling = _tell(recorded, header.task_id)
    if len(telling.chapters) < len(recorded.turns):
        raise Unreadable(f"line {len(telling.chapters) + 2}: a turn after the episode was over")
    env = telling.env
    # Who sits in other chairs as well is neither blamed nor laid beside a twin: both are about one who works alone.
    found = None if header.actors else blame(recorded)
    choices = () if header.actors else _choices(env.task_id)
    doubted = (*found.misjudged, *found.blind) if found else ()
    verdict, ending = env.verdict, env.setting.ending
    return Review(
        task_id=env.task_id,
        brief=env.scene.task,
        begins=telling.begins,
        budget=env.max_steps,
        reward=header.reward,
        total=telling.env.total,
        done=env.done,
        success=env.success,
        chapters=tuple(telling.chapters),
        milestones=tuple(name for name, _ in telling.milestones),
        goals=tuple((goal_in_words(n), ending.asks(n), holds) for n, holds in verdict.goals.items()) if verdict else (),
        damage=tuple(f"{harm.record} {harm.field}" for harm in verdict.damage) if verdict else (),
        causes=tuple(causes(env)),
        right=_right(telling),
        decisive=found.step if found else 0,
        late=found.late if found else 0,
        lost_by=tuple(sentences(found)) if found else (),
        differs=difference(recorded, env.transcript()),
        choices=choices,
        beside=_beside(recorded, telling, choices, twin, doubted) if choices else None,
    )


def read(text: bytes) -> Transcript:
    """A transcript from its file; `Unreadable` says why it is none."""
    claim = claim_of(text)
    if claim is not None and claim.version != BENCHMARK_VERSION:
        raise OtherTimes(f"this is a transcript of benchmark version {claim.version}, of the task {claim.task_id}")
    try:
        recorded = Transcript.from_jsonl(text)
        TaskId.parse(recorded.header.task_id)
    except RecursionError:
        raise Unreadable("not a transcript: it is nested too deep") from None
    except ValueError as mistake:
        raise Unreadable(str(mistake)) from None
    return recorded


def _tell(recorded: Transcript, task_id: str) -> Telling:
    """The story of a transcript's calls on a task, up to their end or the task's."""
    header = recorded.header
    try:
        telling = Telling(task_id, header.reward, header.actors or ())
        for turn in recorded.turns:
            if telling.env.done or not telling.env.steps_left(turn.actor):
                break
            telling.tell(turn.action[0] if turn.action else turn.call, turn.actor)
    except ValueError as mistake:
        raise Unreadable(str(mistake)) from None
    return telling


# -- twins -------------------------------------------------------------------------------------------------------------


def _choices(task_id: str) -> tuple[Choice, ...]:
    others = {other for _, other in opposites(task_id)}
    found = [
        Choice(f"{cause.name}.{value}", f"{in_words(cause.name)}: {_value(value)}", other in others)
        for cause, value, other in siblings(task_id)
    ]
    return tuple(sorted(found, key=lambda one: not one.other_ending))


def _value(value: str) -> str:
    return {"0": "no", "1": "yes"}.get(value, value.replace("_", " "))


def _beside(recorded: Transcript, ours: Telling, choices: Sequence[Choice], wanted: str, doubted: Sequence[str]) -> Beside:
    """The twin that is asked for. Else the first that has another ending and tells itself apart; doubtful causes first."""
    tasks = {f"{cause.name}.{value}": other for cause, value, other in siblings(ours.env.task_id)}
    known = {one.name: one for one in choices}
    if wanted in known:
        return _twin(recorded, ours, known[wanted], tasks[wanted])
    order = sorted(choices, key=lambda one: (not one.other_ending, one.name.partition(".")[0] not in doubted))
    first = None
    for choice in order:
        found = _twin(recorded, ours, choice, tasks[choice.name])
        first = first or found
        if not choice.other_ending:
            break
        if found.diverges:
            return found
    assert first is not None, "every task has twins"
    return first


def _twin(recorded: Transcript, ours: Telling, choice: Choice, task_id: str) -> Beside:
    theirs = _tell(recorded, task_id)
    pairs = zip(ours.chapters, theirs.chapters, strict=False)
    apart = next((one.number for one, other in pairs if _heard(one) != _heard(other)), 0)
    if not apart and len(ours.chapters) != len(theirs.chapters):
        apart = min(len(ours.chapters), len(theirs.chapters)) + 1
    chapters = tuple(theirs.chapters)
    return Beside(choice.name, choice.title, choice.other_ending, _right(theirs), chapters, apart, theirs.env.success)


def _heard(chapter: Chapter) -> tuple[str, str, str]:
    return chapter.moment.clock, chapter.moment.code, chapter.moment.reply


def _right(telling: Telling) -> str:
    ending = telling.env.setting.ending
    return f"{ending.resolution}, {ending.reason}".replace("_", " ")


def pieces(reply: str, other: str) -> list[tuple[str, bool]]:
    """A reply in pieces, each with whether the other one lacks it."""
    there = set(_SEPARATORS.split(other))
    return [(piece, piece not in there) for piece in _SEPARATORS.split(reply) if piece]


_SEPARATORS = re.compile(r"(; |\n)")
