"""Rewards: terms that sum, reported by name. Ordered, cycle-free, and not to be farmed.

Profile `seed` is dense. Its milestones are a potential: paid when reached, given back when undone, and standing at the end
as bounded partial credit (so it is *not* policy invariant). Every penalty shrinks from one offence to the next, so all of
them together stay under `MOST_PENALTY`, and on one task every success is worth more than every failure.
"""

from collections.abc import Callable

import msgspec

from companyos.errors import BadChoice

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


class Happened(msgspec.Struct, frozen=True):
    """What a turn brought, as far as rewards look at it. Counts are of the episode before this turn."""

    fault: bool  # the company's doing: nothing is charged
    failed: bool
    unknown: bool
    rejections: int
    failed_before: int
    unknown_before: int
    rejections_before: int
    potential_before: float
    potential: float
    whole_potential: float  # of all milestones of this task
    max_steps: int
    step: int
    done: bool
    success: bool
    damaged: bool
    par: Callable[[], int]


def seed(turn: Happened) -> dict[str, float]:
    """The original's numbers, made safe."""
    parts: dict[str, float] = {}
    standing = turn.whole_potential if turn.success else turn.potential
    if standing != turn.potential_before:
        parts["milestones"] = standing - turn.potential_before
    if not turn.fault:
        parts["step"] = -STEP * min(1.0, STEPS_CHARGED / turn.max_steps)
    if turn.failed:
        parts["failed_call"] = -_shrinking(FAILED_CALL, turn.failed_before)
    if turn.unknown:
        parts["unknown_tool"] = -_shrinking(UNKNOWN_TOOL, turn.unknown_before)
    for extra in range(turn.rejections):
        parts["rejection"] = parts.get("rejection", 0.0) - _shrinking(REJECTION, turn.rejections_before + extra)
    if turn.done:
        parts["end"] = SUCCESS if turn.success else FAILURE
    return parts


def score(turn: Happened) -> dict[str, float]:
    """Nothing until the end, then one number in [0, 1]: sum, last and episode score are the same."""
    if not turn.done:
        return {}
    if turn.success:
        return {"success": 0.9, "efficiency": 0.1 * min(1.0, turn.par() / turn.step)}
    if turn.damaged:
        return {}
    return {"progress": 0.4 * turn.potential / turn.whole_potential}


def sparse(turn: Happened) -> dict[str, float]:
    """1 for a success, else 0."""
    return {"success": 1.0} if turn.success else {}


def _shrinking(cost: tuple[float, float], before: int) -> float:
    first, factor = cost
    return float(first * factor**before)


Profile = Callable[[Happened], dict[str, float]]
PROFILES: dict[str, Profile] = {"seed": seed, "score": score, "sparse": sparse}


def profile(name: str) -> Profile:
    if name not in PROFILES:
        raise BadChoice("reward profile", name, PROFILES)
    return PROFILES[name]
