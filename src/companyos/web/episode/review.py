"""Reviews a finished transcript: its turns, the call at which it failed, and the same calls on a twin.

A twin is the same task with one hidden cause changed.
"""

import re
from collections.abc import Sequence

import msgspec

from companyos.assurance.regrade import task_and_version_of
from companyos.assurance.replay import ReplayedEpisode, action_of
from companyos.assurance.twins import twin_tasks, twins_with_other_ending
from companyos.core.episode import Transcript
from companyos.core.errors import ReplayDiffers
from companyos.core.task import BENCHMARK_VERSION, TaskId
from companyos.env import CompanyEnv
from companyos.evaluate.judge.blame import blame
from companyos.evaluate.judge.blame_text import sentences
from companyos.evaluate.judge.outcome import damage_of
from companyos.evaluate.judge.playback import difference
from companyos.web.episode.turn_recorder import HiddenCause, RecordedTurn, TurnRecorder, hidden_causes
from companyos.web.labels import goal_in_words, in_words


class UnreadableTranscript(ValueError):
    """A file that is not a transcript, or cannot be replayed here. The message is one line."""


class OtherVersionTranscript(UnreadableTranscript):
    """A transcript of another version of the benchmark."""


class TwinChoice(msgspec.Struct, frozen=True):
    """A twin that the page offers."""

    name: str  # `cause.value`
    title: str
    other_ending: bool  # on this twin, a different ending is the right one


class TwinReplay(msgspec.Struct, frozen=True):
    """The same calls, made on a twin."""

    name: str
    title: str
    other_ending: bool
    right_ending: str
    turns: tuple[RecordedTurn, ...]  # fewer than the calls, if the twin ended earlier
    diverges: int  # the first step with another reply or clock; 0: none
    success: bool | None


class EpisodeReview(msgspec.Struct, frozen=True):
    """Everything that the replay page shows."""

    task_id: str
    brief: str
    budget: int
    reward_profile: str
    total_reward: float
    done: bool
    success: bool | None
    turns: tuple[RecordedTurn, ...]
    milestones: tuple[str, ...]
    goals: tuple[tuple[str, str, bool], ...]  # name, what it asks for, whether it was reached
    damage: tuple[str, ...]
    causes: tuple[HiddenCause, ...]
    right_ending: str
    decisive: int  # the step at which success became impossible; 0: none
    explanation: tuple[str, ...]  # sentences that say why it failed
    mismatch: str  # where the file and its replayed calls differ
    choices: tuple[TwinChoice, ...]
    twin: TwinReplay | None

    def mark(self, step: int) -> str:
        """Return the most important mark of a step: "decisive", "diverges" or none."""
        if step == self.decisive:
            return "decisive"
        return "diverges" if self.twin is not None and step == self.twin.diverges else ""


def review(text: bytes, twin: str = "") -> EpisodeReview:
    """Replay a transcript. `twin` names the cause and the value of the twin (`cause.value`); otherwise one is chosen."""
    recorded = read(text)
    header = recorded.header
    try:
        replayed = ReplayedEpisode(recorded)
    except (ReplayDiffers, ValueError) as mistake:
        raise UnreadableTranscript(str(mistake)) from None
    recorder, env = TurnRecorder.of(replayed), replayed.end
    # Blame and twins are defined for a single worker, so episodes with several actors have neither.
    blamed = None if header.actors else blame(replayed)
    choices = () if header.actors else _choices(env.task_id)
    # The causes that the agent misjudged, and those that it never looked at.
    suspect_causes = (*blamed.misjudged, *blamed.blind) if blamed else ()
    verdict, ending = env.verdict, env.setting.ending  # `setting` is the start state of the task and its right ending
    return EpisodeReview(
        task_id=env.task_id,
        brief=env.scene.brief,  # `scene` holds what stays the same in all observations
        budget=env.max_steps,
        reward_profile=header.reward,
        total_reward=env.total,
        done=env.done,
        success=env.success,
        turns=tuple(recorder.turns),
        milestones=tuple(name for name, _ in recorder.milestones),
        goals=tuple((goal_in_words(n), ending.asks(n), holds) for n, holds in verdict.goals.items()) if verdict else (),
        damage=damage_of(env),
        causes=tuple(hidden_causes(env)),
        right_ending=_right_ending(recorder),
        decisive=blamed.step if blamed else 0,
        explanation=tuple(sentences(blamed)) if blamed else (),
        mismatch=difference(replayed),
        choices=choices,
        twin=_choose_twin(recorded, recorder, choices, twin, suspect_causes) if choices else None,
    )


