"""Reward profiles: functions that return what a turn pays, as named parts whose sum is the reward.

On one task, every success is worth more than every failure, and no cycle of calls has a positive sum.

In profile `dense`, a milestone is paid when it is reached and taken back when it is undone. What holds at the end is kept
as bounded partial credit, so the shaping is *not* policy invariant. The penalty for an offence shrinks each time, so that
all penalties together stay below `max_penalty`.

No profile reveals the right ending before a reply does. During the episode, `dense` pays only for shared milestones: those
that every ending needs, and fresh data that some ending of the case depends on. The last turn pays the difference to the
milestones of the right ending. A rejection is charged in the turn whose reply shows it to the agent, or in the last turn.
`companyos.assurance.reward_laws` checks this by comparing twins, tasks that differ in one cause, turn by turn.
"""

import warnings
from collections.abc import Callable
from functools import cache

import msgspec

from companyos.core.errors import BadChoice
from companyos.families.kit.goals import Damage

SUCCESS = 15.0
FAILURE = -5.0
STEP = 0.1
STEPS_CHARGED = 30  # with a larger budget, each step costs less, so that all together cost the same
# The cost of the first offence, and the factor by which each further one is cheaper.
FAILED_CALL = (0.3, 0.9)
REJECTION = (0.5, 0.8)
UNKNOWN_TOOL = (1.0, 0.7)
MIN_POTENTIAL, MAX_POTENTIAL = 2.0, 10.0  # the sum of all milestones of a task is in this range


def max_penalty() -> float:
    """Return an upper bound for the sum of all penalties of an episode."""
    return STEP * STEPS_CHARGED + sum(first / (1 - factor) for first, factor in (FAILED_CALL, REJECTION, UNKNOWN_TOOL))


class Offences(msgspec.Struct, frozen=True, gc=False):
    """How often the agent was charged so far, by kind of offence."""

    failed: int = 0
    unknown: int = 0
    rejected: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """The judgement of an ended episode: which goals hold in the end state, and the damage."""

    success: bool
    goals: dict[str, bool]
    damage: tuple[Damage, ...]


class TurnEffects(msgspec.Struct, frozen=True, gc=False):
    """What rewards depend on: the consequences of one turn."""

    fault: bool  # the call met an injected fault, so nothing is charged
    failed: bool
    unknown: bool
    rejections: int  # rejections that this turn's reply shows; at the end, all that were not charged before
    before: Offences  # offences of earlier turns
    potential_before: float  # the sum of the milestones that were paid so far
    potential: float  # the sum of the shared milestones that hold; at the end, of those of the right ending that hold
    whole_potential: float  # the sum of all milestones of this task
    max_steps: int
    step: int
    verdict: Verdict | None  # None while the episode goes on
    par: Callable[[], int]

    @property
    def success(self) -> bool:
        return self.verdict is not None and self.verdict.success


def dense(turn: TurnEffects) -> dict[str, float]:
    """Charge each step, refused call and rejection; pay shared milestones at once, all others at the end."""
    parts: dict[str, float] = {}
    verdict, potential = turn.verdict, turn.potential
    if verdict is not None and verdict.success:
        potential = turn.whole_potential
    if potential != turn.potential_before:
        parts["milestones"] = potential - turn.potential_before
    if not turn.fault:
        parts["step"] = -STEP * min(1.0, STEPS_CHARGED / turn.max_steps)
    if turn.failed:
        parts["failed_call"] = -_penalty(FAILED_CALL, turn.before.failed)
    if turn.unknown:
        parts["unknown_tool"] = -_penalty(UNKNOWN_TOOL, turn.before.unknown)
    for number in range(turn.rejections):
        parts["rejection"] = parts.get("rejection", 0.0) - _penalty(REJECTION, turn.before.rejected + number)
    if verdict is not None:
        parts["end"] = SUCCESS if verdict.success else FAILURE
    return parts


def score(turn: TurnEffects) -> dict[str, float]:
    """Pay nothing until the end, then one number in [0, 1], which is also the return."""
    if turn.verdict is None:
        return {}
    return parts_of_score(turn.verdict, turn.step, turn.par, turn.potential / turn.whole_potential)


def parts_of_score(verdict: Verdict, steps: int, par: Callable[[], int], progress: float) -> dict[str, float]:
    """Return the parts of an ended episode's score. `par` is the number of steps that the expert takes; `progress` is the
    share of the milestones that hold."""
    if verdict.success:
        return {"success": 0.9, "efficiency": 0.1 * min(1.0, par() / steps)}
    return {} if verdict.damage else {"progress": 0.4 * progress}


def sparse(turn: TurnEffects) -> dict[str, float]:
    """Pay 1 for a success at the end, else 0."""
    return {"success": 1.0} if turn.success else {}


def _penalty(cost: tuple[float, float], offences_before: int) -> float:
    """Return the penalty for the next offence of a kind. `cost` is one of the pairs above, such as `REJECTION`."""
    first, factor = cost
    return float(first * factor**offences_before)


# What an agent can learn from its rewards, by profile. `assurance.reward_laws` tests the part before the end.
REVEALS = {
    "dense": "Before the end: which steps are done that any ending of the case may need, and what replies have told "
    "already. At the end: success, and how much of the right ending was prepared.",
    "score": "Before the end: nothing. At the end: success, and how much of the right ending was prepared.",
    "sparse": "Before the end: nothing. At the end: success.",
}

Profile = Callable[[TurnEffects], dict[str, float]]
PROFILES: dict[str, Profile] = {"dense": dense, "score": score, "sparse": sparse}


RENAMED = {"seed": "dense"}  # profiles by their old names, which are accepted until the next release


def profile(name: str) -> Profile:
    """Return a profile by its name, or by the old name that a transcript of an earlier release has."""
    name = current_profile_name(name)
    if not isinstance(name, str) or name not in PROFILES:
        raise BadChoice("reward profile", name, PROFILES)
    return PROFILES[name]


def current_profile_name(name: str) -> str:
    """Return the present name of a profile. Every name that is not an old one is returned unchanged."""
    return RENAMED.get(name, name) if isinstance(name, str) else name


def chosen_name(name: str) -> str:
    """Return the present name of the profile that a user chose. Warns about an old name, once per process."""
    if current_profile_name(name) != name:
        _warn_of_old_name(name)
    return current_profile_name(name)


@cache
def _warn_of_old_name(name: str) -> None:
    warnings.warn(old_name_notice(name), FutureWarning, stacklevel=4)  # the line that calls, for example, `make`


def old_name_notice(name: str) -> str:
    """Tell a user how to replace the old name of a profile, in one line."""
    return f"the reward profile {name!r} is now called {RENAMED[name]!r}; the next release accepts only the new name"
