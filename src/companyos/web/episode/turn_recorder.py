"""Replays an episode call by call, and describes what each call did to the company.

The calls are made again in a separate environment, so that watching does not disturb the session.
"""

from typing import Any

import msgspec

from companyos.assurance.replay import ReplayedEpisode
from companyos.chaos import DIALS
from companyos.company import Approval, Metric, Mind
from companyos.company.colleagues import OBJECTION_CODES
from companyos.core.calls import NO_ANSWER, OK, Call
from companyos.core.task import TaskId
from companyos.core.world import Change
from companyos.env import CompanyEnv
from companyos.env.observations import compact
from companyos.env.teacher import Due, Teacher
from companyos.evaluate.judge.playback import Moment, holding, moment
from companyos.families import family
from companyos.families.kit.case import Trouble
from companyos.families.kit.family import write_value
from companyos.web.labels import in_words

# For each kind of event that a dial schedules during the episode: that dial.
_DIAL_OF_EVENT = {"policy_change": "policy_drift", "chatter": "noise"}
# The dials whose trouble happens during the episode. All others disturb the company before it starts.
_DIALS_DURING = frozenset({"flaky", "interference", "refresh", "rejections", *_DIAL_OF_EVENT.values()})
_MAX_VALUE_LENGTH = 160  # characters


class RecordChange(msgspec.Struct, frozen=True):
    """A record that a turn wrote."""

    kind: str
    record: str
    created: bool  # by this turn
    fields: tuple[tuple[str, str, str], ...]  # name, before, after
    who: str  # empty: the worker of the task
    dial: str  # the chaos dial that caused the write, if one did


class RecordedTurn(msgspec.Struct, frozen=True):
    """One call and everything that it changed."""

    number: int
    app: str
    method: str
    actor: str  # empty: the worker of the task
    moment: Moment
    troubles: tuple[str, ...]  # the dials that caused trouble in this turn
    written: tuple[RecordChange, ...]
    reached: tuple[str, ...]  # milestones
    undone: tuple[str, ...]  # milestones that this turn lost again
    working: tuple[str, ...] = ()  # the expert's comparisons that lead to this call, if the expert would make it too

    @property
    def tone(self) -> str:
        """The colour of the reply: "good", "warn" or "bad"."""
        code = self.moment.code
        return "good" if code == OK else "warn" if code == NO_ANSWER else "bad"


class HiddenCause(msgspec.Struct, frozen=True):
    """A hidden cause of an episode: its name, value and meaning, and its dial if the cause is a trouble."""

    name: str
    value: str
    meaning: str
    dial: str
    active: bool  # a trouble that occurs in this episode


class TurnRecorder:
    """An environment that records a `RecordedTurn` for each call."""

    def __init__(self, env: CompanyEnv, with_working: bool = False) -> None:
        """Start at an episode before its first call. `with_working` also records the expert's comparisons."""
        self.env = env
        self._teacher = Teacher(env) if with_working else None
        self.begins = env.look().now
        self.turns: list[RecordedTurn] = []
        self._milestones = env.setting.ending.milestones
        self._reached = holding(env)  # the numbers of the milestones that hold now
        self._journal_length = len(env.world.journal)

    @classmethod
    def of(cls, replayed: ReplayedEpisode) -> "TurnRecorder":
        """Record an episode that was replayed."""
        start, *later = replayed.states
        recorder = cls(start)
        for env in later:
            recorder._add(env)
        return recorder

    def step(self, action: Call | Any, actor: str = "") -> RecordedTurn:
        """Make a call and return what it did."""
        due = self._teacher.due(verify=False) if self._teacher else Due()
        self.env.step(action, actor)
        return self._add(self.env, due.working if self.env.turns[-1].call == due.call else ())

    def _add(self, env: CompanyEnv, working: tuple[str, ...] = ()) -> RecordedTurn:
        """Record the last turn of an episode."""
        self.env = env
        turn, reached_before = env.turns[-1], self._reached
        self._reached = reached_now = holding(env)
        written = tuple(map(self._record_change, env.world.journal[self._journal_length :]))
        self._journal_length = len(env.world.journal)
        troubles = [change.dial for change in written if change.dial] + (["flaky"] if turn.reply.code == NO_ANSWER else [])
        recorded = RecordedTurn(
            number=len(env.turns),
            app=turn.call.app,
            method=turn.call.method,
            actor=turn.actor,
            moment=moment(turn, reached_now),
            troubles=tuple(dict.fromkeys(troubles)),
            written=written,
            reached=self._names(set(reached_now) - set(reached_before)),
            undone=self._names(set(reached_before) - set(reached_now)),
            working=working,
        )
        self.turns.append(recorded)
        return recorded

    @property
    def milestones(self) -> list[tuple[str, bool]]:
        """All milestones, and whether each is reached now."""
        return [(in_words(goal.name), number in self._reached) for number, goal in enumerate(self._milestones)]

    def _names(self, numbers: set[int]) -> tuple[str, ...]:
        """Return the names of milestones by their numbers."""
        return tuple(in_words(self._milestones[number].name) for number in sorted(numbers))

    def _record_change(self, change: Change) -> RecordChange:
        worker = self.env.setting.case.actor
        return RecordChange(
            kind=type(change.after).__name__,
            record=change.after.id,
            created=change.before is None,
            fields=tuple(
                (name, _short_text(before), _short_text(after)) for name, (before, after) in change.fields().items()
            ),
            who="" if change.actor == worker else change.actor or in_words(change.why).lower(),
            dial=self._dial(change),
        )

    def _dial(self, change: Change) -> str:
        """Return the dial that caused a write, or an empty text. Only troubles that happen during the work write records."""
        after, mind = change.after, self.env.world.peek(Mind, change.actor)
        if mind is not None and after.id in mind.meddles and change.names == ("priority",):
            return "interference"
        if isinstance(after, Metric) and after.pipeline == "failed":
            return "refresh"
        if isinstance(after, Approval) and after.status == "rejected" and after.code in OBJECTION_CODES:
            return "rejections"
        return _DIAL_OF_EVENT.get(change.why, "")


def hidden_causes(env: CompanyEnv) -> list[HiddenCause]:
    """Return the causes of an episode: facts first, then the troubles that occur in it, then the others."""
    causes = []
    for spec in family(TaskId.parse(env.task_id).family).specs():
        value = getattr(env.setting.causes, spec.name)
        dial = spec.annotation.dial if isinstance(spec.annotation, Trouble) else ""
        active = bool(dial) and value != DIALS[dial].levels[0]
        meaning = spec.meaning or dial_description(dial)
        shown = ("no", "yes")[value] if isinstance(value, bool) else write_value(value)
        causes.append(HiddenCause(in_words(spec.name), shown.replace("_", " "), meaning, dial, active))
    return sorted(causes, key=lambda cause: (bool(cause.dial), not cause.active))


def troubles_at_start(env: CompanyEnv) -> list[HiddenCause]:
    """Return the troubles that disturbed the company before the episode started."""
    return [cause for cause in hidden_causes(env) if cause.active and cause.dial not in _DIALS_DURING]


def dial_description(dial: str) -> str:
    """Return a dial's description."""
    return " ".join((DIALS[dial].__doc__ or "").split())


def _short_text(value: Any) -> str:
    text = "" if value is None else compact(value)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[:_MAX_VALUE_LENGTH]}…"
