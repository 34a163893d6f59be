"""Draws small SVG charts. The style sheet sets their colours by class."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from itertools import accumulate
from math import ceil, floor, log10
from typing import Any, NamedTuple

from markupsafe import Markup, escape

WEEKS = 3
_DAY_LETTERS = ("M", "T", "W", "T", "F", "S", "S")


def _svg(width: int, height: int, title: str, body: str, css_class: str) -> Markup:
    return Markup(
        f'<svg class="chart {css_class}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
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
    label_x = min(bar, width - 4)
    anchor = "end" if label_x > width / 2 else "start"  # the label stays inside the chart
    body += f'<text class="value" x="{label_x:.1f}" y="12" text-anchor="{anchor}">{age_days} d old</text>'
    title = f"{age_days} days old"
    if limit is not None:
        x = limit * scale
        anchor = "end" if x > width / 2 else "start"
        body += f'<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="14" y2="34"/>'
        body += f'<text class="note" x="{x:.1f}" y="46" text-anchor="{anchor}">counts up to {limit} d</text>'
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
    first_away, last_away = _day(away_from), _day(away_until)
    size, gap, top = 30, 4, 20
    body = "".join(
        f'<text class="note" x="{column * (size + gap) + size / 2:.0f}" y="12" text-anchor="middle">{letter}</text>'
        for column, letter in enumerate(_DAY_LETTERS)
    )
    for number in range(7 * WEEKS):
        day = first + timedelta(days=number)
        away = first_away is not None and last_away is not None and first_away <= day <= last_away
        classes = " ".join(
            name for name, applies in (("weekend", number % 7 > 4), ("away", away), ("today", day == today)) if applies
        )
        x, y = number % 7 * (size + gap), top + number // 7 * (size + gap)
        body += f'<g class="day {classes}"><rect x="{x}" y="{y}" width="{size}" height="{size}" rx="5"/>'
        body += f'<text x="{x + size / 2:.0f}" y="{y + size / 2 + 4:.0f}" text-anchor="middle">{day.day}</text></g>'
    title = f"Away from {away_from} until {away_until}" if first_away and last_away else "No days away"
    return _svg(7 * (size + gap), top + WEEKS * (size + gap), f"Calendar. {title}.", body, "calendar")


def _day(stamp: Any) -> date | None:
    """Return the day of a time such as `2026-03-10 09:30`, or None if there is none."""
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


def plot(lines: Sequence[ChartLine], title: str, x_label: str, share: bool = False, height: int = 190) -> Markup:
    """Draw curves. With `share` the y axis goes from 0 to 100 %."""
    width, left, right, top, bottom = 440, 46, 14, 10, 34  # the last four are margins
    x_values = [x for line in lines for x, _ in line.points]
    y_values = [y for line in lines for _, y in line.points]
    y_values += [y for line in lines for _, *interval in line.bands for y in interval]
    low, high = (0.0, 1.0) if share else _value_range(y_values)
    first, last = min(x_values), max(x_values)

    def position(x: float, y: float) -> tuple[str, str]:
        pixels_right = left + (x - first) / ((last - first) or 1) * (width - left - right)
        pixels_down = top + (high - y) / (high - low) * (height - top - bottom)
        return f"{pixels_right:.1f}", f"{pixels_down:.1f}"

    def path(points: Iterable[tuple[float, float]]) -> str:
        return " ".join(",".join(position(x, y)) for x, y in points)

    body = ""
    for y in _ticks(low, high):
        _, y_text = position(first, y)
        label = f"{100 * y:.0f} %" if share else f"{y:g}"
        body += f'<line class="axis" x1="{left}" x2="{width - right}" y1="{y_text}" y2="{y_text}"/>'
        body += f'<text class="note" x="{left - 6}" y="{float(y_text) + 4:.1f}" text-anchor="end">{label}</text>'
    middle = (first + last) / 2 if last - first <= 1 else (first + last) // 2
    for x, anchor in {first: "start", middle: "middle", last: "end"}.items():
        x_text, _ = position(x, low)
        body += f'<text class="note" x="{x_text}" y="{height - 18}" text-anchor="{anchor}">{x:g}</text>'
    body += f'<text class="note" x="{(left + width) / 2:.0f}" y="{height - 2}" text-anchor="middle">{escape(x_label)}</text>'
    for number, line in enumerate(lines):
        if line.bands:
            outline = [(x, highest) for x, _, highest in line.bands] + [(x, lowest) for x, lowest, _ in line.bands[::-1]]
            body += f'<polygon class="band s{number}" points="{path(outline)}"/>'
        body += f'<polyline class="line s{number}" points="{path(line.points)}"/>'
        for x, y in line.points if len(line.points) <= _MAX_DOTS else ():
            x_text, y_text = position(x, y)
            label = f"{escape(line.name)} {x:g}: {y:.3g}"
            body += f'<circle class="dot s{number}" cx="{x_text}" cy="{y_text}" r="3"><title>{label}</title></circle>'
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
    size = max(1.0, abs(low), abs(high))
    return (low, high) if high - low > size * 1e-9 else (low - size / 2, high + size / 2)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two values, for the marks of an axis."""
    min_step = (high - low) / 4
    power_of_ten = 10 ** floor(log10(min_step))
    step = next(factor * power_of_ten for factor in (1, 2, 2.5, 5, 10) if factor * power_of_ten >= min_step)
    return [round(number * step, 12) for number in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]