def read(text: bytes) -> Transcript:
    """Read a transcript. Raise `UnreadableTranscript` if the text is not one."""
    stated = task_and_version_of(text)
    if stated is not None and stated.version != BENCHMARK_VERSION:
        raise OtherVersionTranscript(f"this transcript is of benchmark version {stated.version}, task {stated.task_id}")
    try:
        recorded = Transcript.from_jsonl(text)
        TaskId.parse(recorded.header.task_id)
    except RecursionError:
        raise UnreadableTranscript("not a transcript: its JSON is nested too deeply") from None
    except ValueError as mistake:
        raise UnreadableTranscript(str(mistake)) from None
    return recorded


def _replay(recorded: Transcript, task_id: str) -> TurnRecorder:
    """Make the calls of a transcript on another task, until they end or the task is over."""
    recorder = TurnRecorder(CompanyEnv(TaskId.parse(task_id), recorded.header.reward))
    for turn in recorded.turns:
        if recorder.env.done:
            break
        recorder.step(action_of(turn))
    return recorder


# -- twins -------------------------------------------------------------------------------------------------------------


def _choices(task_id: str) -> tuple[TwinChoice, ...]:
    others = {other for _, other in twins_with_other_ending(task_id)}
    twins = [
        TwinChoice(f"{cause.name}.{value}", f"{in_words(cause.name)}: {_value(value)}", other in others)
        for cause, value, other in twin_tasks(task_id)
    ]
    return tuple(sorted(twins, key=lambda twin: not twin.other_ending))


def _value(value: str) -> str:
    return {"0": "no", "1": "yes"}.get(value, value.replace("_", " "))


def _choose_twin(
    recorded: Transcript, ours: TurnRecorder, choices: Sequence[TwinChoice], wanted: str, suspect_causes: Sequence[str]
) -> TwinReplay:
    """Replay the wanted twin. Without one, replay the first twin that has another right ending and gives different replies.

    Twins of suspect causes are tried first. If no twin fits, return the one that was tried first.
    """
    tasks = {f"{cause.name}.{value}": other for cause, value, other in twin_tasks(ours.env.task_id)}
    by_name = {choice.name: choice for choice in choices}
    if wanted in by_name:
        return _replay_twin(recorded, ours, by_name[wanted], tasks[wanted])
    order = sorted(
        choices, key=lambda choice: (not choice.other_ending, choice.name.partition(".")[0] not in suspect_causes)
    )
    first = None
    for choice in order:
        twin = _replay_twin(recorded, ours, choice, tasks[choice.name])
        first = first or twin
        if not choice.other_ending:
            break
        if twin.diverges:
            return twin
    assert first is not None, "every task has twins"
    return first


def _replay_twin(recorded: Transcript, ours: TurnRecorder, choice: TwinChoice, task_id: str) -> TwinReplay:
    theirs = _replay(recorded, task_id)
    pairs = zip(ours.turns, theirs.turns, strict=False)
    diverges = next((our.number for our, their in pairs if _reply_of(our) != _reply_of(their)), 0)
    if not diverges and len(ours.turns) != len(theirs.turns):
        diverges = min(len(ours.turns), len(theirs.turns)) + 1
    right_ending, turns = _right_ending(theirs), tuple(theirs.turns)
    return TwinReplay(choice.name, choice.title, choice.other_ending, right_ending, turns, diverges, theirs.env.success)


def _reply_of(turn: RecordedTurn) -> tuple[str, str, str]:
    return turn.moment.clock, turn.moment.code, turn.moment.reply


def _right_ending(recorder: TurnRecorder) -> str:
    ending = recorder.env.setting.ending
    return f"{ending.resolution}, {ending.reason}".replace("_", " ")


def split_differences(reply: str, other: str) -> list[tuple[str, bool]]:
    """Split a reply into pieces, each with whether the other reply lacks it."""
    there = set(_SEPARATORS.split(other))
    return [(piece, piece not in there) for piece in _SEPARATORS.split(reply) if piece]


_SEPARATORS = re.compile(r"(; |\n)")
