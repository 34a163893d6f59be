"""Rewards: terms that sum, reported by name. Ordered, cycle-free, and not to be farmed.

The milestones of profile `dense` are a potential: paid when reached, given back when undone, and standing at the end
as bounded partial credit (so it is *not* policy invariant). Every penalty shrinks from one offence to the next, so all of
them together stay under `most_penalty`, and on one task every success is worth more than every failure.

No profile tells an agent which branch of its task is right before a reply has done so. While the episode runs, `dense` pays
for shared milestones only: those that every ending needs, and fresh data that some ending of the case rests on. The last
turn settles the difference to the milestones of the right ending. A rejection is charged in the turn whose reply tells the
agent of it, or else in the last turn. `companyos.assurance.reward_laws` compares twins turn by turn.
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
STEPS_CHARGED = 30  # longer budgets pay the same in all
# What an offence costs at first, and by which factor the next one costs less.
FAILED_CALL = (0.3, 0.9)
REJECTION = (0.5, 0.8)
UNKNOWN_TOOL = (1.0, 0.7)
LEAST_POTENTIAL, MOST_POTENTIAL = 2.0, 10.0  # of all milestones of one task


def most_penalty() -> float:
    """What all penalties of one episode come to at most."""
    return STEP * STEPS_CHARGED + sum(first / (1 - factor) for first, factor in (FAILED_CALL, REJECTION, UNKNOWN_TOOL))


class Offences(msgspec.Struct, frozen=True, gc=False):
    """How often the agent has been charged so far, by kind."""

    failed: int = 0
    unknown: int = 0
    rejected: int = 0


class Verdict(msgspec.Struct, frozen=True):
    """How an ended episode is judged: every goal over the end state, and what was damaged."""

    success: bool
    goals: dict[str, bool]
    damage: tuple[Damage, ...]


class Happened(msgspec.Struct, frozen=True, gc=False):
    """What a turn brought, as far as rewards look at it."""

    fault: bool  # the company's doing: nothing is charged
    failed: bool
    unknown: bool
    rejections: int  # of which the agent was told in this turn; at the end, all that were not charged before
    before: Offences  # those of the episode before this turn
    potential_before: float  # of the milestones that were paid so far
    potential: float  # of the shared milestones that stand; at the end, of those of the right ending
    whole_potential: float  # of all milestones of this task
    max_steps: int
    step: int
    verdict: Verdict | None  # None while the episode goes on
    par: Callable[[], int]

    @property
    def success(self) -> bool:
        return self.verdict is not None and self.verdict.success


def dense(turn: Happened) -> dict[str, float]:
    """A price for each step, refusal and rejection; shared milestones on the way; at the end the rest of the milestones."""
    parts: dict[str, float] = {}
    verdict, standing = turn.verdict, turn.potential
    if verdict is not None and verdict.success:
        standing = turn.whole_potential
    if standing != turn.potential_before:
        parts["milestones"] = standing - turn.potential_before
    if not turn.fault:
        parts["step"] = -STEP * min(1.0, STEPS_CHARGED / turn.max_steps)
    if turn.failed:
        parts["failed_call"] = -_shrinking(FAILED_CALL, turn.before.failed)
    if turn.unknown:
        parts["unknown_tool"] = -_shrinking(UNKNOWN_TOOL, turn.before.unknown)
    for extra in range(turn.rejections):
        parts["rejection"] = parts.get("rejection", 0.0) - _shrinking(REJECTION, turn.before.rejected + extra)
    if verdict is not None:
        parts["end"] = SUCCESS if verdict.success else FAILURE
    return parts


def score(turn: Happened) -> dict[str, float]:
    """Nothing until the end, then one number in [0, 1]: sum, last and episode score are the same."""
    if turn.verdict is None:
        return {}
    return parts_of_score(turn.verdict, turn.step, turn.par, turn.potential / turn.whole_potential)


def parts_of_score(verdict: Verdict, steps: int, par: Callable[[], int], progress: float) -> dict[str, float]:
    """What an ended episode scores; `progress` is the share of the milestones that stand."""
    if verdict.success:
        return {"success": 0.9, "efficiency": 0.1 * min(1.0, par() / steps)}
    return {} if verdict.damage else {"progress": 0.4 * progress}


def sparse(turn: Happened) -> dict[str, float]:
    """1 for a success, else 0."""
    return {"success": 1.0} if turn.success else {}


def _shrinking(cost: tuple[float, float], before: int) -> float:
    first, factor = cost
    return float(first * factor**before)


# What an agent can learn from its rewards, by profile. `laws_rewards` tests the part before the end.
REVEALS = {
    "dense": "Before the end: which steps are done that any ending of the case may need, and what replies have told "
    "already. At the end: success, and how much of the right ending was prepared.",
    "score": "Before the end: nothing. At the end: success, and how much of the right ending was prepared.",
    "sparse": "Before the end: nothing. At the end: success.",
}

Profile = Callable[[Happened], dict[str, float]]
PROFILES: dict[str, Profile] = {"dense": dense, "score": score, "sparse": sparse}


RENAMED = {"seed": "dense"}  # profiles by their old names, which are accepted until the next release


def profile(name: str) -> Profile:
    """Return a profile by its name, or by the old name that a transcript of an earlier release has."""
    name = current_name(name)
    if not isinstance(name, str) or name not in PROFILES:
        raise BadChoice("reward profile", name, PROFILES)
    return PROFILES[name]


def current_name(name: str) -> str:
    """Return the present name of a profile. Every name that is not an old one is returned unchanged."""
    return RENAMED.get(name, name) if isinstance(name, str) else name


def chosen_name(name: str) -> str:
    """Return the present name of the profile that a user chose. Warns about an old name, once per process."""
    if current_name(name) != name:
        _warn_of_old_name(name)
    return current_name(name)


@cache
def _warn_of_old_name(name: str) -> None:
    warnings.warn(old_name_notice(name), FutureWarning, stacklevel=4)  # the line that calls, for example, `make`


def old_name_notice(name: str) -> str:
    """Tell a user how to replace the old name of a profile, in one line."""
    return f"the reward profile {name!r} is now called {RENAMED[name]!r}; the next release accepts only the new name"
