"""Stories: an episode told step by step. What was called, what came back, and what that did to the company.

An episode is told by making its calls again in a company of its own, so nobody who looks gets in the way of those who work.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from companyos.chaos import DIALS
from companyos.company import Approval, Metric, Mind
from companyos.company.colleagues import WHIMS
from companyos.core.calls import NO_ANSWER, OK, Call
from companyos.core.task import TaskId
from companyos.core.world import Change
from companyos.env import CompanyEnv
from companyos.env.observations import compact
from companyos.evaluate.judge.playback import Moment, moment
from companyos.families import family
from companyos.families.kit.case import Trouble
from companyos.families.kit.family import write_value
from companyos.web.words import in_words

_INCIDENTS = {"policy_change": "policy_drift", "chatter": "noise"}  # the dial behind an appointment
_LONGEST = 160  # signs of a value


class Written(msgspec.Struct, frozen=True):
    """A record that a turn wrote: by whom, where that was somebody else, and on which dial, where that was trouble."""

    kind: str
    record: str
    made: bool  # it was not there before
    fields: tuple[tuple[str, str, str], ...]  # name, before, after
    who: str
    dial: str


class Chapter(msgspec.Struct, frozen=True):
    """One call, and all that came of it."""

    number: int
    app: str
    method: str
    actor: str  # who called, where that was not the one who works the task
    moment: Moment
    strikes: tuple[str, ...]  # the dials that struck in it
    written: tuple[Written, ...]
    reached: tuple[str, ...]  # milestones
    undone: tuple[str, ...]

    @property
    def tone(self) -> str:
        code = self.moment.code
        return "good" if code == OK else "warn" if code == NO_ANSWER else "bad"


class Cause(msgspec.Struct, frozen=True):
    """A hidden truth of an episode: what it is called, what it is, and the dial, where it is trouble."""

    name: str
    value: str
    meaning: str
    dial: str
    strikes: bool  # it is trouble, and it is there


class Telling:
    """Tells an episode, call by call."""

    def __init__(self, task_id: str, reward: str = "dense", actors: Sequence[str] = ()) -> None:
        self.env = CompanyEnv(TaskId.parse(task_id), reward, actors=actors)
        self.begins = self.env.reset().now
        self.chapters: list[Chapter] = []
        self._milestones = self.env.setting.ending.milestones
        self._standing = self._holding()
        self._read = len(self.env.world.journal)

    def tell(self, action: Call | Any, actor: str = "") -> Chapter:
        """Makes a call; gives what came of it."""
        env = self.env
        env.step(action, actor)
        turn, before = env.turns[-1], self._standing
        self._standing = now = self._holding()
        written = tuple(map(self._written, env.world.journal[self._read :]))
        self._read = len(env.world.journal)
        struck = [one.dial for one in written if one.dial] + ["flaky"] * (turn.reply.code == NO_ANSWER)
        chapter = Chapter(
            number=len(env.turns),
            app=turn.call.app,
            method=turn.call.method,
            actor=turn.actor,
            moment=moment(turn, now),
            strikes=tuple(dict.fromkeys(struck)),
            written=written,
            reached=self._named(set(now) - set(before)),
            undone=self._named(set(before) - set(now)),
        )
        self.chapters.append(chapter)
        return chapter

    @property
    def milestones(self) -> list[tuple[str, bool]]:
        """All of them, and whether each holds."""
        return [(in_words(one.name), number in self._standing) for number, one in enumerate(self._milestones)]

    def _holding(self) -> tuple[int, ...]:
        world = self.env.world
        return tuple(number for number, one in enumerate(self._milestones) if one.goal.holds(world))

    def _named(self, numbers: set[int]) -> tuple[str, ...]:
        return tuple(in_words(self._milestones[number].name) for number in sorted(numbers))

    def _written(self, change: Change) -> Written:
        mine = self.env.setting.case.actor
        return Written(
            kind=type(change.after).__name__,
            record=change.after.id,
            made=change.before is None,
            fields=tuple((name, _said(before), _said(after)) for name, (before, after) in change.fields().items()),
            who="" if change.actor == mine else change.actor or in_words(change.why).lower(),
            dial=self._dial(change),
        )

    def _dial(self, change: Change) -> str:
        """The dial by which something was written, where it was written by trouble that comes with the hours."""
        after, mind = change.after, self.env.world.peek(Mind, change.actor)
        if mind is not None and after.id in mind.meddles and change.names == ("priority",):
            return "interference"
        if isinstance(after, Metric) and after.pipeline == "failed":
            return "refresh"
        if isinstance(after, Approval) and after.status == "rejected" and after.code in WHIMS:
            return "rejections"
        return _INCIDENTS.get(change.why, "")


def causes(env: CompanyEnv) -> list[Cause]:
    """What is true of an episode and was told to nobody: facts, then the troubles that are there, then all others."""
    found = []
    for spec in family(TaskId.parse(env.task_id).family).specs():
        value = getattr(env.setting.causes, spec.name)
        dial = spec.mark.dial if isinstance(spec.mark, Trouble) else ""
        strikes = bool(dial) and value != DIALS[dial].levels[0]
        meaning = spec.meaning or about_dial(dial)
        shown = ("no", "yes")[value] if isinstance(value, bool) else write_value(value)
        found.append(Cause(in_words(spec.name), shown.replace("_", " "), meaning, dial, strikes))
    return sorted(found, key=lambda one: (bool(one.dial), not one.strikes))


def about_dial(dial: str) -> str:
    """What a dial promises: what is seen, what was written, what recovers."""
    return " ".join((DIALS[dial].__doc__ or "").split())


def _said(value: Any) -> str:
    text = "" if value is None else compact(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
