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
from companyos.families.kit.missed import describe_goal, goal_title
from companyos.web.episode.turn_recorder import HiddenCause, RecordedTurn, TurnRecorder, hidden_causes
from companyos.web.labels import in_words


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
    transcript = read(text)
    header = transcript.header
    try:
        replayed = ReplayedEpisode(transcript)
    except (ReplayDiffers, ValueError) as error:
        raise UnreadableTranscript(str(error)) from None
    recorder, env = TurnRecorder.of(replayed), replayed.end
    # Blame and twins are defined for a single worker, so episodes with several actors have neither.
    blamed = None if header.actors else blame(replayed)
    choices = () if header.actors else _twin_choices(env.task_id)
    # The causes that the agent misjudged, and those that it never looked at.
    suspect_causes = (*blamed.misjudged, *blamed.blind) if blamed else ()
    if blamed and blamed.step and blamed.story and blamed.story.facts and not twin:
        twin = _twin_of(blamed.story.facts[0].cause, choices)  # the fact that decided the loss
    verdict, ending = env.verdict, env.setting.ending  # `setting` is the start state of the task and its right ending
    goals = verdict.goals if verdict else {}
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
        goals=tuple(
            (goal_title(name), describe_goal(ending, name, reached, env.world), reached) for name, reached in goals.items()
        ),
        damage=damage_of(env),
        causes=tuple(hidden_causes(env)),
        right_ending=_right_ending(recorder),
        decisive=blamed.step if blamed else 0,
        explanation=tuple(sentences(blamed)) if blamed else (),
        mismatch=difference(replayed),
        choices=choices,
        twin=_choose_twin(transcript, recorder, choices, twin, suspect_causes) if choices else None,
    )


def explain(text: bytes) -> tuple[str, ...]:
    """Return the sentences that say why an episode failed or succeeded by luck; none for other successes."""
    transcript = read(text)
    if transcript.header.actors:
        return ()  # blame is defined for a single worker
    blamed = blame(transcript)
    return tuple(sentences(blamed)) if blamed.luck or not blamed.success else ()


def read(text: bytes) -> Transcript:
    """Read a transcript. Raise `UnreadableTranscript` if the text is not one."""
    stated = task_and_version_of(text)
    if stated is not None and stated.version != BENCHMARK_VERSION:
        raise OtherVersionTranscript(f"this transcript is of benchmark version {stated.version}, task {stated.task_id}")
    try:
        transcript = Transcript.from_jsonl(text)
        TaskId.parse(transcript.header.task_id)
    except RecursionError:
        raise UnreadableTranscript("not a transcript: its JSON is nested too deeply") from None
    except ValueError as error:
        raise UnreadableTranscript(str(error)) from None
    return transcript


def _replay(transcript: Transcript, task_id: str) -> TurnRecorder:
    """Make the calls of a transcript on another task, until they end or the task is over."""
    recorder = TurnRecorder(CompanyEnv(TaskId.parse(task_id), transcript.header.reward))
    for turn in transcript.turns:
        if recorder.env.done:
            break
        recorder.step(action_of(turn))
    return recorder


# -- twins -------------------------------------------------------------------------------------------------------------


def _twin_choices(task_id: str) -> tuple[TwinChoice, ...]:
    """Return the twins of a task, those with another right ending first."""
    with_other_ending = {twin for _, twin in twins_with_other_ending(task_id)}
    twins = [
        TwinChoice(f"{cause.name}.{value}", f"{in_words(cause.name)}: {_value_text(value)}", twin in with_other_ending)
        for cause, value, twin in twin_tasks(task_id)
    ]
    return tuple(sorted(twins, key=lambda twin: not twin.other_ending))


def _value_text(value: str) -> str:
    """Return the value of a cause as a text for people: `0` and `1` are truth values."""
    return {"0": "no", "1": "yes"}.get(value, value.replace("_", " "))


def _twin_of(cause: str, choices: Sequence[TwinChoice]) -> str:
    """Return the name of the first twin that changes a cause and has another right ending, or an empty text."""
    return next((choice.name for choice in choices if choice.other_ending and choice.name.startswith(f"{cause}.")), "")


def _choose_twin(
    transcript: Transcript, episode: TurnRecorder, choices: Sequence[TwinChoice], wanted: str, suspect_causes: Sequence[str]
) -> TwinReplay:
    """Replay the wanted twin. Without one, replay the first twin that has another right ending and gives different replies.

    Twins of suspect causes are tried first. If no twin fits, return the one that was tried first.
    """
    tasks = {f"{cause.name}.{value}": twin for cause, value, twin in twin_tasks(episode.env.task_id)}
    by_name = {choice.name: choice for choice in choices}
    if wanted in by_name:
        return _replay_twin(transcript, episode, by_name[wanted], tasks[wanted])
    likely_first = sorted(
        choices, key=lambda choice: (not choice.other_ending, choice.name.partition(".")[0] not in suspect_causes)
    )
    first = None
    for choice in likely_first:
        twin = _replay_twin(transcript, episode, choice, tasks[choice.name])
        first = first or twin
        if not choice.other_ending:
            break
        if twin.diverges:
            return twin
    assert first is not None, "every task has twins"
    return first


def _replay_twin(transcript: Transcript, episode: TurnRecorder, choice: TwinChoice, task_id: str) -> TwinReplay:
    twin_recorder = _replay(transcript, task_id)
    pairs = zip(episode.turns, twin_recorder.turns, strict=False)
    diverges = next((turn.number for turn, twin_turn in pairs if _reply_of(turn) != _reply_of(twin_turn)), 0)
    if not diverges and len(episode.turns) != len(twin_recorder.turns):
        diverges = min(len(episode.turns), len(twin_recorder.turns)) + 1
    right_ending, turns = _right_ending(twin_recorder), tuple(twin_recorder.turns)
    return TwinReplay(
        choice.name, choice.title, choice.other_ending, right_ending, turns, diverges, twin_recorder.env.success
    )


def _reply_of(turn: RecordedTurn) -> tuple[str, str, str]:
    """Return what the agent saw after a call: clock, code and text of the reply."""
    return turn.moment.clock, turn.moment.code, turn.moment.reply


def _right_ending(recorder: TurnRecorder) -> str:
    ending = recorder.env.setting.ending
    return f"{ending.resolution}, {ending.reason}".replace("_", " ")


def mark_differences(reply: str, other_reply: str) -> list[tuple[str, bool]]:
    """Split a reply into pieces, and say of each piece whether the other reply lacks it."""
    other_pieces = set(_SEPARATORS.split(other_reply))
    return [(piece, piece not in other_pieces) for piece in _SEPARATORS.split(reply) if piece]


_SEPARATORS = re.compile(r"(; |\n)")  # between two fields, and between two lines, of a reply
