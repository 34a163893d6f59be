"""Dose-response: how success falls as trouble grows, over the same tasks at each dose."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from companyos.chaos import read_doses
from companyos.evaluate.groups import grouped
from companyos.evaluate.intervals import Estimate, Leaning, Row, leaning, share
from companyos.evaluate.outcome import Outcome
from companyos.task import TaskId

ALL = "all"  # dials together
ENOUGH = 0.2  # success at dose 0 below which there is nothing to halve
NEVER, UNKNOWN = "> {:g}", "–"
_STEPS = 200  # in which the interval of an EC50 is looked for


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
    start = leaning((line.cluster, line.wins[0.0], 1.0) for line in lines)
    if start is None or start.value < ENOUGH:
        return Ec50(UNKNOWN)
    grid = [doses[-1] * step / _STEPS for step in range(_STEPS + 1)]
    left = [_left_over(dose, doses, lines) for dose in grid]
    value = _falls_to_nothing(grid, [one.value for one in left])
    never = NEVER.format(doses[-1])
    if value is None:
        return Ec50(never)
    if len(start.pulls) < 2:
        return Ec50(f"{value:.2f}", round(value, 6))
    margins = [one.quantile * math.sqrt(one.variance) for one in left]
    low = next(dose for dose, one, margin in zip(grid, left, margins, strict=True) if one.value - margin <= 0)
    high = next((dose for dose, one, margin in zip(grid, left, margins, strict=True) if one.value + margin < 0), None)
    to = never if high is None else f"{high:.2f}"
    text = f"{value:.2f} ({low:.2f}–{to})" if high is not None else f"{value:.2f} ({low:.2f} to {to})"
    return Ec50(text, round(value, 6), round(low, 6), None if high is None else round(high, 6))


def _left_over(dose: float, doses: Sequence[float], lines: Sequence[Line]) -> Leaning:
    """By how much success at a dose is above half of that at dose 0."""
    below, above = next((low, high) for low, high in pairwise(doses) if dose <= high)
    way = (dose - below) / (above - below)
    rows: list[Row] = [
        (line.cluster, (1 - way) * line.wins[below] + way * line.wins[above] - line.wins[0.0] / 2, 1.0) for line in lines
    ]
    found = leaning(rows)
    assert found is not None, "there are lines"
    return found


def _falls_to_nothing(grid: Sequence[float], left: Sequence[float]) -> float | None:
    for (low, before), (high, after) in pairwise(zip(grid, left, strict=True)):
        if after <= 0:
            return low + (high - low) * before / (before - after)
    return None
