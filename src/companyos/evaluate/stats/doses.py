"""Dose-response: how success falls as trouble grows, over the same tasks at each dose."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from companyos.chaos import read_doses
from companyos.core.task import TaskId
from companyos.evaluate.judge.outcome import Outcome
from companyos.evaluate.stats.groups import grouped
from companyos.evaluate.stats.intervals import Estimate, Leaning, leaning, share

ALL = "all"  # dials together
ENOUGH = 0.2  # success at dose 0 below which there is nothing to halve
NEVER, UNKNOWN = "> {:g}", "–"
_STEPS = 100  # from one dose to the next, in which halving is looked for


class Ec50(msgspec.Struct, frozen=True):
    """The dose at which success is half of that at dose 0, in words, and in numbers where it is reached within the doses."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Curve(msgspec.Struct, frozen=True):
    """Success by dose, the mean of it over all doses (`area`), and where it is halved."""

    doses: dict[str, Estimate]
    area: Estimate
    ec50: Ec50


class Line(NamedTuple):
    """One task at all doses: how often it succeeded at each."""

    cluster: str
    wins: Mapping[float, float]


def curves(outcomes: Iterable[Outcome]) -> dict[str, Curve]:
    """A curve for all dials together and for each that was dosed alone, where tasks were played at several doses."""
    lines: dict[str, dict[str, list[tuple[float, Outcome]]]] = {}
    calm: dict[str, list[tuple[float, Outcome]]] = {}
    for one in outcomes:
        task = TaskId.parse(one.task_id)
        dosed = {dial: percent for dial, percent in read_doses(task.doses).items() if percent}
        same = f"{task.key}/{task.weather}/{task.do}"
        if not dosed:
            calm.setdefault(same, []).append((0.0, one))
        elif len(dosed) == 1 or task.doses.isdecimal():
            name = next(iter(dosed)) if len(dosed) == 1 else ALL
            lines.setdefault(name, {}).setdefault(same, []).append((max(dosed.values()) / 100, one))
    found = {}
    for name, tasks in sorted(lines.items()):
        whole = [_line([*calm.get(same, ()), *played]) for same, played in sorted(tasks.items())]
        doses = sorted({dose for line in whole for dose in line.wins})
        complete = [line for line in whole if len(line.wins) == len(doses)]
        if doses[0] == 0 and len(complete) > 1:
            found[name] = _curve(doses, complete)
    return found


def _line(played: Sequence[tuple[float, Outcome]]) -> Line:
    by_dose = grouped(played, lambda one: one[0])
    wins = {dose: math.fsum(one.success for _, one in some) / len(some) for dose, some in by_dose.items()}
    return Line(played[0][1].cluster, wins)


def _curve(doses: Sequence[float], lines: Sequence[Line]) -> Curve:
    by_dose = {f"{dose:g}": share((line.cluster, line.wins[dose], 1.0) for line in lines) for dose in doses}
    area = share((line.cluster, _area(doses, line), 1.0) for line in lines)
    assert area is not None, "there are lines"
    return Curve({dose: found.rounded() for dose, found in by_dose.items() if found}, area.rounded(), ec50(doses, lines))


def _area(doses: Sequence[float], line: Line) -> float:
    strips = [(high - low) * (line.wins[low] + line.wins[high]) / 2 for low, high in pairwise(doses)]
    return math.fsum(strips) / (doses[-1] - doses[0])


# -- where it is halved ------------------------------------------------------------------------------------------------


def ec50(doses: Sequence[float], lines: Sequence[Line]) -> Ec50:
    """The first dose at which success, straight between doses, comes down to half of that at dose 0.

    Its interval (Fieller's) are the doses at which what is left above that half cannot be told from nothing.
    """
    if math.fsum(line.wins[0.0] for line in lines) / len(lines) < ENOUGH:
        return Ec50(UNKNOWN)
    left = [_left_above_half(dose, lines) for dose in doses]
    stretches = zip(pairwise(doses), pairwise(left), strict=True)
    points = [point for ends, sides in stretches for point in _stretch(*ends, *sides)]
    never = NEVER.format(doses[-1])
    value = next((dose for dose, above, _ in points if above <= 0), None)
    if value is None:
        return Ec50(never)
    if len(left[0].pulls) < 2:
        return Ec50(f"{value:.2f}", round(value, 6))
    low = next(dose for dose, above, margin in points if above - margin <= 0)
    high = next((dose for dose, above, margin in points if above + margin < 0), None)
    text = f"{value:.2f} ({low:.2f} to {never})" if high is None else f"{value:.2f} ({low:.2f}–{high:.2f})"
    return Ec50(text, round(value, 6), round(low, 6), None if high is None else round(high, 6))


def _left_above_half(dose: float, lines: Sequence[Line]) -> Leaning:
    """By how much success at a dose is above half of that at dose 0."""
    found = leaning((line.cluster, line.wins[dose] - line.wins[0.0] / 2, 1.0) for line in lines)
    assert found is not None, "there are lines"
    return found


def _stretch(low: float, high: float, one: Leaning, other: Leaning) -> Iterator[tuple[float, float, float]]:
    """The doses from one to the next, what is left above half at each, and by how much that may be wrong."""
    sure = len(one.pulls) < 2  # then there is no interval to look for
    t, spreads = (0.0, (0.0,) * 3) if sure else (one.quantile, (one.variance, one.covariance(other), other.variance))
    for step in range(_STEPS + 1):
        way = step / _STEPS
        back = 1 - way
        spread = back * back * spreads[0] + 2 * back * way * spreads[1] + way * way * spreads[2]
        yield back * low + way * high, back * one.value + way * other.value, t * math.sqrt(max(0.0, spread))
