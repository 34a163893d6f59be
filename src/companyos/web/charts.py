"""Charts: small pictures in SVG, drawn from what a reply says. Colours are the style sheet's, by class."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from markupsafe import Markup, escape

WEEKS = 3
_DAYS = ("M", "T", "W", "T", "F", "S", "S")


def _svg(width: int, height: int, title: str, body: str, name: str) -> Markup:
    return Markup(
        f'<svg class="chart {name}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{body}</svg>'
    )


def freshness(age_days: int, limit: int | None) -> Markup:
    """How old a measurement is, against the age up to which it counts, where that is known."""
    most = max(age_days, limit or 0, 7) * 1.15
    width, left = 420, 0
    scale = (width - left) / most
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
    """The readings of one figure that this session was shown, by step."""
    width, height, pad = 420, 96, 14
    steps, numbers = [step for step, _ in values], [number for _, number in values]
    low, high = min(numbers), max(numbers)
    wide, tall = max(steps[-1] - steps[0], 1), max(high - low, 1)

    def point(step: int, number: float) -> tuple[float, float]:
        x = pad + (step - steps[0]) / wide * (width - 2 * pad - 36)
        y = height - 24 - (number - low) / tall * (height - 48) if high > low else height / 2 - 4
        return x, y

    points = [point(*one) for one in values]
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
    """Three weeks of somebody's days from this Monday on: weekends, days away, today."""
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
