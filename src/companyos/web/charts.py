"""Draws small SVG charts. The style sheet sets their colours by class."""

from collections.abc import Sequence
from datetime import date, timedelta
from itertools import accumulate
from math import ceil, floor, log10
from typing import Any, NamedTuple

from markupsafe import Markup, escape

WEEKS = 3
_DAYS = ("M", "T", "W", "T", "F", "S", "S")


def _svg(width: int, height: int, title: str, body: str, name: str) -> Markup:
    return Markup(
        f'<svg class="chart {name}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def freshness(age_days: int, limit: int | None) -> Markup:
    """Draw a measurement's age as a bar, with the maximum age at which it counts, if that is known."""
    width = 420
    scale = width / (max(age_days, limit or 0, 7) * 1.15)
    stale = limit is not None and age_days > limit
    tone = "unknown" if limit is None else "stale" if stale else "fresh"
    bar = max(age_days * scale, 3)
    body = f'<rect class="track" x="0" y="18" width="{width}" height="10" rx="5"/>'
    body += f'<rect class="{tone}" x="0" y="18" width="{bar:.1f}" height="10" rx="5"/>'
    at = min(bar, width - 4)
    anchor = "end" if at > width / 2 else "start"
    body += f'<text class="value" x="{at:.1f}" y="12" text-anchor="{anchor}">{age_days} d old</text>'
    title = f"{age_days} days old"
    if limit is not None:
        x = limit * scale
        side = "end" if x > width / 2 else "start"
        body += f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="14" y2="34"/>'
        body += f'<text class="note" x="{x:.1f}" y="46" text-anchor="{side}">counts up to {limit} d</text>'
        title += f", counts up to {limit}"
    return _svg(width, 50 if limit is not None else 32, title, body, "freshness")


def readings(values: Sequence[tuple[int, float]]) -> Markup:
    """Draw the values of a metric that the player has seen in this session, by step."""
    width, height, pad = 420, 96, 14
    steps, numbers = [step for step, _ in values], [number for _, number in values]
    low, high = min(numbers), max(numbers)
    step_range, value_range = max(steps[-1] - steps[0], 1), max(high - low, 1)

    def point(step: int, number: float) -> tuple[float, float]:
        x = pad + (step - steps[0]) / step_range * (width - 2 * pad - 36)
        y = height - 24 - (number - low) / value_range * (height - 48) if high > low else height / 2 - 4
        return x, y

    points = [point(step, number) for step, number in values]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    body = f'<line class="axis" x1="{pad}" x2="{width - pad}" y1="{height - 14}" y2="{height - 14}"/>'
    body += f'<polyline class="line" points="{line}"/>'
    for (x, y), (step, number) in zip(points, values, strict=True):
        body += f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>step {step}: {number:g}</title></circle>'
    x, y = points[-1]
    body += f'<text class="value" x="{x + 8:.1f}" y="{y + 4:.1f}">{numbers[-1]:g}</text>'
    body += f'<text class="note" x="{pad}" y="{height - 2}">step {steps[0]}</text>'
    if len(values) > 1:
        body += f'<text class="note" x="{points[-1][0]:.1f}" y="{height - 2}" text-anchor="end">step {steps[-1]}</text>'
    title = "Readings shown in this session: " + ", ".join(f"{number:g} at step {step}" for step, number in values)
    return _svg(width, height, title, body, "readings")


def calendar(now: str, away_from: Any, away_until: Any) -> Markup:
    """Draw three weeks of a person's calendar from this Monday on: weekends, days away and today.

    `now` is the simulated time, such as `Tue 2026-03-10 09:30`.
    """
    today = date.fromisoformat(now.split()[1])
    first = today - timedelta(days=today.weekday())
    begins, ends = _day(away_from), _day(away_until)
    size, gap, top = 30, 4, 20
    body = "".join(
        f'<text class="note" x="{column * (size + gap) + size / 2:.0f}" y="12" text-anchor="middle">{letter}</text>'
        for column, letter in enumerate(_DAYS)
    )
    for number in range(7 * WEEKS):
        day = first + timedelta(days=number)
        away = begins is not None and ends is not None and begins <= day <= ends
        kind = " ".join(
            name for name, holds in (("weekend", number % 7 > 4), ("away", away), ("today", day == today)) if holds
        )
        x, y = number % 7 * (size + gap), top + number // 7 * (size + gap)
        body += f'<g class="day {kind}"><rect x="{x}" y="{y}" width="{size}" height="{size}" rx="5"/>'
        body += f'<text x="{x + size / 2:.0f}" y="{y + size / 2 + 4:.0f}" text-anchor="middle">{day.day}</text></g>'
    title = f"Away from {away_from} until {away_until}" if begins and ends else "No days away"
    return _svg(7 * (size + gap), top + WEEKS * (size + gap), f"Calendar. {title}.", body, "calendar")


def _day(stamp: Any) -> date | None:
    try:
        return date.fromisoformat(str(stamp)[:10])
    except ValueError:
        return None


# -- curves ------------------------------------------------------------------------------------------------------------


class ChartLine(NamedTuple):
    """A curve, and the intervals around its points where they are known."""

    name: str
    points: Sequence[tuple[float, float]]
    bands: Sequence[tuple[float, float, float]] = ()  # x, lowest y, highest y


def plot(lines: Sequence[ChartLine], title: str, across: str, share: bool = False, height: int = 190) -> Markup:
    """Draw curves. `across` names the x axis; with `share` the y axis goes from 0 to 100 %."""
    width, left, right, top, bottom = 440, 46, 14, 10, 34
    places = [x for line in lines for x, _ in line.points]
    values = [y for line in lines for _, y in line.points] + [y for line in lines for _, *ends in line.bands for y in ends]
    low, high = (0.0, 1.0) if share else _value_range(values)
    first, last = min(places), max(places)

    def at(x: float, y: float) -> str:
        across_ = left + (x - first) / ((last - first) or 1) * (width - left - right)
        return f"{across_:.1f},{top + (high - y) / (high - low) * (height - top - bottom):.1f}"

    body = ""
    for y in _ticks(low, high):
        _, _, y_text = at(first, y).partition(",")
        label = f"{100 * y:.0f} %" if share else f"{y:g}"
        body += f'<line class="axis" x1="{left}" x2="{width - right}" y1="{y_text}" y2="{y_text}"/>'
        body += f'<text class="note" x="{left - 6}" y="{float(y_text) + 4:.1f}" text-anchor="end">{label}</text>'
    middle = (first + last) / 2 if last - first <= 1 else (first + last) // 2
    for x, anchor in {first: "start", middle: "middle", last: "end"}.items():
        x_text = at(x, low).partition(",")[0]
        body += f'<text class="note" x="{x_text}" y="{height - 18}" text-anchor="{anchor}">{x:g}</text>'
    body += f'<text class="note" x="{(left + width) / 2:.0f}" y="{height - 2}" text-anchor="middle">{escape(across)}</text>'
    for number, line in enumerate(lines):
        if line.bands:
            outline = [at(x, most) for x, _, most in line.bands] + [at(x, least) for x, least, _ in reversed(line.bands)]
            body += f'<polygon class="band s{number}" points="{" ".join(outline)}"/>'
        body += f'<polyline class="line s{number}" points="{" ".join(at(x, y) for x, y in line.points)}"/>'
        for x, y in line.points if len(line.points) <= _MAX_DOTS else ():
            x_, _, y_ = at(x, y).partition(",")
            label = f"{escape(line.name)} {x:g}: {y:.3g}"
            body += f'<circle class="dot s{number}" cx="{x_}" cy="{y_}" r="3"><title>{label}</title></circle>'
    summary = "; ".join(f"{line.name} from {line.points[0][1]:.3g} to {line.points[-1][1]:.3g}" for line in lines)
    return _svg(width, height, f"{title}. {summary}.", body, "plot")


def reward_sparkline(rewards: Sequence[float]) -> Markup:
    """Draw the sum of the rewards so far, step by step, as a small line."""
    width, height = 110, 22
    sums = [0.0, *accumulate(rewards)]
    low, high = _value_range(sums)
    points = (
        f"{number / max(len(rewards), 1) * width:.1f},{2 + (high - value) / (high - low) * (height - 4):.1f}"
        for number, value in enumerate(sums)
    )
    return _svg(width, height, f"Earned: {sums[-1]:+.2f}", f'<polyline points="{" ".join(points)}"/>', "earned")


def interval_chart(value: float, low: float | None, high: float | None) -> Markup:
    """Draw a share as a dot on its confidence interval."""
    width, middle = 120, 7
    body = f'<line class="axis" x1="0" x2="{width}" y1="{middle}" y2="{middle}"/>'
    if low is not None and high is not None:
        body += f'<line class="reach" x1="{low * width:.1f}" x2="{high * width:.1f}" y1="{middle}" y2="{middle}"/>'
    body += f'<circle class="dot" cx="{value * width:.1f}" cy="{middle}" r="4"/>'
    return _svg(width, 2 * middle, f"{100 * value:.1f} %", body, "whisker")


_MAX_DOTS = 30  # a curve with more points has no dots


def _value_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the smallest and the largest value, widened where they are (nearly) equal."""
    low, high = min(values), max(values)
    room = max(1.0, abs(low), abs(high))
    return (low, high) if high - low > room * 1e-9 else (low - room / 2, high + room / 2)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two values, for the marks of an axis."""
    rough = (high - low) / 4
    size = 10 ** floor(log10(rough))
    step = next(factor * size for factor in (1, 2, 2.5, 5, 10) if factor * size >= rough)
    return [round(number * step, 12) for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
