"""The episode that the documentation shows: as text in docs/start.md, and as the animation at the top of README.md.

Both come from what `companyos watch` prints for `EPISODE`. `python -m tools.terminal` writes them again; a test fails when
one is out of date. The animation is an SVG file with CSS keyframes and no script: GitHub, the documentation site and a
browser play it as a plain image. A viewer who asks for reduced motion sees the last screen.
"""

import os
import re
import subprocess
import sys
from html import escape
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "start.md"
ANIMATION = DOCS / "images" / "episode.svg"
EPISODE = "watch vendor_onboarding --seed 44 --chaos 0.5"
_FENCE = f'```console title="companyos {EPISODE}"\n'

_TEXT_COLUMNS, _ANIMATION_COLUMNS = 80, 76
_ROWS = 22  # lines that the window shows at once
_FONT, _ADVANCE, _LEADING = 14, 8.43, 20
_LEFT, _TOP = 20, 56
_HOLD = 5.0  # seconds for which the last screen stays
_BUTTONS = {22: "#ff5f57", 42: "#febc2e", 62: "#28c840"}
_STYLE = f"""
text {{ font: {_FONT}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; white-space: pre }}
.call {{ fill: #ffffff; font-weight: 600 }}
.reply {{ fill: #8b949e }}
.clock {{ fill: #6e7681 }}
.paid {{ fill: #56d364 }}
.working {{ fill: #e3b341 }}
.fault {{ fill: #ff7b72 }}
.good {{ fill: #56d364; font-weight: 600 }}
.cover {{ fill: #0d1117 }}
"""


class Line(NamedTuple):
    """A line of the terminal: its text, its CSS class, and the seconds until it appears after the line before it."""

    text: str
    style: str
    delay: float


def watched(columns: int, with_goals: bool) -> str:
    """Return what `companyos watch` prints for the episode on a terminal of this width, with or without the goals."""
    program = [sys.executable, "-c", "from companyos.cli.main import main; main()", *EPISODE.split()]
    terminal = {**os.environ, "COLUMNS": str(columns)}
    shown = subprocess.run(program, env=terminal, capture_output=True, text=True, check=True).stdout
    episode, _, end = shown.partition("\nSuccess.\n")
    verdict = end if with_goals else end[end.index("The right ending") :]
    lines = [*episode.strip().splitlines(), "", "Success.", *verdict.strip().splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def page() -> str:
    """Return docs/start.md with the episode as it is played today."""
    before, fence, rest = PAGE.read_text().partition(_FENCE)
    after = rest[rest.index("```\n") :]
    return f"{before}{fence}{watched(_TEXT_COLUMNS, with_goals=True)}{after}"


def animation() -> str:
    """Return the animation: a terminal in which the episode appears line by line, scrolls, and starts again."""
    lines = _lines()
    width = round(2 * _LEFT + _ADVANCE * _ANIMATION_COLUMNS)
    height = _TOP + _LEADING * _ROWS + 12
    window = f'<rect x="0" y="{_TOP}" width="{width}" height="{_LEADING * _ROWS}"/>'
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" role="img"',
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<title>A terminal: the expert works on a vendor, step by step, and declines it: its score is too low</title>",
        f"<style>{_STYLE}{_motion(lines)}</style>",
        f'<defs><clipPath id="window">{window}</clipPath></defs>',
        f'<rect width="{width}" height="{height}" rx="10" fill="#0d1117"/>',
        f'<rect width="{width}" height="36" rx="10" fill="#161b22"/>',
        *(f'<circle cx="{x}" cy="18" r="6" fill="{colour}"/>' for x, colour in _BUTTONS.items()),
        f'<text class="reply" x="{width / 2:g}" y="23" text-anchor="middle">companyos: an agent at work</text>',
        f'<g clip-path="url(#window)"><g transform="translate(0 {_TOP})"><g class="screen">',
        *(
            f'<text class="{line.style}" x="{_LEFT}" y="{_LEADING * row + 15}">{escape(line.text)}</text>'
            for row, line in enumerate(lines)
        ),
        f'<rect class="cover" width="{width}" height="{_LEADING * len(lines)}"/>',
        "</g></g></g>",
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _motion(lines: list[Line]) -> str:
    """Return the CSS that moves a cover down, line by line, and the screen up once the window is full.

    Without animation, the cover is below the last line and the screen shows the end.
    """
    times = list(accumulate(line.delay for line in lines))
    seconds = times[-1] + _HOLD
    frames = [(100 * at / seconds, shown) for shown, at in enumerate(times, 1)]
    covered = [(at, _LEADING * shown) for at, shown in frames]
    scrolled = [(at, -_LEADING * max(0, shown - _ROWS)) for at, shown in frames]
    rules = [
        f"{where} {{ transform: translateY({moves[-1][1]}px); animation: {name} {seconds:.2f}s step-end infinite }}"
        for where, name, moves in ((".cover", "reveal", covered), (".screen", "scroll", scrolled))
    ]
    still = "@media (prefers-reduced-motion: reduce) { .cover, .screen { animation: none } }"
    return "\n".join([*rules, still, _keyframes("reveal", covered), _keyframes("scroll", scrolled)])


def _lines() -> list[Line]:
    """Return the command and its output, with long lines wrapped."""
    lines = [Line(f"$ companyos {EPISODE}", "call", 0.0)]
    for line in map(_line, watched(_ANIMATION_COLUMNS, with_goals=False).splitlines()):
        first, *rest = wrap(line.text, _ANIMATION_COLUMNS, subsequent_indent=" " * 9, drop_whitespace=False) or [""]
        lines += [line._replace(text=first), *(Line(text, line.style, 0.0) for text in rest)]
    return lines


def _line(text: str) -> Line:
    """Return a line of the command's output with its colour and its pause."""
    if re.match(r" *\d+  \w", text):
        return Line(text, "call", 0.7)
    if re.match(r" += ", text):
        return Line(text, "working", 0.55)
    if re.match(r" +\w{3} \d{4}-\d\d-\d\d ", text):
        return Line(text, "paid" if "+" in text else "clock", 0.1)
    if re.match(r" +[a-z_]+: ", text):
        return Line(text, "fault", 0.4)
    if re.match(r"Success|The right ending|return ", text):
        return Line(text, "good", 0.3)
    return Line(text, "reply", 0.3 if text.startswith("     ") else 0.05)


def _keyframes(name: str, frames: list[tuple[float, int]]) -> str:
    """Return CSS keyframes: from each percentage of the time on, an offset downwards in pixels."""
    steps = " ".join(f"{at:.2f}% {{ transform: translateY({offset}px) }}" for at, offset in frames)
    return f"@keyframes {name} {{ {steps} }}"


def main() -> None:
    PAGE.write_text(page())
    ANIMATION.write_text(animation())


if __name__ == "__main__":
    main()
