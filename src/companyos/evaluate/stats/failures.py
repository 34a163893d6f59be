"""The most frequent kinds of failure of a run, each with an episode to look at."""

from collections.abc import Iterable

import msgspec

from companyos.core.groups import grouped
from companyos.evaluate.judge.outcome import Outcome

NEVER_CLOSED = "did not close the ticket within its steps"
DAMAGE = "closed with the right ending, but left an unwanted change behind"
GOAL_MISSED = "closed with the right ending, but missed another goal"


class FailureKind(msgspec.Struct, frozen=True):
    """A kind of failure, the number of episodes that failed so, and one of them."""

    kind: str
    episodes: int
    example: Outcome


def frequent_failures(outcomes: Iterable[Outcome], max_kinds: int = 2) -> list[FailureKind]:
    """Return the kinds of failure with the most episodes. The example is the episode with the fewest steps."""
    by_kind = grouped((outcome for outcome in outcomes if not outcome.success), failure_kind)
    kinds = [FailureKind(kind, len(failed), min(failed, key=_steps)) for kind, failed in by_kind.items()]
    return sorted(kinds, key=lambda kind: (-kind.episodes, kind.kind))[:max_kinds]


def failure_kind(outcome: Outcome) -> str:
    """Say in one line how an episode failed. Wrong endings are told apart by their resolutions, not by their reasons."""
    if outcome.raised:
        return f"the agent raised {outcome.raised}"
    if not outcome.said:
        return NEVER_CLOSED
    if outcome.said == outcome.right:
        return DAMAGE if outcome.damage else GOAL_MISSED
    said, right = outcome.said.partition("/")[0], outcome.right.partition("/")[0]
    return f"closed as {said} for a wrong reason" if said == right else f"closed as {said} where {right} was right"


def _steps(outcome: Outcome) -> tuple[int, str, int]:
    return outcome.steps, outcome.task_id, outcome.trial
