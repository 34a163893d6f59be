"""Dose-response: how success falls as the dose of chaos grows, measured on the same tasks at each dose."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from companyos.chaos import read_doses
from companyos.core.groups import grouped
from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.intervals import ClusteredRatio, Estimate, clustered_ratio, share

ALL = "all"  # the name of the curve for all dials together
MIN_SUCCESS = 0.2  # below this success at dose 0, no EC50 is computed
NEVER, UNKNOWN = "> {:g}", "–"  # texts of an EC50: above the highest dose; not computed
Dosed = tuple[float, Outcome]  # the dose of an episode, and its outcome
_POINTS = 100  # points between two doses at which the curve is examined


class Ec50(msgspec.Struct, frozen=True):
    """The dose at which success is half of that at dose 0: as text, and as numbers if a dose in range reaches it."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Curve(msgspec.Struct, frozen=True):
    """Success by dose, its mean over all doses (`area`), and the dose that halves it."""

    doses: dict[str, Estimate]
    area: Estimate
    ec50: Ec50


class TaskDoses(NamedTuple):
    """One task at all doses: the share of its trials that succeeded at each dose."""

    cluster: str
    wins: Mapping[float, float]


def curves(outcomes: Iterable[Outcome]) -> dict[str, Curve]:
    """Return a curve for all dials together and one for each dial that was dosed alone.

    A curve needs two tasks or more that were played at dose 0 and at every other dose of the curve.
    """
    dosed_tasks: dict[str, dict[str, list[Dosed]]] = {}  # by dial, then by task without its doses
    calm: dict[str, list[Dosed]] = {}  # dose 0 belongs to every dial
    for outcome in outcomes:
        task = TaskId.parse(outcome.task_id)
        dosed = {dial: percent for dial, percent in read_doses(task.doses).items() if percent}
        without_doses = f"{task.key}/{task.weather}/{task.do}"
        if not dosed:
            calm.setdefault(without_doses, []).append((0.0, outcome))
        elif len(dosed) == 1 or task.doses.isdecimal():
            name = next(iter(dosed)) if len(dosed) == 1 else ALL
            dosed_tasks.setdefault(name, {}).setdefault(without_doses, []).append((max(dosed.values()) / 100, outcome))
    by_dial = {}
    for name, tasks in sorted(dosed_tasks.items()):
        by_task = [_task_doses([*calm.get(task, ()), *played]) for task, played in sorted(tasks.items())]
        doses = sorted({dose for task in by_task for dose in task.wins})
        complete = [task for task in by_task if len(task.wins) == len(doses)]
        if doses[0] == 0 and len(complete) > 1:
            by_dial[name] = _curve(doses, complete)
    return by_dial


def _task_doses(played: Sequence[Dosed]) -> TaskDoses:
    """The share of successes of one task at each dose."""
    by_dose = grouped(played, lambda dosed: dosed[0])
    wins = {dose: math.fsum(outcome.success for _, outcome in trials) / len(trials) for dose, trials in by_dose.items()}
    return TaskDoses(played[0][1].cluster, wins)


def _curve(doses: Sequence[float], tasks: Sequence[TaskDoses]) -> Curve:
    """The curve of tasks that were all played at these doses."""
    by_dose = {f"{dose:g}": share((task.cluster, task.wins[dose], 1.0) for task in tasks) for dose in doses}
    area = share((task.cluster, _area(doses, task), 1.0) for task in tasks)
    assert area is not None, "there are tasks"
    success = {dose: estimate.rounded() for dose, estimate in by_dose.items() if estimate}
    return Curve(success, area.rounded(), ec50(doses, tasks))


def _area(doses: Sequence[float], task: TaskDoses) -> float:
    """The area under a task's curve (trapezoidal rule), as a share of the range of doses."""
    strips = [(high - low) * (task.wins[low] + task.wins[high]) / 2 for low, high in pairwise(doses)]
    return math.fsum(strips) / (doses[-1] - doses[0])


# -- the dose that halves success --------------------------------------------------------------------------------------


def ec50(doses: Sequence[float], tasks: Sequence[TaskDoses]) -> Ec50:
    """Return the first dose at which success falls to half of that at dose 0. Between doses, success is interpolated.

    The interval is Fieller's: the doses at which the excess over half does not differ significantly from 0.
    """
    if math.fsum(task.wins[0.0] for task in tasks) / len(tasks) < MIN_SUCCESS:
        return Ec50(UNKNOWN)
    excesses = [_excess_over_half(dose, tasks) for dose in doses]
    segments = zip(pairwise(doses), pairwise(excesses), strict=True)
    points = [point for ends, at_ends in segments for point in _segment(*ends, *at_ends)]
    never = NEVER.format(doses[-1])
    value = next((dose for dose, excess, _ in points if excess <= 0), None)
    if value is None:
        return Ec50(never)
    if len(excesses[0].influences) < 2:
        return Ec50(f"{value:.2f}", round(value, 6))
    low = next(dose for dose, excess, margin in points if excess - margin <= 0)
    high = next((dose for dose, excess, margin in points if excess + margin < 0), None)
    text = f"{value:.2f} ({low:.2f} to {never})" if high is None else f"{value:.2f} ({low:.2f}–{high:.2f})"
    return Ec50(text, round(value, 6), round(low, 6), None if high is None else round(high, 6))


def _excess_over_half(dose: float, tasks: Sequence[TaskDoses]) -> ClusteredRatio:
    """By how much success at a dose exceeds half of that at dose 0."""
    excess = clustered_ratio((task.cluster, task.wins[dose] - task.wins[0.0] / 2, 1.0) for task in tasks)
    assert excess is not None, "there are tasks"
    return excess


def _segment(
    low: float, high: float, at_low: ClusteredRatio, at_high: ClusteredRatio
) -> Iterator[tuple[float, float, float]]:
    """Yield doses between two neighbours, with the interpolated excess and its margin of error."""
    no_interval = len(at_low.influences) < 2
    quantile = 0.0 if no_interval else at_low.quantile
    variances = (0.0,) * 3 if no_interval else (at_low.variance, at_low.covariance(at_high), at_high.variance)
    for step in range(_POINTS + 1):
        b = step / _POINTS  # the weights of the two neighbours: a of `low`, b of `high`
        a = 1 - b
        variance = a * a * variances[0] + 2 * a * b * variances[1] + b * b * variances[2]
        yield a * low + b * high, a * at_low.value + b * at_high.value, quantile * math.sqrt(max(0.0, variance))
