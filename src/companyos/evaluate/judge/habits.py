"""Habits: the decisive mistakes of many episodes, described in plain words and counted, the most frequent first."""

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from companyos.evaluate.judge.blame import DAMAGE, NOTHING, RAISED, TIME, Blame
from companyos.evaluate.judge.deciding import (
    NO_POLICY,
    NO_RECORD,
    NOT_ASKED,
    NOT_READ,
    OTHER_SOURCE,
    READ,
    STALE,
    UNANSWERED,
)
from companyos.evaluate.judge.story import INVALID_CALLS, REFUSED, REPEATING, WAITING, Story
from companyos.families.kit.missed import in_words

_WRONG_ENDING = {
    STALE: "closed without refreshing a stale metric",
    NOT_ASKED: "closed without asking the colleague who knows the deciding fact",
    UNANSWERED: "closed before reading the answer of a colleague",
    NOT_READ: "closed without reading the deciding fact",
    READ: "read the deciding fact, and closed against it",
    NO_POLICY: "closed without reading the policy that says what follows from the deciding fact",
    NO_RECORD: "closed after reading only one of the facts that decide",
    OTHER_SOURCE: "trusted a value that is not the current measurement",
}
# By the beginning of a goal's name. The first that was missed describes the mistake.
_RIGHT_ENDING = {
    "SignedFor": "closed without the signature that the policies require",
    "Requested": "closed without the signature that the policies require",
    "TicketIs:verified": "closed without verifying the right register entry",
    "Fresh": "closed although a metric was too old",
    "MeasuredSince": "closed although a metric was too old",
    "ReadFresh": "closed without reading the newest measurement",
    "HandedTo": "assigned the ticket to the wrong person",
    "CitesNothingFalse": "cited something that is not true",
    "CitesNoOther": "cited a fact that competes with the deciding one",
    "Cites": "closed for the right reason, but did not cite the deciding facts",
}
_OUT_OF_STEPS = {
    WAITING: "ran out of steps, mostly waiting",
    REPEATING: "ran out of steps, mostly repeating the same reads",
    INVALID_CALLS: "ran out of steps, mostly with invalid calls",
    REFUSED: "ran out of steps, mostly with refused calls",
}
_DAMAGE = {
    "request": "had a request signed that nothing called for",
    "comment": "wrote on a ticket that is not part of the work",
    "field": "made a change that cannot be undone and that nothing called for",
}
_WASTEFUL = 0.25  # share of the steps from which on a kind of call explains that they ran out


class Habit(msgspec.Struct, frozen=True):
    """A decisive mistake and the episodes that it lost."""

    habit: str
    count: int
    task_ids: tuple[str, ...]


def habit_of(blame: Blame) -> str:
    """Return the decisive mistake of a failed episode in a few words, the same for all episodes of this kind."""
    story = blame.story
    assert story is not None
    if blame.kind == RAISED:
        return f"the agent raised {blame.raised}"
    if blame.kind == TIME:
        return _out_of_steps(story)
    if blame.kind == DAMAGE:
        return _DAMAGE[story.lasting_harm[0].kind]
    if not story.ending_is_right:
        return _WRONG_ENDING[story.facts[0].how] if story.facts else "closed a ticket for the wrong reason"
    for goal, habit in _RIGHT_ENDING.items():
        if any(name == goal or name.startswith(f"{goal}:") for name in blame.missed):
            return habit
    fields = [name.partition(":")[2] for name in blame.missed if name.startswith("TicketIs:")]
    if not fields:
        return "left changes that nothing called for"
    return f'closed with the field "{in_words(fields[0])}" wrong or empty'


def _out_of_steps(story: Story) -> str:
    if any(request.away_until for request in story.pending):
        return "ran out of steps waiting for a signer who is away"
    for kind, count in story.spent.items():
        if kind in _OUT_OF_STEPS and count >= _WASTEFUL * story.steps:
            return _OUT_OF_STEPS[kind]
    return "ran out of steps before the work was done"


def habits(blames: Iterable[Blame]) -> list[Habit]:
    """Group failed episodes by their decisive mistake, the most frequent first."""
    tasks: defaultdict[str, list[str]] = defaultdict(list)
    for blame in blames:
        if blame.kind != NOTHING:
            tasks[habit_of(blame)].append(blame.task_id)
    groups = [Habit(habit, len(task_ids), tuple(task_ids)) for habit, task_ids in tasks.items()]
    return sorted(groups, key=lambda group: (-group.count, group.habit))
